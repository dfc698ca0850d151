/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * KFD's topology, read from sysfs
 */

#include "hal/kfd-topology.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/stream-util.h"

#define CWSR_PARAMETER    "/sys/module/amdgpu/parameters/cwsr_enable"
#define SIGTERM_PARAMETER "/sys/module/amdgpu/parameters/send_sigterm"

static int open_file(const char *path, FILE **ret) {
        FILE *f = fopen(path, "re");

        if (!f)
                return negative_errno();
        *ret = f;
        return 0;
}

static int read_number(const char *path, uint32_t *ret) {
        _cleanup_(fclosep)
        FILE *f = NULL;

        int r = open_file(path, &f);
        if (r < 0)
                return r;
        return fscanf(f, "%" SCNu32, ret) == 1 ? 0 : -EIO;
}

/* --- what is worked out of other properties --- */

/* For kernels before 6.13, which do not tell: vector and scalar registers, LDS and hardware registers of each CU. */
static uint32_t save_size(uint32_t gfx_version, uint32_t n_cus) {
        bool large = gfx_version == 90008 || gfx_version == 90010 || gfx_version / 100 == 904;
        uint32_t vgprs = large ? 0x80000 : 0x40000;

        return n_cus * (vgprs + 0x4000 + 0x10000 + 0x1000);
}

typedef struct Properties {
        KfdNode node;
        uint32_t simd_count, simd_per_cu;
} Properties;

static const struct {
        const char *name;
        size_t offset;
} properties[] = {
                {"simd_count", offsetof(Properties, simd_count)},
                {"simd_per_cu", offsetof(Properties, simd_per_cu)},
                {"gfx_target_version", offsetof(Properties, node.gfx_version)},
                {"num_xcc", offsetof(Properties, node.n_xcc)},
                {"capability", offsetof(Properties, node.capability)},
                {"domain", offsetof(Properties, node.domain)},
                {"location_id", offsetof(Properties, node.location)},
                {"drm_render_minor", offsetof(Properties, node.render_minor)},
                {"num_cp_queues", offsetof(Properties, node.n_slots)},
                {"cwsr_size", offsetof(Properties, node.save_size)},
};

static void take_property(Properties *p, const char *name, uint64_t value) {
        for (size_t i = 0; i < ELEMENTSOF(properties); i++)
                if (streq(properties[i].name, name)) {
                        uint32_t v = (uint32_t) MIN(value, (uint64_t) UINT32_MAX);
                        memcpy((char *) p + properties[i].offset, &v, sizeof(v));
                        return;
                }
}

int kfd_topology_read(const char *root, uint32_t node, KfdNode *ret) {
        Properties p = {.node.node = node};
        _cleanup_(fclosep)
        FILE *f = NULL;
        char path[PATH_MAX], name[64];
        uint64_t value;

        (void) snprintf(path, sizeof(path), "%s/nodes/%u/gpu_id", root, node);
        int r = read_number(path, &p.node.gpu_id);
        if (r < 0)
                return r;
        if (p.node.gpu_id == 0)
                return -ENXIO;
        (void) snprintf(path, sizeof(path), "%s/nodes/%u/properties", root, node);
        r = open_file(path, &f);
        if (r < 0)
                return r;

        while (fscanf(f, "%63s %" SCNu64, name, &value) == 2)
                take_property(&p, name, value);
        p.node.n_cus = p.simd_count / MAX(p.simd_per_cu, 1U);
        p.node.n_xcc = MAX(p.node.n_xcc, 1U);
        if (p.node.save_size == 0)
                p.node.save_size = save_size(p.node.gfx_version, p.node.n_cus / p.node.n_xcc);
        *ret = p.node;
        return 0;
}

static bool has_gpu_id(const KfdNode *n, uint32_t gpu_id) {
        return n->gpu_id == gpu_id;
}

static bool has_render_minor(const KfdNode *n, uint32_t minor) {
        return n->render_minor == minor;
}

static int find(const char *root, bool (*is)(const KfdNode *n, uint32_t value), uint32_t value, KfdNode *ret) {
        for (uint32_t node = 0;; node++) {
                KfdNode n;
                int r = kfd_topology_read(root, node, &n);

                /* Skip a node that cannot be read (EPERM): a container's device cgroup excludes its device. */
                if (r == -ENXIO || r == -EPERM)
                        continue;
                if (r < 0)
                        return r == -ENOENT && node > 0 ? -ENXIO : r;
                if (!is(&n, value))
                        continue;
                *ret = n;
                return 0;
        }
}

int kfd_topology_find(const char *root, uint32_t gpu_id, KfdNode *ret) {
        return find(root, has_gpu_id, gpu_id, ret);
}

int kfd_topology_find_render(const char *root, uint32_t minor, KfdNode *ret) {
        return find(root, has_render_minor, minor, ret);
}

void kfd_node_device_id(const KfdNode *n, char ret[static KFD_DEVICE_ID_MAX]) {
        (void) snprintf(ret, KFD_DEVICE_ID_MAX, "pci:%04x:%02x:%02x.%x", n->domain, n->location >> 8 & 0xff,
                        n->location >> 3 & 0x1f, n->location & 7);
}

void kfd_node_gfx_name(const KfdNode *n, char ret[static KFD_GFX_NAME_MAX]) {
        (void) snprintf(ret, KFD_GFX_NAME_MAX, "gfx%u%x%x", n->gfx_version / 10000, n->gfx_version / 100 % 100,
                        n->gfx_version % 100);
}

static int is_set(const char *parameter) {
        uint32_t value;
        int r = read_number(parameter, &value);

        return r < 0 ? r : value != 0;
}

int kfd_cwsr_enabled(void) {
        return is_set(CWSR_PARAMETER);
}

int kfd_sends_sigterm(void) {
        return is_set(SIGTERM_PARAMETER);
}
