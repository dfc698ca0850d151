/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD backend over the test's own driver: its calls, their retries, and the state after errors
 *
 * The driver keeps the state that it was set to, and fails as its script says: before or after it has done its work.
 */

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/kfd-abi.h"
#include "hal/kfd.h"
#include "tests/lib/unit.h"

#define PACKETS    64U
#define INVALID    1U
#define DISPATCH   2U
#define QUEUES     4U
#define SCRIPT_MAX 256U

typedef struct Step {
        int error; /* errno; 0: none */
        bool late;
} Step;

typedef struct Driver {
        Step script[SCRIPT_MAX];
        size_t n_steps;
        unsigned n_calls, n_moving; /* n_moving: calls while `moving` keeps threads from reserving places */
        uint32_t percentage[QUEUES], priority[QUEUES];
        uint64_t rung_before[QUEUES]; /* the doorbell at the last call */
        bool gone[QUEUES];
} Driver;

static Driver driver;
static KfdHalDevice device;
static KfdHalQueue queues[QUEUES];
static HalQueue *batch[QUEUES];
static _Atomic uint64_t write_index[QUEUES], read_index[QUEUES], doorbell[QUEUES], rung[QUEUES];
static struct {
        _Atomic uint16_t header;
        uint16_t rest[31];
} rings[QUEUES][PACKETS];
_Static_assert(sizeof(rings[0][0]) == KFD_AQL_PACKET_SIZE, "an AQL packet");

static int driver_update(const KfdUpdateQueue *u) {
        if (u->queue_id >= QUEUES || driver.gone[u->queue_id] ||
                        u->ring_base_address != (uintptr_t) rings[u->queue_id] || u->ring_size != sizeof(rings[0])) {
                errno = EFAULT;
                return -1;
        }
        driver.percentage[u->queue_id] = u->queue_percentage;
        driver.priority[u->queue_id] = u->queue_priority;
        driver.rung_before[u->queue_id] = atomic_load(&doorbell[u->queue_id]);
        return 0;
}

static int driver_ioctl(int fd, unsigned long request, ...) {
        va_list ap;
        va_start(ap, request);
        const KfdUpdateQueue *u = va_arg(ap, const KfdUpdateQueue *);
        va_end(ap);
        assert_int_equal(fd, 42);
        assert_int_equal(request, KFD_IOC_UPDATE_QUEUE);

        Step s = driver.n_calls < driver.n_steps ? driver.script[driver.n_calls] : (Step){};
        driver.n_calls++;
        driver.n_moving += atomic_load(&device.moving);
        if (s.error == 0)
                return driver_update(u);
        if (s.late)
                (void) driver_update(u);
        errno = s.error;
        return -1;
}

static void script(size_t skip, size_t n, Step step) {
        driver.n_calls = 0;
        driver.n_steps = skip + n;
        assert_in_range(driver.n_steps, 0, SCRIPT_MAX);
        for (size_t i = 0; i < driver.n_steps; i++)
                driver.script[i] = i < skip ? (Step){} : step;
}

static int setup(void **state) {
        driver = (Driver){};
        device = (KfdHalDevice){.level = LEVEL_INTERRUPT};
        for (uint32_t i = 0; i < QUEUES; i++) {
                kfd_hal_init(queues + i, &device);
                queues[i].ioctl = driver_ioctl;
                queues[i].fd = 42;
                queues[i].id = i;
                queues[i].type = KFD_QUEUE_COMPUTE_AQL;
                queues[i].ring = (uintptr_t) rings[i];
                queues[i].ring_size = sizeof(rings[0]);
                queues[i].percentage = driver.percentage[i] = 100 - i;
                queues[i].priority = driver.priority[i] = 3 + i;
                queues[i].write_index = write_index + i;
                queues[i].read_index = read_index + i;
                queues[i].doorbell = doorbell + i;
                queues[i].rung = rung + i;
                for (uint64_t k = 0; k < PACKETS; k++)
                        atomic_store(&rings[i][k].header, INVALID);
                atomic_store(&write_index[i], UINT64_C(10) * i);
                atomic_store(&read_index[i], 0);
                atomic_store(&doorbell[i], 0);
                atomic_store(&rung[i], 0);
                batch[i] = &queues[i].hal;
        }
        return 0;
}

