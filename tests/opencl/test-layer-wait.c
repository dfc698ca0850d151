/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a bounded queue waits for a GPU, in virtual time: the device is not idle while the thread that has the next
 * launch sleeps, and the learned lengths are those of the launches
 *
 * Time passes by looking and by sleeping only. As on a GPU in a virtual machine, sleeps end late and callbacks come
 * late, but an event's status is right at once. The first launch of a turn waits for the rest of a neighbour's work on
 * the device, or for the device to switch to this process.
 */

#include <time.h>

#include "common/time-util.h"
#include "layer-fixture.h"
#include "shim/opencl/opencl-delay.h"
#include "shim/opencl/opencl-time.h"

#define KERNEL_NS    (1200 * NSEC_PER_USEC)
#define TAIL_NS      KERNEL_NS
#define TURN         16 /* launches */
#define TURNS        60
#define LOOK_NS      UINT64_C(1000)
#define OVERSLEEP_NS (160 * NSEC_PER_USEC)
#define GO_OVER_NS   (130 * NSEC_PER_USEC)

typedef struct Device {
        uint64_t now_ns, free_at_ns, idle_ns, busy_ns;
        uint64_t way_ns;   /* from an enqueue to the device */
        uint64_t early_ns; /* the longest time that a launch was there before the device was free */
        uint64_t ends[SIM_COMMANDS_MAX];
        int n_given, n_over, first; /* first: the index of its first command among the runtime's */
} Device;

static Device device;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
void __wrap_nap(uint64_t ns);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret) {
        *ret = ns_to_timespec(device.now_ns);
        return 0;
}

void __wrap_nap(uint64_t ns) {
        device.now_ns += ns + OVERSLEEP_NS;
}

static void look(void) {
        device.now_ns += LOOK_NS;
        while (device.n_over < device.n_given && device.ends[device.n_over] <= device.now_ns)
                sim_end(device.first + device.n_over++, CL_COMPLETE);
}

/* The device has the launch from its enqueue on; after the enqueue a launch only looks. */
static void launch_given(cl_command_queue q, cl_kernel kernel, const size_t *items, uint64_t ns) {
        assert_int_equal(cl->clEnqueueNDRangeKernel(q, kernel, 1, NULL, items, NULL, 0, NULL, NULL), CL_SUCCESS);
        uint64_t there = device.now_ns + device.way_ns, start = MAX(there, device.free_at_ns);
        device.early_ns = MAX(device.early_ns, start - there);
        device.idle_ns += start - device.free_at_ns;
        device.busy_ns += ns;
        device.free_at_ns = device.ends[device.n_given++] = start + ns;
}

static void launch_one(cl_command_queue q, uint64_t ns) {
        launch_given(q, NULL, NULL, ns);
}

