/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The paced device: see paced-device.h
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "paced-device.h"

#include "common/macro.h"
#include "common/time-util.h"

#define CONTEXTS 64
#define LAUNCHES 8192U /* in flight of one context */

typedef struct Launch {
        uint64_t ready_ns, length_ns;
        uint64_t sum_ns; /* lengths of all launches of the context up to this one */
        PacedSpan span;
} Launch;

typedef struct Context {
        pid_t pid; /* 0: free */
        uint64_t n_submitted, n_over, n_taken;
        uint64_t left_ns; /* of the oldest that is not over */
        bool begun;       /* that one */
        Launch launches[LAUNCHES];
} Context;

struct PacedDevice {
        pthread_mutex_t lock;
        bool made;
        uint64_t ns;           /* up to when it is known what the device did; later only while it changes contexts */
        uint64_t slice_end_ns; /* of the context that is loaded */
        int loaded;            /* -1: none yet */
        Context contexts[CONTEXTS];
};

static Launch *launch_at(Context *c, uint64_t number) {
        return c->launches + number % LAUNCHES;
}

/* --- what the device did --- */

static bool is_ready(Context *c, uint64_t at) {
        return c->n_over < c->n_submitted && launch_at(c, c->n_over)->ready_ns <= at;
}

/* Returns the next context in turn that has a launch, the loaded one last. */
static int next_ready(PacedDevice *d) {
        for (int i = 1; i <= CONTEXTS; i++) {
                int k = (d->loaded + i) % CONTEXTS;

                if (is_ready(d->contexts + k, d->ns))
                        return k;
        }
        return -1;
}

static uint64_t next_arrival(PacedDevice *d) {
        uint64_t next = NSEC_INFINITY;

        for (int i = 0; i < CONTEXTS; i++) {
                Context *c = d->contexts + i;

                if (c->n_over < c->n_submitted)
                        next = MIN(next, launch_at(c, c->n_over)->ready_ns);
        }
        return next;
}

/* The loaded context runs its oldest launch until `until`. */
static void run(PacedDevice *d, Context *c, uint64_t until) {
        Launch *l = launch_at(c, c->n_over);

        if (!c->begun) {
                c->begun = true;
                c->left_ns = l->length_ns;
                l->span.begin_ns = d->ns;
        }
        uint64_t ran = MIN(c->left_ns, until - d->ns);
        c->left_ns -= ran;
        d->ns += ran;
        if (c->left_ns > 0)
                return;
        l->span.end_ns = d->ns;
        c->begun = false;
        c->n_over++;
        if (l->length_ns > 0)
                d->ns += PACED_NEXT_NS;
}

static void advance(PacedDevice *d, uint64_t now) {
        while (d->ns < now) {
                Context *c = d->loaded >= 0 ? d->contexts + d->loaded : NULL;

                if (c && is_ready(c, d->ns) && d->ns < d->slice_end_ns) {
                        run(d, c, MIN(now, d->slice_end_ns));
                        continue;
                }
                int next = next_ready(d);
                if (next < 0) {
                        d->ns = MIN(now, next_arrival(d));
                        continue;
                }
                if (next != d->loaded)
                        d->ns += PACED_SWITCH_NS;
                d->loaded = next;
                d->slice_end_ns = d->ns + PACED_SLICE_NS;
        }
}

/* --- shared memory --- */

static void make(PacedDevice *d) {
        pthread_mutexattr_t shared;

        (void) pthread_mutexattr_init(&shared);
        (void) pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        (void) pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
        (void) pthread_mutex_init(&d->lock, &shared);
        (void) pthread_mutexattr_destroy(&shared);
        d->loaded = -1;
        d->ns = now_ns();
        d->made = true;
}

PacedDevice *paced_open(const char *path) {
        int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : memfd_create("paced", MFD_CLOEXEC);
        PacedDevice *d = MAP_FAILED;

        if (fd < 0)
                return NULL;
        if (flock(fd, LOCK_EX) == 0 && ftruncate(fd, sizeof(PacedDevice)) == 0)
                d = mmap(NULL, sizeof(PacedDevice), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (d != MAP_FAILED && !d->made)
                make(d);
        (void) flock(fd, LOCK_UN); /* the map would keep it */
        (void) close(fd);
        return d != MAP_FAILED ? d : NULL;
}

/* A process that was killed left nothing half done that is worse than a launch of a wrong length. */
static void lock(PacedDevice *d) {
        if (pthread_mutex_lock(&d->lock) == EOWNERDEAD)
                (void) pthread_mutex_consistent(&d->lock);
        advance(d, now_ns());
}

static void unlock(PacedDevice *d) {
        (void) pthread_mutex_unlock(&d->lock);
}

int paced_context_new(PacedDevice *d) {
        int found = -1;

        lock(d);
        for (int i = 0; i < CONTEXTS && found < 0; i++) {
                Context *c = d->contexts + i;

                if (c->pid != 0 && (kill(c->pid, 0) == 0 || errno != ESRCH))
                        continue;
                c->pid = getpid();
                c->n_submitted = c->n_over = c->n_taken = 0;
                c->begun = false;
                found = i;
        }
        unlock(d);
        return found;
}

int64_t paced_submit(PacedDevice *d, int context, uint64_t length_ns) {
        Context *c = d->contexts + context;
        int64_t number = -1;

        lock(d);
        if (c->n_submitted - c->n_taken < LAUNCHES) {
                uint64_t before = c->n_submitted > 0 ? launch_at(c, c->n_submitted - 1)->sum_ns : 0;

                number = (int64_t) c->n_submitted++;
                *launch_at(c, (uint64_t) number) = (Launch){
                                .ready_ns = now_ns() + PACED_READY_NS,
                                .length_ns = length_ns,
                                .sum_ns = before + length_ns,
                };
        }
        unlock(d);
        return number;
}

bool paced_take(PacedDevice *d, int context, PacedSpan *ret) {
        Context *c = d->contexts + context;
        bool taken = false;

        lock(d);
        if (c->n_taken < c->n_over && launch_at(c, c->n_taken)->span.end_ns + PACED_DONE_NS <= now_ns()) {
                *ret = launch_at(c, c->n_taken++)->span;
                taken = true;
        }
        unlock(d);
        return taken;
}

/* The time that the loaded context keeps the device at least, if it has launches, and so another one waits for it. */
static uint64_t loaded_until(PacedDevice *d) {
        Context *c = d->loaded >= 0 ? d->contexts + d->loaded : NULL;

        if (!c || !is_ready(c, d->ns))
                return d->ns;
        uint64_t left = c->begun ? c->left_ns : launch_at(c, c->n_over)->length_ns;
        left += launch_at(c, c->n_submitted - 1)->sum_ns - launch_at(c, c->n_over)->sum_ns;
        uint64_t slice_end = MAX(d->slice_end_ns, d->ns);
        return MIN(d->ns + left, slice_end);
}

uint64_t paced_due(PacedDevice *d, int context, uint64_t number) {
        Context *c = d->contexts + context;
        uint64_t due;

        lock(d);
        if (number < c->n_over)
                due = launch_at(c, number)->span.end_ns;
        else {
                Launch *oldest = launch_at(c, c->n_over);
                uint64_t left = c->begun ? c->left_ns : oldest->length_ns;

                left += launch_at(c, number)->sum_ns - oldest->sum_ns;
                due = d->loaded == context ? d->ns : loaded_until(d) + PACED_SWITCH_NS;
                due = MAX(due, c->begun ? due : oldest->ready_ns) + left;
        }
        unlock(d);
        return due + PACED_DONE_NS;
}