static int hold(size_t n) {
        return hal_kfd_ops.hold(batch, n);
}

static int release(size_t n) {
        return hal_kfd_ops.release(batch, n);
}

/* Checks that the driver's state is that of the records. */
static void assert_settled(void) {
        for (uint32_t i = 0; i < QUEUES; i++) {
                assert_false(queues[i].unsure);
                assert_int_equal(driver.percentage[i], queues[i].hal.held ? 0 : queues[i].percentage);
                assert_int_equal(driver.priority[i], queues[i].priority);
        }
}

static void assert_held(bool held) {
        for (uint32_t i = 0; i < QUEUES; i++)
                assert_int_equal(queues[i].hal.held, held);
}

/* --- cases --- */

static void test_hold_release(void **state) {
        assert_int_equal(hold(QUEUES), 0);
        assert_int_equal(driver.n_calls, QUEUES);
        assert_held(true);
        assert_settled();
        assert_int_equal(hold(QUEUES), 0);
        assert_int_equal(driver.n_calls, QUEUES); /* no call for a queue that is in that state already */
        assert_int_equal(release(QUEUES), 0);
        assert_int_equal(driver.n_calls, 2 * QUEUES);
        assert_held(false);
        assert_settled();
        assert_false(device.degraded);
}

/* Bits above the low 8 of the percentage say where a queue runs, not how much. */
static void test_percentage_word(void **state) {
        queues[0].percentage = 0x0300 | 60;
        assert_int_equal(hold(1), 0);
        assert_int_equal(driver.percentage[0], 0x0300);
        assert_int_equal(release(1), 0);
        assert_int_equal(driver.percentage[0], 0x0300 | 60);
        assert_int_equal(kfd_hal_effective(100, false), 100);
        assert_int_equal(kfd_hal_effective(100, true), 0);
}

