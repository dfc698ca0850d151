/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer moves queues while a runtime uses them: no move finds a place without its packet, and a runtime that
 * waits for a held queue does not wait for ever
 *
 * The program plays the runtime (View), on simulated hardware that reads write indices again at each map (strict=0),
 * soon after it was asked to (map-us).
 */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/macro.h"
#include "hal/kfd.h"
#include "shim-kfd.h"
#include "tests/lib/threads.h"

#define DOORBELLS_SIZE 8192U
#define PLACES         (VIEW_RING_SIZE / KFD_AQL_PACKET_SIZE)
#define MEMORY_OFFSET  32768U
#define PROOF_MAX      4096U
#define POLLER         "xsched-kfd"
#define RECLAIMER      "reclaimer"

static void (*store)(HsaSignal signal, int64_t value);
static uint64_t (*reserve)(const HsaQueue *queue, uint64_t n);

static void *find(const char *name) {
        void *f = dlsym(RTLD_DEFAULT, name);

        CHECK(f);
        return f;
}

static Raw start_runtime(void) {
        start(GFX90A);
        store = (typeof(store)) (uintptr_t) find("hsa_signal_store_screlease");
        reserve = (typeof(reserve)) (uintptr_t) find("hsa_queue_add_write_index_relaxed");
        return raw_open();
}

/* A queue that the device executes. */
static View view_open(const Raw *r) {
        View v = view_new(r);
        AqlPacket *ring = (AqlPacket *) r->memory;
        uint64_t before = n_registered();

        for (unsigned i = 0; i < PLACES; i++)
                ring[i].header = AQL_INVALID;
        CHECK(ioctl(r->fd, KFD_IOC_CREATE_QUEUE, &v.a) == 0);
        CHECK(scheduler_until(s, n_registered() == before + 1));
        uint64_t offset = v.a.doorbell_offset % DOORBELLS_SIZE;
        char *page = mmap(NULL, DOORBELLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
                        (off_t) (v.a.doorbell_offset - offset));
        CHECK(page != MAP_FAILED);
        v.signal->hardware_doorbell = (uint64_t *) (page + offset);
        return v;
}

static uint64_t read_index(const View *v) {
        return __atomic_load_n(&v->queue->read_index, __ATOMIC_ACQUIRE);
}

/* There is no runtime behind the layer, so it rings itself. */
static void ring(const View *v, uint64_t index) {
        store(v->queue->hsa_queue.doorbell_signal, (int64_t) index);
}

static AqlKernel kernel = {.magic = AQL_KERNEL_MAGIC};
static AqlProof *proof;

static void write_packet(const View *v, uint64_t index) {
        AqlPacket *p = (AqlPacket *) v->queue->hsa_queue.base_address + index % PLACES;

        p->dispatch.kernel_object = (uintptr_t) &kernel;
        p->dispatch.kernarg = (uintptr_t) proof;
        p->dispatch.reserved2 = index + 1;
        p->completion_signal = 0;
        __atomic_store_n(&p->header, AQL_DISPATCH, __ATOMIC_RELEASE);
}

static void kernels_take(uint64_t ns) {
        kernel.duration_ns = ns;
        proof = calloc(1, sizeof(AqlProof) + PROOF_MAX);
        CHECK(proof);
        proof->capacity = PROOF_MAX;
}

/* --- places without a packet --- */

#define WRITING_NS   (KFD_PACKETS_WAIT_NS * 4 / 10)
#define MOVE_WAIT_NS (10 * NSEC_PER_MSEC) /* as in kfd-hsa.c */
#define ROUNDS       100U
#define ASKED_MAX    65536U /* the writer takes seconds for as many */

static struct Writer {
        View v;
        _Atomic bool ends;
        _Atomic uint64_t n_written;
        _Atomic uint64_t asked_ns[ASKED_MAX]; /* by index: when the place was asked for */
} writer;

/* A thread that launches, and waits between taking a place and writing its packet, for longer than a move takes
 * (map-us). */
