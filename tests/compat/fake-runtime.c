/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The runtime
 */

#include <stdio.h>
#include <time.h>

#include "fake-runtime.h"

#define LAUNCHES_MAX 4096U
#define PATIENCE_S   30

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const void *launched[LAUNCHES_MAX];
static size_t n_launched;
static size_t n_finishes;
static bool held;
static HwQueueHandle held_only; /* 0: every queue */
static _Atomic(const char *) next_device;

static int fake_open(HwQueue *h, char *ret_device, char *ret_name) {
        if (streq(next_device, "broken"))
                return -EINVAL;
        (void) snprintf(ret_device, COMPAT_NAME_MAX, "%s", next_device);
        (void) snprintf(ret_name, COMPAT_NAME_MAX, "fake");
        return 0;
}

static int fake_finish(const HwQueue *h) {
        (void) pthread_mutex_lock(&lock);
        n_finishes++;
        (void) pthread_cond_broadcast(&changed);
        while (held && (held_only == 0 || held_only == h->handle))
                (void) pthread_cond_wait(&changed, &lock);
        (void) pthread_mutex_unlock(&lock);
        return 0;
}

static const Platform platform_fake = {
                .backend = "fake",
                .open = fake_open,
                .finish = fake_finish,
};

HwQueueHandle fake_queue(const void *address, const char *device) {
        HwQueueHandle h = 0;

        next_device = device;
        (void) compat_make_hwq(&platform_fake, address, &h);
        return h;
}

static void hold(bool hold, HwQueueHandle only) {
        (void) pthread_mutex_lock(&lock);
        held = hold;
        held_only = only;
        (void) pthread_cond_broadcast(&changed);
        (void) pthread_mutex_unlock(&lock);
}

void fake_hold(bool on) {
        hold(on, 0);
}

void fake_hold_only(HwQueueHandle hwq) {
        hold(true, hwq);
}

XResult fake_launch(HwQueueHandle hwq, void *data) {
        (void) pthread_mutex_lock(&lock);
        if (n_launched < LAUNCHES_MAX)
                launched[n_launched++] = data;
        (void) pthread_cond_broadcast(&changed);
        (void) pthread_mutex_unlock(&lock);
        return kXSchedSuccess;
}

static void await(const size_t *counter, size_t n, const char *what) {
        struct timespec until;
        int r = 0;

        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE_S;
        (void) pthread_mutex_lock(&lock);
        while (*counter < n && r == 0)
                r = pthread_cond_timedwait(&changed, &lock, &until);
        if (*counter < n) {
                fprintf(stderr, "%s %zu does not come: %zu have\n", what, n, *counter);
                abort();
        }
        (void) pthread_mutex_unlock(&lock);
}

const void *fake_launched(size_t n) {
        await(&n_launched, n, "launch");
        return launched[n - 1];
}

void fake_await_finish(size_t n) {
        await(&n_finishes, n, "finish");
}

size_t fake_n_launched(void) {
        (void) pthread_mutex_lock(&lock);
        size_t n = n_launched;
        (void) pthread_mutex_unlock(&lock);
        return n;
}

void fake_forget(void) {
        (void) pthread_mutex_lock(&lock);
        n_launched = 0;
        n_finishes = 0;
        held = false;
        (void) pthread_cond_broadcast(&changed);
        (void) pthread_mutex_unlock(&lock);
}
