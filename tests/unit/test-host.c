/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes that have a GPU open: what is one, and what is said of who has it
 */

#include "tests/lib/unit.h"
#include "tools/host/host-scan.h"

static void test_names(void **state) {
        assert_int_equal(host_device_of_name("/dev/kfd"), HOST_KFD);
        assert_int_equal(host_device_of_name("/dev/nvidia0"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/nvidiactl"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/nvidia-uvm"), HOST_NVIDIA);
        assert_int_equal(host_device_of_name("/dev/dri/renderD128"), HOST_RENDER);
        /* A display's, not a program's. */
        assert_int_equal(host_device_of_name("/dev/dri/card0"), 0);
        assert_int_equal(host_device_of_name("/dev/kfd0"), 0);
        assert_int_equal(host_device_of_name("/dev/null"), 0);
        assert_int_equal(host_device_of_name("/home/a/dev/kfd"), 0);
        assert_int_equal(host_device_of_name(""), 0);
}

/* Every state has a name of its own, by which scripts know it. */
static void test_states(void **state) {
        for (HostState i = 0; i < _HOST_STATE_MAX; i++) {
                assert_non_null(host_state_to_string(i));
                for (HostState k = 0; k < i; k++)
                        assert_string_not_equal(host_state_to_string(i), host_state_to_string(k));
        }
        assert_null(host_state_to_string(_HOST_STATE_MAX));
}

static void test_judgements(void **state) {
        const HostProcess self = {.pid = getpid(), .devices = HOST_KFD}, nobody = {.pid = INT32_MAX};
        int layers = -1;

        assert_int_equal(host_judge(&self, 2, &layers), HOST_SCHEDULED);
        assert_int_equal(host_judge(&self, 0, &layers), HOST_NO_QUEUE);
        assert_int_equal(host_judge(&self, -1, &layers), HOST_NO_LAYER);
        assert_int_equal(layers, 0);
        assert_int_equal(host_judge(&nobody, -1, &layers), HOST_UNKNOWN);
}

/* This process has none open, and is not looked for in any case. */
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
                        cmocka_unit_test(test_scan),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