/* After the queue is mapped, the doorbell is rung once more for the packets announced by then. */
static void test_rings(void **state) {
        atomic_store(&rung[1], 7);
        queues[2].type = KFD_QUEUE_COMPUTE;
        queues[3].doorbell = NULL;
        assert_int_equal(hold(QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                assert_int_equal(atomic_load(&doorbell[i]), 0);
        atomic_store(&rung[1], 9); /* of 10 packets whose writing has begun */
        assert_int_equal(release(QUEUES), 0);
        for (size_t i = 0; i < QUEUES; i++)
                assert_int_equal(driver.rung_before[i], 0);
        assert_int_equal(atomic_load(&doorbell[0]), 0);  /* nothing was ever written */
        assert_int_equal(atomic_load(&doorbell[1]), 8);  /* AQL: the last one announced */
        assert_int_equal(atomic_load(&doorbell[2]), 20); /* PM4: the next one */

        /* No ring where the application has stopped the queue itself: it rings when it releases the queue. */
        assert_int_equal(hold(2), 0);
        queues[1].percentage = 0;
        atomic_store(&doorbell[1], 0);
        assert_int_equal(release(2), 0);
        assert_int_equal(atomic_load(&doorbell[1]), 0);
}

static void write_packets(uint32_t q, uint64_t from, uint64_t to) {
        for (uint64_t i = from; i < to; i++)
                atomic_store(&rings[q][i % PACKETS].header, DISPATCH);
}

/* The application's doorbell is not seen: the ring is for packets up to the first unwritten one, and for the rest when
 * that is written. */
static void test_rings_unseen(void **state) {
        atomic_store(&read_index[1], PACKETS - 3);
        atomic_store(&write_index[1], PACKETS + 5);
        write_packets(1, PACKETS - 3, PACKETS + 2); /* over the end of the ring */
        write_packets(1, PACKETS + 3, PACKETS + 5);
        assert_int_equal(hold(QUEUES), 0);
        assert_int_equal(release(QUEUES), 0);
        assert_int_equal(atomic_load(&doorbell[1]), PACKETS + 1);
        atomic_store(&doorbell[1], 0);
        assert_false(kfd_hal_ring_rest(&queues[1]));
        assert_int_equal(atomic_load(&doorbell[1]), 0); /* nothing new */
        write_packets(1, PACKETS + 2, PACKETS + 3);
        assert_true(kfd_hal_ring_rest(&queues[1]));
        assert_int_equal(atomic_load(&doorbell[1]), PACKETS + 4);
        atomic_store(&doorbell[1], 0);
        assert_true(kfd_hal_ring_rest(&queues[1]));
        assert_int_equal(atomic_load(&doorbell[1]), 0);

        /* A writer that has taken indices beyond the end of the ring waits for room: the packets at those places are
         * older ones. */
        atomic_store(&write_index[1], 2 * PACKETS + 5);
        write_packets(1, 0, PACKETS);
        assert_int_equal(hold(2), 0);
        assert_int_equal(release(2), 0);
        assert_int_equal(atomic_load(&doorbell[1]), 2 * PACKETS - 4);

        /* With no outstanding packets there is no ring. */
        atomic_store(&read_index[1], 2 * PACKETS + 5);
        atomic_store(&doorbell[1], 0);
        assert_int_equal(hold(2), 0);
        assert_int_equal(release(2), 0);
        assert_int_equal(atomic_load(&doorbell[1]), 0);
        assert_true(kfd_hal_ring_rest(&queues[1]));

        /* After the first doorbell that is seen, packets are no longer searched. */
        atomic_store(&write_index[1], 2 * PACKETS + 9);
        atomic_store(&rung[1], 2 * PACKETS + 7);
        assert_int_equal(hold(2), 0);
        assert_int_equal(release(2), 0);
        assert_int_equal(atomic_load(&doorbell[1]), 2 * PACKETS + 6);
        assert_true(kfd_hal_ring_rest(&queues[1]));
}

/* A queue that the application has stopped stays stopped: a hold or a release makes no call for it. */
static void test_stopped_by_application(void **state) {
        queues[0].percentage = driver.percentage[0] = 0;
        assert_int_equal(hold(1), 0);
        assert_true(queues[0].hal.held);
        assert_int_equal(release(1), 0);
        assert_int_equal(driver.n_calls, 0);
}

static void test_interrupted(void **state) {
        static const int errors[] = {EINTR, EAGAIN};

        for (size_t k = 0; k < ELEMENTSOF(errors); k++)
                for (int late = 0; late < 2; late++) {
                        script(0, 30, (Step){errors[k], late});
                        assert_int_equal(hold(QUEUES), 0);
                        assert_int_equal(driver.n_calls, 30 + QUEUES);
                        assert_settled();
                        script(2, 30, (Step){errors[k], late});
                        assert_int_equal(release(QUEUES), 0);
                        assert_settled();
                }
        /* Interrupts without end: the hold is given up and rolled back, and the level stays, because the hardware did
         * not fail. */
        script(1, 100, (Step){EINTR, true});
        assert_int_equal(hold(QUEUES), -EAGAIN);
        assert_held(false);
        assert_settled();
        assert_false(device.degraded);
}

/* Each error at each call of a batch, before and after its work, for hold and release: the former state is restored and
 * known, and the level is lowered where a retry cannot help. */
static void test_each_error(void **state) {
        static const struct {
                int error;
                bool degrades;
        } errors[] = {
                        {EIO, true},
                        {ETIME, true},
                        {EACCES, true},
                        {EBUSY, false},
                        {ENOMEM, false},
                        {ENODEV, false},
                        {EINVAL, false},
        };

        for (size_t k = 0; k < ELEMENTSOF(errors); k++)
                for (size_t skip = 0; skip < QUEUES; skip++)
                        for (int late = 0; late < 2; late++)
                                for (int up = 0; up < 2; up++) {
                                        assert_int_equal(setup(state), 0);
                                        if (up)
                                                assert_int_equal(hold(QUEUES), 0);
                                        script(skip, 1, (Step){errors[k].error, late});
                                        assert_int_equal(up ? release(QUEUES) : hold(QUEUES), -errors[k].error);
                                        assert_held(up);
                                        assert_settled();
                                        assert_int_equal(device.degraded, errors[k].degrades);
                                        assert_int_equal(device.level,
                                                        errors[k].degrades ? LEVEL_GATE : LEVEL_INTERRUPT);
                                        assert_int_equal(device.error, errors[k].degrades ? -errors[k].error : 0);

                                        /* A release is tried whatever the level is. */
                                        script(0, 0, (Step){});
                                        assert_int_equal(release(QUEUES), 0);
                                        assert_held(false);
                                        assert_settled();
                                }
}

/* The call that should restore the old state fails as well: every later call starts with it. */
static void test_unsure(void **state) {
        for (int late = 0; late < 2; late++) {
                assert_int_equal(setup(state), 0);
                script(2, 2, (Step){EIO, late}); /* the third queue's hold, and its way back */
                assert_int_equal(hold(QUEUES), -EIO);
                assert_held(false);
                assert_true(queues[2].unsure);
                assert_int_equal(driver.percentage[0], 100);
                assert_int_equal(driver.percentage[1], 99);

                script(0, 1, (Step){EIO, late});
                assert_int_equal(release(QUEUES), -EIO); /* still not known */
                assert_true(queues[2].unsure);
                script(0, 0, (Step){});
                assert_int_equal(release(QUEUES), 0);
                assert_int_equal(driver.n_calls, 1);
                assert_settled();
        }
}

/* A failed rollback leaves a queue held, and is reported. */
static void test_failed_rollback(void **state) {
        script(1, 4, (Step){ETIME, false}); /* the second: hold, back; the first: back, back */
        assert_int_equal(hold(QUEUES), -ETIME);
        assert_true(queues[0].hal.held);
        assert_false(queues[1].hal.held);
        script(0, 0, (Step){});
        assert_int_equal(release(QUEUES), 0);
        assert_held(false);
        assert_settled();
}

/* The driver knows no such queue: nothing runs there, and the other queues are not affected. */
static void test_lost(void **state) {
        driver.gone[1] = true;
        assert_int_equal(hold(QUEUES), 0);
        assert_held(true);
        assert_true(queues[1].lost);
        assert_false(device.degraded);
        for (uint32_t i = 0; i < QUEUES; i++)
                assert_int_equal(driver.percentage[i] == 0, i != 1);
        script(0, 0, (Step){});
        assert_int_equal(release(QUEUES), 0);
        assert_int_equal(driver.n_calls, QUEUES - 1); /* and not asked again */
        assert_int_equal(atomic_load(&doorbell[1]), 0);
}

static void test_reapply(void **state) {
        assert_int_equal(hold(1), 0);
        driver.percentage[0] = 100; /* changed from outside */
        assert_int_equal(kfd_hal_reapply(queues), 0);
        assert_settled();
        script(0, 1, (Step){EIO, false});
        driver.percentage[0] = 100;
        assert_int_equal(kfd_hal_reapply(queues), -EIO);
        assert_true(queues[0].unsure);
        assert_int_equal(hold(1), 0); /* held by the record, so the driver is called again */
        assert_settled();
}

/* Plays the application while the backend yields: writes the packet of a place that it has taken. */
static unsigned n_yields, write_at_yield;
static bool may_reserve; /* at the last wait */

int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
        may_reserve = !atomic_load(&device.moving);
        if (++n_yields == write_at_yield) {
                atomic_store(&rings[0][5].header, DISPATCH);
                atomic_store(&queues[0].reserving, 0);
        }
        return 0;
}

static void take_place(unsigned at_yield) {
        n_yields = 0;
        write_at_yield = at_yield;
        atomic_store(&read_index[0], 3);
        atomic_store(&rung[0], 5);
        atomic_store(&write_index[0], 6);
        atomic_store(&rings[0][5].header, INVALID);
}

/* A queue is neither unmapped nor mapped while a packet is about to be written, but the wait for a thread that never
 * writes ends. */
static void test_packet_on_its_way(void **state) {
        take_place(3);
        assert_int_equal(hold(1), 0);
        assert_int_equal(n_yields, 3);
        take_place(2);
        assert_int_equal(release(1), 0);
        assert_int_equal(n_yields, 2);
        assert_int_equal(driver.n_calls, 2);

        take_place(0);
        uint64_t start = now_ns();
        assert_int_equal(hold(1), 0);
        assert_true(now_ns() - start >= KFD_PACKETS_WAIT_NS);
        assert_int_equal(driver.percentage[0], 0);

        /* Packets already rung for are not examined again: the device has taken them. */
        take_place(0);
        atomic_store(&rung[0], 6);
        assert_int_equal(release(1), 0);
        assert_int_equal(n_yields, 0);
}

static const KfdHalQueue *next_queue(const KfdHalDevice *d, const KfdHalQueue *q) {
        assert_ptr_equal(d, &device);
        return !q ? queues : q < queues + QUEUES - 1 ? q + 1 : NULL;
}

/* The device reads the indices of all queues, whichever is mapped or unmapped. No place is reserved from the wait to
 * the end of the call. */
static void test_packet_of_another_queue(void **state) {
        device.next_queue = next_queue;
        for (uint32_t i = 1; i < QUEUES; i++)
                atomic_store(&write_index[i], 0);
        batch[0] = &queues[2].hal;
        take_place(3);
        may_reserve = true;
        assert_int_equal(hold(1), 0);
        assert_int_equal(n_yields, 3);
        assert_false(may_reserve);
        assert_int_equal(driver.percentage[2], 0);
        assert_int_equal(driver.n_moving, 1);
        assert_false(atomic_load(&device.moving));

        take_place(0);
        script(0, 2, (Step){EIO, false});
        assert_int_equal(release(1), -EIO);
        assert_int_equal(driver.n_moving, 3);
        assert_false(atomic_load(&device.moving));
}

/* A thread that has checked already, and has not taken its place yet. */
static void test_about_to_reserve(void **state) {
        take_place(4);
        atomic_store(&rings[0][5].header, DISPATCH);
        atomic_store(&queues[0].reserving, 1);
        assert_int_equal(hold(1), 0);
        assert_int_equal(n_yields, 4);
}

/* The backend does not change errno. */
static void test_errno(void **state) {
        errno = 12345;
        script(0, 1, (Step){EIO, false});
        assert_int_equal(hold(QUEUES), -EIO);
        assert_int_equal(errno, 12345);
}

static void test_level(void **state) {
        KfdNode gfx803 = {.gfx_version = 80003}, gfx90a = {.gfx_version = 90010}, gfx1030 = {.gfx_version = 100300},
                gfx1100 = {.gfx_version = 110000};

        assert_int_equal(kfd_hal_level(&gfx803, true), LEVEL_GATE); /* doorbells of another kind */
        assert_int_equal(kfd_hal_level(&gfx90a, true), LEVEL_INTERRUPT);
        assert_int_equal(kfd_hal_level(&gfx90a, false), LEVEL_DEQUEUE);
        assert_int_equal(kfd_hal_level(&gfx1030, true), LEVEL_INTERRUPT);
        assert_int_equal(kfd_hal_level(&gfx1100, true), LEVEL_GATE); /* MES */

        /* With few places for queues, gfx10 hangs. */
        gfx1030.n_slots = KFD_SLOTS_FEW + 1;
        assert_int_equal(kfd_hal_level(&gfx1030, true), LEVEL_INTERRUPT);
        gfx1030.n_slots = KFD_SLOTS_FEW;
        assert_int_equal(kfd_hal_level(&gfx1030, true), LEVEL_GATE);
        gfx90a.n_slots = KFD_SLOTS_FEW;
        assert_int_equal(kfd_hal_level(&gfx90a, true), LEVEL_INTERRUPT);
}

int main(void) {
#define T(name) cmocka_unit_test_setup(name, setup)
        const struct CMUnitTest tests[] = {
                        T(test_hold_release),
                        T(test_percentage_word),
                        T(test_rings),
                        T(test_rings_unseen),
                        T(test_stopped_by_application),
                        T(test_interrupted),
                        T(test_each_error),
                        T(test_unsure),
                        T(test_failed_rollback),
                        T(test_lost),
                        T(test_reapply),
                        T(test_packet_on_its_way),
                        T(test_packet_of_another_queue),
                        T(test_about_to_reserve),
                        T(test_errno),
                        T(test_level),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
