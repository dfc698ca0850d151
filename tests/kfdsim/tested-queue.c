/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues of the HSA runtime whose packets are the test's own: see tested-queue.h
 */

#include "tested-queue.h"

#include <dlfcn.h>
#include <limits.h>

#include "hsa-queue.h"
#include "include/xsched/xsched.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)
#define PLACES    64U

FakeScheduler *tested_scheduler;
FakeClient *tested_client;
const AqlKernel tested_good = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 100 * NSEC_PER_USEC};

/* The number at the end of the name of the runtime's file. */
static int runtime_number(void) {
        char path[PATH_MAX];
        Dl_info info;

        CHECK(dladdr((void *) (uintptr_t) hsa_init, &info) != 0);
        CHECK(realpath(info.dli_fname, path));
        const char *number = strstr(path, ".so.1.");
        return number ? atoi(number + strlen(".so.1.")) : 0;
}

bool runtime_is_new(void) {
        return runtime_number() >= 12;
}

static void on_error(int status, void *queue, void *userdata) {
        Tested *t = userdata;

        CHECK(queue == t->queue);
        atomic_store(&t->status, status);
        atomic_fetch_add(&t->n_errors, 1);
}

void tested_dispatch(Tested *t, const AqlKernel *kernel) {
        uint64_t index = hsa_queue_add_write_index_relaxed(t->queue, 1);
        AqlPacket *p = (AqlPacket *) t->queue->base_address + index % t->queue->size;

        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uintptr_t) kernel;
        p->dispatch.kernarg = (uintptr_t) t->proof;
        p->dispatch.reserved2 = index + 1;
        p->completion_signal = 0;
        t->n_dispatched += !kernel->fault;
        __atomic_store_n(&p->header, AQL_DISPATCH, __ATOMIC_RELEASE);
        hsa_signal_store_screlease(t->queue->doorbell_signal, (int64_t) index);
}

bool tested_is_done(const Tested *t) {
        return __atomic_load_n(&t->proof->n_executed, __ATOMIC_ACQUIRE) == t->n_dispatched;
}

PageSlot *tested_slot(uint32_t i) {
        return fake_slot(tested_client->f, i);
}

bool tested_is_idle(const Tested *t) {
        return atomic_load(&tested_slot(t->slot)->outstanding) == 0;
}

unsigned count_queues(bool (*is)(const KfdsimQueue *q)) {
        unsigned n = 0;
        KfdsimQueue q;

        for (uint32_t id = 0; id < TESTED_SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q) && is(&q);
        return n;
}

static bool is_any(const KfdsimQueue *q) {
        return true;
}

bool queue_is_stopped(const KfdsimQueue *q) {
        return q->percentage == 0;
}

static uint64_t n_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c.queues;
}

static uint32_t grown(const uint64_t *before, uint32_t n) {
        uint32_t i = 0;

        while (i < n && atomic_load(&tested_slot(i)->submitted) <= before[i])
                i++;
        return i;
}

void tested_make_alone(Tested *t) {
        *t = (Tested){.proof = calloc(1, sizeof(AqlProof) + PLACES), .slot = TESTED_SLOTS_MAX};
        CHECK(t->proof);
        t->proof->capacity = PLACES;
        t->queue = hsa_queue_make_with(PLACES, on_error, t);
}

void tested_make(Tested *t) {
        uint64_t before[TESTED_SLOTS_MAX];

        tested_make_alone(t);
        /* The runtime may make one of its own, too. */
        CHECK(scheduler_until(tested_scheduler,
                        tested_client->n_queues == count_queues(is_any) && n_registered() == tested_client->n_queues));
        uint32_t n_slots = tested_client->n_queues + tested_client->n_gone;
        CHECK(n_slots <= TESTED_SLOTS_MAX);
        for (uint32_t i = 0; i < n_slots; i++) {
                (void) page_slot_set_watch(tested_slot(i), WATCH_ALL);
                before[i] = atomic_load(&tested_slot(i)->submitted);
        }
        fake_client_nudge(tested_client);
        tested_dispatch(t, &tested_good);
        CHECK(poll_until(tested_is_done(t)));
        CHECK(scheduler_until(tested_scheduler, (t->slot = grown(before, n_slots)) < n_slots));
        CHECK(poll_until(tested_is_idle(t)));
}

void tested_end(Tested *t) {
        unsigned n = tested_client->n_gone;

        CHECK(hsa_queue_destroy(t->queue) == HSA_STATUS_SUCCESS);
        CHECK(scheduler_until(tested_scheduler, tested_client->n_gone > n));
        free(t->proof);
}

void tested_start(Tested *t, Tested *other) {
        tested_scheduler = fake_scheduler_new(bus.address);
        fake_scheduler_own(tested_scheduler);
        tested_client = tested_scheduler->clients;
        CHECK(hsa_init() == HSA_STATUS_SUCCESS);
        tested_make(t);
        tested_make(other);
}

bool tested_is_applied(const Tested *t) {
        return atomic_load(&tested_slot(t->slot)->applied) == atomic_load(&tested_slot(t->slot)->verdict);
}

void tested_order(const Tested *t, bool held) {
        atomic_store(&tested_slot(t->slot)->level, LEVEL_INTERRUPT);
        if (held)
                fake_hold(tested_client->f, t->slot, NSEC_INFINITY);
        else
                fake_run(tested_client->f, t->slot);
        fake_client_nudge(tested_client);
}

void tested_verdict(const Tested *t, bool held) {
        tested_order(t, held);
        CHECK(poll_until(tested_is_applied(t)));
}
