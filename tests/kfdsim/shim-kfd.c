/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer in a process with queues: functions that the cases share
 */

#include "shim-kfd.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

FakeScheduler *s;
FakeClient *client;
AqlDevice device;

uint64_t n_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c.queues;
}

void start(unsigned gpu) {
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        client = s->clients;
        CHECK(aql_device_open(gpu, &device) == 0);
}

AqlQueue *bare_queue(void) {
        AqlQueue *q = NULL;
        CHECK(aql_queue_create(&device, &(AqlOptions){}, &q) == 0);
        return q;
}

AqlQueue *queue(void) {
        uint64_t before = n_registered();
        AqlQueue *q = bare_queue();

        CHECK(scheduler_until(s, n_registered() == before + 1));
        return q;
}

void dispatch(AqlQueue *q, unsigned n, uint64_t duration_ns) {
        for (unsigned i = 0; i < n; i++)
                CHECK(aql_dispatch(q, duration_ns, NULL) == 0);
        aql_ring(q);
}

void finish(AqlQueue *q) {
        CHECK(aql_queue_wait(q, now_ns() + TEST_DEADLINE_NS) == 0);
        AqlReport r = aql_queue_report(q);
        CHECK(aql_report_is_clean(&r));
}

void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) nanosleep(&ts, NULL);
}

bool stands_still(const AqlQueue *q) {
        uint64_t before = aql_queue_executed(q);

        nap(100 * SHORT_NS);
        return aql_queue_executed(q) == before;
}

/* --- verdicts --- */

bool is_applied(uint32_t slot) {
        PageSlot *p = fake_slot(client->f, slot);
        return atomic_load(&p->applied) == atomic_load(&p->verdict);
}

void hold(uint32_t slot, uint64_t lease_ns) {
        atomic_store(&fake_slot(client->f, slot)->level, LEVEL_INTERRUPT);
        fake_hold(client->f, slot, lease_ns);
        fake_client_nudge(client);
}

void hold_all(uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        for (uint32_t i = 0; i < n; i++)
                CHECK(poll_until(is_applied(i)));
}

void run_all(uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                fake_run(client->f, i);
        fake_client_nudge(client);
}

void fail_updates(const char *error, int count, int skip, const char *how) {
        char text[64];

        (void) snprintf(text, sizeof(text), "%d:%s:%d:%d%s", KFD_NR_UPDATE_QUEUE, error, count, skip, how);
        CHECK(kfdsim_fail(text) == 0);
}

/* --- a program's own ioctls --- */

Raw raw_new(int fd) {
        Raw r = {.fd = fd};

        CHECK(r.fd >= 0);
        r.memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(r.memory != MAP_FAILED);
        return r;
}

Raw raw_open(void) {
        return raw_new(open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC));
}

int raw_create(const Raw *r, uint32_t type, size_t size, KfdCreateQueue *ret) {
        *ret = (KfdCreateQueue){
                        .ring_base_address = (uintptr_t) r->memory,
                        .ring_size = 4096,
                        .write_pointer_address = (uintptr_t) r->memory + 8192,
                        .read_pointer_address = (uintptr_t) r->memory + 8192 + 128,
                        .gpu_id = device.gpu_id,
                        .queue_type = type,
                        .queue_percentage = 70,
                        .queue_priority = 7,
                        .ctx_save_restore_address = (uintptr_t) r->memory + 16384,
                        .ctx_save_restore_size = 4096,
        };
        return ioctl(r->fd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, size), ret);
}

int raw_update(int fd, const KfdCreateQueue *q, uint32_t percentage, uint32_t priority) {
        KfdUpdateQueue u = {
                        .ring_base_address = q->ring_base_address,
                        .queue_id = q->queue_id,
                        .ring_size = q->ring_size,
                        .queue_percentage = percentage,
                        .queue_priority = priority,
        };
        return ioctl(fd, KFD_IOC_UPDATE_QUEUE, &u);
}

int raw_destroy(const Raw *r, uint32_t id) {
        KfdDestroyQueue a = {.queue_id = id};
        return ioctl(r->fd, KFD_IOC_DESTROY_QUEUE, &a);
}

/* --- a runtime that is played --- */

#define QUEUE_OFFSET  8192U
#define SIGNAL_OFFSET 12288U

View view_new(const Raw *r) {
        View v = {
                        .queue = (AmdQueue *) (r->memory + QUEUE_OFFSET),
                        .signal = (AmdSignal *) (r->memory + SIGNAL_OFFSET),
        };

        memset(v.queue, 0, sizeof(*v.queue));
        v.queue->hsa_queue = (HsaQueue){
                        .type = 0,
                        .features = 1,
                        .base_address = r->memory,
                        .doorbell_signal.handle = (uintptr_t) v.signal,
                        .size = VIEW_RING_SIZE / KFD_AQL_PACKET_SIZE,
        };
        *v.signal = (AmdSignal){.kind = AMD_SIGNAL_DOORBELL, .queue = v.queue};
        v.a = (KfdCreateQueue){
                        .ring_base_address = (uintptr_t) r->memory,
                        .ring_size = VIEW_RING_SIZE,
                        .write_pointer_address = (uintptr_t) &v.queue->write_index,
                        .read_pointer_address = (uintptr_t) &v.queue->read_index,
                        .gpu_id = device.gpu_id,
                        .queue_type = KFD_QUEUE_COMPUTE_AQL,
                        .queue_percentage = 100,
                        .queue_priority = 7,
                        .ctx_save_restore_address = (uintptr_t) r->memory + 16384,
                        .ctx_save_restore_size = 4096,
        };
        return v;
}

int shim_cases_run(const BusCase *cases, size_t n, int argc, char *argv[]) {
        const char *self[] = {argv[0], NULL};

        if (!kfdsim_fail) {
                puts("to be run on kfdsim");
                return 1;
        }
        return bus_cases_run(cases, n, self, argv[1]);
}
