/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a GPU does just now: use, memory, temperature, power
 *
 * Of AMD GPUs two sources: rocm_smi_lib, which knows what each generation and driver calls these things, and amdgpu's
 * own files in sysfs. Of NVIDIA's one, NVML. The libraries are looked for at run time, by their names: a machine
 * without them is served as well as sysfs can, and packages need not depend on them. They print, take locks that they
 * share with other processes, wait for them, and throw: so nothing but xsched-metrics calls them, a process that lives
 * as long as one measurement.
 *
 * libhsakmt is not asked, because it would have to open /dev/kfd, which makes the caller a client of the driver, and
 * tells of the topology nothing that hal/kfd-topology.h does not read in the same place.
 */

#include <stdint.h>
#include <stdio.h>

/* In units that lose nothing; what is not known is the type's highest value. */
typedef struct GpuMetrics {
        uint32_t utilisation;   /* percent */
        int32_t temperature_mc; /* thousandths of a degree Celsius, at the edge */
        uint64_t vram_total;    /* bytes */
        uint64_t vram_used;
        uint64_t power_uw;
} GpuMetrics;

#define GPU_METRICS_NULL                                                                                    \
        ((GpuMetrics){                                                                                      \
                        .utilisation = UINT32_MAX,                                                          \
                        .temperature_mc = INT32_MAX,                                                        \
                        .vram_total = UINT64_MAX,                                                           \
                        .vram_used = UINT64_MAX,                                                            \
                        .power_uw = UINT64_MAX,                                                             \
        })

/* Takes from `other` what is not known. */
void gpu_metrics_complete(GpuMetrics *m, const GpuMetrics *other);

/* A device's id, as long as it is a PCI address. 0 or -EINVAL. */
typedef struct PciAddress {
        uint32_t domain, bus, device, function;
} PciAddress;
int pci_address_parse(const char *device_id, PciAddress *ret);

/* From sysfs below `root` ("" is the system's). Never fails: what is not there stays unknown. */
void gpu_metrics_read_sysfs(const char *root, const PciAddress *a, GpuMetrics *ret);

/* From rocm_smi_lib. *ret_source says where from, or why not: both are fit for people. 0; -EOPNOTSUPP: not built in;
 * -ENOENT: there is no such library; -ELIBBAD: it is not as we know it; -EIO: it found no GPU or failed; -ENODEV: not
 * this one. */
int gpu_metrics_read_rocm_smi(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]);

/* From NVML; likewise. */
int gpu_metrics_read_nvml(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]);

/* Who made it, by sysfs below `root`. */
typedef enum GpuVendor {
        GPU_VENDOR_UNKNOWN,
        GPU_VENDOR_AMD,
        GPU_VENDOR_NVIDIA,
} GpuVendor;
GpuVendor gpu_metrics_vendor(const char *root, const PciAddress *a);

/* As lines of KEY=VALUE. Reading checks every value, and passes over keys that it does not know. */
void gpu_metrics_print(FILE *f, const GpuMetrics *m, const char *source);
int gpu_metrics_parse(char *text, GpuMetrics *ret, const char **ret_source);
