/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A resource manager that several processes use, as they use a kernel driver: fake-server.c has it, and fake-remote.c
 * asks it
 *
 * An open /dev/nvidiactl is a socket that is connected to the server, and says its cookie first, which all copies of it
 * have. The server closes the file when the last copy is closed. Calls come by a connection of their own for each
 * process, and name the file by its cookie.
 */

#include <stddef.h>
#include <stdint.h>

#include "hal/nvrm-abi.h"

/* The environment variable with the path of the server's socket; the one for calls has the name with the suffix. */
#define FAKE_REMOTE_AT    "FAKE_NVIDIACTL_AT"
#define FAKE_REMOTE_CALLS ".calls"

#define FAKE_REMOTE_RUNS 0U /* `nr` of a question: whether a channel is at work */

typedef struct FakeRemoteCall {
        uint64_t cookie;
        uint32_t nr, size;
        uint8_t argument[sizeof(NvrmVersion)]; /* the largest one */
        uint32_t data_size;
        uint8_t data[sizeof(NvrmDisableChannels)]; /* what the argument's `parameters` points to */
        int32_t result;
} FakeRemoteCall;

typedef struct FakeRemoteRuns {
        uint32_t client, channel;
} FakeRemoteRuns;

/* Where a call's argument has the address of its parameters; NULL: it has none. */
static inline uint64_t *fake_remote_parameters(uint32_t nr, void *argument) {
        return nr == NVRM_NR_CONTROL          ? &((NvrmControl *) argument)->parameters
                        : nr == NVRM_NR_ALLOC ? &((NvrmAllocShort *) argument)->parameters
                                              : NULL;
}
