/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The library's objects: handles, references, the lock, forks
 */

#include "shim/compat/compat.h"
#include "common/thread-util.h"
#include "shim/compat/scheduler.h"
#include "shim/compat/side.h"

_Thread_local XQueue *compat_launching;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HwQueue *hwqs;
static XQueue *xqs;
static Command *commands;

/* Handles are never used twice, except those of runtimes. */
static uint64_t last_xq, last_command;

/* The newest commands that were destroyed, or launched past every XQueue. */
static HwCommandHandle unsubmitted[UNSUBMITTED_MAX];
static size_t n_unsubmitted;

/* Forgets the parent's objects without freeing them: threads that do not exist in the child may have been changing
 * them. */
static void fork_child(void) {
        lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        hwqs = NULL;
        xqs = NULL;
        commands = NULL;
        compat_launching = NULL;
        scheduler_forget();
        side_forget_all();
}

__attribute__((constructor)) static void watch_forks(void) {
        PROTECT_ERRNO;
        (void) thread_atfork(NULL, NULL, fork_child);
}

void compat_lock(void) {
        (void) pthread_mutex_lock(&lock);
}

void compat_unlock(void) {
        (void) pthread_mutex_unlock(&lock);
}

void compat_sleep(pthread_cond_t *cond) {
        (void) pthread_cond_wait(cond, &lock);
}

XResult compat_error(int r) {
        switch (r) {
        case 0:
                return kXSchedSuccess;
        case -EINVAL:
                return kXSchedErrorInvalidValue;
        case -ENOENT:
                return kXSchedErrorNotFound;
        case -ENOSPC:
        case -EBUSY:
                return kXSchedErrorNotAllowed;
        case -EOPNOTSUPP:
                return kXSchedErrorNotSupported;
        default:
                return kXSchedErrorHardware;
        }
}

HwQueue *compat_find_hwq(HwQueueHandle handle) {
        HwQueue *h;

        HASH_FIND(hh, hwqs, &handle, sizeof(handle), h);
        return h;
}

XQueue *compat_find(XQueueHandle handle) {
        XQueue *x;

        HASH_FIND(hh, xqs, &handle, sizeof(handle), x);
        return x;
}

XQueue *compat_all(void) {
        return xqs;
}

Command *compat_find_command(HwCommandHandle handle) {
        Command *c;

        HASH_FIND(hh, commands, &handle, sizeof(handle), c);
        return c;
}

bool compat_was_command(HwCommandHandle handle) {
        for (size_t i = 0; i < ELEMENTSOF(unsubmitted); i++)
                if (unsubmitted[i] == handle)
                        return false;
        return handle > 0 && handle <= last_command;
}

void compat_note_unsubmitted(HwCommandHandle handle) {
        unsubmitted[n_unsubmitted++ % ELEMENTSOF(unsubmitted)] = handle;
}

/* uthash leaves tbl NULL when it had no memory. */
int compat_add_hwq(HwQueue *h) {
        HASH_ADD(hh, hwqs, handle, sizeof(h->handle), h);
        if (!h->hh.tbl)
                return -ENOMEM;
        h->refs++;
        return 0;
}

void compat_remove_hwq(HwQueue *h) {
        HASH_DELETE(hh, hwqs, h);
        h->refs--; /* the caller has a reference of its own */
}

int compat_add(XQueue *x) {
        x->handle = ++last_xq;
        HASH_ADD(hh, xqs, handle, sizeof(x->handle), x);
        if (!x->hh.tbl)
                return -ENOMEM;
        x->refs++;
        return 0;
}

void compat_remove(XQueue *x) {
        HASH_DELETE(hh, xqs, x);
        x->refs--;
}

int compat_add_command(Command *c) {
        c->handle = ++last_command;
        HASH_ADD(hh, commands, handle, sizeof(c->handle), c);
        return c->hh.tbl ? 0 : -ENOMEM;
}

void compat_remove_command(Command *c) {
        HASH_DELETE(hh, commands, c);
}

void compat_unref_hwq(HwQueue *h) {
        bool last;
        {
                COMPAT_LOCKED;
                last = --h->refs == 0;
        }
        if (!last)
                return;
        if (h->platform->close)
                h->platform->close(h);
        (void) pthread_cond_destroy(&h->left);
        free(h);
}

void compat_unref(XQueue *x) {
        bool last;
        {
                COMPAT_LOCKED;
                last = --x->refs == 0;
        }
        if (!last)
                return;
        compat_free(x);
}

void compat_free(XQueue *x) {
        if (x->side)
                side_release(x->side);
        (void) pthread_cond_destroy(&x->work);
        (void) pthread_cond_destroy(&x->done);
        (void) xsched_queue_unref(x->queue);
        compat_unref_hwq(x->hwq);
        free(x);
}

XQueue *compat_get(XQueueHandle handle) {
        COMPAT_LOCKED;
        XQueue *x = compat_find(handle);
        if (x)
                x->refs++;
        return x;
}

HwQueue *compat_get_hwq(HwQueueHandle handle) {
        COMPAT_LOCKED;
        HwQueue *h = compat_find_hwq(handle);
        if (h)
                h->refs++;
        return h;
}

XResult compat_make_hwq(const Platform *p, const void *native, HwQueueHandle *ret) {
        PROTECT_ERRNO;

        if (!native || !ret)
                return kXSchedErrorInvalidValue;
        uint64_t handle = (uint64_t) (uintptr_t) native;
        _cleanup_(compat_unref_hwqp)
        HwQueue *known = compat_get_hwq(handle);
        if (known) {
                *ret = handle;
                return kXSchedSuccess;
        }

        HwQueue *h = calloc(1, sizeof(HwQueue));
        if (!h)
                return kXSchedErrorHardware;
        *h = (HwQueue){.handle = handle, .platform = p, .refs = 1, .left = PTHREAD_COND_INITIALIZER};
        int r = p->open(h, h->device, h->name);
        if (r < 0) {
                free(h);
                return compat_error(r);
        }
        {
                COMPAT_LOCKED;
                bool is_new = !compat_find_hwq(handle); /* false: another thread was faster */
                r = is_new ? compat_add_hwq(h) : 0;
        }
        compat_unref_hwq(h);
        if (r >= 0)
                *ret = handle;
        return compat_error(r);
}
