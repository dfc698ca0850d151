/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * KFD's topology, as far as scheduling needs it
 *
 * Read from sysfs, which every kernel with KFD has and which needs no library: the shim asks in the middle of an
 * application's own call, where a second instance of libhsakmt is not acceptable. A value that the kernel does not give
 * is 0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KFD_TOPOLOGY_PATH "/sys/devices/virtual/kfd/kfd/topology"

typedef struct KfdNode {
        uint32_t node;
        uint32_t gpu_id;
        uint32_t gfx_version; /* 90010 is gfx90a: major * 10000 + minor * 100 + stepping */
        uint32_t n_cus;
        uint32_t n_xcc; /* at least 1 */
        uint32_t capability;
        uint32_t domain;
        uint32_t location; /* PCI bus, device, function: 8, 5 and 3 bits */
        uint32_t render_minor;
        uint32_t n_slots;   /* hardware slots for compute queues of KFD; 0: unknown */
        uint32_t save_size; /* CWSR: maximum bytes for the waves of one queue, per XCC */
} KfdNode;

/* Finds the node of a gpu_id. Returns 0; -ENXIO: no node has that id; or the error of reading sysfs. `root`:
 * KFD_TOPOLOGY_PATH, except in tests. */
int kfd_topology_find(const char *root, uint32_t gpu_id, KfdNode *ret);

/* The same for the GPU whose DRM render node has that minor number. */
int kfd_topology_find_render(const char *root, uint32_t minor, KfdNode *ret);

/* Reads one node. Returns 0; -ENXIO: the node has no GPU; -ENOENT: there is no such node, which ends the list. */
int kfd_topology_read(const char *root, uint32_t node, KfdNode *ret);

/* Returns whether firmware schedules the queues one by one (MES, gfx11 and later) and not by a list of all (HWS). */
static inline bool kfd_node_has_mes(const KfdNode *n) {
        return n->gfx_version >= 110000;
}

#define KFD_SLOTS_FEW 8U

/* Returns whether there are open reports of such GPUs that hang when queues are unmapped or mapped: all GPUs that MES
 * schedules, and those of gfx10 that leave KFD only eight slots for queues, with the queues of three processes
 * (ROCm/amdgpu 227; fewer queues of the kernel's own, amdgpu.num_kcq=, leave more slots). */
static inline bool kfd_node_is_fragile(const KfdNode *n) {
        bool few = n->n_slots > 0 && n->n_slots <= KFD_SLOTS_FEW;
        return kfd_node_has_mes(n) || (few && n->gfx_version >= 100000);
}

/* Returns whether doorbells have 8 bytes. Their place in the page is then in the offset that CREATE_QUEUE returns. */
static inline bool kfd_node_has_wide_doorbells(const KfdNode *n) {
        return n->gfx_version >= 90000;
}

#define KFD_DEVICE_ID_MAX sizeof("pci:00000000:ff:1f.7")
#define KFD_GFX_NAME_MAX  sizeof("gfx429496ffff")

/* "pci:0000:65:00.0", the device id that is the same in all processes; and "gfx90a". */
void kfd_node_device_id(const KfdNode *n, char ret[static KFD_DEVICE_ID_MAX]);
void kfd_node_gfx_name(const KfdNode *n, char ret[static KFD_GFX_NAME_MAX]);

/* Returns the driver's parameter cwsr_enable: 1, 0, or -ENOENT. */
int kfd_cwsr_enabled(void);

/* Likewise send_sigterm: whether the driver ends processes that do not wait for an exception. */
int kfd_sends_sigterm(void);
