/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer and an unknown runtime: the layer finds an HSA runtime's queues by the arguments of the kernel's call
 * alone
 *
 * The program lays out memory as every HSA runtime does, and asks the kernel for the queue itself: as
 * hsa_amd_queue_create() of ROCm 7.14 and 10 does, or any later function. No function that makes queues is called.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/macro.h"
#include "shim-kfd.h"
#include "shim/kfd/kfd-drm.h"

#define SLOTS_MAX 16U
static void (*store)(HsaSignal signal, int64_t value);

static uint64_t launches(void) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < SLOTS_MAX; i++)
                n += atomic_load(&fake_slot(client->f, i)->submitted);
        return n;
}

/* Whether a store to the signal passes a gate. There is no runtime behind, so nothing else happens. */
static bool is_gated(const Raw *r, View *v, HsaSignal signal) {
        CHECK(ioctl(r->fd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, sizeof(v->a)), &v->a) ==
                        0);
        CHECK(scheduler_until(s, client->n_queues == 1 && n_registered() == 1));
        uint64_t before = launches();
        __atomic_store_n(&v->queue->write_index, 1, __ATOMIC_SEQ_CST);
        store(signal, 0);
        uint64_t n = launches() - before;
        CHECK(raw_destroy(r, v->a.queue_id) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0 && n_registered() == 0));
        store(signal, 0); /* not any more */
        CHECK(n <= 1);
        return n == 1;
}

static Raw start_runtime(void) {
        start(GFX90A);
        store = (typeof(store)) (uintptr_t) dlsym(RTLD_DEFAULT, "hsa_signal_store_screlease");
        CHECK(store);
        return raw_open();
}

/* --- cases --- */

static void case_known(void) {
        Raw r = start_runtime();

        for (int i = 0; i < 3; i++) {
                View v = view_new(&r);
                CHECK(is_gated(&r, &v, v.queue->hsa_queue.doorbell_signal));
                v = view_new(&r);
                CHECK(!is_gated(&r, &v, (HsaSignal){(uintptr_t) (v.signal + 1)}));
        }
}

/* In turn one field differs from that of an HSA runtime. */
static void case_unknown(void) {
        Raw r = start_runtime();
        char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(nowhere != MAP_FAILED);

        for (int i = 0; i < 7; i++) {
                View v = view_new(&r);
                HsaSignal signal = v.queue->hsa_queue.doorbell_signal;
                HsaSignal *named = &v.queue->hsa_queue.doorbell_signal;
                switch (i) {
                case 0:
                        v.queue->hsa_queue.base_address = r.memory + 64;
                        break;
                case 1:
                        v.queue->hsa_queue.size *= 2;
                        break;
                case 2:
                        v.signal->kind = 1;
                        break;
                case 3:
                        v.signal->queue = v.queue + 1;
                        break;
                case 4:
                        signal.handle = named->handle += 8;
                        break;
                case 5:
                        signal.handle = named->handle = (uintptr_t) nowhere;
                        break;
                default:
                        v.a.read_pointer_address += 64;
                        break;
                }
                CHECK(!is_gated(&r, &v, signal));
        }
}

#ifndef __SANITIZE_THREAD__
static const HsaQueue *unknown;
static uint64_t (*reserve)(const HsaQueue *queue, uint64_t n);

static void on_signal(int unused) {
        (void) reserve(unknown, 1);
}

static void hold_that_hangs(void) {
        char text[32];

        (void) snprintf(text, sizeof(text), "%d:hang:1", KFD_NR_UPDATE_QUEUE);
        CHECK(kfdsim_fail(text) == 0);
        hold(0, NSEC_INFINITY);
        int failed = 0;
        CHECK(poll_until(kfdsim_calls(&failed) > 0 && failed == KFD_NR_UPDATE_QUEUE));
}

/* The kernel is slow while the layer has its lock: a launch of a signal handler to a queue that is not known yet does
 * not wait. */
static void case_handler_meets(void) {
        Raw r = start_runtime();
        View v = view_new(&r), other = view_new(&(Raw){.fd = r.fd, .memory = r.memory + 32768});

        reserve = (typeof(reserve)) (uintptr_t) dlsym(RTLD_DEFAULT, "hsa_queue_add_write_index_relaxed");
        unknown = &other.queue->hsa_queue;
        CHECK(reserve && signal(SIGUSR1, on_signal) != SIG_ERR);
        CHECK(ioctl(r.fd, KFD_IOC_CREATE_QUEUE, &v.a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1 && n_registered() == 1));
        (void) reserve(&v.queue->hsa_queue, 1); /* what the linker has to say is known */
        hold_that_hangs();
        uint64_t begun = now_ns();
        CHECK(raise(SIGUSR1) == 0);
        uint64_t in_handler = now_ns() - begun;
        CHECK(scheduler_until(s, client->n_gone == 1)); /* the hold has failed: the level is lower */
        uint64_t until_failed = now_ns() - begun;
        CHECK(in_handler < until_failed / 2);
        CHECK(raw_destroy(&r, v.a.queue_id) == 0);
}
#endif

static bool is_hooked(PageHooked v) {
        return atomic_load(&fake_slot(client->f, 0)->hooked) == v;
}

static View make_known(const Raw *r) {
        View v = view_new(r);

        CHECK(ioctl(r->fd, KFD_IOC_CREATE_QUEUE, &v.a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1 && n_registered() == 1));
        CHECK(streq(s->hooked, "create") && is_hooked(HOOKED_CREATE));
        return v;
}