static void *write_slowly(void *unused) {
        const View *v = &writer.v;

        while (!atomic_load(&writer.ends)) {
                while (atomic_load((_Atomic uint64_t *) &v->queue->write_index) - read_index(v) >= PLACES / 2)
                        (void) sched_yield();
                uint64_t asked = now_ns(), index = reserve(&v->queue->hsa_queue, 1), begun = now_ns();
                atomic_store(writer.asked_ns + index % ASKED_MAX, asked);
                while (now_ns() < begun + WRITING_NS)
                        ;
                write_packet(v, index);
                ring(v, index);
                atomic_fetch_add(&writer.n_written, 1);
        }
        return NULL;
}

/* Takes the queue off the device and puts it back, and waits until the writer has written once more. */
static void move(uint32_t slot, PageSlot *p) {
        hold(slot, NSEC_INFINITY);
        CHECK(poll_until(atomic_load(&p->applied) == atomic_load(&p->verdict)));
        fake_run(client->f, slot);
        fake_client_nudge(client);
        CHECK(poll_until(atomic_load(&p->applied) == atomic_load(&p->verdict)));
        uint64_t n = atomic_load(&writer.n_written);
        CHECK(poll_until(atomic_load(&writer.n_written) >= n + 2));
}

/* How long ago the place that a map has found without its packet was asked for, at that time. A move waits
 * KFD_PACKETS_WAIT_NS for the packet of a place that was asked for before, and no place is given out during a move
 * before MOVE_WAIT_NS. So a place is found that late or never, however often the machine takes the processor from
 * either thread. */
static uint64_t torn_age(void) {
        KfdsimTorn t = kfdsim_last_torn();
        uint64_t asked = atomic_load(writer.asked_ns + t.index % ASKED_MAX);

        return asked < t.found_ns ? t.found_ns - asked : NSEC_INFINITY; /* else the entry is a later place's */
}

/* Slot 0 is the writer's, slot 1 that of another queue of the GPU. */
static void moves_find_nothing(uint32_t slot) {
        Raw r = start_runtime();
        pthread_t thread;

        kernels_take(NSEC_PER_USEC);
        writer.v = view_open(&r);
        View other = view_open(&(Raw){.fd = r.fd, .memory = r.memory + MEMORY_OFFSET});
        CHECK(other.a.queue_id == 1);
        CHECK(pthread_create(&thread, NULL, write_slowly, NULL) == 0);
        unsigned n_late = 0, n_torn = 0;
        for (unsigned i = 0; i < ROUNDS; i++) {
                uint64_t torn = kfdsim_torn(device.gpu_id);
                move(slot, fake_slot(client->f, slot));
                if (kfdsim_torn(device.gpu_id) == torn)
                        continue;
                n_late += torn_age() >= KFD_PACKETS_WAIT_NS;
                n_torn += torn_age() < KFD_PACKETS_WAIT_NS;
        }
        printf("# of %u rounds %u found a place without a packet, %u one that was not late\n", ROUNDS, n_late + n_torn,
                        n_torn);
        (void) fflush(stdout);
        CHECK(n_torn == 0);
        atomic_store(&writer.ends, true);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(atomic_load((_Atomic uint64_t *) &proof->n_executed) == atomic_load(&writer.n_written)));
        CHECK(proof->n_doubled == 0 && proof->n_late == 0);
}

static void case_own_move(void) {
        moves_find_nothing(0);
}

static void case_move_of_another(void) {
        moves_find_nothing(1);
}

