/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Libraries of others that are in front of libcuda to share a GPU
 *
 * They look up libcuda's functions, hold launches and lie about memory, each in its own way. Two that hold launches of
 * one program could wait for each other. So where one of them is loaded, the CUDA layer only counts.
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
