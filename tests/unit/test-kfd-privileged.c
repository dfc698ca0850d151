/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD, over a driver that the test plays: it keeps KFD's books, and fails when it is told to
 *
 * The books: evictions are counted and one pause is remembered; suspended queues and who is enabled; each call must
 * come from the thread that seized. Whatever fails, in whatever order, a target in the state RUNNING must have no
 * eviction and no suspended queue.
 */

#include <sys/syscall.h>

#include "fake-kfd-target.h"
#include "hal/kfd-debug.h"

/* --- opening --- */

static void test_modes(void **state) {
        KfdTarget t = KFD_TARGET_NULL;

        assert_int_equal(privileged_mode_from_string("criu"), PRIVILEGED_CRIU);
        assert_string_equal(privileged_mode_to_string(PRIVILEGED_DEBUG), "debug");
        assert_int_equal(kfd_target_open(PRIVILEGED_NO, PID, START, false, &fake_target_sys, &t), -EINVAL);
        assert_int_equal(kfd_target_open(_PRIVILEGED_MODE_MAX, PID, START, false, &fake_target_sys, &t), -EINVAL);
        assert_int_equal(t.pidfd, -EBADF);
}

static void test_open_refuses(void **state) {
        for (PrivilegedMode mode = PRIVILEGED_CRIU; mode <= PRIVILEGED_DEBUG; mode++) {
                KfdTarget t = KFD_TARGET_NULL;
                (void) driver_reset(NULL);
                assert_int_equal(kfd_target_open(mode, PID, START + 1, false, &fake_target_sys, &t), -ESRCH);
                driver.has_device = false;
                assert_int_equal(kfd_target_open(mode, PID, START, false, &fake_target_sys, &t), -ENODEV);
                driver.is_there = false;
                assert_int_equal(kfd_target_open(mode, PID, START, false, &fake_target_sys, &t), -ESRCH);
                assert_int_equal(driver.n_seizes, 0);
                assert_false(driver.enabled); /* ENABLE would have made the process known to KFD */
        }
}

static void test_old_driver(void **state) {
        KfdTarget t = KFD_TARGET_NULL;

        driver.minor = KFD_API_DBG_TRAP - 1;
        assert_int_equal(kfd_target_open(PRIVILEGED_DEBUG, PID, START, false, &fake_target_sys, &t), -ENOSYS);
        t = open_target(PRIVILEGED_CRIU);
        driver.no_criu = true;
        assert_int_equal(kfd_target_hold(&t), -ENOSYS);
        driver.no_criu = false;
        assert_int_equal(kfd_target_undo(&t), 0);
        close_target(&t);
}

/* --- holding --- */

static void test_hold_release(void **state) {
        for (PrivilegedMode mode = PRIVILEGED_CRIU; mode <= PRIVILEGED_DEBUG; mode++) {
                (void) driver_reset(NULL);
                driver.n_queues = QUEUES;
                for (uint32_t i = 0; i < QUEUES; i++)
                        driver.queues[i].type = i % 7 == 0 ? KFD_QUEUE_SDMA : KFD_QUEUE_COMPUTE_AQL,
                        driver.queues[i].new = true;
                KfdTarget t = open_target(mode);
                for (unsigned i = 0; i < 3; i++) {
                        assert_int_equal(kfd_target_hold(&t), 0);
                        assert_int_equal(t.state, TARGET_HELD);
                        assert_int_equal(kfd_target_hold(&t), 0); /* not counted */
                        assert_truth(&t);
                        assert_int_equal(n_suspended(), mode == PRIVILEGED_DEBUG ? QUEUES - QUEUES / 7 : 0);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_truth(&t);
                        assert_int_equal(driver.evictions, 0);
                        assert_int_equal(n_suspended(), 0);
                }
                assert_true(t.costs.hold_ns > 0 && t.costs.release_ns > 0);
                if (mode == PRIVILEGED_CRIU)
                        assert_int_equal(driver.n_pauses, 3);
                close_target(&t);
        }
}

