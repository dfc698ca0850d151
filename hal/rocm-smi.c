/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Measurements of a GPU from rocm_smi_lib
 *
 * Its header cannot be included (it contains a copy of a kernel header that contradicts others), so the functions
 * called are declared here. They have been the same since the library's first version, in every soname below.
 */

#include <inttypes.h>

#include "common/macro.h"
#include "config.h"
#include "hal/gpu-metrics.h"
#include "hal/library.h"
#include "rocm-smi.h"

#if HAVE_ROCM_SMI

/* Of Debian, and of AMD's own packages. */
static const char *const sonames[] = {
                "librocm_smi64.so.1", "librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", NULL};

enum {
        SMI_SUCCESS = 0,
        SMI_MEMORY_VRAM = 0,
        SMI_TEMPERATURE_EDGE = 0,
        SMI_TEMPERATURE_CURRENT = 0,
};

typedef struct Library {
        int (*init)(uint64_t flags);
        int (*shut_down)(void);
        int (*num_monitor_devices)(uint32_t *n);
        int (*pci_id)(uint32_t device, uint64_t *bdf);
        int (*busy_percent)(uint32_t device, uint32_t *percent);
        int (*memory_total)(uint32_t device, int type, uint64_t *bytes);
        int (*memory_usage)(uint32_t device, int type, uint64_t *bytes);
        int (*temperature)(uint32_t device, uint32_t sensor, int metric, int64_t *millidegrees);
        int (*power)(uint32_t device, uint32_t sensor, uint64_t *microwatts);
} Library;

static const LibrarySymbol symbols[] = {
                {"rsmi_init", offsetof(Library, init)},
                {"rsmi_shut_down", offsetof(Library, shut_down)},
                {"rsmi_num_monitor_devices", offsetof(Library, num_monitor_devices)},
                {"rsmi_dev_pci_id_get", offsetof(Library, pci_id)},
                {"rsmi_dev_busy_percent_get", offsetof(Library, busy_percent)},
                {"rsmi_dev_memory_total_get", offsetof(Library, memory_total)},
                {"rsmi_dev_memory_usage_get", offsetof(Library, memory_usage)},
                {"rsmi_dev_temp_metric_get", offsetof(Library, temperature)},
                {"rsmi_dev_power_ave_get", offsetof(Library, power)},
};

#        define BDF_ADDRESS UINT64_C(0xffffffff0000ffff)

/* The library has a partition's number in bits of its own, in those of the function, or in both; KFD has it in those of
 * the function. */
static bool is_device(uint64_t bdf, const PciAddress *a) {
        uint64_t whole = (uint64_t) a->domain << 32 | a->bus << 8 | a->device << 3;

        return (bdf & BDF_ADDRESS) == (whole | a->function) ||
                        ((bdf & BDF_ADDRESS) == whole && (bdf >> 28 & 0xf) == a->function);
}

/* Finds the library's index of a device. Returns 0 or -ENODEV. */
static int find_device(const Library *l, const PciAddress *a, uint32_t *ret) {
        uint32_t n = 0;
        uint64_t bdf;

        if (l->num_monitor_devices(&n) != SMI_SUCCESS)
                return -EIO;
        for (uint32_t i = 0; i < n; i++)
                if (l->pci_id(i, &bdf) == SMI_SUCCESS && is_device(bdf, a)) {
                        *ret = i;
                        return 0;
                }
        return -ENODEV;
}

static void read_device(const Library *l, uint32_t device, GpuMetrics *m) {
        uint32_t percent;
        int64_t temperature;
        uint64_t v, total;

        if (l->busy_percent(device, &percent) == SMI_SUCCESS && percent <= 100)
                m->utilisation = percent;
        if (l->memory_total(device, SMI_MEMORY_VRAM, &total) == SMI_SUCCESS &&
                        l->memory_usage(device, SMI_MEMORY_VRAM, &v) == SMI_SUCCESS) {
                m->vram_total = total;
                m->vram_used = v;
        }
        if (l->temperature(device, SMI_TEMPERATURE_EDGE, SMI_TEMPERATURE_CURRENT, &temperature) == SMI_SUCCESS &&
                        temperature > INT32_MIN && temperature < INT32_MAX)
                m->temperature_mc = (int32_t) temperature;
        if (l->power(device, 0, &v) == SMI_SUCCESS)
                m->power_uw = v;
}

static int read_library(const PciAddress *a, GpuMetrics *ret, const char **ret_name) {
        GpuMetrics m = GPU_METRICS_NULL;
        uint32_t device;
        Library l;

        int r = library_open(sonames, symbols, ELEMENTSOF(symbols), &l, ret_name);
        if (r < 0)
                return r;
        if (l.init(0) != SMI_SUCCESS)
                return -EIO;
        r = find_device(&l, a, &device);
        if (r >= 0)
                read_device(&l, device, &m);
        (void) l.shut_down();
        if (r >= 0)
                *ret = m;
        return r;
}

int gpu_metrics_read_rocm_smi(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]) {
        const char *name;

        int r = read_library(a, ret, &name);
        if (r < 0)
                (void) snprintf(ret_source, 96, "rocm-smi: %s", library_problem(r));
        else
                (void) snprintf(ret_source, 96, "rocm-smi (%s)", name);
        return r;
}

#else

int gpu_metrics_read_rocm_smi(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]) {
        (void) snprintf(ret_source, 96, "rocm-smi: not built in");
        return -EOPNOTSUPP;
}

#endif
