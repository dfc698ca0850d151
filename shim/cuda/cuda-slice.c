/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Time slices: see cuda-slice.h
 */

#include "shim/cuda/cuda-slice.h"

#include <stdlib.h>

#include "common/macro.h"

#define SLICE_MAX_USEC 1000000UL

static uint64_t slice_usec; /* 0: the driver's own is left */
static uint32_t interleave;
static bool has_interleave;

static bool read_number(const char *name, unsigned long max, unsigned long *ret) {
        const char *text = strempty(secure_getenv(name));
        char *end;

        errno = 0;
        *ret = strtoul(text, &end, 10);
        return !isempty(text) && *end == '\0' && errno == 0 && *ret <= max;
}

/* Runs when the library is loaded: later, another thread may be changing the environment. */
__attribute__((constructor)) static void read_environment(void) {
        PROTECT_ERRNO;
        unsigned long n;

        if (read_number("XSCHED_CUDA_SLICE", SLICE_MAX_USEC, &n))
                slice_usec = n;
        has_interleave = read_number("XSCHED_CUDA_INTERLEAVE", 2, &n);
        if (has_interleave)
                interleave = (uint32_t) n;
}

static int group_control(const CudaObject *group, uint32_t command, void *parameters, uint32_t size) {
        return nvrm_control(group->hal.ioctl, group->hal.fd, group->client, group->id, command, parameters, size);
}

void cuda_slice_group(CudaObject *group) {
        if ((slice_usec == 0 && !has_interleave) || group->engine != NVRM_ENGINE_COMPUTE || !group->gpu)
                return;
        /* Channels are stopped by a subdevice of any client; this is a call about the group itself. */
        if (group->hal.client != group->client) {
                group->sliced = -ESTALE;
                return;
        }
        NvrmSlice slice = {.usec = slice_usec};
        NvrmInterleave level = {.level = interleave};
        int r = 0;

        if (slice_usec > 0)
                r = group_control(group, NVRM_CMD_GROUP_SET_SLICE, &slice, sizeof(slice));
        if (r >= 0 && has_interleave)
                r = group_control(group, NVRM_CMD_GROUP_SET_INTERLEAVE, &level, sizeof(level));
        group->sliced = r;
}
