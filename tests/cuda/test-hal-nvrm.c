/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HAL's conformance suite over the backend for NVIDIA's driver, on the resource manager of fake-rm.c
 *
 * A queue is a channel group with some channels. Its work is the dispatches of tests/lib/hal-fake.h, which go on while
 * the resource manager says that the group runs.
 */

#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "common/macro.h"
#include "fake-rm.h"
#include "hal/nvrm-abi.h"
#include "hal/nvrm.h"
#include "tests/lib/hal-fake.h"
#include "tests/lib/hal-suite.h"
#include "tests/lib/unit.h"

#define CHANNELS   3U
#define QUEUES_MAX 64U

typedef struct TestQueue {
        NvrmHalQueue q;
        NvrmChannel channels[CHANNELS];
        uint32_t group;
        HalQueue *engine;
} TestQueue;

static FakeDevice *engines;
static NvrmHalDevice hal_device;
static int file;
static uint32_t client, device, subdevice;
static TestQueue *test_queues[QUEUES_MAX];
static unsigned n_queues, n_interrupts;

static int file_ioctl(int fd, unsigned long request, ...) {
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        if (n_interrupts > 0) {
                n_interrupts--;
                errno = EINTR;
                return -1;
        }
        int r = fake_rm_call(fd, _IOC_NR(request), _IOC_SIZE(request), arg);
        if (r >= 0)
                return 0;
        errno = -r;
        return -1;
}

static uint32_t make(uint32_t parent, uint32_t class, void *parameters) {
        NvrmAlloc a = {.client = client, .parent = parent, .class = class, .parameters = (uintptr_t) parameters};

        assert_int_equal(fake_rm_call(file, NVRM_NR_ALLOC, sizeof(a), &a), 0);
        assert_int_equal(a.status, NVRM_OK);
        return a.object;
}

static void unmake(uint32_t object) {
        NvrmFree a = {.client = client, .object = object};

        assert_int_equal(fake_rm_call(file, NVRM_NR_FREE, sizeof(a), &a), 0);
        assert_int_equal(a.status, NVRM_OK);
}

static void *device_new(void) {
        uint32_t gpu = 0;

        n_queues = n_interrupts = 0;
        hal_device = (NvrmHalDevice){.level = LEVEL_INTERRUPT};
        engines = fake_device_new();
        file = fake_rm_open();
        client = 0;
        client = make(0, NVRM_CLASS_ROOT_CLIENT, NULL);
        device = make(client, NVRM_CLASS_DEVICE, &gpu);
        subdevice = make(device, NVRM_CLASS_SUBDEVICE, NULL);
        return engines;
}

static void device_free(void *unused) {
        fake_rm_close(file);
        fake_device_free(engines);
}

static void channel_new(TestQueue *t, unsigned i) {
        t->channels[i] = (NvrmChannel){
                        .client = client,
                        .object = make(t->group, NVRM_CLASS_CHANNEL_HOPPER, NULL),
                        .next = t->q.channels,
        };
        t->q.channels = &t->channels[i];
}

static HalQueue *queue_new(void *unused) {
        TestQueue *t = calloc(1, sizeof(*t));
        NvrmGroupParameters p = {.engine = 1};

        assert_non_null(t);
        assert_in_range(n_queues, 0, QUEUES_MAX - 1);
        nvrm_hal_init(&t->q, &hal_device);
        t->q.ioctl = file_ioctl;
        t->q.fd = file;
        t->q.client = client;
        t->q.subdevice = subdevice;
        t->group = make(device, NVRM_CLASS_CHANNEL_GROUP, &p);
        for (unsigned i = 0; i < CHANNELS; i++)
                channel_new(t, i);
        NvrmControl c = {.client = client, .object = t->group, .command = NVRM_CMD_GROUP_SCHEDULE};
        assert_int_equal(fake_rm_call(file, NVRM_NR_CONTROL, sizeof(c), &c), 0);
        t->engine = fake_queue_new(engines);
        test_queues[n_queues++] = t;
        return &t->q.hal;
}

static TestQueue *test_queue(HalQueue *q) {
        NvrmHalQueue *n = container_of(q, NvrmHalQueue, hal);
        return container_of(n, TestQueue, q);
}

static void queue_free(HalQueue *q) {
        TestQueue *t = test_queue(q);

        for (unsigned i = 0; i < n_queues; i++)
                if (test_queues[i] == t)
                        test_queues[i] = test_queues[--n_queues];
        unmake(t->group);
        fake_queue_free(t->engine);
        free(t);
}

static void run(void *unused, uint64_t ns) {
        for (unsigned i = 0; i < n_queues; i++) {
                TestQueue *t = test_queues[i];
                bool runs = fake_rm_runs(client, t->channels[0].object);
                assert_int_equal((runs ? hal_fake_ops.release : hal_fake_ops.hold)(&t->engine, 1), 0);
        }
        fake_device_run(engines, ns);
}

static uint64_t submit(HalQueue *q, uint64_t ns) {
        return fake_queue_submit(test_queue(q)->engine, ns);
}

