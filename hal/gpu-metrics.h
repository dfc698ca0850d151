/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Measurements of a GPU: utilisation, memory, temperature, power
 *
 * AMD GPUs have two sources: rocm_smi_lib, which knows the names that each generation and driver uses, and amdgpu's own
 * files in sysfs. NVIDIA GPUs have one, NVML. The libraries are loaded by name at run time, so packages need not depend
 * on them, and a machine without them still gets the values of sysfs. They print, throw, and wait for locks that they
 * share with other processes: so only xsched-metrics calls them, a process that lives as long as one measurement.
 *
 * libhsakmt is not used: it opens /dev/kfd, which makes the caller a client of the driver, and its topology is the one
 * that hal/kfd-topology.h reads.
 */

#include <stdint.h>
#include <stdio.h>

/* Units are those of the most precise source. An unknown value is the highest value of its type. */
typedef struct GpuMetrics {
        uint32_t utilisation;   /* percent */
        int32_t temperature_mc; /* thousandths of a degree Celsius, at the edge */
        uint64_t vram_total;    /* bytes */
        uint64_t vram_used;
        uint64_t power_uw;
} GpuMetrics;

#define GPU_METRICS_NULL                                                                                               \
        ((GpuMetrics){                                                                                                 \
                        .utilisation = UINT32_MAX,                                                                     \
                        .temperature_mc = INT32_MAX,                                                                   \
                        .vram_total = UINT64_MAX,                                                                      \
                        .vram_used = UINT64_MAX,                                                                       \
                        .power_uw = UINT64_MAX,                                                                        \
        })

/* Fills the unknown values of *m from `other`. */
void gpu_metrics_complete(GpuMetrics *m, const GpuMetrics *other);

/* Parses a device id that is a PCI address, "pci:0000:65:00.0". Returns 0 or -EINVAL. */
typedef struct PciAddress {
        uint32_t domain, bus, device, function;
} PciAddress;
int pci_address_parse(const char *device_id, PciAddress *ret);

/* Reads from sysfs below `root` ("": the system's own). Never fails: a value whose file is missing stays unknown. */
void gpu_metrics_read_sysfs(const char *root, const PciAddress *a, GpuMetrics *ret);

/* The GPU's vendor, by sysfs below `root`. */
typedef enum GpuVendor {
        GPU_VENDOR_UNKNOWN,
        GPU_VENDOR_AMD,
        GPU_VENDOR_NVIDIA,
} GpuVendor;
GpuVendor gpu_metrics_vendor(const char *root, const PciAddress *a);

/* Write and read the values as lines of KEY=VALUE. gpu_metrics_parse() ignores unknown keys, and cuts up `text`, into
 * which *ret_source points. Returns 0; -EBADMSG: not such lines, a bad value, or no source. */
void gpu_metrics_print(FILE *f, const GpuMetrics *m, const char *source);
int gpu_metrics_parse(char *text, GpuMetrics *ret, const char **ret_source);
