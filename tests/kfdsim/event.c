/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Events of the simulated driver: how a runtime sleeps until a signal changes
 *
 * They belong to the process, so they live in its memory: a table and one lock. As in the driver, a call that waits has
 * a waiter on each of its events, where the event is noted. So an event that resets itself wakes all threads that wait
 * for it, and not only the first to look; a thread that waits for several events need not find all of them raised at
 * the same time; and no thread waits for an event that is destroyed.
 *
 * All threads sleep on one word, which changes whenever a waiter does. It is read under the lock, so no change is
 * missed. A signal handler does not end a wait, as with SA_RESTART.
 */

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "abi.h"
#include "kfdsim.h"
#include "sim.h"

typedef struct Event Event;

typedef struct Waiter {
        struct Waiter *next; /* of the same event, as long as nothing has happened to it */
        Event *event;        /* NULL: destroyed */
        bool activated;
        bool by_age; /* wants to know the event's age */
} Waiter;

struct Event {
        bool used, auto_reset, signaled;
        uint32_t type;
        uint64_t age; /* how often it was raised; 0 means nothing */
        KfdMemoryFault fault;
        KfdHwException exception;
        Waiter *waiters;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t changes;
static Event events[KFD_EVENTS_MAX];

void sim_event_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
        memset(events, 0, sizeof(events));
}

static Event *event_find(uint32_t id) {
        return id < ELEMENTSOF(events) && events[id].used ? events + id : NULL;
}

