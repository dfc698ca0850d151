/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CUDA others: libraries of other vendors that share a GPU from in front of libcuda
 *
 * They look up libcuda's functions, hold launches and lie about memory, each in its own way. Two libraries that hold
 * launches of one program could wait for each other. So where one of them is loaded, the CUDA layer only counts.
 */

typedef struct CudaOther {
        const char *library; /* how the file's name begins */
        const char *name;
} CudaOther;

static const CudaOther cuda_others[] = {
                {"libvgpu.so", "HAMi"},
                {"libnvshare.so", "nvshare"},
                {"libgemhook.so", "KubeShare"},
};
