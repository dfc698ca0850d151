/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * check: the runtimes of a process, and the layers in front of them
 */

#include <unistd.h>

#include "common/cuda-others.h"
#include "common/parse-util.h"
#include "common/shim-list.h"
#include "tools/shared/shim-env.h"
#include "tools/xschedctl/xschedctl-check-findings.h"
#include "xschedctl-check-runtimes.h"

#define MPS_DIRECTORY "/tmp/nvidia-mps"

/* OpenCL is not here: its loader tells more (check_loader()). */
static const struct {
        const char *name, *library;
        const char *layer; /* NULL: xsched has none */
} runtimes[] = {
                {"cuda", "libcuda.so", CHECK_CUDA_LAYER},
                {"hsa", "libhsa-runtime64.so", CHECK_KFD_LAYER},
                {"hip", "libamdhip64.so", CHECK_KFD_LAYER},
                {"level-zero", "libze_loader.so", NULL},
                {"vulkan", "libvulkan.so", NULL},
};

static void check_runtime(Check *k, const char *maps, const char *name, const char *library, const char *layer) {
        _cleanup_free_ char *runtime = check_find_mapped(maps, library),
                            *ours = layer ? check_find_mapped(maps, layer) : NULL;

        if (!runtime)
                return;
        if (ours)
                check_add(k, name, CHECK_OK, "%s is in front of %s", ours, runtime);
        else if (layer)
                check_add(k, name, CHECK_FAILED, "has loaded %s without %s: what it launches is not scheduled", runtime,
                                layer);
        else
                check_add(k, name, CHECK_WARNING, "has loaded %s: what it does by that is not scheduled", runtime);
}

/* HIP's own queues are held by the layer for KFD. This one, which users preload themselves, holds streams of an
 * XQueue. */
static void check_hip_layer(Check *k, const char *maps) {
        _cleanup_free_ char *runtime = check_find_mapped(maps, "libamdhip64.so"),
                            *ours = check_find_mapped(maps, CHECK_HIP_LAYER);

        if (ours && runtime)
                check_add(k, "hip layer", CHECK_OK, "%s is in front of %s, for streams that have an XQueue", ours,
                                runtime);
        else if (ours)
                check_add(k, "hip layer", CHECK_OK, "has loaded %s, and not HIP", ours);
}

/* Names other libraries in front of libcuda, to which the layer leaves the program (cuda-others.h). */
static void check_others(Check *k, const char *maps) {
        for (size_t i = 0; i < ELEMENTSOF(cuda_others); i++) {
                _cleanup_free_ char *other = check_find_mapped(maps, cuda_others[i].library);

                if (other)
                        check_add(k, "cuda", CHECK_WARNING,
                                        "%s (%s) is in front of libcuda, too: launches are counted, and "
                                        "xsched holds none",
                                        other, cuda_others[i].name);
        }
}

/* The layer takes a value that it does not understand for none. */
static void check_cuda_variables(Check *k, const char *maps) {
        static const struct {
                const char *name, *word; /* word: a value beside the numbers */
                uint64_t max;
        } variables[] = {
                        {"XSCHED_CUDA_STOP", "any", 0},
                        {"XSCHED_CUDA_SLICE", NULL, UINT64_C(1000000)},
                        {"XSCHED_CUDA_INTERLEAVE", NULL, 2},
        };
        _cleanup_free_ char *layer = check_find_mapped(maps, CHECK_CUDA_LAYER);

        for (size_t i = 0; layer && i < ELEMENTSOF(variables); i++) {
                _cleanup_free_ char *value = NULL;
                uint64_t n;
                if (check_get_variable(k, variables[i].name, &value) < 0 || isempty(value) ||
                                streq_ptr(value, variables[i].word) ||
                                parse_uint64(value, 0, variables[i].max, &n) >= 0)
                        continue;
                check_add(k, "cuda", CHECK_WARNING, "%s=%s is not understood, and does nothing: see xsched-cuda(7)",
                                variables[i].name, value);
        }
}

/* Clients of NVIDIA's MPS have no channels of their own. A client finds the server by this directory. */
static void check_mps(Check *k, const char *maps) {
        _cleanup_free_ char *driver = check_find_mapped(maps, "libcuda.so"), *directory = NULL, *pipe = NULL;

        if (!driver || check_get_variable(k, "CUDA_MPS_PIPE_DIRECTORY", &directory) < 0)
                return;
        if (asprintf(&pipe, "/proc/%s/root%s/control", k->pid, directory ?: MPS_DIRECTORY) < 0)
                return;
        if (access(pipe, F_OK) == 0)
                check_add(k, "cuda", CHECK_WARNING,
                                "there is a server of NVIDIA's MPS (%s): its clients share channels, and are held at "
                                "the gate alone",
                                directory ?: MPS_DIRECTORY);
}

/* AMD's runtime loads its tools when it starts, unless rocprofiler-register has others for it. */
static void check_tool_is_taken(Check *k, const char *maps) {
        _cleanup_free_ char *runtime = check_find_mapped(maps, "libhsa-runtime64.so"), *tools = NULL;

        if (!runtime || check_get_variable(k, SHIM_HSA_TOOLS, &tools) < 0 || !shim_list_find(tools, CHECK_HSA_TOOL))
                return;
        if (strstr(maps, "/" CHECK_HSA_TOOL))
                check_add(k, "amd runtime", CHECK_OK, "%s has loaded " CHECK_HSA_TOOL, runtime);
        else
                check_add(k, "amd runtime", CHECK_WARNING,
                                "%s has not loaded " CHECK_HSA_TOOL
                                ": it has not started, or a profiler's tools are there in its place",
                                runtime);
}

void check_runtimes(Check *k, const char *maps) {
        for (size_t i = 0; i < ELEMENTSOF(runtimes); i++)
                check_runtime(k, maps, runtimes[i].name, runtimes[i].library, runtimes[i].layer);
        check_hip_layer(k, maps);
        check_others(k, maps);
        check_cuda_variables(k, maps);
        check_mps(k, maps);
        check_tool_is_taken(k, maps);
}