/* The process inherited its parent's device by fork, and opened its own later, or did not. */
static void test_inherited_device(void **state) {
        driver.inherits = true;
        KfdTarget t = open_target(PRIVILEGED_CRIU);
        assert_int_equal(kfd_target_undo(&t), 0);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

static void test_new_queues(void **state) {
        KfdTarget t = open_target(PRIVILEGED_DEBUG);

        driver.n_queues = 1;
        driver.queues[0].type = KFD_QUEUE_COMPUTE;
        assert_int_equal(kfd_target_hold(&t), 0);
        driver.n_queues = 3;
        driver.queues[1].type = driver.queues[2].type = KFD_QUEUE_COMPUTE_AQL;
        driver.queues[1].new = driver.queues[2].new = true;
        assert_int_equal(n_suspended(), 1);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_int_equal(n_suspended(), 3);
        assert_truth(&t);
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_mes(void **state) {
        for (PrivilegedMode mode = PRIVILEGED_CRIU; mode <= PRIVILEGED_DEBUG; mode++) {
                (void) driver_reset(NULL);
                KfdTarget t = open_target(mode);
                driver.has_mes = true;
                assert_int_equal(kfd_target_hold(&t), -EOPNOTSUPP);
                driver.cannot_tell_mes = true;
                assert_int_equal(kfd_target_hold(&t), -EOPNOTSUPP);
                assert_int_equal(driver.n_seizes, 0);
                t.allow_mes = true;
                assert_int_equal(kfd_target_hold(&t), 0);
                assert_int_equal(kfd_target_release(&t), 0);
                close_target(&t);
        }
}

/* A process is held as a whole or not at all, whatever is allowed. */
static void test_contexts(void **state) {
        uint32_t id = 0;

        for (PrivilegedMode mode = PRIVILEGED_CRIU; mode <= PRIVILEGED_DEBUG; mode++) {
                (void) driver_reset(NULL);
                KfdTarget t = open_target(mode);
                t.allow_mes = true;
                driver.is_split = true;
                assert_int_equal(kfd_target_hold(&t), -EMLINK);
                assert_int_equal(kfd_target_suspend(&t, &id, 1), -EMLINK);
                assert_int_equal(driver.n_seizes, 0);
                assert_truth(&t);
                driver.is_split = false;
                assert_int_equal(kfd_target_hold(&t), 0);
                assert_int_equal(kfd_target_release(&t), 0);
                close_target(&t);
        }
}

static void test_may_not_trace(void **state) {
        KfdTarget t = open_target(PRIVILEGED_CRIU);

        driver.may_trace = false;
        assert_int_equal(kfd_target_hold(&t), -EPERM);
        assert_int_equal(driver.n_seizes, 2); /* the second one follows a foreign tracer's end */
        assert_truth(&t);
        driver.may_trace = true;
        assert_int_equal(kfd_target_hold(&t), 0);

        /* A debugger has attached in between: the target stays held, and reports it, until the debugger has gone. */
        driver.may_trace = false;
        driver.tracer = 1;
        assert_int_equal(kfd_target_release(&t), -EPERM);
        assert_int_equal(t.state, TARGET_UNSURE);
        driver.may_trace = true;
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

/* The kernel shows the former tracer thread for a while after it has reported its end. */
static void test_former_tracer(void **state) {
        KfdTarget t = open_target(PRIVILEGED_CRIU);

        assert_int_equal(kfd_target_hold(&t), 0);
        driver.busy_seizes = 5;
        assert_int_equal(kfd_target_release(&t), 0);
        assert_int_equal(kfd_target_hold(&t), 0);
        driver.busy_seizes = 5000;
        assert_int_equal(kfd_target_release(&t), -EPERM);
        assert_in_range(driver.busy_seizes, 1, 4990);
        driver.busy_seizes = 0;
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

/* --- criu: what fails --- */

static void test_criu_pause_fails(void **state) {
        static const int errors[] = {-EINTR, -EAGAIN, -ETIME, -EIO, -ENODEV, -EACCES, -ENOMEM};

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                for (unsigned late = 0; late < 2; late++) {
                        (void) driver_reset(NULL);
                        KfdTarget t = open_target(PRIVILEGED_CRIU);
                        fail_next(OP_CRIU(KFD_CRIU_PROCESS_INFO), errors[i], late);
                        int r = kfd_target_hold(&t);
                        assert_int_equal(r, errors[i] == -EINTR || errors[i] == -EAGAIN ? 0 : errors[i]);
                        assert_int_equal(t.state, r < 0 ? TARGET_RUNNING : TARGET_HELD);
                        assert_truth(&t);
                        assert_int_equal(kfd_target_release(&t), 0);
                        assert_truth(&t);
                        assert_int_equal(driver.evictions, 0);
                        close_target(&t);
                }
}

static void test_criu_undo_fails(void **state) {
        KfdTarget t = open_target(PRIVILEGED_CRIU);

        fail_next(OP_CRIU(KFD_CRIU_PROCESS_INFO), -ETIME, true);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EIO, false);
        assert_int_equal(kfd_target_hold(&t), -ETIME);
        assert_int_equal(t.state, TARGET_UNSURE);

        /* The next hold begins with the undo: one eviction, not two. */
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EINTR, false);
        fail_next(OP_CRIU(KFD_CRIU_UNPAUSE), -EINTR, true);
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_criu_undo_of_others(void **state) {
        KfdTarget t = open_target(PRIVILEGED_CRIU);

        assert_int_equal(kfd_target_undo(&t), 0); /* nothing there */
        driver.paused = true;
        driver.evictions = 1;
        assert_int_equal(kfd_target_undo(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

/* Thousands of cycles with random failures: a target that reports RUNNING does run. */
static void test_criu_random(void **state) {
        static const int errors[] = {-EINTR, -EIO, -ETIME, -EACCES};
        unsigned seed = 7;
        KfdTarget t = open_target(PRIVILEGED_CRIU);

        for (unsigned i = 0; i < 2000; i++) {
                driver.n_failures = driver.next_failure = 0;
                for (unsigned k = (unsigned) rand_r(&seed) % 3; k > 0; k--)
                        fail_next(OP_CRIU(rand_r(&seed) % 2 ? KFD_CRIU_PROCESS_INFO : KFD_CRIU_UNPAUSE),
                                        errors[(unsigned) rand_r(&seed) % ELEMENTSOF(errors)], rand_r(&seed) % 2);
                (void) (rand_r(&seed) % 2 ? kfd_target_hold(&t) : kfd_target_release(&t));
                assert_in_range(driver.evictions, 0, 1);
                assert_truth(&t);
        }
        driver.n_failures = driver.next_failure = 0;
        assert_int_equal(kfd_target_release(&t), 0);
        close_target(&t);
}

/* --- debug: what fails --- */

static KfdTarget open_debugged(void) {
        driver.n_queues = 4;
        for (uint32_t i = 0; i < 4; i++)
                driver.queues[i].type = KFD_QUEUE_COMPUTE_AQL;
        return open_target(PRIVILEGED_DEBUG);
}

static void test_debug_runtime_not_up(void **state) {
        KfdTarget t = open_debugged();

        driver.runtime_state = 0;
        assert_int_equal(kfd_target_hold(&t), -EAGAIN);
        assert_true(driver.runtime_told);
        assert_truth(&t);
        driver.runtime_state = 2; /* the GPU has its debugger */
        driver.runtime_told = false;
        assert_int_equal(kfd_target_hold(&t), -EBUSY);
        assert_false(driver.runtime_told);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_busy(void **state) {
        KfdTarget t = open_debugged();

        driver.others_debug = true;
        assert_int_equal(kfd_target_hold(&t), -EBUSY);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_each_fails(void **state) {
        static const KfdDbgTrapOp ops[] = {
                        KFD_DBG_TRAP_ENABLE, KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT, KFD_DBG_TRAP_SUSPEND_QUEUES};

        for (size_t i = 0; i < ELEMENTSOF(ops); i++) {
                (void) driver_reset(NULL);
                KfdTarget t = open_debugged();
                fail_next(OP_DEBUG(ops[i]), -EIO, false);
                assert_int_equal(kfd_target_hold(&t), -EIO);
                assert_int_equal(t.state, TARGET_RUNNING);
                assert_truth(&t);
                fail_next(OP_DEBUG(ops[i]), -EINTR, false);
                assert_int_equal(kfd_target_hold(&t), 0);
                assert_int_equal(n_suspended(), 4);
                assert_int_equal(kfd_target_release(&t), 0);
                close_target(&t);
        }
}

static void test_debug_queue_fails(void **state) {
        KfdTarget t = open_debugged();

        driver.queues[2].broken = true;
        assert_int_equal(kfd_target_hold(&t), -ETIME);
        assert_int_equal(n_suspended(), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_disable_fails(void **state) {
        KfdTarget t = open_debugged();

        assert_int_equal(kfd_target_hold(&t), 0);
        fail_next(OP_DEBUG(KFD_DBG_TRAP_DISABLE), -EIO, false);
        assert_int_equal(kfd_target_release(&t), -EIO);
        assert_int_equal(t.state, TARGET_UNSURE);
        assert_int_equal(kfd_target_hold(&t), 0);
        assert_truth(&t);
        driver.may_trace = false; /* DISABLE needs no tracing */
        assert_int_equal(kfd_target_release(&t), 0);
        assert_truth(&t);
        close_target(&t);
}

static void test_debug_some(void **state) {
        KfdTarget t = open_debugged();
        uint32_t ids[] = {1, 3, 9};

        driver.queues[1].new = true;
        assert_int_equal(kfd_target_suspend(&t, ids, 3), 2);
        assert_int_equal(ids[2], 9 | KFD_DBG_QUEUE_INVALID);
        assert_true(driver.queues[1].suspended && driver.queues[3].suspended && n_suspended() == 2);
        assert_true(kfd_debug_is_suspended(&t, 3) && !kfd_debug_is_suspended(&t, 0));
        assert_truth(&t);
        assert_int_equal(kfd_target_resume(&t, ids, 1), 1);
        assert_truth(&t);
        assert_int_equal(n_suspended(), 1);
        assert_int_equal(kfd_target_resume(&t, ids + 1, 1), 1);
        assert_false(driver.enabled); /* nothing is left that needs it enabled */
        assert_int_equal(kfd_target_resume(&t, ids + 1, 1), 0);
        assert_truth(&t);
        close_target(&t);

        t = open_target(PRIVILEGED_CRIU);
        assert_int_equal(kfd_target_suspend(&t, ids, 1), -EOPNOTSUPP);
        assert_int_equal(kfd_target_resume(&t, ids, 1), -EOPNOTSUPP);
        close_target(&t);
}

static void test_gone(void **state) {
        for (PrivilegedMode mode = PRIVILEGED_CRIU; mode <= PRIVILEGED_DEBUG; mode++) {
                (void) driver_reset(NULL);
                KfdTarget t = open_target(mode);
                driver.is_there = false;
                assert_int_equal(kfd_target_hold(&t), -ESRCH);
                assert_int_equal(t.state, TARGET_RUNNING);
                close_target(&t);
        }
}

static void test_explain(void **state) {
        static const int errors[] = {-ESRCH, -ENODEV, -ENOSYS, -EPERM, -EACCES, -EOPNOTSUPP, -EAGAIN, -EBUSY, -EMLINK,
                        -EIO, -ETIME, -EROFS};

        for (size_t i = 0; i < ELEMENTSOF(errors); i++)
                assert_string_not_equal(kfd_privileged_explain(errors[i]), strerror(-errors[i]));
        assert_string_equal(kfd_privileged_explain(-EDOM), strerror(EDOM));
        assert_non_null(kfd_privileged_explain(0));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup(test_modes, driver_reset),
                        cmocka_unit_test_setup(test_open_refuses, driver_reset),
                        cmocka_unit_test_setup(test_old_driver, driver_reset),
                        cmocka_unit_test_setup(test_hold_release, driver_reset),
                        cmocka_unit_test_setup(test_inherited_device, driver_reset),
                        cmocka_unit_test_setup(test_new_queues, driver_reset),
                        cmocka_unit_test_setup(test_mes, driver_reset),
                        cmocka_unit_test_setup(test_contexts, driver_reset),
                        cmocka_unit_test_setup(test_may_not_trace, driver_reset),
                        cmocka_unit_test_setup(test_former_tracer, driver_reset),
                        cmocka_unit_test_setup(test_criu_pause_fails, driver_reset),
                        cmocka_unit_test_setup(test_criu_undo_fails, driver_reset),
                        cmocka_unit_test_setup(test_criu_undo_of_others, driver_reset),
                        cmocka_unit_test_setup(test_criu_random, driver_reset),
                        cmocka_unit_test_setup(test_debug_runtime_not_up, driver_reset),
                        cmocka_unit_test_setup(test_debug_busy, driver_reset),
                        cmocka_unit_test_setup(test_debug_each_fails, driver_reset),
                        cmocka_unit_test_setup(test_debug_queue_fails, driver_reset),
                        cmocka_unit_test_setup(test_debug_disable_fails, driver_reset),
                        cmocka_unit_test_setup(test_debug_some, driver_reset),
                        cmocka_unit_test_setup(test_gone, driver_reset),
                        cmocka_unit_test_setup(test_explain, driver_reset),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