static unsigned times_done(HalQueue *q, uint64_t n) {
        return fake_queue_dispatch(test_queue(q)->engine, n).times;
}

static uint64_t progress(HalQueue *q) {
        return fake_queue_progress(test_queue(q)->engine);
}

/* In the middle of a list. */
static void inject(void *unused, unsigned after, int error) {
        fake_rm_fail(after,
                        error == 0                         ? NVRM_OK
                                        : error == -EAGAIN ? NVRM_BUSY_RETRY
                                        : error == -ETIME  ? NVRM_TIMEOUT
                                        : error == -EACCES ? NVRM_INSUFFICIENT_PERMISSIONS
                                        : error == -ENODEV ? NVRM_GPU_IS_LOST
                                                           : NVRM_RESET_REQUIRED);
}

static const HalDriver nvrm_driver = {
                .ops = &hal_nvrm_ops,
                .max_level = LEVEL_INTERRUPT,
                .inherit = HAL_INHERIT_RUN,
                .device_new = device_new,
                .device_free = device_free,
                .queue_new = queue_new,
                .queue_free = queue_free,
                .submit = submit,
                .run = run,
                .times_done = times_done,
                .progress = progress,
                .exact = true,
                .inject = inject,
};

/* --- what only this backend has --- */

#define QUEUES 30U /* with more channels than go into one call */

static HalQueue *batch[QUEUES];

static int setup(void **state) {
        (void) device_new();
        for (unsigned i = 0; i < QUEUES; i++)
                batch[i] = queue_new(NULL);
        return 0;
}

static int teardown(void **state) {
        for (unsigned i = 0; i < QUEUES; i++)
                queue_free(batch[i]);
        device_free(NULL);
        return 0;
}

static void test_calls(void **state) {
        unsigned before = fake_rm_calls();

        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
        assert_int_equal(fake_rm_calls() - before, DIV_ROUND_UP(QUEUES * CHANNELS, NVRM_CHANNELS_MAX));
        assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS);
        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
        assert_int_equal(fake_rm_calls() - before, DIV_ROUND_UP(QUEUES * CHANNELS, NVRM_CHANNELS_MAX));
        n_interrupts = 50;
        assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), 0);
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
        n_interrupts = 100;
        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), -EAGAIN);
        n_interrupts = 0;
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
}

/* The program has freed a channel by a call that the layer did not see: the others are held, each once. */
static void test_unknown_channel(void **state) {
        for (unsigned k = 0; k < CHANNELS; k++) {
                TestQueue *t = test_queue(batch[(size_t) k * 13]);
                unmake(t->channels[k].object);
                assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
                assert_true(t->channels[k].lost);
                assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS - k - 1);
                assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), 0);
                assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS - k - 1);
        }
        assert_false(hal_device.degraded);
}

static unsigned refused_call, n_hooked;

static uint32_t refuse_one(unsigned nr, bool before) {
        return before && n_hooked++ == refused_call ? NVRM_BUSY_RETRY : NVRM_OK;
}

/* The same, where the driver also refuses one of the calls by which the others are restored: no channel is disabled
 * twice. */
static void test_unknown_channel_and_refusal(void **state) {
        for (refused_call = 0; refused_call == 0 || n_hooked > refused_call; refused_call++) {
                HalQueue *two[] = {batch[0], queue_new(NULL)};

                unmake(test_queue(two[1])->channels[CHANNELS - 1].object);
                n_hooked = 0;
                fake_rm_on_call(refuse_one);
                int r = hal_nvrm_ops.hold(two, ELEMENTSOF(two));
                fake_rm_on_call(NULL);
                assert_true(r == 0 || r == -EAGAIN || r == -ENOENT);
                assert_int_equal(hal_nvrm_ops.hold(two, ELEMENTSOF(two)), 0);
                assert_int_equal(fake_rm_disabled(1), 2 * CHANNELS - 1);
                assert_int_equal(hal_nvrm_ops.release(two, ELEMENTSOF(two)), 0);
                assert_int_equal(fake_rm_disabled(0), (QUEUES + 1) * CHANNELS - 1);
                queue_free(two[1]);
        }
        assert_true(refused_call > 3);
        assert_false(hal_device.degraded);
}

/* A call fails at every place of the list, for holds and for releases: nothing is half done, or done twice. */
static void test_half_applied(void **state) {
        for (unsigned after = 0; after < QUEUES * CHANNELS; after++) {
                inject(NULL, after, -EIO);
                assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), -EIO);
                assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
                assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
                assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS);
                inject(NULL, after, -EIO);
                assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), -EIO);
                assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS);
                assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), 0);
                assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
        }
        assert_true(hal_device.degraded);
        assert_int_equal(hal_device.level, LEVEL_GATE);
        assert_int_equal(hal_device.error, -EIO);
}

