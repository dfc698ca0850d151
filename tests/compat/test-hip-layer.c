/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HIP layer on a stand-in for the runtime: calls arrive as they were made, launches on streams with an XQueue are
 * held, bounded and counted, and nothing of it shows in the program
 *
 * The layer is part of this program, and so before the runtime, as a preloaded library is. There is no service: the
 * XQueues' own gates decide.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/macro.h"
#include "fake-hip.h"
#include "tests/lib/deadline.h"
#include "tests/lib/unit.h"

#include "include/xsched-compat/xsched/hip/hal.h"
#include "include/xsched-compat/xsched/xsched.h"

#define P(n) ((void *) (uintptr_t) (n))
#define D(n) ((HipDim3){(n), (n) + 1, (n) + 2})

#define F(call, STREAM, PARAMS, PASSED, SUM)                                                                           \
        HipResult call PARAMS;                                                                                         \
        static HipResult pass_##call(HipStream s) {                                                                    \
                return call PASSED;                                                                                    \
        }                                                                                                              \
        static HipResult past_##call(void *runtime, HipStream s) {                                                     \
                typeof(&call) f = (typeof(&call)) (uintptr_t) dlsym(runtime, #call);                                   \
                return f PASSED;                                                                                       \
        }
#include "hip-functions.h"
#undef F

static const struct {
        const char *name;
        HipResult (*pass)(HipStream s);
        HipResult (*past)(void *runtime, HipStream s); /* the runtime's own */
} functions[] = {
#define F(call, STREAM, PARAMS, PASSED, SUM) {#call, pass_##call, past_##call},
#include "hip-functions.h"
#undef F
};

HipResult hipStreamSynchronize(HipStream stream);
HipResult hipStreamDestroy(HipStream stream);
HipResult hipDeviceReset(void);

typedef struct Stream {
        HipStream stream;
        HwQueueHandle hwq;
        XQueueHandle xq;
        _Atomic unsigned n_launched;
        unsigned n; /* what launch_some() launches */
} Stream;

static Stream stream_new(void) {
        Stream s = {};

        assert_int_equal(hipStreamCreate(&s.stream), HIP_RESULT_SUCCESS);
        assert_int_equal(HipQueueCreate(&s.hwq, s.stream), kXSchedSuccess);
        assert_int_equal(XQueueCreate(&s.xq, s.hwq, kPreemptLevelBlock, kQueueCreateFlagNone), kXSchedSuccess);
        return s;
}

static void stream_free(const Stream *s) {
        assert_int_equal(XQueueDestroy(s->xq), kXSchedSuccess);
        assert_int_equal(HwQueueDestroy(s->hwq), kXSchedSuccess);
        assert_int_equal(hipStreamDestroy(s->stream), HIP_RESULT_SUCCESS);
}

static HipResult launch(HipStream stream) {
        return pass_hipLaunchKernel(stream);
}

static void *launch_some(void *userdata) {
        Stream *s = userdata;

        for (unsigned i = 0; i < s->n; i++) {
                if (launch(s->stream) != HIP_RESULT_SUCCESS || hipPeekAtLastError() != HIP_RESULT_SUCCESS)
                        abort();
                atomic_fetch_add(&s->n_launched, 1);
        }
        return NULL;
}

static pthread_t start(Stream *s, unsigned n) {
        pthread_t thread;

        s->n = n;
        assert_int_equal(pthread_create(&thread, NULL, launch_some, s), 0);
        return thread;
}

static int64_t counted(const Stream *s) {
        int64_t n = -1;

        assert_int_equal(XQueueProfileHwCommandCount(s->xq, &n), kXSchedSuccess);
        return n;
}

static bool is_idle(const Stream *s) {
        XQueueState state = kQueueStateUnknown;

        assert_int_equal(XQueueQuery(s->xq, &state), kXSchedSuccess);
        return state == kQueueStateIdle;
}

