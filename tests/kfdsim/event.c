/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Events of the simulated driver: how a runtime sleeps until a signal changes
 *
 * They belong to the process, so they live in its memory: a table, one lock, one condition for all waiters.
 */

#include <errno.h>
#include <pthread.h>

#include "abi.h"
#include "sim.h"

typedef struct Event {
        bool used, auto_reset, signaled;
        uint32_t type;
} Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static Event events[KFD_EVENTS_MAX];

static void condition_init(void) {
        pthread_condattr_t a;

        pthread_condattr_init(&a);
        pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &a);
        pthread_condattr_destroy(&a);
}

static void events_lock(void) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void) pthread_once(&once, condition_init);
        (void) pthread_mutex_lock(&lock);
}

void sim_event_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
        condition_init();
        memset(events, 0, sizeof(events));
}

static Event *event_find(uint32_t id) {
        return id < ELEMENTSOF(events) && events[id].used ? events + id : NULL;
}

void sim_event_raise(uint32_t id) {
        events_lock();
        Event *e = event_find(id);
        if (e)
                e->signaled = true;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static int event_create(KfdCreateEvent *a) {
        for (uint32_t i = 1; i < ELEMENTSOF(events); i++)
                if (!events[i].used) {
                        events[i] = (Event){
                                        .used = true, .auto_reset = a->auto_reset, .type = a->event_type};
                        a->event_id = a->event_trigger_data = a->event_slot_index = i;
                        return 0;
                }
        return -ENOSPC;
}

static int event_set(uint32_t id, bool signaled) {
        Event *e = event_find(id);

        if (!e)
                return -EINVAL;
        e->signaled = signaled;
        if (signaled)
                pthread_cond_broadcast(&changed);
        return 0;
}

static int events_wait(KfdWaitEvents *a) {
        _cleanup_free_ KfdEventData *data = calloc(MAX(a->num_events, 1U), sizeof(*data));
        uint64_t until = a->timeout == UINT32_MAX ? NSEC_INFINITY : now_ns() + a->timeout * NSEC_PER_MSEC;

        if (!data || a->num_events > KFD_EVENTS_MAX)
                return -ENOMEM;
        if (sim_copy_in(data, a->events_ptr, a->num_events * sizeof(*data)) < 0)
                return -EFAULT;
        for (;;) {
                uint32_t n = 0;
                for (uint32_t i = 0; i < a->num_events; i++) {
                        const Event *e = event_find(data[i].event_id);
                        if (!e)
                                return -EINVAL;
                        n += e->signaled;
                }
                if (a->wait_for_all ? n == a->num_events : n > 0)
                        break;

                a->wait_result = KFD_WAIT_TIMEOUT;
                if (now_ns() >= until)
                        return 0;
                struct timespec ts =
                                ns_to_timespec(until == NSEC_INFINITY ? now_ns() + NSEC_PER_SEC : until);
                (void) pthread_cond_timedwait(&changed, &lock, &ts);
        }
        for (uint32_t i = 0; i < a->num_events; i++) {
                Event *e = event_find(data[i].event_id);
                if (e && e->auto_reset)
                        e->signaled = false;
        }
        a->wait_result = KFD_WAIT_COMPLETE;
        return 0;
}

int sim_event_ioctl(SimProcess *p, KfdNr nr, void *arg) {
        int r;

        events_lock();
        switch (nr) {
        case KFD_NR_CREATE_EVENT:
                r = event_create(arg);
                break;
        case KFD_NR_DESTROY_EVENT: {
                Event *e = event_find(((KfdEventId *) arg)->event_id);
                r = e ? 0 : -EINVAL;
                if (e)
                        e->used = false;
                break;
        }
        case KFD_NR_SET_EVENT:
                r = event_set(((KfdEventId *) arg)->event_id, true);
                break;
        case KFD_NR_RESET_EVENT:
                r = event_set(((KfdEventId *) arg)->event_id, false);
                break;
        default:
                r = events_wait(arg);
        }
        pthread_mutex_unlock(&lock);
        return r;
}
