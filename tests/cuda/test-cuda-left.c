/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The CUDA layer never leaves channels disabled, whatever objects the program frees, closes, copies and reuses, at any
 * moment, and whatever calls the driver refuses
 *
 * By way of the real ioctl(), on the resource manager of fake-rm.c, as test-cuda-rm.c.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "rm-user.h"

static int (*stop)(int stop);
static User user;

static int setup(void **state) {
        user = user_new();
        return 0;
}

static int teardown(void **state) {
        fake_rm_on_call(NULL);
        fake_rm_fail(0, 0);
        (void) stop(0);
        user_end(&user);
        assert_int_equal(fake_rm_disabled(0) + fake_rm_disabled(1) + fake_rm_disabled(2), 0);
        return 0;
}

/* --- the way to the driver --- */

/* If there is another subdevice, channels are stopped and released through that one; if there is none, they run. */
static void test_subdevice_freed(void **state) {
        uint32_t a[COMPUTE], others[2] = {user.subdevice[0]};

        (void) user_group(&user, 0, a, COMPUTE);
        others[1] = user_make(&user, user.device[0], NVRM_CLASS_SUBDEVICE, NULL);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(stop(1), 0);
                assert_int_equal(fake_rm_disabled(1), COMPUTE);
                assert_int_equal(user_unmake(&user, others[i]), NVRM_OK);
                assert_int_equal(fake_rm_disabled(1), i == 0 ? COMPUTE : 0);
                assert_int_equal(stop(0), 0);
                assert_int_equal(fake_rm_disabled(0), COMPUTE);
        }

        /* A subdevice is made again while the device is to be stopped. */
        assert_int_equal(stop(1), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
        user.subdevice[0] = user_make(&user, user.device[0], NVRM_CLASS_SUBDEVICE, NULL);
        assert_int_equal(fake_rm_disabled(1), COMPUTE);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
}

/* The call that frees it is refused: everything is as it was. */
static uint32_t refuse_frees(unsigned nr, bool before) {
        return nr == NVRM_NR_FREE && before ? NVRM_STATE_IN_USE : NVRM_OK;
}