static void event_wake(Event *e) {
        e->waiters = NULL;
        atomic_fetch_add(&changes, 1);
        (void) syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void event_raise(Event *e) {
        e->signaled = !e->auto_reset || !e->waiters;
        if (++e->age == 0)
                e->age = 2; /* 0 and 1 are no ages of events that were raised */
        for (Waiter *w = e->waiters; w; w = w->next)
                w->activated = true;
        event_wake(e);
}

void sim_event_raise(uint32_t id) {
        (void) pthread_mutex_lock(&lock);
        Event *e = event_find(id);
        if (e)
                event_raise(e);
        (void) pthread_mutex_unlock(&lock);
}

void sim_event_fault(const KfdMemoryFault *fault) {
        (void) pthread_mutex_lock(&lock);
        for (size_t i = 1; i < ELEMENTSOF(events); i++)
                if (events[i].used && events[i].type == KFD_EVENT_MEMORY) {
                        events[i].fault = *fault;
                        event_raise(events + i);
                }
        (void) pthread_mutex_unlock(&lock);
}

void sim_event_reset(const KfdHwException *e) {
        (void) pthread_mutex_lock(&lock);
        for (size_t i = 1; i < ELEMENTSOF(events); i++)
                if (events[i].used && events[i].type == KFD_EVENT_HW_EXCEPTION) {
                        events[i].exception = *e;
                        event_raise(events + i);
                }
        (void) pthread_mutex_unlock(&lock);
}

_public_
unsigned kfdsim_events(uint32_t type) {
        unsigned n = 0;

        (void) pthread_mutex_lock(&lock);
        for (size_t i = 1; i < ELEMENTSOF(events); i++)
                n += events[i].used && events[i].type == type;
        (void) pthread_mutex_unlock(&lock);
        return n;
}

static bool is_signal(uint32_t type) {
        return type == KFD_EVENT_SIGNAL || type == KFD_EVENT_DEBUG;
}

/* The answer to each signal says where the page of slots is. A runtime does not use the slot of a signal whose answer
 * did not say it, and then no thread is woken. */
static int event_create(KfdCreateEvent *a) {
        for (uint32_t i = 1; i < ELEMENTSOF(events); i++)
                if (!events[i].used) {
                        events[i] = (Event){.used = true, .auto_reset = a->auto_reset, .type = a->event_type, .age = 1};
                        a->event_id = a->event_trigger_data = i;
                        if (is_signal(a->event_type)) {
                                a->event_page_offset = KFD_MMAP_EVENTS;
                                a->event_slot_index = i;
                        }
                        return 0;
                }
        return -ENOSPC;
}

static int event_destroy(uint32_t id) {
        Event *e = event_find(id);

        if (!e)
                return -EINVAL;
        e->used = false;
        for (Waiter *w = e->waiters; w; w = w->next)
                w->event = NULL;
        event_wake(e);
        return 0;
}

static int event_set(uint32_t id, bool signaled) {
        Event *e = event_find(id);

        if (!e || e->type != KFD_EVENT_SIGNAL)
                return -EINVAL;
        if (signaled)
                event_raise(e);
        else
                e->signaled = false;
        return 0;
}

/* --- waiting --- */

static int waiter_init(Waiter *w, const KfdEventData *d) {
        Event *e = event_find(d->event_id);

        if (!e)
                return -EINVAL;
        w->event = e;
        w->activated = e->signaled;
        e->signaled &= !e->auto_reset;
        if (e->type == KFD_EVENT_SIGNAL && d->last_event_age != 0) {
                w->by_age = true;
                w->activated |= e->age != d->last_event_age;
        }
        if (!w->activated) {
                w->next = e->waiters;
                e->waiters = w;
        }
        return 0;
}

static void waiter_done(Waiter *w) {
        if (!w->event)
                return;
        for (Waiter **p = &w->event->waiters; *p; p = &(*p)->next)
                if (*p == w) {
                        *p = w->next;
                        return;
                }
}

static uint32_t waiters_result(const Waiter *w, uint32_t n, bool all) {
        uint32_t n_activated = 0;

        for (uint32_t i = 0; i < n; i++) {
                if (!w[i].event)
                        return KFD_WAIT_FAIL;
                n_activated += w[i].activated;
        }
        return (all ? n_activated == n : n_activated > 0) ? KFD_WAIT_COMPLETE : KFD_WAIT_TIMEOUT;
}

static uint32_t waiters_wait(const Waiter *w, uint32_t n, bool all, uint64_t until) {
        struct timespec ts = ns_to_timespec(until);
        uint32_t result;

        while ((result = waiters_result(w, n, all)) == KFD_WAIT_TIMEOUT && now_ns() < until) {
                uint32_t seen = atomic_load(&changes);
                (void) pthread_mutex_unlock(&lock);
                (void) syscall(SYS_futex, &changes, FUTEX_WAIT_BITSET_PRIVATE, seen,
                                until == NSEC_INFINITY ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
                (void) pthread_mutex_lock(&lock);
        }
        return result;
}

/* Tells the ages of the events that have come, to callers that know of ages, and what has faulted. */
static int waiters_tell(const Waiter *w, KfdEventData *data, const KfdWaitEvents *a) {
        for (uint32_t i = 0; i < a->num_events; i++)
                if (w[i].activated && w[i].by_age)
                        data[i].last_event_age = w[i].event->age;
                else if (w[i].activated && w[i].event->type == KFD_EVENT_MEMORY)
                        data[i].memory = w[i].event->fault;
                else if (w[i].activated && w[i].event->type == KFD_EVENT_HW_EXCEPTION)
                        data[i].hw = w[i].event->exception;
        return sim_copy_out(a->events_ptr, data, a->num_events * sizeof(*data));
}

static int events_wait(KfdWaitEvents *a) {
        if (a->num_events > KFD_EVENTS_MAX)
                return -ENOMEM;
        _cleanup_free_ KfdEventData *data = calloc(MAX(a->num_events, 1U), sizeof(*data));
        _cleanup_free_ Waiter *waiters = calloc(MAX(a->num_events, 1U), sizeof(*waiters));
        uint64_t until = a->timeout == UINT32_MAX ? NSEC_INFINITY : now_ns() + a->timeout * NSEC_PER_MSEC;
        int r = 0;

        if (!data || !waiters)
                return -ENOMEM;
        if (sim_copy_in(data, a->events_ptr, a->num_events * sizeof(*data)) < 0)
                return -EFAULT;
        for (uint32_t i = 0; i < a->num_events && r >= 0; i++)
                r = waiter_init(waiters + i, data + i);
        a->wait_result = KFD_WAIT_FAIL;
        if (r >= 0)
                a->wait_result = waiters_wait(waiters, a->num_events, a->wait_for_all, until);
        for (uint32_t i = 0; i < a->num_events; i++)
                waiter_done(waiters + i);
        if (r < 0)
                return r;
        if (a->wait_result == KFD_WAIT_FAIL)
                return -EIO;
        return a->wait_result == KFD_WAIT_COMPLETE ? waiters_tell(waiters, data, a) : 0;
}

int sim_event_ioctl(SimProcess *p, KfdNr nr, void *arg) {
        int r;

        (void) pthread_mutex_lock(&lock);
        switch (nr) {
        case KFD_NR_CREATE_EVENT:
                r = event_create(arg);
                break;
        case KFD_NR_DESTROY_EVENT:
                r = event_destroy(((KfdEventId *) arg)->event_id);
                break;
        case KFD_NR_SET_EVENT:
                r = event_set(((KfdEventId *) arg)->event_id, true);
                break;
        case KFD_NR_RESET_EVENT:
                r = event_set(((KfdEventId *) arg)->event_id, false);
                break;
        default:
                r = events_wait(arg);
        }
        (void) pthread_mutex_unlock(&lock);
        return r;
}