/* Each function passes its arguments and its result, on any stream, and is a launch where there is an XQueue. */
static void test_arguments(void **state) {
        void *runtime = dlopen("libamdhip64.so.6", RTLD_LAZY | RTLD_NOLOAD);
        Stream s = stream_new(), other = {};

        assert_non_null(runtime);
        assert_int_equal(hipStreamCreate(&other.stream), HIP_RESULT_SUCCESS);
        for (size_t i = 0; i < ELEMENTSOF(functions); i++) {
                assert_int_equal(functions[i].past(runtime, other.stream), HIP_RESULT_SUCCESS);
                FakeCall expected = fake_hip_last();
                assert_string_equal(expected.name, functions[i].name);

                assert_int_equal(functions[i].pass(other.stream), HIP_RESULT_SUCCESS);
                assert_string_equal(fake_hip_last().name, expected.name);
                assert_int_equal(fake_hip_last().sum, expected.sum);

                assert_int_equal(functions[i].pass(s.stream), HIP_RESULT_SUCCESS);
                assert_string_equal(fake_hip_last().name, expected.name);
                assert_int_equal(fake_hip_last().sum, expected.sum);
                assert_int_equal(counted(&s), i + 1);
                fake_hip_end(s.stream, 1);

                fake_hip_fails((HipResult) i + 1);
                assert_int_equal(functions[i].pass(NULL), i + 1);
        }
        assert_int_equal(hipStreamSynchronize(s.stream), HIP_RESULT_SUCCESS);
        assert_true(poll_until(is_idle(&s)));
        stream_free(&s);
        assert_int_equal(hipStreamDestroy(other.stream), HIP_RESULT_SUCCESS);
}

static void test_held(void **state) {
        Stream s = stream_new(), other = stream_new();

        assert_int_equal(XQueueSuspend(s.xq, kQueueSuspendFlagNone), kXSchedSuccess);
        pthread_t thread = start(&s, 3);
        assert_true(poll_until(counted(&s) == 1));
        for (unsigned i = 0; i < 100; i++) {
                assert_int_equal(launch(other.stream), HIP_RESULT_SUCCESS);
                fake_hip_end(other.stream, 1);
        }
        assert_int_equal(atomic_load(&s.stream->n), 0);
        assert_int_equal(XQueueResume(s.xq, kQueueResumeFlagNone), kXSchedSuccess);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&s.stream->n), 3);
        assert_false(is_idle(&s));
        assert_int_equal(XQueueWaitAll(s.xq), kXSchedSuccess);
        assert_true(poll_until(is_idle(&s)));
        stream_free(&s);
        stream_free(&other);
}

/* No more than asked for are in flight; and a thread that waits for room leaves no error behind. */
static void test_bound(void **state) {
        Stream s = stream_new();

        assert_int_equal(XQueueSetLaunchConfig(s.xq, 4, 2), kXSchedSuccess);
        pthread_t thread = start(&s, 40);
        for (unsigned n = 0; n < 40; n += 2) {
                assert_true(poll_until(atomic_load(&s.n_launched) >= MIN(n + 4, 40U)));
                fake_hip_end(s.stream, 2);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&s.stream->most), 4);
        assert_true(poll_until(is_idle(&s)));
        stream_free(&s);
}

/* An error that the program has not asked for yet is there when it asks. */
static void test_last_error(void **state) {
        Stream s = stream_new();
        HipEvent event;

        assert_int_equal(hipEventCreateWithFlags(&event, 0), HIP_RESULT_SUCCESS);
        assert_int_equal(launch(s.stream), HIP_RESULT_SUCCESS);
        assert_int_equal(hipEventRecord(event, s.stream), HIP_RESULT_SUCCESS);
        assert_int_equal(hipEventQuery(event), HIP_RESULT_NOT_READY);
        fake_hip_end(s.stream, 1);
        assert_true(poll_until(is_idle(&s)));
        assert_int_equal(hipGetLastError(), HIP_RESULT_NOT_READY);
        fake_hip_fails(HIP_RESULT_NOT_SUPPORTED);
        assert_int_equal(launch(s.stream), HIP_RESULT_NOT_SUPPORTED);
        assert_int_equal(hipGetLastError(), HIP_RESULT_NOT_SUPPORTED);
        assert_true(is_idle(&s)); /* what failed is not in flight */
        assert_int_equal(hipEventDestroy(event), HIP_RESULT_SUCCESS);
        stream_free(&s);
}