/* A reservation waits while the driver does not answer, but not for ever. */
static void case_reserving_waits(void) {
        Raw r = start_runtime();
        View v = view_open(&r);
        char text[32];
        int failed = 0;

        CHECK(reserve(&v.queue->hsa_queue, 1) == 0); /* the call site is known from here on */
        (void) snprintf(text, sizeof(text), "%d:hang:1", KFD_NR_UPDATE_QUEUE);
        CHECK(kfdsim_fail(text) == 0);
        hold(0, NSEC_INFINITY);
        CHECK(poll_until(kfdsim_calls(&failed) > 0 && failed == KFD_NR_UPDATE_QUEUE));
        uint64_t begun = now_ns();
        CHECK(reserve(&v.queue->hsa_queue, 1) == 1);
        CHECK(now_ns() - begun >= MOVE_WAIT_NS);
        CHECK(scheduler_until(s, client->n_gone == 1)); /* the hold has failed: the level is lower */
        /* A busy machine delays one, and now and then another. */
        unsigned n_long = 0;
        for (uint64_t i = 2; i < 12; i++) {
                begun = now_ns();
                CHECK(reserve(&v.queue->hsa_queue, 1) == i);
                n_long += now_ns() - begun >= MOVE_WAIT_NS;
        }
        CHECK(n_long <= 2);
}

/* A move does not wait for ever for a program that never writes its packet, and no thread that reserves waits for
 * ever. */
static void case_never_written(void) {
        Raw r = start_runtime();
        View v = view_open(&r);

        CHECK(reserve(&v.queue->hsa_queue, 1) == 0);
        for (uint64_t i = 1; i < 10; i++) {
                hold_all(1);
                CHECK(reserve(&v.queue->hsa_queue, 1) == i);
                run_all(1);
                CHECK(poll_until(is_applied(0)));
        }
        CHECK(kfdsim_torn(device.gpu_id) >= 9);
}

/* --- scratch memory that is taken back --- */

/* Eight turns of the device: even if the thread that ends them is late by several, there is more than one. */
#define N_IN_FLIGHT 8U
#define WORK_NS     (10 * NSEC_PER_MSEC)

/* What ROCr does with a queue while it has a lock, in each release: it spins until the queue is past its last
 * packet. */
typedef struct Reclaim {
        const char *name;
        void (*begin)(AmdQueue *q, uint64_t last);
        void (*end)(AmdQueue *q);
} Reclaim;

static void begin_61(AmdQueue *q, uint64_t last) {
        __atomic_store_n(&q->scratch_lane_size, 0, __ATOMIC_SEQ_CST);
}

static void end_61(AmdQueue *q) {
        __atomic_store_n(&q->scratch_size, 0, __ATOMIC_SEQ_CST);
}

static void begin_61_alt(AmdQueue *q, uint64_t last) {
        __atomic_store_n(&q->alt_scratch_lane_size, 0, __ATOMIC_SEQ_CST);
}

static void end_61_alt(AmdQueue *q) {
        __atomic_store_n(&q->alt_scratch_size, 0, __ATOMIC_SEQ_CST);
}

static void begin_70(AmdQueue *q, uint64_t last) {
        __atomic_store_n(&q->scratch_index, last, __ATOMIC_SEQ_CST);
}

static void begin_70_alt(AmdQueue *q, uint64_t last) {
        __atomic_store_n(&q->alt_scratch_index, last, __ATOMIC_SEQ_CST);
}

static const Reclaim reclaims[] = {
                {"6.1", begin_61, end_61},
                {"6.1, alternate", begin_61_alt, end_61_alt},
                {"7.0", begin_70, NULL},
                {"7.0, alternate", begin_70_alt, NULL},
};

static View reclaimed;
static const Reclaim *how;

static void *reclaim_thread(void *unused) {
        AmdQueue *q = reclaimed.queue;

        CHECK(pthread_setname_np(pthread_self(), RECLAIMER) == 0);
        how->begin(q, N_IN_FLIGHT - 1);
        while (read_index(&reclaimed) < N_IN_FLIGHT)
                (void) sched_yield();
        if (how->end)
                how->end(q);
        return NULL;
}

static KfdsimQueue in_driver(const View *v) {
        KfdsimQueue q;

        CHECK(kfdsim_queue(v->a.queue_id, &q));
        return q;
}

