/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A test double of NVML: one GPU that does not exist, under the real library's name
 *
 * $FAKE_NVML: "init" fails to start, as without the driver, "nothing" knows the GPU and nothing of it, "hang" never
 * returns. With a path it is a device file that has to be there, and may be opened.
 */

#include <fcntl.h>
#include <stdlib.h>

#include "common/macro.h"

#define SUCCESS       0
#define NOT_SUPPORTED 3
#define NOT_FOUND     6
#define NOT_LOADED    9

static const char *mode(void) {
        return strempty(getenv("FAKE_NVML"));
}

typedef struct Utilisation {
        unsigned gpu, memory;
} Utilisation;

typedef struct Memory {
        unsigned long long total, free, used;
} Memory;

/* The library's own names. */
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetUtilizationRates(void *device, Utilisation *u);
int nvmlDeviceGetMemoryInfo(void *device, Memory *m);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);

_public_
int nvmlInit_v2(void) {
        while (streq(mode(), "hang"))
                (void) pause();
        if (mode()[0] == '/') {
                int fd = open(mode(), O_RDWR | O_CLOEXEC);
                if (fd < 0)
                        return NOT_LOADED;
                (void) close(fd);
        }
        return streq(mode(), "init") ? NOT_LOADED : SUCCESS;
}

_public_
int nvmlShutdown(void) {
        return SUCCESS;
}

_public_
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
        static int gpu;

        if (!streq(id, "00000000:65:00.0"))
                return NOT_FOUND;
        *device = &gpu;
        return SUCCESS;
}

_public_
int nvmlDeviceGetUtilizationRates(void *device, Utilisation *u) {
        if (streq(mode(), "nothing"))
                return NOT_SUPPORTED;
        *u = (Utilisation){.gpu = 83, .memory = 12};
        return SUCCESS;
}

_public_
int nvmlDeviceGetMemoryInfo(void *device, Memory *m) {
        if (streq(mode(), "nothing"))
                return NOT_SUPPORTED;
        *m = (Memory){.total = 141ULL << 30, .free = 100ULL << 30, .used = 41ULL << 30};
        return SUCCESS;
}

_public_
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
        if (streq(mode(), "nothing") || sensor != 0)
                return NOT_SUPPORTED;
        *degrees = 47;
        return SUCCESS;
}

_public_
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
        if (streq(mode(), "nothing"))
                return NOT_SUPPORTED;
        *milliwatts = 312456;
        return SUCCESS;
}
