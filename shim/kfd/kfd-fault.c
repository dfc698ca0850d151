/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * GPUs that do nothing for this process any more: see kfd-fault.h
 *
 * A runtime has one event of each type. The lists of its events and of GPUs are words that any thread may read and
 * write. An entry that finds no room is left out: then launches in flight count as under way until the process ends.
 */

#include "shim/kfd/kfd-fault.h"

#include <stdatomic.h>
#include <string.h>

#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "hal/kfd-topology.h"

#define EVENTS_MAX 8U
#define GPUS_MAX   64U
#define AT_ONCE    16U

static _Atomic uint32_t memory_events[EVENTS_MAX], reset_events[EVENTS_MAX]; /* ids; 0: none */
static _Atomic uint32_t faulted[GPUS_MAX];                                   /* ids of GPUs, without gaps */
static _Atomic bool was_reset;                                               /* some GPU */

/* Under the lock. */
static struct {
        unsigned context;
        uint32_t id; /* 0: none */
} own[EVENTS_MAX];

static bool list_has(const _Atomic uint32_t *list, size_t n, uint32_t id) {
        for (size_t i = 0; i < n; i++)
                if (atomic_load(list + i) == id)
                        return true;
        return false;
}

/* Returns whether the first free place was found for it. */
static bool list_add(_Atomic uint32_t *list, size_t n, uint32_t id) {
        for (size_t i = 0; i < n; i++) {
                uint32_t none = 0;
                if (atomic_compare_exchange_strong(list + i, &none, id))
                        return true;
                if (none == id)
                        return false;
        }
        return false;
}

static void list_remove(_Atomic uint32_t *list, size_t n, uint32_t id) {
        for (size_t i = 0; i < n; i++) {
                uint32_t found = id;
                (void) atomic_compare_exchange_strong(list + i, &found, 0);
        }
}

void kfd_fault_note_event(const void *arg, size_t size) {
        KfdCreateEvent a;

        if (size != sizeof(a) || !arguments_read(&a, arg, sizeof(a)))
                return;
        if (a.event_type == KFD_EVENT_MEMORY)
                (void) list_add(memory_events, EVENTS_MAX, a.event_id);
        else if (a.event_type == KFD_EVENT_HW_EXCEPTION)
                (void) list_add(reset_events, EVENTS_MAX, a.event_id);
}

void kfd_fault_forget_event(const void *arg, size_t size) {
        KfdEventId a;

        if (size != sizeof(a) || !arguments_read(&a, arg, sizeof(a)) || a.event_id == 0)
                return;
        list_remove(memory_events, EVENTS_MAX, a.event_id);
        list_remove(reset_events, EVENTS_MAX, a.event_id);
}

/* Callers clear what the kernel only writes for events that have happened, so that they can tell themselves. */
static bool look_at(const KfdEventData *d, uint32_t n) {
        bool new = false;

        for (uint32_t i = 0; i < n; i++) {
                if (d[i].event_id == 0)
                        continue;
                if (list_has(memory_events, EVENTS_MAX, d[i].event_id))
                        new |= d[i].memory.gpu_id != 0 && list_add(faulted, GPUS_MAX, d[i].memory.gpu_id);
                else if (list_has(reset_events, EVENTS_MAX, d[i].event_id))
                        new |= d[i].hw.gpu_id != 0 && !atomic_exchange(&was_reset, true);
        }
        return new;
}

static bool any_event(void) {
        uint32_t any = 0;

        for (size_t i = 0; i < EVENTS_MAX; i++)
                any |= atomic_load_explicit(memory_events + i, memory_order_relaxed) |
                                atomic_load_explicit(reset_events + i, memory_order_relaxed);
        return any != 0;
}

bool kfd_fault_look(const void *arg, size_t size) {
        KfdEventData data[AT_ONCE];
        KfdWaitEvents a;
        bool new = false;

        if (!any_event() || size != sizeof(a) || !arguments_read(&a, arg, sizeof(a)) ||
                        a.wait_result != KFD_WAIT_COMPLETE)
                return false;
        for (uint32_t i = 0; i < a.num_events; i += AT_ONCE) {
                uint32_t n = MIN(a.num_events - i, AT_ONCE);
                const KfdEventData *from = (const KfdEventData *) (uintptr_t) a.events_ptr + i;
                if (!arguments_read(data, from, n * sizeof(*data)))
                        break;
                new |= look_at(data, n);
        }
        return new;
}

/* The driver may be told to end a process that does not wait for an exception, and then it must find none that does. */
void kfd_fault_begin(KfdContextCall *call, unsigned context) {
        KfdCreateEvent a = {.event_type = KFD_EVENT_HW_EXCEPTION};
        size_t room = EVENTS_MAX;

        for (size_t i = 0; i < EVENTS_MAX; i++)
                if (own[i].id == 0)
                        room = i;
                else if (own[i].context == context)
                        return;
        if (room == EVENTS_MAX || kfd_sends_sigterm() != 0 || call((int) context, KFD_IOC_CREATE_EVENT, &a) < 0)
                return;
        own[room].context = context;
        own[room].id = a.event_id;
}

void kfd_fault_end(KfdContextCall *call, unsigned context) {
        for (size_t i = 0; i < EVENTS_MAX; i++) {
                KfdEventId a = {.event_id = own[i].id};
                if (own[i].id == 0 || own[i].context != context)
                        continue;
                (void) call((int) context, KFD_IOC_DESTROY_EVENT, &a);
                own[i].id = 0;
        }
}

void kfd_fault_ask(KfdContextCall *call) {
        for (size_t i = 0; i < EVENTS_MAX; i++) {
                KfdEventData d = {.event_id = own[i].id};
                KfdWaitEvents a = {.events_ptr = (uintptr_t) &d, .num_events = 1};
                if (own[i].id != 0 && call((int) own[i].context, KFD_IOC_WAIT_EVENTS, &a) >= 0 &&
                                a.wait_result == KFD_WAIT_COMPLETE && d.hw.gpu_id != 0)
                        atomic_store(&was_reset, true);
        }
}

bool kfd_gpu_has_faulted(uint32_t gpu_id) {
        if (unlikely(atomic_load_explicit(&was_reset, memory_order_relaxed)))
                return true;
        return atomic_load_explicit(faulted, memory_order_relaxed) != 0 && list_has(faulted, GPUS_MAX, gpu_id);
}

/* The child has a process of its own at the driver. */
void kfd_fault_after_fork(void) {
        for (size_t i = 0; i < EVENTS_MAX; i++) {
                atomic_store(memory_events + i, 0);
                atomic_store(reset_events + i, 0);
        }
        for (size_t i = 0; i < GPUS_MAX; i++)
                atomic_store(faulted + i, 0);
        atomic_store(&was_reset, false);
        memset(own, 0, sizeof(own));
}
