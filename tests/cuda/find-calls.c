/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions for tests/bench/cuda/nvrm-foreign.py: what hal/nvrm-find.h finds, as text
 */

#include <stdio.h>
#include <sys/ioctl.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/nvrm-find.h"
#include "hal/nvrm-target-sys.h"

static NvrmFound found;
static NvrmTarget target = NVRM_TARGET_NULL;

/* The number that a new client has, or a negative errno. */
int64_t xsched_nvrm_newest(int own);

/* Looks for clients among the numbers, and for objects of all clients found so far. Writes what there is, and how many
 * nanoseconds both took, as text. Returns its length, or a negative errno. */
int64_t xsched_nvrm_find(int fd, uint32_t from, uint32_t to, char *ret, size_t size);
void xsched_nvrm_forget(void);

/* Calls nvrm_target_open() and so on for the process, by the first letter. Returns 0 or a negative errno. */
int xsched_nvrm_target(int what, int pid);

/* How long a hold and a release take, in nanoseconds. */
int64_t xsched_nvrm_cost(int release);

_public_
int64_t xsched_nvrm_newest(int own) {
        const NvrmFile f = {.ioctl = ioctl, .fd = own};
        uint32_t n;

        int r = nvrm_newest_client(&f, &n);
        return r < 0 ? r : (int64_t) n;
}

_public_
int64_t xsched_nvrm_find(int fd, uint32_t from, uint32_t to, char *ret, size_t size) {
        const NvrmFile f = {.ioctl = ioctl, .fd = fd};
        size_t n = 0;

        uint64_t began = now_ns();
        int r = nvrm_find_clients(&f, from, to, &found);
        uint64_t between = now_ns();
        if (r >= 0)
                r = nvrm_find_objects(&f, &found);
        uint64_t ended = now_ns();
        if (r < 0)
                return r;
#define SAY(...) n += (size_t) snprintf(ret + MIN(n, size), size - MIN(n, size), __VA_ARGS__)
        SAY("took %lu %lu\n", between - began, ended - between);
        for (size_t i = 0; i < found.n_clients; i++)
                SAY("client %u %u %u\n", found.clients[i].client, found.clients[i].first, found.clients[i].end);
        for (size_t i = 0; i < found.n_objects; i++) {
                const NvrmFoundObject *o = &found.objects[i];
                SAY("object %u %u %u %u\n", o->client, o->id, o->parent, o->class);
        }
#undef SAY
        return (int64_t) n;
}

_public_
void xsched_nvrm_forget(void) {
        nvrm_found_done(&found);
}

_public_
int xsched_nvrm_target(int what, int pid) {
        switch (what) {
        case 'o':
                return nvrm_target_open(pid, 0, &nvrm_target_sys, &target);
        case 'h':
                return nvrm_target_hold(&target);
        case 'r':
                return nvrm_target_release(&target);
        case 'u':
                return nvrm_target_undo(&target);
        default:
                nvrm_target_done(&target);
                return 0;
        }
}

_public_
int64_t xsched_nvrm_cost(int release) {
        return (int64_t) (release ? target.costs.release_ns : target.costs.hold_ns);
}