/* The queue has scratch memory, which launches in flight use. */
static void have_scratch(AmdQueue *q, bool is_70) {
        q->caps = AMD_QUEUE_CAPS_CP | (is_70 ? AMD_QUEUE_CAPS_SW : 0);
        q->scratch_size = q->alt_scratch_size = 1 << 20;
        q->scratch_lane_size = q->alt_scratch_lane_size = 64;
        q->scratch_index = q->alt_scratch_index = is_70 ? UINT64_MAX : N_IN_FLIGHT - 1;
}

static void launch_and_hold(void) {
        for (uint64_t i = 0; i < N_IN_FLIGHT; i++) {
                CHECK(reserve(&reclaimed.queue->hsa_queue, 1) == i);
                write_packet(&reclaimed, i);
                ring(&reclaimed, i);
        }
        hold_all(1);
        CHECK(!in_driver(&reclaimed).mapped && read_index(&reclaimed) < N_IN_FLIGHT);
}

static void reclaim_held(const Reclaim *reclaim) {
        Raw r = start_runtime();
        pthread_t thread;

        kernels_take(WORK_NS);
        how = reclaim;
        reclaimed = view_open(&r);
        have_scratch(reclaimed.queue, !reclaim->end);
        launch_and_hold();

        /* A held queue stays held until the reclaim begins. */
        uint64_t n_updates = in_driver(&reclaimed).n_updates, looks = thread_sleeps(POLLER);
        CHECK(poll_until(thread_sleeps(POLLER) > looks + 400));
        CHECK(in_driver(&reclaimed).n_updates == n_updates && read_index(&reclaimed) < N_IN_FLIGHT);

        /* The queue is on the device in turns, until the reclaim is over. */
        CHECK(pthread_create(&thread, NULL, reclaim_thread, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(!in_driver(&reclaimed).mapped));
        KfdsimQueue q = in_driver(&reclaimed);
        printf("# ROCm %s: %lu updates\n", reclaim->name, q.n_updates - n_updates);
        CHECK(q.n_updates >= n_updates + 4 && (q.n_updates - n_updates) % 2 == 0);
        CHECK(is_applied(0)); /* and the verdict was the same all the time */
        CHECK(proof->n_executed == N_IN_FLIGHT && proof->n_doubled == 0 && proof->n_late == 0);

        run_all(1);
        CHECK(poll_until(in_driver(&reclaimed).mapped));
}

static void case_reclaim_61(void) {
        reclaim_held(reclaims);
}

static void case_reclaim_61_alt(void) {
        reclaim_held(reclaims + 1);
}

static void case_reclaim_70(void) {
        reclaim_held(reclaims + 2);
}

static void case_reclaim_70_alt(void) {
        reclaim_held(reclaims + 3);
}

/* A verdict that comes while the queue is lent counts. */
static void case_verdicts_while_lent(void) {
        Raw r = start_runtime();
        pthread_t thread;

        kernels_take(100 * NSEC_PER_MSEC);
        how = reclaims + 2;
        reclaimed = view_open(&r);
        have_scratch(reclaimed.queue, true);
        launch_and_hold();
        CHECK(pthread_create(&thread, NULL, reclaim_thread, NULL) == 0);
        CHECK(poll_until(in_driver(&reclaimed).mapped));
        hold_all(1);
        for (unsigned i = 0; i < 3; i++) {
                CHECK(poll_until(in_driver(&reclaimed).mapped));
                run_all(1);
                CHECK(poll_until(is_applied(0)));
                hold_all(1);
                CHECK(poll_until(!in_driver(&reclaimed).mapped));
        }
        run_all(1);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(in_driver(&reclaimed).mapped && is_applied(0)));
        uint64_t n_updates = in_driver(&reclaimed).n_updates;
        CHECK(raw_destroy(&r, reclaimed.a.queue_id) == 0);
        CHECK(n_updates > 0 && proof->n_executed == N_IN_FLIGHT);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(own_move),
                        CASE(move_of_another),
                        CASE(reserving_waits),
                        CASE(never_written),
                        CASE(reclaim_61),
                        CASE(reclaim_61_alt),
                        CASE(reclaim_70),
                        CASE(reclaim_70_alt),
                        CASE(verdicts_while_lent),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