static void test_subdevice_stays(void **state) {
        uint32_t a[COMPUTE];

        (void) user_group(&user, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        fake_rm_on_call(refuse_frees);
        assert_int_equal(user_unmake(&user, user.subdevice[0]), NVRM_STATE_IN_USE);
        fake_rm_on_call(NULL);
        assert_int_equal(fake_rm_disabled(1), COMPUTE);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
}

/* The number is another file's now. */
static void test_number_used_again(void **state) {
        uint32_t a[COMPUTE];
        User u = user_new();
        unsigned before = fake_nvidiactl_strays();

        (void) user_group(&u, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        (void) close(u.fd);
        assert_int_equal(open("/dev/null", O_RDWR | O_CLOEXEC), u.fd);
        assert_int_equal(stop(0), 0);
        assert_int_equal(stop(1), 0);
        assert_int_equal(stop(0), 0);
        assert_int_equal(fake_nvidiactl_strays(), before);
        (void) close(u.fd);
}

/* The file lives on under another number. */
static void test_number_changes(void **state) {
        uint32_t a[COMPUTE];
        User u = user_new();
        int old = u.fd;

        (void) user_group(&u, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        u.fd = dup(old);
        (void) close(old);
        assert_int_equal(open("/dev/null", O_RDWR | O_CLOEXEC), old);
        assert_int_equal(fake_rm_disabled(1), COMPUTE);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(stop(0), 0);
                assert_int_equal(fake_rm_disabled(0), COMPUTE);
                assert_int_equal(stop(1), 0);
                assert_int_equal(fake_rm_disabled(1), COMPUTE);
        }
        user_end(&u);
        (void) close(old);
}

/* --- while a call that frees is under way --- */

static int stop_in_free = -1;
static bool free_is_refused;

static uint32_t stop_meanwhile(unsigned nr, bool before) {
        if (nr != NVRM_NR_FREE || !before)
                return NVRM_OK;
        fake_rm_on_call(NULL);
        assert_int_equal(stop(stop_in_free), 0);
        return free_is_refused ? NVRM_STATE_IN_USE : NVRM_OK;
}

static void test_stop_and_free(void **state) {
        for (int how = 0; how < 8; how++) {
                bool copied = how & 4;
                uint32_t a[COMPUTE], group = user_group(&user, 0, a, COMPUTE);
                if (copied)
                        (void) user_copy(&user, user.device[0], &user, a[0]);
                stop_in_free = how & 1;
                free_is_refused = how & 2;
                assert_int_equal(stop(!stop_in_free), 0);
                fake_rm_on_call(stop_meanwhile);
                assert_int_equal(user_unmake(&user, group), free_is_refused ? NVRM_STATE_IN_USE : NVRM_OK);
                unsigned left = free_is_refused ? COMPUTE : copied;
                assert_int_equal(fake_rm_disabled((unsigned) stop_in_free), left);
                assert_int_equal(fake_rm_disabled((unsigned) !stop_in_free), 0);
                assert_int_equal(stop(0), 0);
                assert_int_equal(fake_rm_disabled(0), left);
                assert_int_equal(user_unmake(&user, user.device[0]), NVRM_OK);
                uint32_t gpu = 0;
                user.device[0] = user_make(&user, user.client, NVRM_CLASS_DEVICE, &gpu);
                user.subdevice[0] = user_make(&user, user.device[0], NVRM_CLASS_SUBDEVICE, NULL);
        }
}

/* The driver has freed the object and another thread has reused its name before the call that freed it returns. */
static uint32_t used_again, used_below;

static uint32_t use_again(unsigned nr, bool before) {
        if (nr == NVRM_NR_FREE && !before) {
                fake_rm_on_call(NULL);
                (void) user_make_named(&user, used_below, used_again, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        }
        return NVRM_OK;
}

static void test_name_used_again(void **state) {
        for (int stopped = 0; stopped < 2; stopped++) {
                uint32_t a[COMPUTE], group = user_group(&user, 0, a, COMPUTE);
                assert_int_equal(stop(stopped), 0);
                used_again = a[1];
                used_below = group;
                fake_rm_on_call(use_again);
                assert_int_equal(user_unmake(&user, a[1]), NVRM_OK);
                for (int i = 0; i < 2; i++) {
                        assert_int_equal(stop(1), 0);
                        assert_int_equal(fake_rm_disabled(1), COMPUTE);
                        assert_int_equal(stop(0), 0);
                        assert_int_equal(fake_rm_disabled(0), COMPUTE);
                }
                assert_int_equal(user_unmake(&user, group), NVRM_OK);
        }
}

/* --- refusals --- */

/* The driver refuses to let one channel go: the others run at once, and that one as soon as the driver allows it,
 * without another call of the program. */
static void test_refused(void **state) {
        static const uint32_t why[] = {NVRM_BUSY_RETRY, NVRM_INVALID_ARGUMENT, NVRM_TIMEOUT};

        for (size_t i = 0; i < ELEMENTSOF(why); i++) {
                uint32_t a[COMPUTE], b[COMPUTE], group = user_group(&user, 0, a, COMPUTE);
                (void) user_group(&user, 1, b, COMPUTE);
                if (stop(1) < 0)
                        break; /* only the gate is used after the second */
                fake_rm_refuse(user.client, a[1], why[i], 5);
                (void) stop(0);
                assert_in_range(fake_rm_disabled(1), 0, 1);
                assert_int_equal(fake_rm_disabled(2), 0);
                fake_rm_wait_enabled();
                assert_int_equal(stop(0), 0);
                assert_int_equal(user_unmake(&user, group), NVRM_OK);
                for (unsigned k = 0; k < COMPUTE; k++)
                        assert_int_equal(user_unmake(&user, b[k]), NVRM_OK);
        }
}

/* --- handlers that do not come back --- */

static sigjmp_buf back;
static unsigned raise_in;

static void jump(int sig) {
        siglongjmp(back, 1);
}

static uint32_t raise_meanwhile(unsigned nr, bool before) {
        if (nr == raise_in && before) {
                fake_rm_on_call(NULL);
                (void) raise(SIGUSR1);
        }
        return NVRM_OK;
}

static void test_jumps(void **state) {
        static const unsigned calls[] = {NVRM_NR_FREE, NVRM_NR_CONTROL};
        struct sigaction sa = {.sa_handler = jump}, before;

        assert_int_equal(sigaction(SIGUSR1, &sa, &before), 0);
        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                static uint32_t a[COMPUTE], group;
                group = user_group(&user, 0, a, COMPUTE);
                raise_in = calls[i];
                assert_int_equal(stop(1), 0);
                fake_rm_on_call(raise_meanwhile);
                if (sigsetjmp(back, 1) == 0) {
                        if (raise_in == NVRM_NR_FREE)
                                (void) user_unmake(&user, a[0]);
                        else
                                (void) stop(0);
                        fail();
                }
                assert_int_equal(stop(0), 0);
                assert_int_equal(fake_rm_disabled(1), 0);
                assert_int_equal(user_unmake(&user, group), NVRM_OK);
        }
        assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* --- everything at once --- */

#define THREADS 3
#define ROUNDS  60U

static _Atomic unsigned storms;
static _Atomic bool over;

/* Of calls that disable or enable, or free: one in eight is refused. */
static uint32_t refuse_some(unsigned nr, bool before) {
        static _Atomic uint64_t seed = 1;
        uint64_t x = atomic_fetch_add(&seed, UINT64_C(0x9E3779B97F4A7C15));

        x ^= x >> 29;
        return before && x * UINT64_C(0xBF58476D1CE4E5B9) >> 61 == 0 ? NVRM_BUSY_RETRY : NVRM_OK;
}

static void free_until(const User *u, uint32_t object) {
        while (user_unmake(u, object) == NVRM_BUSY_RETRY)
                ;
}

static void *storm_main(void *userdata) {
        unsigned seed = (unsigned) (uintptr_t) userdata;

        for (unsigned i = 0; i < ROUNDS; i++) {
                uint32_t a[COMPUTE];
                User u = user_new();
                unsigned gpu = (unsigned) rand_r(&seed) % 2;
                uint32_t group = user_group(&u, gpu, a, COMPUTE);
                if (rand_r(&seed) % 2)
                        (void) user_copy(&user, user.device[gpu], &u, a[0]);
                switch (rand_r(&seed) % 5) {
                case 0:
                        free_until(&u, group);
                        break;
                case 1:
                        free_until(&u, u.subdevice[0]);
                        (void) user_make(&u, u.device[0], NVRM_CLASS_SUBDEVICE, NULL);
                        break;
                case 2:
                        free_until(&u, u.device[1]);
                        break;
                case 3: {
                        int other = dup(u.fd);
                        (void) close(u.fd);
                        u.fd = other;
                        break;
                }
                default:
                        free_until(&u, a[1]);
                }
                if (rand_r(&seed) % 2)
                        free_until(&u, u.client);
                (void) close(u.fd);
        }
        storms++;
        return NULL;
}

static void *stopper_main(void *unused) {
        for (unsigned i = 0; !over; i++)
                (void) stop(i % 2);
        return NULL;
}

static void test_storm(void **state) {
        pthread_t threads[THREADS], stopper;

        over = false;
        fake_rm_on_call(refuse_some);
        assert_int_equal(pthread_create(&stopper, NULL, stopper_main, NULL), 0);
        for (uintptr_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, storm_main, (void *) (i + 1)), 0);
        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        over = true;
        assert_int_equal(pthread_join(stopper, NULL), 0);
        assert_int_equal(storms, THREADS);
        (void) stop(0);
        fake_rm_on_call(NULL);
        fake_rm_wait_enabled();
}

/* --- the program's own; after it nothing is stopped any more --- */

static uint32_t own_call(uint32_t channel, bool disable) {
        NvrmDisableChannels d = {.disable = disable, .n = 1, .clients = {user.client}, .channels = {channel}};
        NvrmControl c = {.client = user.client,
                        .object = user.subdevice[0],
                        .command = NVRM_CMD_DISABLE_CHANNELS,
                        .parameters = (uintptr_t) &d,
                        .parameters_size = sizeof(d)};

        return user_call(user.fd, NVRM_IOC(NVRM_NR_CONTROL, NvrmControl), &c, &c.status);
}

static void test_own(void **state) {
        uint32_t a[COMPUTE];

        (void) user_group(&user, 0, a, COMPUTE);
        assert_int_equal(stop(1), 0);
        assert_int_equal(own_call(a[1], true), NVRM_OK);
        assert_int_equal(fake_rm_disabled(1), 1);
        assert_int_equal(fake_rm_disabled(2), 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(stop(1), -EOPNOTSUPP);
                assert_int_equal(stop(0), 0);
                assert_int_equal(fake_rm_disabled(1), 1);
        }
        assert_int_equal(own_call(a[1], false), NVRM_OK);
        assert_int_equal(fake_rm_disabled(0), COMPUTE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                        TEST(test_subdevice_freed),
                        TEST(test_subdevice_stays),
                        TEST(test_number_used_again),
                        TEST(test_number_changes),
                        TEST(test_stop_and_free),
                        TEST(test_name_used_again),
                        TEST(test_jumps),
                        TEST(test_storm),
                        TEST(test_refused),
        };
        const struct CMUnitTest last[] = {TEST(test_own)};
        int status = 1;

        /* The environment at the start counts. */
        (void) setenv("XSCHED_CUDA_STOP", "0", 1);
        stop = (int (*)(int))(uintptr_t) dlsym(RTLD_DEFAULT, "xsched_cuda_stop");
        if (!stop) {
                print_error("the layer and the simulator are to be preloaded\n");
                return EXIT_FAILURE;
        }
        int failed = cmocka_run_group_tests(tests, NULL, NULL);
        /* The child is a process in which the driver has refused nothing so far. */
        pid_t pid = fork();
        if (pid == 0)
                _exit(cmocka_run_group_tests(last, NULL, NULL));
        return waitpid(pid, &status, 0) == pid && status == 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