static cl_command_queue device_open(void) {
        device = (Device){.now_ns = NSEC_PER_SEC, .free_at_ns = NSEC_PER_SEC, .first = sim.n_events};
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

/* The turn begins at the gate while a part of the neighbour's last launch has yet to run. */
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

/* --- when the first launch of a turn begins --- */

typedef void Launch(cl_command_queue q, uint64_t ns);

static void launch_and_finish(cl_command_queue q, uint64_t ns) {
        launch_one(q, ns);
        assert_int_equal(cl->clFinish(q), CL_SUCCESS);
}

/* Lets time pass until all launches have ended. */
static void pass_to_end(void) {
        device.now_ns = MAX(device.now_ns, device.free_at_ns);
        device.n_over = device.n_given;
}

/* Random lengths for launches of one kind, KERNEL_NS on average; all the same where `spread` is 0. */
static unsigned spread; /* percent */

static uint64_t some_length(void) {
        static uint32_t random = 1;

        random = random * 1664525U + 1013904223U;
        return KERNEL_NS * (100 - spread + (random >> 16) % (2 * spread + 1)) / 100;
}

/* The verdict turns to hold while a launch is in flight; others have the device for 60 ms, and it switches to this
 * process when the next launch is submitted. Returns how much later than its submission the layer said that launch
 * began; 0: it did not say. */
static uint64_t turn_after_others(cl_command_queue q, Launch *launch_it, uint64_t over_ns) {
        library.held = true;
        launch_it(q, some_length());
        device.now_ns = MAX(device.now_ns, device.free_at_ns) + 60 * NSEC_PER_MSEC;
        opencl_harvest_some(opencl_queue_find(q));
        library.held = false;

        library.started_ns = 0;
        uint64_t submitted = device.now_ns;
        device.free_at_ns = device.now_ns + over_ns;
        for (int i = 1; i < TURN; i++)
                launch_it(q, some_length());
        return ns_sub(library.started_ns, submitted);
}

/* The mean delay in the second half of the turns, in which the hand-over is known. */
static uint64_t mean_delay(cl_command_queue q, Launch *launch_it, uint64_t over_ns) {
        uint64_t sum = 0;

        for (int i = 0; i < TURN; i++)
                launch_it(q, some_length());
        for (int turn = 0; turn < TURNS; turn++) {
                uint64_t delay = turn_after_others(q, launch_it, over_ns);

                assert_true(delay <= OPENCL_DELAY_MAX + 2 * LOOK_NS);
                sum += turn >= TURNS / 2 ? delay : 0;
        }
        return sum / (TURNS - TURNS / 2);
}

static void check_delay(Launch *launch_it, uint64_t over_ns, unsigned by, uint64_t within_ns) {
        cl_command_queue q = device_open();

        spread = by;

        sim.in_finish = pass_to_end;
        uint64_t delay = mean_delay(q, launch_it, over_ns);
        print_message("goes over in %.1f us, said %.1f\n", (double) over_ns / 1e3, (double) delay / 1e3);
        assert_in_range(delay + within_ns, over_ns, over_ns + 2 * within_ns);
        device_close(q);
        sim.in_finish = NULL;
}

/* Where the hand-over takes no time, the layer says none. Where launches differ by up to 360 us, it is learned as
 * exactly as their mean. */
static void check_delays(Launch *launch_it) {
        const uint64_t exact_ns = 10 * NSEC_PER_USEC, mean_ns = KERNEL_NS / 20;

        check_delay(launch_it, GO_OVER_NS, 0, exact_ns);
        check_delay(launch_it, 0, 0, exact_ns);
        check_delay(launch_it, GO_OVER_NS, 15, mean_ns);
        check_delay(launch_it, 0, 15, mean_ns);
}

static void test_going_over(void **state) {
        check_delays(launch_one);
}

static void test_going_over_synchronous(void **state) {
        check_delays(launch_and_finish);
}

/* Work that other clients left on the device takes longer than the hand-over: the layer counts no more than the hand-
 * over. */
static void test_no_more_than_that(void **state) {
        cl_command_queue q = device_open();

        uint64_t delay = mean_delay(q, launch_one, 4 * OPENCL_DELAY_MAX);
        assert_in_range(delay, OPENCL_DELAY_MAX * 9 / 10, OPENCL_DELAY_MAX + 2 * LOOK_NS);
        device_close(q);
}

/* In one turn of eight, and in the first ones, the first launch waits for work that other clients left on the device.
 * The hand-over of the other turns is not longer for that. */
static void test_waits_now_and_then(void **state) {
        cl_command_queue q = device_open();
        uint64_t sum = 0;
        unsigned n = 0;

        for (int i = 0; i < TURN; i++)
                launch_one(q, KERNEL_NS);
        for (int turn = 0; turn < TURNS; turn++) {
                bool waits = turn < 3 || turn % 8 == 0;
                uint64_t delay = turn_after_others(q, launch_one, GO_OVER_NS + (waits ? 3 * NSEC_PER_MSEC : 0));

                if (waits || turn < TURNS / 4)
                        continue;
                sum += delay;
                n++;
        }
        print_message("goes over in %.1f us, said %.1f\n", (double) GO_OVER_NS / 1e3, (double) sum / n / 1e3);
        assert_in_range(sum / n, GO_OVER_NS * 9 / 10, GO_OVER_NS * 11 / 10);
        device_close(q);
}

/* Alone there are no turns. */
static void test_alone(void **state) {
        cl_command_queue q = device_open();

        library.started_ns = 0;
        for (int i = 0; i < 4 * TURN; i++)
                launch_one(q, some_length());
        assert_int_equal(library.started_ns, 0);
        device_close(q);
}

/* --- the lead --- */

#define WAY_NS   (15 * NSEC_PER_USEC)
#define LEAD_NS  (20 * NSEC_PER_USEC)
#define SHORT_NS (200 * NSEC_PER_USEC)

/* Launches of two kinds in turns, one in flight. Returns the time that the device was idle, as a part of its work. */
static double idle_with_lead(uint64_t lead_ns) {
        cl_command_queue q = device_open();
        const size_t items = KERNEL_ITEMS;

        device.way_ns = WAY_NS;
        library.lead_ns = lead_ns;
        for (int i = 0; i < 120; i++) {
                if (i == 40)
                        device.idle_ns = device.busy_ns = device.early_ns = 0;
                launch_given(q, kernel_of_own_place(i % 2), &items, i % 2 ? SHORT_NS : 3 * SHORT_NS);
        }
        double idle = (double) device.idle_ns / (double) device.busy_ns;
        print_message("lead %.0f us: idle for %.1f %%, at most %.1f us early\n", (double) lead_ns / 1e3, 100 * idle,
                        (double) device.early_ns / 1e3);
        device_close(q);
        library.lead_ns = 0;
        return idle;
}

/* The next launch is submitted before the device is done with the one before, but less than half a launch earlier,
 * whatever the mean of all kinds is. */
static void test_lead(void **state) {
        double without = idle_with_lead(0);

        assert_in_range(device.early_ns, 0, LOOK_NS);
        assert_true(without > (double) WAY_NS / (double) (2 * SHORT_NS));
        double with = idle_with_lead(LEAD_NS);
        assert_true(with < without / 4);
        assert_in_range(device.early_ns, 0, SHORT_NS / 2);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, layer_setup, layer_teardown)
        const struct CMUnitTest tests[] = {
                        T(test_turns),
                        T(test_going_over),
                        T(test_going_over_synchronous),
                        T(test_no_more_than_that),
                        T(test_waits_now_and_then),
                        T(test_alone),
                        T(test_lead),
        };
        return cmocka_run_group_tests(tests, layer_setup_group, NULL);
}
