/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of launches on rides: handlers of signals that launch, and that jump, at each instruction of such a launch
 */

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-begun.h"
#include "shim/cuda/cuda-stack.h"
#include "tests/lib/single-step.h"
#include "tests/lib/unit.h"

#define NEVER     UINT32_MAX
#define STEPS_MAX 8192U

static CudaQueue outer_queue, inner_queue;
static uint32_t n_complete; /* launches that do not ride */
static uint32_t step, launch_at, n_taken_back;
static uint32_t left_at[STEPS_MAX], left_alone[STEPS_MAX];

/* --- what the records use --- */

bool cuda_on_other_stack(void) {
        return false;
}

bool cuda_queue_lock_at(CudaQueue *q, const void *frame) {
        return true;
}

void cuda_queue_unlock(CudaQueue *q) {
}

void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns) {
        n_complete += n;
}

void xsched_queue_drained(XschedQueue *q) {
        fail();
}

void xsched_queue_look(XschedQueue *q) {
        fail();
}

/* --- launches, as the layer makes them --- */

static _noinline_ void launch_tracked(CudaQueue *q) {
        const void *frame = __builtin_frame_address(0);

        cuda_begun_look(frame);
        cuda_begun_counts(q, q->xq, frame);
        uint32_t i = cuda_begun_note(q, q->xq, frame);
        if (i < CUDA_BEGUN)
                cuda_begun_ends(i);
        xsched_queue_complete(q->xq, 1, 0);
        cuda_begun_end(i);
}

static _noinline_ void launch(CudaQueue *q) {
        uint64_t ticket;

        if (!cuda_begun_is_idle() || !cuda_ride_begin(&q->ride, NSEC_PER_USEC, &ticket)) {
                launch_tracked(q);
                return;
        }
        if (!cuda_begun_note_ride(q, q->xq, __builtin_frame_address(0), ticket)) {
                cuda_ride_end(&q->ride, ticket, NSEC_PER_USEC, false);
                launch_tracked(q);
                return;
        }
        if (cuda_begun_end_ride(q->xq))
                cuda_ride_end(&q->ride, ticket, NSEC_PER_USEC, true);
}

static uint32_t inside(const CudaQueue *q) {
        return cuda_ride_field(cuda_ride_load(&q->ride), CUDA_RIDE_INSIDE);
}

/* Returns how many launches a jump at this instruction would leave on a ride without a record: the rest are taken back
 * when the thread looks the next time. It does not jump. */
static uint32_t left_by_jump(void) {
        CudaBegunThread before = cuda_begun;
        uint64_t outer = cuda_ride_load(&outer_queue.ride), inner = cuda_ride_load(&inner_queue.ride);
        uint32_t n_inside = inside(&outer_queue);

        cuda_begun_look((const void *) UINTPTR_MAX); /* all frames are left */
        assert_true(cuda_begun_is_idle());
        for (size_t i = 0; i < CUDA_BEGUN; i++)
                assert_null(cuda_begun.records[i].xq);
        assert_true(cuda_ride_load(&inner_queue.ride) == inner);
        uint32_t left = inside(&outer_queue);
        assert_true(left <= n_inside);
        n_taken_back += n_inside - left;
        cuda_begun = before;
        atomic_store(&outer_queue.ride.word, outer);
        return left;
}

static void handle_step(int sig) {
        if (step == launch_at)
                launch(&inner_queue);
        assert_true(step < STEPS_MAX);
        left_at[step++] = left_by_jump();
}

static void open_ride(CudaQueue *q) {
        q->xq = (XschedQueue *) q;
        q->ride = (CudaRide){};
        cuda_ride_open(&q->ride, 100, NSEC_PER_USEC);
}

static void step_launch(uint32_t launch_step) {
        uint64_t ns;

        cuda_begun = (CudaBegunThread){};
        open_ride(&outer_queue);
        open_ride(&inner_queue);
        launch_at = launch_step;
        step = n_complete = 0;
        single_step_begin();
        launch(&outer_queue);
        single_step_end();
        assert_true(cuda_begun_is_idle());
        assert_int_equal(inside(&outer_queue), 0);
        assert_int_equal(inside(&inner_queue), 0);
        assert_int_equal(cuda_ride_take(&outer_queue.ride, &ns), 1);
        assert_int_equal(cuda_ride_take(&inner_queue.ride, &ns) + n_complete, launch_step < step);
}

/* A handler may launch at any instruction, and another one jump at any later one: what the jump leaves is as if nobody
 * had launched before. */
static void test_handlers(void **state) {
        const struct sigaction action = {.sa_handler = handle_step};
        struct sigaction before;
        uint32_t n_steps, n_left = 0;

        assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
        step_launch(NEVER);
        n_steps = step;
        memcpy(left_alone, left_at, sizeof(left_at));
        for (uint32_t i = 0; i < n_steps; i++)
                n_left += left_alone[i];
        assert_true(n_left > 0); /* in its first and last moments */
        assert_true(n_taken_back > 0);
        for (uint32_t i = 0; i < n_steps; i++) {
                step_launch(i);
                assert_int_equal(step, n_steps);
                assert_memory_equal(left_at, left_alone, n_steps * sizeof(*left_at));
        }
        assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_handlers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
