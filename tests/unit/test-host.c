/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes that have a GPU open: which files count as GPUs, and the processes' states
 */

#include <stdio.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "tools/host/host-loaded.h"
#include "tools/host/host-scan.h"

static void test_names(void **state) {
        assert_int_equal(host_device_of_name("/dev/kfd"), HOST_KFD);
        assert_int_equal(host_device_of_name("/dev/nvidia0"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/nvidiactl"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/nvidia-uvm"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/dri/renderD128"), HOST_RENDER);
        /* The node of a display, which programs do not compute with. */
        assert_int_equal(host_device_of_name("/dev/dri/card0"), 0);
        assert_int_equal(host_device_of_name("/dev/kfd0"), 0);
        assert_int_equal(host_device_of_name("/dev/null"), 0);
        assert_int_equal(host_device_of_name("/home/a/dev/kfd"), 0);
        assert_int_equal(host_device_of_name(""), 0);
}

/* Every state has its own name, which scripts rely on. */
static void test_states(void **state) {
        for (HostState i = 0; i < _HOST_STATE_MAX; i++) {
                assert_non_null(host_state_to_string(i));
                for (HostState k = 0; k < i; k++)
                        assert_string_not_equal(host_state_to_string(i), host_state_to_string(k));
        }
        assert_null(host_state_to_string(_HOST_STATE_MAX));
}

static void test_judgements(void **state) {
        const HostProcess none = {.layers = 0}, unknown = {.layers = -ENOENT}, off = {.layers = 1, .disabled = true};

        assert_int_equal(host_judge(&unknown, 2), HOST_SCHEDULED);
        assert_int_equal(host_judge(&unknown, 0), HOST_NO_QUEUE);
        assert_int_equal(host_judge(&none, -1), HOST_NO_LAYER);
        assert_int_equal(host_judge(&unknown, -1), HOST_UNKNOWN);
        assert_int_equal(host_judge(&off, -1), HOST_DISABLED);
        assert_int_equal(host_judge(&(HostProcess){.layers = 1}, -1), HOST_UNREGISTERED);
}

/* Reading of this process hangs, as with one that changes its mappings: only a kill ends it. */
#define HANGS INT32_MAX

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode) {
        char hanging[64];

        (void) snprintf(hanging, sizeof(hanging), "/proc/%d/maps", HANGS);
        while (streq(path, hanging))
                (void) pause();
        return __real_fopen64(path, mode);
}

static bool is_wanted(const HostProcess *p, void *userdata) {
        return p->devices != 0;
}

static void test_loaded(void **state) {
        enum { N = 6 };
        HostProcess processes[N];
        HostProcesses all = {.processes = processes, .n = N};

        for (size_t i = 0; i < N; i++)
                processes[i] = (HostProcess){.pid = getpid(), .devices = HOST_KFD, .layers = -ENODATA};
        processes[1].devices = 0;
        processes[2].pid = processes[3].pid = HANGS;
        processes[4].pid = HANGS - 1; /* no such process */
        assert_int_equal(host_read_loaded(&all, is_wanted, NULL), 0);
        const int layers[N] = {0, -ENODATA, -ETIMEDOUT, -ETIMEDOUT, -ENOENT, 0};
        for (size_t i = 0; i < N; i++)
                assert_int_equal(processes[i].layers, layers[i]);
        all.n = 0;
        assert_int_equal(host_read_loaded(&all, is_wanted, NULL), 0);
}

/* The time limit is for all processes together. */
static void test_loaded_of_many(void **state) {
        enum { N = 100, LOOKED_AT = HOST_READ_ALL_NS / HOST_READ_NS };
        HostProcess processes[N];
        HostProcesses all = {.processes = processes, .n = N};

        for (size_t i = 0; i < N; i++)
                processes[i] = (HostProcess){.pid = HANGS, .devices = HOST_KFD, .layers = -ENODATA};
        assert_int_equal(host_read_loaded(&all, is_wanted, NULL), 0);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(processes[i].layers, i < LOOKED_AT ? -ETIMEDOUT : -ENODATA);
}

/* This process has no GPU open, and the scan leaves out its own process anyway. */
static void test_scan(void **state) {
        HostProcesses all = {0};

        assert_int_equal(host_scan(&all), 0);
        for (size_t i = 0; i < all.n; i++) {
                assert_int_not_equal(all.processes[i].pid, getpid());
                assert_int_not_equal(all.processes[i].devices, 0);
                assert_true(i == 0 || all.processes[i - 1].pid < all.processes[i].pid);
        }
        host_processes_done(&all);
        assert_null(all.processes);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_names),
                        cmocka_unit_test(test_states),
                        cmocka_unit_test(test_judgements),
                        cmocka_unit_test(test_loaded),
                        cmocka_unit_test(test_loaded_of_many),
                        cmocka_unit_test(test_scan),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