/* A channel that is added later gets the state of its group. */
static void test_follow(void **state) {
        TestQueue *t = test_queue(batch[0]);
        NvrmChannel late = {.client = client, .next = t->q.channels};

        assert_int_equal(hal_nvrm_ops.hold(batch, 1), 0);
        late.object = make(t->group, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        t->q.channels = &late;
        assert_true(fake_rm_runs(client, late.object));
        assert_int_equal(nvrm_hal_follow(&t->q, &late), 0);
        assert_int_equal(nvrm_hal_follow(&t->q, &late), 0);
        assert_int_equal(fake_rm_disabled(1), CHANNELS + 1);
        assert_false(fake_rm_runs(client, late.object));
        assert_int_equal(hal_nvrm_ops.release(batch, 1), 0);
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS + 1);

        /* No call names a channel that is about to be freed. */
        late.leaving = true;
        unmake(late.object);
        assert_int_equal(hal_nvrm_ops.hold(batch, 1), 0);
        assert_false(late.lost);
        assert_int_equal(fake_rm_disabled(1), CHANNELS);
        assert_int_equal(hal_nvrm_ops.release(batch, 1), 0);
        t->q.channels = late.next;
}

static void test_closed_file(void **state) {
        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
        for (unsigned i = 0; i < QUEUES; i++)
                test_queue(batch[i])->q.ioctl = ioctl;
        for (unsigned i = 0; i < QUEUES; i++)
                test_queue(batch[i])->q.fd = -1;
        assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), -ESTALE);
        assert_int_equal(nvrm_hal_let_go(&test_queue(batch[0])->q), -ESTALE);
        assert_false(test_queue(batch[0])->channels[0].lost);
        assert_true(test_queue(batch[0])->channels[0].unsure);
        assert_false(hal_device.degraded);
        assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS);

        /* It is known by another number. */
        for (unsigned i = 0; i < QUEUES; i++) {
                test_queue(batch[i])->q.ioctl = file_ioctl;
                test_queue(batch[i])->q.fd = file;
        }
        assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), 0);
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
}

/* The subdevice that calls go through is freed: the state of the channels is then unknown. */
static void test_freed_subdevice(void **state) {
        uint32_t was = test_queue(batch[0])->q.subdevice;

        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
        for (unsigned i = 0; i < QUEUES; i++)
                test_queue(batch[i])->q.subdevice = 0xdead;
        assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), -ESTALE);
        assert_int_equal(fake_rm_disabled(1), QUEUES * CHANNELS);
        for (unsigned i = 0; i < QUEUES; i++)
                test_queue(batch[i])->q.subdevice = was;
        assert_int_equal(hal_nvrm_ops.release(batch, QUEUES), 0);
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
}

/* The driver refuses to release one channel for good: this one alone stays stopped, and is reported. */
static void test_let_go(void **state) {
        TestQueue *t = test_queue(batch[7]);

        assert_int_equal(hal_nvrm_ops.hold(batch, QUEUES), 0);
        fake_rm_refuse(client, t->channels[1].object, NVRM_TIMEOUT, 2);
        for (unsigned tries = 0; tries < 2; tries++) {
                for (unsigned i = 0; i < QUEUES; i++)
                        assert_int_equal(nvrm_hal_let_go(&test_queue(batch[i])->q), i == 7 ? -ETIME : 0);
                assert_int_equal(fake_rm_disabled(1), 1);
                assert_true(t->channels[1].stopped);
        }
        assert_int_equal(nvrm_hal_let_go(&t->q), 0);
        assert_int_equal(fake_rm_disabled(0), QUEUES * CHANNELS);
}

static void test_versions(void **state) {
        assert_int_equal(nvrm_version_known("550.163.01"), NVRM_READ);
        assert_int_equal(nvrm_version_known("580.159.04"), NVRM_SEEN);
        assert_int_equal(nvrm_version_known("580.159.4"), NVRM_READ);
        assert_int_equal(nvrm_version_known("580.105.08"), NVRM_READ);
        assert_int_equal(nvrm_version_known("470.256.02"), NVRM_UNKNOWN);
        assert_int_equal(nvrm_version_known("600.10"), NVRM_UNKNOWN);
        assert_int_equal(nvrm_version_known("580"), NVRM_UNKNOWN);
        assert_int_equal(nvrm_version_known(""), NVRM_UNKNOWN);
        assert_int_equal(nvrm_version_known(NULL), NVRM_UNKNOWN);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char *argv[]) {
        static const HalDriver *const drivers[] = {&nvrm_driver, NULL};
        const struct CMUnitTest tests[] = {
                        TEST(test_calls),
                        TEST(test_unknown_channel),
                        TEST(test_unknown_channel_and_refusal),
                        TEST(test_half_applied),
                        TEST(test_follow),
                        TEST(test_closed_file),
                        TEST(test_freed_subdevice),
                        TEST(test_let_go),
                        cmocka_unit_test(test_versions),
        };

        if (hal_suite_main(drivers, argc, argv) != 0)
                return EXIT_FAILURE;
        return argc > 1 ? EXIT_SUCCESS : cmocka_run_group_tests(tests, NULL, NULL);
}
