/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The CUDA layer's records of the driver's objects: by way of the real ioctl(), on the resource manager of fake-rm.c
 *
 * This program plays libcuda: it makes, copies and frees objects as it likes, and has the layer stop the channels. The
 * layer and the simulator are preloaded.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "rm-user.h"

#define FEW 200U

static int (*stop)(int stop);
static size_t (*describe)(char *ret, size_t size);

static User user;

static int setup(void **state) {
        user = user_new();
        return 0;
}

/* Checks that nothing is left, so that the next test does not depend on this one. */
static int teardown(void **state) {
        fake_rm_fail(0, 0);
        (void) stop(0);
        assert_int_equal(user_unmake(&user, user.client), NVRM_OK);
        (void) close(user.fd);
        assert_int_equal(fake_rm_disabled(0) + fake_rm_disabled(1) + fake_rm_disabled(2), 0);
        return 0;
}

static bool runs(uint32_t channel) {
        return fake_rm_runs(user.client, channel);
}

/* --- cases --- */

static void test_groups(void **state) {
        uint32_t a[COMPUTE], b[COMPUTE], alone;

        user_group(&user, 0, a, COMPUTE);
        user_group(&user, 1, b, COMPUTE);
        alone = user_make(&user, user.device[0], 0xc56f, NULL);
        user_schedule(&user, alone, NVRM_CMD_CHANNEL_SCHEDULE);
        unsigned before = fake_rm_calls();
        for (int i = 0; i < 3; i++)
                assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_calls() - before, 2); /* one for each device */
        assert_int_equal(fake_rm_disabled(1), 2 * COMPUTE + 1);
        assert_false(runs(a[0]) || runs(b[0]) || runs(alone));
        for (int i = 0; i < 3; i++)
                assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_calls() - before, 4);
        assert_true(runs(a[0]) && runs(b[0]) && runs(alone));
}

/* Channels of copy engines run on, whenever they were made; channels of unknown engines are stopped. */
static void test_engines(void **state) {
        uint32_t compute, first, last, late, other;

        user_group_of_engine(&user, 0, NVRM_ENGINE_COMPUTE, &compute, 1);
        user_group_of_engine(&user, 0, NVRM_ENGINE_COPY_FIRST, &first, 1);
        user_group_of_engine(&user, 0, NVRM_ENGINE_COPY_LAST, &last, 1);
        user_group_of_engine(&user, 0, NVRM_ENGINE_COPY_LAST + 1, &other, 1);
        assert_int_equal(stop(1), 0);
        user_group_of_engine(&user, 0, NVRM_ENGINE_COPY_FIRST + 1, &late, 1);
        assert_true(runs(first) && runs(last) && runs(late));
        assert_false(runs(compute) || runs(other));
        assert_int_equal(fake_rm_disabled(1), 2);
        assert_int_equal(stop(0), 0);
        assert_true(runs(compute) && runs(other));
}

/* More channels than one call can name. */
static void test_many(void **state) {
        uint32_t channels[90];

        user_group(&user, 0, channels, 90);
        assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_disabled(1), 90);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), 90);
}

/* A channel that is made while others are stopped is stopped when it is scheduled, and released with them. */
static void test_made_while_stopped(void **state) {
        uint32_t a[COMPUTE], b[COMPUTE];

        uint32_t group = user_group(&user, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        user_group(&user, 0, b, COMPUTE);
        uint32_t late = user_make(&user, group, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        uint32_t alone = user_make(&user, user.device[0], NVRM_CLASS_CHANNEL_HOPPER, NULL);
        user_schedule(&user, alone, NVRM_CMD_CHANNEL_SCHEDULE);
        assert_false(runs(a[0]) || runs(b[0]) || runs(late) || runs(alone));
        assert_int_equal(fake_rm_disabled(1), 2 * COMPUTE + 2);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), 2 * COMPUTE + 2);
}

static void test_freed_while_stopped(void **state) {
        uint32_t a[COMPUTE], b[COMPUTE];

        uint32_t group = user_group(&user, 0, a, COMPUTE);
        user_group(&user, 0, b, COMPUTE);
        assert_int_equal(stop(1), 0);
        assert_int_equal(user_unmake(&user, b[1]), NVRM_OK);
        assert_int_equal(user_unmake(&user, group), NVRM_OK);
        assert_int_equal(user_unmake(&user, group), NVRM_OBJECT_NOT_FOUND);
        assert_int_equal(fake_rm_disabled(1), COMPUTE - 1);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE - 1);
        unsigned before = fake_rm_calls();
        assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_calls() - before, 1); /* no freed object was named */
        assert_int_equal(stop(0), 0);
}