/* The first doorbell shows that doorbells pass the layer, also if the queue was polled before. */
static void case_hooked(void) {
        Raw r = start_runtime();
        View v = make_known(&r);

        __atomic_store_n(&v.queue->write_index, 1, __ATOMIC_SEQ_CST);
        store(v.queue->hsa_queue.doorbell_signal, 0);
        CHECK(is_hooked(HOOKED_DOORBELL));
        (void) page_slot_set_watch(fake_slot(client->f, 0), WATCH_ALL);
        fake_client_nudge(client);
        __atomic_store_n(&v.queue->read_index, 1, __ATOMIC_SEQ_CST);
        CHECK(poll_until(atomic_load(&fake_slot(client->f, 0)->outstanding) == 0));
        CHECK(is_hooked(HOOKED_DOORBELL));
        CHECK(raw_destroy(&r, v.a.queue_id) == 0);
}

/* Programs that take places by exchanging the write index, or by storing it, go on also without a runtime that the
 * layer finds. */
static void case_indices(void) {
        Raw r = start_runtime();
        View v = make_known(&r);
        const HsaQueue *queue = &v.queue->hsa_queue;
        typeof(&hsa_queue_cas_write_index_relaxed) exchange =
                        (typeof(exchange)) (uintptr_t) dlsym(RTLD_DEFAULT, "hsa_queue_cas_write_index_acq_rel");
        typeof(&hsa_queue_store_write_index_relaxed) set =
                        (typeof(set)) (uintptr_t) dlsym(RTLD_DEFAULT, "hsa_queue_store_write_index_screlease");
        CHECK(exchange && set);

        errno = ENOTTY;
        CHECK(exchange(queue, 0, 3) == 0 && v.queue->write_index == 3);
        CHECK(exchange(queue, 0, 5) == 3 && v.queue->write_index == 3);
        set(queue, 7);
        CHECK(v.queue->write_index == 7 && errno == ENOTTY);
        CHECK(raw_destroy(&r, v.a.queue_id) == 0);
}

/* As with DEBUG_CLR_DIRECT_DOORBELL: the device has taken packets that no doorbell in front of the layer announced. */
static void case_past_us(void) {
        Raw r = start_runtime();
        View v = make_known(&r);

        __atomic_store_n(&v.queue->write_index, 1, __ATOMIC_SEQ_CST);
        (void) page_slot_set_watch(fake_slot(client->f, 0), WATCH_ALL);
        fake_client_nudge(client);
        CHECK(poll_until(atomic_load(&fake_slot(client->f, 0)->outstanding) == 1));
        CHECK(is_hooked(HOOKED_CREATE)); /* a doorbell may still announce it */
        __atomic_store_n(&v.queue->read_index, 1, __ATOMIC_SEQ_CST);
        CHECK(poll_until(is_hooked(HOOKED_POLL)));
        __atomic_store_n(&v.queue->write_index, 2, __ATOMIC_SEQ_CST);
        store(v.queue->hsa_queue.doorbell_signal, 1);
        CHECK(is_hooked(HOOKED_DOORBELL));
        CHECK(raw_destroy(&r, v.a.queue_id) == 0);
}

/* --- queues that KFD does not know --- */

#define RENDER_NODE "/dev/dri/renderD128"

static unsigned long userq_request(void) {
        return _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_TYPE, DRM_NR_USERQ, 72);
}

static uint32_t userq(int fd, uint32_t op, uint32_t id, uint32_t ip_type) {
        union {
                DrmUserq a;
                char whole[72];
        } u = {.a = {.op = op, .queue_id = id, .ip_type = ip_type}};

        CHECK(ioctl(fd, userq_request(), &u) == 0);
        return u.a.op;
}

/* Queues of amdgpu's DRM driver are registered as queues that nothing holds, until they or their files are gone. */
static void case_drm(void) {
        start(GFX90A);
        int fd = open(RENDER_NODE, O_RDWR | O_CLOEXEC), other = open(RENDER_NODE, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0 && other >= 0);

        uint32_t graphics = userq(fd, DRM_USERQ_CREATE, 0, 0), id = userq(fd, DRM_USERQ_CREATE, 0, DRM_USERQ_COMPUTE);
        CHECK(scheduler_until(s, client->n_queues == 1 && n_registered() == 1));
        CHECK(streq(s->hooked, "none") && is_hooked(HOOKED_NONE));
        (void) userq(fd, DRM_USERQ_FREE, graphics, 0);
        (void) userq(fd, DRM_USERQ_FREE, id, 0);
        CHECK(scheduler_until(s, client->n_gone == 1 && n_registered() == 0));

        (void) userq(other, DRM_USERQ_CREATE, 0, DRM_USERQ_COMPUTE);
        CHECK(scheduler_until(s, n_registered() == 1));
        CHECK(close(other) == 0);
        (void) userq(fd, DRM_USERQ_CREATE, 0, DRM_USERQ_COMPUTE);
        CHECK(scheduler_until(s, client->n_gone == 2 && n_registered() == 1));

        /* A failed call changes nothing, and other drivers have ioctls of that number. */
        errno = 0;
        CHECK(ioctl(fd, userq_request(), &(char[72]){9}) < 0 && errno == EINVAL);
        CHECK(ioctl(fd, userq_request(), NULL) < 0);
        CHECK(ioctl(STDIN_FILENO, userq_request(), &(char[72]){DRM_USERQ_CREATE}) < 0);
        CHECK(n_registered() == 1);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(known),
                        CASE(unknown),
/* There is no runtime behind, so the handler asks the dynamic linker: the thread sanitizer tells, and hangs. */
#ifndef __SANITIZE_THREAD__
                        CASE(handler_meets),
#endif
                        CASE(hooked),
                        CASE(indices),
                        CASE(past_us),
                        CASE(drm),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
