/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a bounded queue waits for a GPU, in virtual time: the device is not idle while who has the next launch sleeps,
 * and what is learned is what launches take
 *
 * Time passes by looking and by sleeping only. Sleeps end late, callbacks come in the end, and status is right at once,
 * as on a GPU in a virtual machine. The first launch of a turn waits behind what a neighbour has left on the device.
 */

#include <time.h>

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-time.h"

#define KERNEL_NS    (1200 * NSEC_PER_USEC)
#define TAIL_NS      KERNEL_NS
#define TURN         16 /* launches */
#define TURNS        60
#define LOOK_NS      UINT64_C(300)
#define OVERSLEEP_NS (160 * NSEC_PER_USEC)

typedef struct Device {
        uint64_t now_ns, free_at_ns, idle_ns, busy_ns;
        uint64_t ends[SIM_COMMANDS_MAX];
        int n_given, n_over;
} Device;

static Device device;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret) {
        *ret = ns_to_timespec(device.now_ns);
        return 0;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left) {
        device.now_ns += (uint64_t) ts->tv_sec * NSEC_PER_SEC + (uint64_t) ts->tv_nsec + OVERSLEEP_NS;
        return 0;
}

static void look(void) {
        device.now_ns += LOOK_NS;
        while (device.n_over < device.n_given && device.ends[device.n_over] <= device.now_ns)
                sim_end(device.n_over++, CL_COMPLETE);
}

/* The device has it from its enqueue on, which is the last that happens in a launch but for looks. */
static void launch_one(cl_command_queue q, uint64_t ns) {
        launches(q, 1);
        uint64_t start = MAX(device.now_ns, device.free_at_ns);
        device.idle_ns += start - device.free_at_ns;
        device.busy_ns += ns;
        device.free_at_ns = device.ends[device.n_given++] = start + ns;
}

static cl_command_queue device_open(void) {
        device = (Device){.now_ns = NSEC_PER_SEC, .free_at_ns = NSEC_PER_SEC};
        sim.late_callbacks = true;
        sim.in_query = look;
        library.track = true;
        library.limit = 1;
        return queue(0);
}

static void device_close(cl_command_queue q) {
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
        sim_call_back();
        release(q);
        sim.in_query = NULL;
}

/* It comes out of the gate while a part of the neighbour's last launch has yet to run. */
static void turn_begin(cl_command_queue q, int turn) {
        device.now_ns += 60 * NSEC_PER_MSEC;
        device.free_at_ns = device.now_ns + TAIL_NS * (uint64_t) (turn % 4 + 1) / 4;
        library.held = true;
        launch_one(q, KERNEL_NS);
        library.held = false;
}

static void test_turns(void **state) {
        cl_command_queue q = device_open();
        OpenclQueue *record = opencl_queue_find(q);

        for (int i = 0; i < TURN; i++)
                launch_one(q, KERNEL_NS);
        for (int turn = 0; turn < TURNS; turn++) {
                turn_begin(q, turn);
                if (turn == TURNS / 2)
                        device.idle_ns = device.busy_ns = 0;
                for (int i = 1; i < TURN; i++)
                        launch_one(q, KERNEL_NS);
        }
        double idle = (double) device.idle_ns / (double) device.busy_ns;
        print_message("mean %.1f us of %.1f, device idle for %.1f %% of what it works\n",
                        (double) record->mean_ns / 1e3, (double) KERNEL_NS / 1e3, 100 * idle);
        assert_true(idle < 0.03);
        assert_in_range(record->mean_ns, KERNEL_NS * 95 / 100, KERNEL_NS * 105 / 100);
        device_close(q);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_turns),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