/* Freeing a client, a device or a group frees all objects below it. */
static void test_ends(void **state) {
        uint32_t a[COMPUTE];

        for (int how = 0; how < 3; how++) {
                User u = user_new();
                user_group(&u, 0, a, COMPUTE);
                assert_int_equal(stop(1), 0);
                assert_int_equal(fake_rm_disabled(1), COMPUTE);
                if (how == 0)
                        assert_int_equal(user_unmake(&u, u.device[0]), NVRM_OK);
                else if (how == 1)
                        assert_int_equal(user_unmake(&u, u.client), NVRM_OK);
                else
                        (void) close(u.fd); /* no call tells the layer */
                assert_int_equal(fake_rm_disabled(1), 0);
                assert_int_equal(stop(0), 0);
                assert_int_equal(stop(1), 0);
                assert_int_equal(stop(0), 0);
                if (how < 2)
                        (void) close(u.fd);
        }
}

/* A failed call changes nothing, neither in the driver nor in the layer's records. */
static void test_calls_that_fail(void **state) {
        uint32_t a[COMPUTE];
        NvrmAlloc bad = {.client = user.client, .parent = 0xdead, .class = NVRM_CLASS_CHANNEL_HOPPER};

        user_group(&user, 0, a, COMPUTE);
        assert_int_equal(user_call(user.fd, NVRM_IOC(NVRM_NR_ALLOC, NvrmAlloc), &bad, &bad.status),
                        NVRM_OBJECT_NOT_FOUND);
        errno = 0;
        assert_int_equal(ioctl(-1, NVRM_IOC(NVRM_NR_ALLOC, NvrmAlloc), &bad), -1);
        assert_int_equal(errno, EBADF);
        assert_int_equal(ioctl(-1, NVRM_IOC(NVRM_NR_FREE, NvrmFree), NULL), -1);
        assert_int_equal(errno, EBADF);

        /* On a file of another: the object is as it was. */
        User other = user_new();
        NvrmFree wrong = {.client = user.client, .object = a[0]};
        assert_int_equal(stop(1), 0);
        assert_int_equal(user_call(other.fd, NVRM_IOC(NVRM_NR_FREE, NvrmFree), &wrong, &wrong.status),
                        NVRM_INVALID_CLIENT);
        assert_int_equal(fake_rm_disabled(1), COMPUTE);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
        assert_int_equal(user_unmake(&other, other.client), NVRM_OK);
        (void) close(other.fd);
}

/* A channel under two names is one channel, and lives as long as one of them. */
static void test_copies(void **state) {
        for (int stopped = 0; stopped < 2; stopped++) {
                uint32_t a[COMPUTE];
                User other = user_new();
                uint32_t group = user_group(&user, 0, a, COMPUTE);
                uint32_t second = user_copy(&other, other.device[0], &user, a[0]);
                uint32_t third = user_copy(&user, user.device[0], &other, second);
                (void) user_copy(&user, user.device[0], &user, user.subdevice[0]);
                assert_int_equal(stop(1), 0);
                assert_int_equal(fake_rm_disabled(1), COMPUTE);
                assert_int_equal(stop(stopped), 0);

                assert_int_equal(user_unmake(&user, group), NVRM_OK); /* with the first name */
                assert_int_equal(fake_rm_disabled((unsigned) stopped), 1);
                assert_int_equal(user_unmake(&user, third), NVRM_OK);
                assert_int_equal(fake_rm_disabled((unsigned) stopped), 1);
                for (int i = 0; i < 2; i++) {
                        assert_int_equal(stop(0), 0);
                        assert_int_equal(fake_rm_disabled(0), 1);
                        assert_int_equal(stop(1), 0);
                        assert_int_equal(fake_rm_disabled(1), 1);
                }
                assert_int_equal(stop(0), 0);
                assert_int_equal(user_unmake(&other, other.client), NVRM_OK);
                (void) close(other.fd);
        }
}

/* By way of the structure for large parameters. */
static void test_large(void **state) {
        NvrmAlloc a = {.client = user.client, .parent = user.device[0], .class = NVRM_CLASS_CHANNEL_HOPPER};
        NvrmLarge l = {.nr = NVRM_NR_ALLOC, .size = sizeof(a), .argument = (uintptr_t) &a};

        assert_int_equal(user_call(user.fd, NVRM_IOC(NVRM_NR_LARGE, NvrmLarge), &l, &a.status), NVRM_OK);
        assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_disabled(1), 1);
        assert_int_equal(stop(0), 0);
}

