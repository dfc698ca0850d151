/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Injected failures: which ioctls of this process fail on purpose
 *
 * KFDSIM_FAIL and kfdsim_fail() take entries "NR:ERROR:COUNT[:SKIP[:late]]", several separated by ';'. After SKIP calls
 * of ioctl number NR (0x07 is UPDATE_QUEUE, 0 is any, -1 any that makes, updates or destroys a queue) the next COUNT
 * fail. ERROR is a number (4 EINTR, 5 EIO, 62 ETIME), or "hang": the call takes as long as an unmap that the firmware
 * never answers (timeout-ms) and then fails with ETIME. "late" fails after the call has done its work, because after an
 * error of the driver either may be so.
 */

#include <errno.h>
#include <stdio.h>

#include "kfdsim.h"
#include "sim.h"

typedef struct Entry {
        int nr;
        SimFailure failure;
        int skip, count;
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_parsed;
static Entry entries[16];
static size_t n_entries;
static uint64_t n_calls;
static int last_failed;

static bool is_about_queues(int nr) {
        return nr == KFD_NR_CREATE_QUEUE || nr == KFD_NR_UPDATE_QUEUE || nr == KFD_NR_DESTROY_QUEUE;
}

static bool entry_is_for(const Entry *e, int nr) {
        return e->nr == nr || e->nr == 0 || (e->nr == -1 && is_about_queues(nr));
}

static int entry_parse(const char *text, Entry *ret) {
        char error[16] = "", late[8] = "";
        Entry e = {0};

        if (sscanf(text, "%i:%15[^:]:%i:%i:%7s", &e.nr, error, &e.count, &e.skip, late) < 3)
                return -EINVAL;
        e.failure.hangs = streq(error, "hang");
        e.failure.error = e.failure.hangs ? -ETIME : -atoi(error);
        e.failure.late = streq(late, "late");
        if (e.failure.error >= 0 || (!e.failure.late && late[0]))
                return -EINVAL;
        *ret = e;
        return 0;
}

static int parse(const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *rest = copy;

        n_entries = 0;
        for (char *item; copy && (item = strsep(&rest, ";"));)
                if (!isempty(item)) {
                        if (n_entries == ELEMENTSOF(entries) || entry_parse(item, entries + n_entries) < 0) {
                                (void) fprintf(stderr, "kfdsim: failures: %s: no such entry, or too many\n", item);
                                return -EINVAL;
                        }
                        n_entries++;
                }
        return 0;
}

_public_
int kfdsim_fail(const char *text) {
        (void) pthread_mutex_lock(&lock);
        is_parsed = true;
        int r = parse(text);
        (void) pthread_mutex_unlock(&lock);
        return r;
}

_public_
uint64_t kfdsim_calls(int *ret_failed) {
        (void) pthread_mutex_lock(&lock);
        uint64_t n = n_calls;
        if (ret_failed)
                *ret_failed = last_failed;
        (void) pthread_mutex_unlock(&lock);
        return n;
}

/* Failures that were set for the parent also hold for its child. */
void sim_failure_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
}

SimFailure sim_failure_take(int nr) {
        SimFailure f = {0};

        (void) pthread_mutex_lock(&lock);
        n_calls++;
        if (!is_parsed)
                (void) parse(getenv("KFDSIM_FAIL") ?: "");
        is_parsed = true;
        for (size_t i = 0; i < n_entries && f.error == 0; i++) {
                Entry *e = entries + i;
                if (!entry_is_for(e, nr) || e->count <= 0)
                        continue;
                if (e->skip > 0)
                        e->skip--;
                else {
                        e->count--;
                        f = e->failure;
                        last_failed = nr;
                }
        }
        (void) pthread_mutex_unlock(&lock);
        return f;
}
