/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about events, on which a runtime that waits for a signal relies
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/kfdsim/kfd-cases.h"
#include "tests/lib/deadline.h"

static int events(int fd) {
        KfdCreateEvent e = {.auto_reset = 1};
        int r = expect("CREATE_EVENT", KFD_CALL(fd, KFD_NR_CREATE_EVENT, e), 0);
        KfdEventId id = {.event_id = e.event_id}, none = {.event_id = KFD_EVENTS_MAX};
        KfdEventData data = {.event_id = e.event_id}, no_data = {.event_id = KFD_EVENTS_MAX};
        KfdWaitEvents w = {.events_ptr = (uint64_t) (uintptr_t) &data, .num_events = 1};
        KfdWaitEvents bad = {.events_ptr = (uint64_t) (uintptr_t) &no_data, .num_events = 1};
        KfdWaitEvents nowhere = {.num_events = 1};

        r = r ?: expect("WAIT_EVENTS, not set", KFD_CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has timed out", (int) w.wait_result, KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT", KFD_CALL(fd, KFD_NR_SET_EVENT, id), 0);
        r = r ?: expect("WAIT_EVENTS, set", KFD_CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has completed", (int) w.wait_result, KFD_WAIT_COMPLETE);
        r = r ?: expect("WAIT_EVENTS, reset by itself", KFD_CALL(fd, KFD_NR_WAIT_EVENTS, w), 0);
        r = r ?: expect("has timed out", (int) w.wait_result, KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT of none", KFD_CALL(fd, KFD_NR_SET_EVENT, none), -EINVAL);
        r = r ?: expect("RESET_EVENT of none", KFD_CALL(fd, KFD_NR_RESET_EVENT, none), -EINVAL);
        r = r ?: expect("DESTROY_EVENT of none", KFD_CALL(fd, KFD_NR_DESTROY_EVENT, none), -EINVAL);
        r = r ?: expect("WAIT_EVENTS for none", KFD_CALL(fd, KFD_NR_WAIT_EVENTS, bad), -EINVAL);
        r = r ?: expect("WAIT_EVENTS with events from nowhere", KFD_CALL(fd, KFD_NR_WAIT_EVENTS, nowhere), -EFAULT);
        r = r ?: expect("DESTROY_EVENT", KFD_CALL(fd, KFD_NR_DESTROY_EVENT, id), 0);
        return r ?: expect("DESTROY_EVENT again", KFD_CALL(fd, KFD_NR_DESTROY_EVENT, id), -EINVAL);
}

static int case_events(void) {
        return with_kfd(events);
}

/* --- events: what is known of one, and what a wait makes of several --- */

static int event_new(int fd, uint32_t type, KfdCreateEvent *ret) {
        *ret = (KfdCreateEvent){.event_type = type, .auto_reset = 1};
        return expect("CREATE_EVENT", KFD_CALL(fd, KFD_NR_CREATE_EVENT, *ret), 0);
}

static int event_set(int fd, const KfdCreateEvent *e) {
        KfdEventId id = {.event_id = e->event_id};
        return KFD_CALL(fd, KFD_NR_SET_EVENT, id);
}

/* The result of the wait, or the ioctl's error. */
static int events_wait(int fd, KfdEventData *data, uint32_t n, bool all, uint32_t timeout_ms) {
        KfdWaitEvents w = {.events_ptr = (uint64_t) (uintptr_t) data,
                        .num_events = n,
                        .wait_for_all = all,
                        .timeout = timeout_ms};
        int r = KFD_CALL(fd, KFD_NR_WAIT_EVENTS, w);
        return r < 0 ? r : (int) w.wait_result;
}

static int event_wait(int fd, const KfdCreateEvent *e, uint32_t timeout_ms) {
        return events_wait(fd, &(KfdEventData){.event_id = e->event_id}, 1, false, timeout_ms);
}

/* A runtime that gets no page for an event assumes that the GPU cannot wake a thread by it. */
static int event_slots(int fd) {
        KfdCreateEvent e;
        int r = 0;

        for (int i = 0; i < 3 && r == 0; i++)
                r = event_new(fd, KFD_EVENT_SIGNAL, &e)
                                ?: expect("the page of slots", e.event_page_offset == KFD_MMAP_EVENTS, 1)
                                ?: expect("slot", (int) e.event_slot_index, (int) e.event_id);
        r = r ?: event_new(fd, KFD_EVENT_MEMORY, &e) ?: expect("no page", e.event_page_offset != 0, 0);
        return r ?: expect("SET_EVENT of what only the driver raises", event_set(fd, &e), -EINVAL);
}

static int case_event_slots(void) {
        return with_kfd(event_slots);
}

static int event_for_all(int fd) {
        KfdCreateEvent a, b;
        int r = event_new(fd, KFD_EVENT_SIGNAL, &a) ?: event_new(fd, KFD_EVENT_SIGNAL, &b);
        KfdEventData both[] = {{.event_id = a.event_id}, {.event_id = b.event_id}};

        r = r ?: expect("SET_EVENT", event_set(fd, &a), 0);
        r = r ?: expect("one of two", events_wait(fd, both, 2, true, 0), KFD_WAIT_TIMEOUT);
        r = r ?: expect("which has reset itself for that", event_wait(fd, &a, 0), KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT", event_set(fd, &a), 0) ?: expect("SET_EVENT", event_set(fd, &b), 0);
        r = r ?: expect("both of two", events_wait(fd, both, 2, true, 0), KFD_WAIT_COMPLETE);
        r = r ?: expect("SET_EVENT", event_set(fd, &b), 0);
        r = r ?: expect("any of two", events_wait(fd, both, 2, false, 0), KFD_WAIT_COMPLETE);
        return r ?: expect("none of two", events_wait(fd, both, 2, false, 0), KFD_WAIT_TIMEOUT);
}

static int case_event_for_all(void) {
        return with_kfd(event_for_all);
}

/* A thread that passes the age that an event had at its last look misses nothing, even if another thread's wait has
 * reset the event. */
static int event_age(int fd) {
        KfdCreateEvent e;
        int r = event_new(fd, KFD_EVENT_SIGNAL, &e);
        KfdEventData d = {.last_event_age = 1, .event_id = e.event_id};

        r = r ?: expect("nothing has happened", events_wait(fd, &d, 1, false, 0), KFD_WAIT_TIMEOUT);
        r = r ?: expect("SET_EVENT", event_set(fd, &e), 0);
        r = r ?: expect("another takes it", event_wait(fd, &e, 0), KFD_WAIT_COMPLETE);
        r = r ?: expect("seen by its age", events_wait(fd, &d, 1, false, 0), KFD_WAIT_COMPLETE);
        r = r ?: expect("which is told", (int) d.last_event_age, 2);
        return r ?: expect("and seen no more", events_wait(fd, &d, 1, false, 0), KFD_WAIT_TIMEOUT);
}

static int case_event_age(void) {
        return with_kfd(event_age);
}

/* --- events that threads wait for --- */

#define WAITERS    3U
#define ATTEMPTS   10
#define PATIENT_MS 10000U

typedef struct EventWaiter {
        pthread_t thread;
        _Atomic pid_t tid;
        int fd;
        KfdCreateEvent event;
        uint32_t timeout_ms;
        _Atomic int result; /* -EINPROGRESS: waits */
} EventWaiter;

static void *waiter_main(void *userdata) {
        EventWaiter *w = userdata;

        atomic_store(&w->tid, gettid());
        atomic_store(&w->result, event_wait(w->fd, &w->event, w->timeout_ms));
        return NULL;
}

static bool waiter_sleeps(const EventWaiter *w) {
        char path[64], text[512], state = 0;

        (void) snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int) atomic_load(&w->tid));
        FILE *f = atomic_load(&w->tid) > 0 ? fopen(path, "re") : NULL;
        if (!f)
                return false;
        const char *s = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
        (void) fclose(f);
        return s && sscanf(s + 1, " %c", &state) == 1 && state == 'S';
}

static void waiters_start(EventWaiter *w, unsigned n, int fd, const KfdCreateEvent *e, uint32_t timeout_ms) {
        for (unsigned i = 0; i < n; i++) {
                w[i] = (EventWaiter){.fd = fd, .event = *e, .timeout_ms = timeout_ms, .result = -EINPROGRESS};
                if (pthread_create(&w[i].thread, NULL, waiter_main, w + i) != 0)
                        abort();
        }
        for (unsigned i = 0; i < n; i++)
                if (!poll_until(waiter_sleeps(w + i)))
                        abort();
}

static bool waiters_are_through(const EventWaiter *w, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                if (atomic_load(&w[i].result) == -EINPROGRESS)
                        return false;
        return true;
}

/* An event that resets itself wakes all threads. A thread that sleeps may not be in the driver yet: then it did not
 * wait when the event was raised, takes the event for itself alone, and all threads begin again. */
static int event_for_many(int fd) {
        EventWaiter w[WAITERS];
        KfdCreateEvent e;
        int r = event_new(fd, KFD_EVENT_SIGNAL, &e);
        bool all = false;

        for (int i = 0; i < ATTEMPTS && !all && r == 0; i++) {
                waiters_start(w, WAITERS, fd, &e, PATIENT_MS / ATTEMPTS);
                r = expect("SET_EVENT", event_set(fd, &e), 0);
                for (unsigned k = 0; k < WAITERS; k++)
                        (void) pthread_join(w[k].thread, NULL);
                all = true;
                for (unsigned k = 0; k < WAITERS; k++)
                        all = all && atomic_load(&w[k].result) == KFD_WAIT_COMPLETE;
        }
        return r ?: expect("all go on", all, true);
}

static int case_event_for_many(void) {
        return with_kfd(event_for_many);
}

/* Destroying an event ends every wait for it. */
static int event_destroyed(int fd) {
        EventWaiter w;
        KfdCreateEvent e;
        int r = event_new(fd, KFD_EVENT_SIGNAL, &e);
        KfdEventId id = {.event_id = e.event_id};

        if (r != 0)
                return r;
        waiters_start(&w, 1, fd, &e, UINT32_MAX);
        r = expect("DESTROY_EVENT", KFD_CALL(fd, KFD_NR_DESTROY_EVENT, id), 0);
        r = r ?: expect("the wait ends", poll_until(waiters_are_through(&w, 1)), true);
        if (r != 0)
                return r;
        (void) pthread_join(w.thread, NULL);
        /* The wait ends with an error, also if it begins after the event was destroyed. */
        return expect("with an error", w.result == -EIO || w.result == -EINVAL, true);
}

static int case_event_destroyed(void) {
        return with_kfd(event_destroyed);
}

/* Timeouts of "for ever", and of the value that a runtime uses for it. */
static int event_for_ever(int fd) {
        static const uint32_t timeouts[] = {UINT32_MAX, UINT32_MAX - 1};
        EventWaiter w;
        KfdCreateEvent e;
        int r = event_new(fd, KFD_EVENT_SIGNAL, &e);

        for (size_t i = 0; i < ELEMENTSOF(timeouts) && r == 0; i++) {
                waiters_start(&w, 1, fd, &e, timeouts[i]);
                r = expect("SET_EVENT", event_set(fd, &e), 0);
                r = r ?: expect("the wait ends", poll_until(waiters_are_through(&w, 1)), true);
                if (r != 0)
                        return r;
                (void) pthread_join(w.thread, NULL);
                r = expect("by the event", atomic_load(&w.result), KFD_WAIT_COMPLETE);
        }
        return r;
}

static int case_event_for_ever(void) {
        return with_kfd(event_for_ever);
}

const Case event_cases[] = {
                {"events", case_events},
                {"event-slots", case_event_slots},
                {"event-for-all", case_event_for_all},
                {"event-age", case_event_age},
                {"event-for-many", case_event_for_many},
                {"event-destroyed", case_event_destroyed},
                {"event-for-ever", case_event_for_ever},
                {NULL, NULL},
};