/* Half applied, anywhere: nothing is stopped after it; and the device is left alone from then on. */
static void test_half_applied(void **state) {
        uint32_t a[40];

        user_group(&user, 1, a, 40);
        for (unsigned after = 0; after < 40; after++) {
                fake_rm_fail(after, NVRM_BUSY_RETRY);
                assert_int_equal(stop(1), -EAGAIN);
                assert_int_equal(fake_rm_disabled(0), 40);
                assert_int_equal(stop(1), 0);
                fake_rm_fail(after, NVRM_BUSY_RETRY);
                assert_int_equal(stop(0), 0); /* group by group, then */
                assert_int_equal(fake_rm_disabled(0), 40);
        }
}

/* In a child of fork() nothing is stopped, and it stops nothing of its parent. */
static void test_fork(void **state) {
        uint32_t a[COMPUTE];
        int status;

        user_group(&user, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                /* The simulated driver is a copy, in which only our calls change anything. */
                unsigned before = fake_rm_calls();
                bool good = stop(0) == -ENODEV && stop(1) == -ENODEV && fake_rm_calls() == before;
                _exit(good ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_false(runs(a[0]));
        assert_int_equal(stop(0), 0);
        assert_true(runs(a[0]));
}

/* --- several threads at once --- */

static _Atomic bool over;

static void *maker_main(void *unused) {
        uint32_t a[COMPUTE];

        for (unsigned i = 0; i < FEW; i++) {
                uint32_t group = user_group(&user, i % 2, a, COMPUTE);
                if (i % 3 == 0)
                        assert_int_equal(user_unmake(&user, a[1]), NVRM_OK);
                assert_int_equal(user_unmake(&user, group), NVRM_OK);
        }
        return NULL;
}

static void *stopper_main(void *unused) {
        for (unsigned i = 0; !over; i++)
                assert_int_equal(stop(i % 2), 0);
        return NULL;
}

static void test_threads(void **state) {
        pthread_t makers[3], stopper;
        uint32_t a[COMPUTE];

        over = false;
        user_group(&user, 0, a, COMPUTE);
        assert_int_equal(pthread_create(&stopper, NULL, stopper_main, NULL), 0);
        for (size_t i = 0; i < ELEMENTSOF(makers); i++)
                assert_int_equal(pthread_create(&makers[i], NULL, maker_main, NULL), 0);
        for (size_t i = 0; i < ELEMENTSOF(makers); i++)
                assert_int_equal(pthread_join(makers[i], NULL), 0);
        over = true;
        assert_int_equal(pthread_join(stopper, NULL), 0);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
        assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_disabled(1), COMPUTE);
}

/* A signal handler makes such calls on the thread that it has interrupted: they go through without waiting. */
static volatile sig_atomic_t n_handled;

static void on_signal(int sig) {
        NvrmControl c = {.client = user.client, .object = user.device[0], .command = 1};

        PROTECT_ERRNO;
        (void) ioctl(user.fd, NVRM_IOC(NVRM_NR_CONTROL, NvrmControl), &c);
        n_handled++;
}

static void test_texts(void **state) {
        uint32_t a[COMPUTE];
        char text[8192], little[7] = "??????";

        user_group(&user, 0, a, COMPUTE);
        size_t n = describe(text, sizeof(text));
        assert_int_equal(n, strlen(text));
        assert_non_null(strstr(text, "driver 580.159.04: on\n"));
        assert_non_null(strstr(text, "gpu=pci:0000:a0:00.0"));
        assert_int_equal(describe(little, sizeof(little)), n);
        assert_int_equal(strlen(little), sizeof(little) - 1);
        on_signal(0);
        assert_int_equal(n_handled, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                        TEST(test_groups),
                        TEST(test_engines),
                        TEST(test_many),
                        TEST(test_made_while_stopped),
                        TEST(test_freed_while_stopped),
                        TEST(test_ends),
                        TEST(test_calls_that_fail),
                        TEST(test_copies),
                        TEST(test_large),
                        TEST(test_half_applied),
                        TEST(test_fork),
                        TEST(test_threads),
                        TEST(test_texts),
        };

        stop = (int (*)(int))(uintptr_t) dlsym(RTLD_DEFAULT, "xsched_cuda_stop");
        describe = (size_t(*)(char *, size_t))(uintptr_t) dlsym(RTLD_DEFAULT, "xsched_cuda_describe");
        if (!stop || !describe) {
                print_error("the layer and the simulator are to be preloaded\n");
                return EXIT_FAILURE;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
