/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A test double of rocm_smi_lib: two GPUs that do not exist, under the real library's name
 *
 * $FAKE_ROCM_SMI: "init" fails to start, "nothing" knows the GPUs and nothing of them, "noise" prints as the real one
 * does when it is unhappy, "crash" ends the process, "hang" never returns.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/macro.h"

#define SUCCESS       0
#define NOT_SUPPORTED 2
#define INIT_ERROR    8
#define INVALID       1

/* The last is the fifth partition of the first. */
static const uint64_t addresses[] = {
                UINT64_C(0x6500), UINT64_C(1) << 32 | 0x0200, UINT64_C(5) << 28 | UINT64_C(0x6500)};

static bool mode_is(const char *mode) {
        return streq(strempty(getenv("FAKE_ROCM_SMI")), mode);
}

/* The library's own names. */
int rsmi_init(uint64_t flags);
int rsmi_shut_down(void);
int rsmi_num_monitor_devices(uint32_t *n);
int rsmi_dev_pci_id_get(uint32_t device, uint64_t *bdf);
int rsmi_dev_busy_percent_get(uint32_t device, uint32_t *percent);
int rsmi_dev_memory_total_get(uint32_t device, int type, uint64_t *bytes);
int rsmi_dev_memory_usage_get(uint32_t device, int type, uint64_t *bytes);
int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, int metric, int64_t *millidegrees);
int rsmi_dev_power_ave_get(uint32_t device, uint32_t sensor, uint64_t *microwatts);

_public_
int rsmi_init(uint64_t flags) {
        if (mode_is("noise")) {
                puts("utilisation=99");
                fputs("Exception caught: rsmi_init.\n", stderr);
        }
        if (mode_is("crash"))
                abort();
        while (mode_is("hang"))
                (void) pause();
        return mode_is("init") ? INIT_ERROR : SUCCESS;
}

_public_
int rsmi_shut_down(void) {
        return SUCCESS;
}

_public_
int rsmi_num_monitor_devices(uint32_t *n) {
        *n = ELEMENTSOF(addresses);
        return SUCCESS;
}

_public_
int rsmi_dev_pci_id_get(uint32_t device, uint64_t *bdf) {
        if (device >= ELEMENTSOF(addresses))
                return INVALID;
        *bdf = addresses[device];
        return SUCCESS;
}

static int give(uint32_t device, bool valid, uint64_t v, uint64_t *ret) {
        if (device >= ELEMENTSOF(addresses) || !valid)
                return INVALID;
        if (mode_is("nothing"))
                return NOT_SUPPORTED;
        *ret = v;
        return SUCCESS;
}

_public_
int rsmi_dev_busy_percent_get(uint32_t device, uint32_t *percent) {
        uint64_t v;
        int r = give(device, true, 37 + device, &v);

        if (r == SUCCESS)
                *percent = (uint32_t) v;
        return r;
}

_public_
int rsmi_dev_memory_total_get(uint32_t device, int type, uint64_t *bytes) {
        return give(device, type == 0, UINT64_C(64) << 30, bytes);
}

_public_
int rsmi_dev_memory_usage_get(uint32_t device, int type, uint64_t *bytes) {
        return give(device, type == 0, UINT64_C(5) << 30, bytes);
}

_public_
int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, int metric, int64_t *millidegrees) {
        uint64_t v;
        int r = give(device, sensor == 0 && metric == 0, 61500, &v);

        if (r == SUCCESS)
                *millidegrees = (int64_t) v;
        return r;
}

_public_
int rsmi_dev_power_ave_get(uint32_t device, uint32_t sensor, uint64_t *microwatts) {
        return give(device, sensor == 0, 212500000, microwatts);
}
