/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The latency limit for sleeping CPUs: written to the kernel once for each change, in whole microseconds, and withdrawn
 * by closing
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "service/base/cpu-latency.h"
#include "tests/lib/unit.h"

#define N_MAX 8U

/* All values written so far: the test's file keeps all, where the kernel keeps the last. */
static size_t written(const char *path, int32_t values[N_MAX]) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        ssize_t n = read(fd, values, N_MAX * sizeof(*values));
        assert_true(n >= 0 && n % (ssize_t) sizeof(*values) == 0);
        return (size_t) n / sizeof(*values);
}

static void test_said_once_for_each_change(void **state) {
        char path[] = "/tmp/xsched-test-cpu-latency-XXXXXX";
        CpuLatency c = CPU_LATENCY_NULL;
        int32_t values[N_MAX];

        safe_close(mkstemp(path));
        cpu_latency_set(&c, path, NSEC_INFINITY);
        assert_true(c.fd < 0);
        assert_int_equal(written(path, values), 0);

        cpu_latency_set(&c, path, 0);
        cpu_latency_set(&c, path, 0);
        assert_int_equal(written(path, values), 1);
        assert_int_equal(values[0], 0);

        cpu_latency_set(&c, path, 20999);
        assert_int_equal(written(path, values), 2);
        assert_int_equal(values[1], 20);

        int fd = c.fd;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cpu_latency_set(&c, path, NSEC_INFINITY);
        assert_true(c.fd < 0);
        assert_true(fcntl(fd, F_GETFD) < 0);

        cpu_latency_set(&c, path, 20999);
        assert_true(c.fd >= 0);
        cpu_latency_done(&c);
        assert_true(c.fd < 0);
        assert_int_equal(unlink(path), 0);
}

static void test_refused_once(void **state) {
        char path[] = "/tmp/xsched-test-cpu-latency-XXXXXX";
        CpuLatency c = CPU_LATENCY_NULL;
        int32_t values[N_MAX];

        cpu_latency_set(&c, "/nonexistent/cpu_dma_latency", 0);
        assert_true(c.fd < 0);
        assert_true(c.refused);

        safe_close(mkstemp(path));
        cpu_latency_set(&c, path, 0);
        assert_true(c.fd < 0);
        assert_int_equal(written(path, values), 0);
        assert_int_equal(unlink(path), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_said_once_for_each_change),
                        cmocka_unit_test(test_refused_once),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