/* More launches than the layer has events, all in flight, and their ends in pieces. */
static void test_many(void **state) {
        Stream s = stream_new();

        assert_int_equal(XQueueSetLaunchConfig(s.xq, 1000, 8), kXSchedSuccess);
        for (unsigned i = 0; i < 500; i++)
                assert_int_equal(launch(s.stream), HIP_RESULT_SUCCESS);
        for (unsigned i = 0; i < 499; i += 7)
                fake_hip_end(s.stream, MIN(7U, 499 - i));
        assert_false(is_idle(&s));
        fake_hip_end(s.stream, 1);
        assert_true(poll_until(is_idle(&s)));
        stream_free(&s);
}

/* What goes into a graph is no launch, whatever is suspended. */
static void test_captured(void **state) {
        Stream s = stream_new();

        assert_int_equal(XQueueSuspend(s.xq, kQueueSuspendFlagNone), kXSchedSuccess);
        atomic_store(&s.stream->captured, true);
        assert_int_equal(launch(s.stream), HIP_RESULT_SUCCESS);
        assert_int_equal(counted(&s), 0);
        atomic_store(&s.stream->captured, false);
        stream_free(&s);
}

/* Streams of another device than the thread's, and streams that end with launches in flight. */
static void test_ends(void **state) {
        int device = -1;

        assert_true(poll_until(fake_hip_events() == 0)); /* those of streams that have gone are released later */
        assert_int_equal(hipSetDevice(1), HIP_RESULT_SUCCESS);
        Stream s = stream_new(), lost = stream_new();
        assert_int_equal(hipSetDevice(0), HIP_RESULT_SUCCESS);
        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(launch(s.stream), HIP_RESULT_SUCCESS);
                assert_int_equal(launch(lost.stream), HIP_RESULT_SUCCESS);
        }
        assert_int_equal(hipGetDevice(&device), HIP_RESULT_SUCCESS);
        assert_int_equal(device, 0);
        assert_int_equal(fake_hip_events(), 6);
        stream_free(&s);
        assert_int_equal(fake_hip_events(), 6);
        fake_hip_end(s.stream, 3);
        assert_true(poll_until(fake_hip_events() == 3));

        assert_int_equal(hipDeviceReset(), HIP_RESULT_SUCCESS); /* of device 0 */
        assert_false(is_idle(&lost));
        assert_int_equal(hipSetDevice(1), HIP_RESULT_SUCCESS);
        assert_int_equal(hipDeviceReset(), HIP_RESULT_SUCCESS);
        assert_true(is_idle(&lost));
        assert_int_equal(launch(lost.stream),
                        HIP_RESULT_SUCCESS); /* the program's own mistake, which is the runtime's */
        assert_int_equal(counted(&lost), 3);
        stream_free(&lost);
        assert_int_equal(hipSetDevice(0), HIP_RESULT_SUCCESS);
        assert_int_equal(fake_hip_events(), 0);
}

/* A child has no queues of the parent's. */
static void test_fork(void **state) {
        Stream s = stream_new();
        int status = -1;

        assert_int_equal(XQueueSuspend(s.xq, kQueueSuspendFlagNone), kXSchedSuccess);
        pid_t pid = fork();
        if (pid == 0)
                _exit(launch(s.stream) == HIP_RESULT_SUCCESS && atomic_load(&s.stream->n) == 1 ? 0 : 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        stream_free(&s);
}

/* The process ends while launches are in flight: nobody calls the runtime after its own end. */
static void test_exit(void **state) {
        int status = -1;

        pid_t pid = fork();
        if (pid == 0) {
                (void) setenv("ASAN_OPTIONS", "detect_leaks=0",
                                true); /* libxsched's thread is in the middle of something */
                (void) execl("/proc/self/exe", "test-hip-layer", "exit", NULL);
                _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static int launch_and_exit(void) {
        Stream s = stream_new();

        for (unsigned i = 0; i < 10; i++)
                if (launch(s.stream) != HIP_RESULT_SUCCESS)
                        return EXIT_FAILURE;
        return EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_arguments),
                        cmocka_unit_test(test_held),
                        cmocka_unit_test(test_bound),
                        cmocka_unit_test(test_last_error),
                        cmocka_unit_test(test_many),
                        cmocka_unit_test(test_captured),
                        cmocka_unit_test(test_ends),
                        cmocka_unit_test(test_fork),
                        cmocka_unit_test(test_exit),
        };

        if (argc == 2)
                return launch_and_exit();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
