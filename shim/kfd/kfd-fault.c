/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * GPUs that do nothing for this process any more: see kfd-fault.h
 *
 * A runtime has one event of each type. Both lists are words that any thread may read and write. An entry that finds no
 * room is left out: then launches in flight count as under way until the process ends.
 */

#include "shim/kfd/kfd-fault.h"

#include <stdatomic.h>

#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "hal/kfd-abi.h"

#define EVENTS_MAX 8U
#define GPUS_MAX   64U
#define AT_ONCE    16U

static _Atomic uint32_t events[EVENTS_MAX]; /* ids; 0: none */
static _Atomic uint32_t faulted[GPUS_MAX];  /* ids of GPUs, without gaps */

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

        if (size == sizeof(a) && arguments_read(&a, arg, sizeof(a)) &&
                        (a.event_type == KFD_EVENT_MEMORY || a.event_type == KFD_EVENT_HW_EXCEPTION))
                (void) list_add(events, EVENTS_MAX, a.event_id);
}

void kfd_fault_forget_event(const void *arg, size_t size) {
        KfdEventId a;

        if (size == sizeof(a) && arguments_read(&a, arg, sizeof(a)) && a.event_id != 0)
                list_remove(events, EVENTS_MAX, a.event_id);
}

/* Callers clear what the kernel only writes for events that have happened, so that they can tell themselves. */
static bool look_at(const KfdEventData *d, uint32_t n) {
        bool new = false;

        for (uint32_t i = 0; i < n; i++) {
                if (d[i].event_id == 0 || !list_has(events, EVENTS_MAX, d[i].event_id))
                        continue;
                /* Both types end with the GPU's number, at places of their own. */
                uint32_t gpu_id = d[i].memory.gpu_id ?: d[i].hw.gpu_id;
                new |= gpu_id != 0 && list_add(faulted, GPUS_MAX, gpu_id);
        }
        return new;
}

static bool any_event(void) {
        for (size_t i = 0; i < EVENTS_MAX; i++)
                if (atomic_load_explicit(events + i, memory_order_relaxed) != 0)
                        return true;
        return false;
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

bool kfd_gpu_has_faulted(uint32_t gpu_id) {
        return atomic_load_explicit(faulted, memory_order_relaxed) != 0 && list_has(faulted, GPUS_MAX, gpu_id);
}

/* The child has a process of its own at the driver. */
void kfd_fault_after_fork(void) {
        for (size_t i = 0; i < EVENTS_MAX; i++)
                atomic_store(events + i, 0);
        for (size_t i = 0; i < GPUS_MAX; i++)
                atomic_store(faulted + i, 0);
}
