/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The topology directory: what /sys/devices/virtual/kfd/kfd/topology says about the simulated GPUs
 *
 * Node 0 is the processor, the GPUs follow, each with an io_link to node 0 and one back. Numbers are plausible for the
 * models, and checked by nobody but libhsakmt.
 */

#include <stdio.h>

#include "sim.h"

#define SIMD_PER_CU         4U
#define LOCAL_MEMORY        (UINT64_C(16) << 30)
#define HEAP_SYSTEM         0U
#define HEAP_LOCAL          1U /* frame buffer, public */
#define CACHES              2U
#define CACHE_DATA_CU       0x9U /* data cache of a compute unit */
#define LINK_PCIE           2U
#define CAPABILITY_QUEUE    0x2a200U /* watch points, debugging, and doorbells of type 2.0: those take an AQL index */
#define CAPABILITY_FIRMWARE 0x20000000U /* for debugging; without it, runtimes do not ask to be told of exceptions */

static int put_link(uint32_t node, uint32_t link, uint32_t to) {
        char name[128];
        (void) snprintf(name, sizeof(name), "topology/nodes/%u/io_links/%u/properties", node, link);
        return sim_file_put(name,
                        "type %u\nversion_major 0\nversion_minor 0\nnode_from %u\nnode_to %u\nweight 20\n"
                        "min_latency 0\n"
                        "max_latency 0\nmin_bandwidth 312\nmax_bandwidth 31504\nrecommended_transfer_size 0\nflags 1\n",
                        LINK_PCIE, node, to);
}

static int put_bank(uint32_t node, uint32_t heap, uint64_t size) {
        char name[128];
        (void) snprintf(name, sizeof(name), "topology/nodes/%u/mem_banks/0/properties", node);
        return sim_file_put(name, "heap_type %u\nsize_in_bytes %llu\nflags 0\nwidth 256\nmem_clk_max 1600\n", heap,
                        (unsigned long long) size);
}

/* Level 1 for each compute unit's first, level 2 for all: as many as anybody asks for. */
static int put_caches(uint32_t node) {
        for (uint32_t i = 0; i < CACHES; i++) {
                char name[128];
                (void) snprintf(name, sizeof(name), "topology/nodes/%u/caches/%u/properties", node, i);
                int r = sim_file_put(name,
                                "processor_id_low %u\nlevel %u\nsize %u\ncache_line_size 128\ncache_lines_per_tag 1\n"
                                "associativity 16\nlatency 0\ntype %u\nsibling_map 1\n",
                                0x80000000U + node * 0x1000U, i + 1, i == 0 ? 16U : 8192U, CACHE_DATA_CU);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int put_cpu(const SimWorld *w) {
        int r = sim_file_put("topology/nodes/0/gpu_id", "0\n");
        if (r >= 0)
                r = sim_file_put("topology/nodes/0/name", "\n");
        if (r >= 0)
                r = sim_file_put("topology/nodes/0/properties",
                                "cpu_cores_count %ld\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\n"
                                "io_links_count %u\n"
                                "p2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 0\n"
                                "max_waves_per_simd 0\nlds_size_in_kb 0\n"
                                "gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\n"
                                "simd_arrays_per_engine 0\n"
                                "cu_per_simd_array 0\nsimd_per_cu 0\nmax_slots_scratch_cu 0\n"
                                "gfx_target_version 0\nvendor_id 0\n"
                                "device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nhive_id 0\n"
                                "num_sdma_engines 0\n"
                                "num_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
                                "max_engine_clk_ccompute 2500\n",
                                sysconf(_SC_NPROCESSORS_ONLN), w->n_gpus);
        if (r >= 0)
                r = put_bank(0, HEAP_SYSTEM, UINT64_C(8) << 30);
        for (uint32_t i = 0; r >= 0 && i < w->n_gpus; i++)
                r = put_link(0, i, i + 1);
        return r;
}

static int put_gpu(const SimWorld *w, uint32_t node) {
        const SimGpu *g = w->gpus + node - 1;
        char name[128];
        (void) snprintf(name, sizeof(name), "topology/nodes/%u/gpu_id", node);
        int r = sim_file_put(name, "%u\n", g->gpu_id);
        if (r < 0)
                return r;
        (void) snprintf(name, sizeof(name), "topology/nodes/%u/name", node);
        r = sim_file_put(name, "%s\n", g->model);
        if (r < 0)
                return r;
        (void) snprintf(name, sizeof(name), "topology/nodes/%u/properties", node);
        r = sim_file_put(name,
                        "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count %u\n"
                        "io_links_count 1\np2p_links_count 0\n"
                        "cpu_core_id_base 0\nsimd_id_base %u\nmax_waves_per_simd 8\nlds_size_in_kb 64\n"
                        "gds_size_in_kb 0\nnum_gws 64\n"
                        "wave_front_size %u\narray_count 8\nsimd_arrays_per_engine 1\ncu_per_simd_array %u\n"
                        "simd_per_cu %u\n"
                        "max_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id 4098\ndevice_id %u\n"
                        "location_id %u\ndomain 0\n"
                        "drm_render_minor %u\nhive_id 0\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 0\n"
                        "num_sdma_queues_per_engine 8\n"
                        "num_cp_queues 24\nmax_engine_clk_fcompute 1700\nlocal_mem_size %llu\n"
                        "fw_version 60\ncapability %u\n"
                        "debug_prop 0\nsdma_fw_version 8\nunique_id %llu\nnum_xcc 1\nmax_engine_clk_ccompute 2500\n",
                        g->n_cus * SIMD_PER_CU, CACHES, 0x80000000U + node * 0x1000U,
                        g->gfx_target_version < 100000 ? 64U : 32U, g->n_cus / 8, SIMD_PER_CU, g->gfx_target_version,
                        g->device_id, g->location, SIM_RENDER_MINOR + node - 1, (unsigned long long) LOCAL_MEMORY,
                        CAPABILITY_QUEUE | (w->options.exceptions ? CAPABILITY_FIRMWARE : 0), 0x1000ULL + node);
        if (r >= 0)
                r = put_bank(node, HEAP_LOCAL, LOCAL_MEMORY);
        if (r >= 0)
                r = put_caches(node);
        if (r >= 0)
                r = put_link(node, 0, 0);
        return r;
}

int sim_topology_write(const SimWorld *w) {
        int r = sim_file_put("topology/generation_id", "1\n");
        if (r >= 0)
                r = sim_file_put("dev", "%u:0\n", SIM_DEVICE_MAJOR);
        if (r >= 0)
                r = sim_file_put("topology/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
        if (r >= 0)
                r = put_cpu(w);
        for (uint32_t i = 0; r >= 0 && i < w->n_gpus; i++) {
                char name[64];
                r = put_gpu(w, i + 1);
                (void) snprintf(name, sizeof(name), "dri/renderD%u", SIM_RENDER_MINOR + i);
                if (r >= 0)
                        r = sim_file_put(name, "%s", "");
        }
        if (r >= 0)
                r = sim_file_put("modules", "amdgpu 1 0 - Live 0x0000000000000000\n") ?:
                    sim_file_put("module/initstate", "live\n") ?: sim_file_put("module/holders/", "%s", "") ?:
                    sim_file_put("module/parameters/send_sigterm", "0\n");
        if (r >= 0)
                r = sim_file_put("debug/", "%s", "");
        return r >= 0 ? sim_file_put("devices/", "%s", "") ?: sim_file_put("proc/", "%s", "") : r;
}
