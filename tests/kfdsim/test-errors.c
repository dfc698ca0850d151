/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Injected failures: each call fails as often as asked for, with that error, before or after its work
 */

#include <fcntl.h>
#include <sys/ioctl.h>

#include "hal/kfd-abi.h"
#include "harness.h"
#include "kfdsim.h"

static int version(int fd) {
        KfdVersion v;
        return ioctl(fd, KFD_IOC_GET_VERSION, &v) < 0 ? negative_errno() : 0;
}

static void case_counts(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);

        check(fd >= 0 && version(fd) == 0);
        check(kfdsim_fail("1:4:2:1;0x07:5:1") == 0);
        static const int expected[] = {0, -EINTR, -EINTR, 0};
        for (size_t i = 0; i < ELEMENTSOF(expected); i++)
                check(version(fd) == expected[i]);
        check(kfdsim_fail("1:5:1") == 0 && version(fd) == -EIO);
        check(version(fd) == 0);
        check(kfdsim_fail("1:5:1") == 0 && kfdsim_fail("") == 0 && version(fd) == 0);
        check(kfdsim_fail("1") < 0 && kfdsim_fail("1:never:1") < 0 && kfdsim_fail("1:5:1:0:soon") < 0);
        check(version(fd) == 0);
}

static void case_environment(void) {
        check(setenv("KFDSIM_FAIL", "1:62:1", 1) == 0);
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        check(fd >= 0 && version(fd) == -ETIME && version(fd) == 0);
}

static bool executes(AqlQueue *q) {
        uint64_t n = aql_queue_executed(q);

        check(aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        struct timespec nap = {.tv_nsec = 20000000};
        (void) nanosleep(&nap, NULL);
        return aql_queue_executed(q) > n;
}

/* After an error the queue may be as it was, or as it was to be. */
static void case_update(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        check(kfdsim_fail("7:5:1") == 0);
        check(aql_queue_update(q, 0) == -EIO);
        check(poll_until(executes(q)));
        check(kfdsim_fail("7:5:1:0:late") == 0);
        check(aql_queue_update(q, 0) == -EIO && !executes(q));
        check(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        check(kfdsim_fail("7:4:3") == 0);
        check(aql_queue_update(q, 0) == 0); /* the thunk tries again */
        check(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        queue_close_clean(q);
}

static void case_hang(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        uint64_t start = now_ns();
        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
        uint64_t honest = now_ns() - start;
        check(kfdsim_fail("7:hang:1") == 0);
        start = now_ns();
        check(aql_queue_update(q, 0) == -ETIME);
        check(now_ns() - start > 4 * honest);
        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
        check(poll_until(executes(q)));
        queue_close_clean(q);
}

static void case_create(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q;

        check(kfdsim_fail("2:12:1") == 0);
        check(aql_queue_create(&d, NULL, &q) < 0);
        check(aql_queue_create(&d, NULL, &q) == 0);
        check(poll_until(executes(q)));
        check(kfdsim_fail("3:5:1") == 0);
        check(aql_queue_destroy(q) < 0);
        queue_close_clean(q);
}

/* An older driver knows fewer calls. */
static void case_old_api(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        KfdVersion v;
        KfdRuntimeEnable e = {0};
        KfdDbgTrap t = {.pid = (uint32_t) getpid()};

        check(ioctl(fd, KFD_IOC_GET_VERSION, &v) == 0 && v.minor == 11);
        check(ioctl(fd, KFD_IOC_RUNTIME_ENABLE, &e) < 0 && errno == ENOTTY);
        check(ioctl(fd, KFD_IOC_DBG_TRAP, &t) < 0 && errno == ENOTTY);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"counts", NULL, NULL, case_counts},
                        {"environment", NULL, NULL, case_environment},
                        {"update", NULL, NULL, case_update},
                        {"hang", NULL, "timeout-ms=200", case_hang},
                        {"create", NULL, NULL, case_create},
                        {"old-api", NULL, "api-minor=11", case_old_api},
        };
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
