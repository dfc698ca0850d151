/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Measurements of a GPU from NVML, the library of NVIDIA's driver
 *
 * The library comes with the driver, in the driver's version, and keeps its interface. The functions called are
 * declared here, so that the build needs nothing from NVIDIA. The library opens the driver's device files.
 */

#include <stdio.h>

#include "common/macro.h"
#include "hal/gpu-metrics.h"
#include "hal/library.h"
#include "hal/nvml-library.h"
#include "nvml.h"

static const char *const sonames[] = {NVML_SONAME, NULL};

enum {
        NVML_TEMPERATURE_GPU = 0,
};

typedef struct Utilisation {
        unsigned gpu, memory; /* percent */
} Utilisation;

typedef struct Memory {
        unsigned long long total, free, used; /* bytes */
} Memory;

typedef struct Library {
        int (*init)(void);
        int (*shut_down)(void);
        int (*handle)(const char *bus_id, void **device);
        int (*utilisation)(void *device, Utilisation *u);
        int (*memory)(void *device, Memory *m);
        int (*temperature)(void *device, int sensor, unsigned *degrees);
        int (*power)(void *device, unsigned *milliwatts);
} Library;

static const LibrarySymbol symbols[] = {
                {"nvmlInit_v2", offsetof(Library, init)},
                {"nvmlShutdown", offsetof(Library, shut_down)},
                {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(Library, handle)},
                {"nvmlDeviceGetUtilizationRates", offsetof(Library, utilisation)},
                {"nvmlDeviceGetMemoryInfo", offsetof(Library, memory)},
                {"nvmlDeviceGetTemperature", offsetof(Library, temperature)},
                {"nvmlDeviceGetPowerUsage", offsetof(Library, power)},
};

static void read_device(const Library *l, void *device, GpuMetrics *m) {
        Utilisation u;
        Memory memory;
        unsigned v;

        if (l->utilisation(device, &u) == NVML_SUCCESS && u.gpu <= 100)
                m->utilisation = u.gpu;
        if (l->memory(device, &memory) == NVML_SUCCESS) {
                m->vram_total = memory.total;
                m->vram_used = memory.used;
        }
        if (l->temperature(device, NVML_TEMPERATURE_GPU, &v) == NVML_SUCCESS && v < INT32_MAX / 1000)
                m->temperature_mc = (int32_t) v * 1000;
        if (l->power(device, &v) == NVML_SUCCESS)
                m->power_uw = (uint64_t) v * 1000;
}

static int read_library(const PciAddress *a, GpuMetrics *ret) {
        GpuMetrics m = GPU_METRICS_NULL;
        char bus_id[NVML_BUS_ID_MAX];
        void *device;
        Library l;

        int r = library_open(sonames, symbols, ELEMENTSOF(symbols), &l, NULL);
        if (r < 0)
                return r;
        if (l.init() != NVML_SUCCESS)
                return -EIO;
        nvml_bus_id(a, bus_id);
        if (l.handle(bus_id, &device) == NVML_SUCCESS)
                read_device(&l, device, &m);
        else
                r = -ENODEV;
        (void) l.shut_down();
        if (r >= 0)
                *ret = m;
        return r;
}

int gpu_metrics_read_nvml(const PciAddress *a, GpuMetrics *ret, char ret_source[static 96]) {
        int r = read_library(a, ret);

        if (r < 0)
                (void) snprintf(ret_source, 96, "nvml: %s", library_problem(r));
        else
                (void) snprintf(ret_source, 96, "nvml (" NVML_SONAME ")");
        return r;
}
