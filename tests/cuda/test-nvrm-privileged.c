/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of NVIDIA's driver, on the resource manager of fake-rm.c
 *
 * The process that is held is played by the test, which makes its objects with numbers of its own, as libcuda does.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "fake-rm.h"
#include "hal/nvrm-privileged.h"
#include "tests/lib/unit.h"

#define PID          4711
#define START        815
#define FDS          64
#define FIRST_NUMBER 0x5c000001U
#define GROUPS       4U
#define CHANNELS     8U
#define NO_CALLS     -1 /* in place of a file: one that was opened by O_PATH */
#define ALL          (FAKE_RM_GPUS * GROUPS * CHANNELS)

/* --- the process --- */

typedef struct Process {
        bool is_there, may_be_taken;
        int files[FDS]; /* of fake-rm.c, by fd; 0: no /dev/nvidiactl */
} Process;

typedef struct User {
        int file;
        uint32_t client, number; /* of the next object */
        uint32_t device[FAKE_RM_GPUS], group[FAKE_RM_GPUS];
} User;

static Process process;
static User user;
static int copies[1024]; /* files of fake-rm.c, by our own fds */
static unsigned n_copies, n_ioctls;

static uint32_t make_numbered(const User *u, uint32_t parent, uint32_t id, uint32_t class, void *parameters) {
        NvrmAlloc a = {.client = u->client,
                        .parent = parent,
                        .object = id,
                        .class = class,
                        .parameters = (uintptr_t) parameters};

        assert_int_equal(fake_rm_call(u->file, NVRM_NR_ALLOC, sizeof(a), &a), 0);
        assert_int_equal(a.status, NVRM_OK);
        return a.object;
}

static uint32_t make(User *u, uint32_t parent, uint32_t class, void *parameters) {
        return make_numbered(u, parent, u->number++, class, parameters);
}

static void unmake(const User *u, uint32_t object) {
        NvrmFree a = {.client = u->client, .object = object};

        assert_int_equal(fake_rm_call(u->file, NVRM_NR_FREE, sizeof(a), &a), 0);
        assert_int_equal(a.status, NVRM_OK);
}

static void schedule(const User *u, uint32_t group) {
        NvrmControl c = {.client = u->client, .object = group, .command = NVRM_CMD_GROUP_SCHEDULE};

        assert_int_equal(fake_rm_call(u->file, NVRM_NR_CONTROL, sizeof(c), &c), 0);
        assert_int_equal(c.status, NVRM_OK);
}

static uint32_t make_group(User *u, unsigned gpu, unsigned n_channels) {
        NvrmGroupParameters p = {.engine = NVRM_ENGINE_COMPUTE};
        uint32_t group = make(u, u->device[gpu], NVRM_CLASS_CHANNEL_GROUP, &p);

        for (unsigned i = 0; i < n_channels; i++) {
                u->number += 3; /* there are objects of other kinds in between */
                (void) make(u, group, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        }
        schedule(u, group);
        return group;
}

static User user_new(int file, uint32_t first) {
        User u = {.file = file, .number = first};

        u.client = make_numbered(&u, 0, 0, NVRM_CLASS_ROOT_CLIENT, NULL);
        for (uint32_t i = 0; i < FAKE_RM_GPUS; i++) {
                u.device[i] = make(&u, u.client, NVRM_CLASS_DEVICE, &i);
                (void) make(&u, u.device[i], NVRM_CLASS_SUBDEVICE, NULL);
                for (unsigned k = 0; k < GROUPS; k++)
                        u.group[i] = make_group(&u, i, CHANNELS);
        }
        return u;
}

/* --- the system --- */

static int copy_of(int file) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        assert_in_range(fd, 0, ELEMENTSOF(copies) - 1);
        copies[fd] = file;
        n_copies++;
        return fd;
}

static int open_process(pid_t pid, uint64_t *ret_start_time) {
        if (!process.is_there || pid != PID)
                return -ESRCH;
        *ret_start_time = START;
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int open_file(pid_t pid, int pidfd, int *at) {
        if (!process.is_there)
                return -ESRCH;
        if (!process.may_be_taken)
                return -EPERM;
        for (int i = *at; i < FDS; i++)
                if (process.files[i] != 0) {
                        *at = i;
                        return copy_of(process.files[i]);
                }
        return -ENODEV;
}

static int open_file_at(pid_t pid, int pidfd, int at) {
        if (!process.is_there)
                return -ESRCH;
        if (!process.may_be_taken)
                return -EPERM;
        return process.files[at] != 0 ? copy_of(process.files[at]) : -ENODEV;
}

static int open_own(void) {
        static int own;

        own = own ?: fake_rm_open();
        return copy_of(own);
}

static int call(int fd, unsigned long request, ...) {
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        assert_true(_IOC_NR(request) == NVRM_NR_ALLOC || fcntl(fd, F_GETFD) >= 0); /* open; allocations are millions */
        n_ioctls++;
        if (copies[fd] == NO_CALLS) {
                errno = EBADF;
                return -1;
        }
        int r = fake_rm_call(copies[fd], _IOC_NR(request), _IOC_SIZE(request), arg);
        if (r >= 0)
                return 0;
        errno = -r;
        return -1;
}

static const NvrmTargetSys sys = {
                .open_process = open_process,
                .open_file = open_file,
                .open_file_at = open_file_at,
                .open_own = open_own,
                .ioctl = call,
                .now = now_ns,
};

static unsigned n_fds(void) {
        unsigned n = 0;

        for (int i = 0; i < FDS; i++)
                n += fcntl(i, F_GETFD) >= 0;
        return n;
}

static unsigned fds_before;

static int setup(void **state) {
        process = (Process){.is_there = true, .may_be_taken = true};
        process.files[9] = fake_rm_open();
        user = user_new(process.files[9], FIRST_NUMBER);
        fds_before = n_fds();
        return 0;
}

static int teardown(void **state) {
        fake_rm_fail(0, 0);
        fake_rm_set_version("580.159.04");
        assert_int_equal(n_fds(), fds_before);
        for (int i = 0; i < FDS; i++)
                if (process.files[i] > 0)
                        fake_rm_close(process.files[i]);
        assert_int_equal(fake_rm_disabled(0) + fake_rm_disabled(1) + fake_rm_disabled(2), 0);
        return 0;
}

static NvrmTarget target(void) {
        NvrmTarget t = NVRM_TARGET_NULL;

        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), 0);
        assert_int_equal(n_fds(), fds_before + 1); /* the pidfd: no copy of a file is kept */
        return t;
}

static void assert_held(NvrmTarget *t, unsigned n) {
        assert_int_equal(nvrm_target_hold(t), 0);
        assert_int_equal(t->state, TARGET_HELD);
        assert_int_equal(fake_rm_disabled(1), n);
        assert_int_equal(n_fds(), fds_before + 1);
}

static void assert_released(NvrmTarget *t, unsigned n) {
        assert_int_equal(nvrm_target_release(t), 0);
        assert_int_equal(t->state, TARGET_RUNNING);
        assert_int_equal(fake_rm_disabled(0), n);
        assert_int_equal(fake_rm_disabled(1) + fake_rm_disabled(2), 0);
}

/* --- cases --- */

static void test_cycles(void **state) {
        NvrmTarget t = target();

        for (unsigned i = 0; i < 3; i++) {
                unsigned calls = fake_rm_calls();
                assert_held(&t, ALL);
                assert_int_equal(fake_rm_calls() - calls, FAKE_RM_GPUS);
                assert_held(&t, ALL);
                assert_int_equal(fake_rm_calls() - calls, FAKE_RM_GPUS); /* nothing is counted twice */
                assert_released(&t, ALL);
                assert_int_equal(nvrm_target_release(&t), 0);
        }
        assert_true(t.costs.hold_ns > 0 && t.costs.release_ns > 0);
        assert_held(&t, ALL);
        nvrm_target_done(&t);
        assert_int_equal(fake_rm_disabled(0), ALL);
}

static unsigned ioctls_of(int (*f)(NvrmTarget *t), NvrmTarget *t) {
        unsigned before = n_ioctls;

        assert_int_equal(f(t), 0);
        return n_ioctls - before;
}

/* A hold of a process that runs asks only about what it stops, and a release likewise. A later hold asks for all
 * numbers. */
static void test_counts(void **state) {
        const unsigned named = ALL + FAKE_RM_GPUS, /* channels and subdevices: class and parent */
                        few = 2 + 2 * named + FAKE_RM_GPUS;
        NvrmTarget t = target();

        for (unsigned i = 0; i < 3; i++) {
                assert_int_equal(ioctls_of(nvrm_target_hold, &t), few);
                assert_int_equal(fake_rm_disabled(1), ALL);
                assert_true(nvrm_target_look_at(&t) < NSEC_INFINITY);
                assert_in_range(ioctls_of(nvrm_target_hold, &t), NVRM_MISSES_AGAIN, 2 * NVRM_MISSES_AGAIN);
                assert_true(nvrm_target_look_at(&t) == NSEC_INFINITY);
                assert_int_equal(ioctls_of(nvrm_target_release, &t), few);
                assert_int_equal(fake_rm_disabled(0), ALL);
                assert_true(nvrm_target_look_at(&t) == NSEC_INFINITY);
        }
        nvrm_target_done(&t);
}

/* Channels that were made before a hold and after the last look run until the next look. */
static void test_unseen(void **state) {
        NvrmTarget t = target();

        (void) make_group(&user, 0, 2);
        assert_held(&t, ALL);
        assert_int_equal(fake_rm_disabled(0), 2);
        assert_held(&t, ALL + 2);
        assert_released(&t, ALL + 2);
        assert_held(&t, ALL + 2);
        assert_released(&t, ALL + 2);
        nvrm_target_done(&t);
}

/* A channel's number stands for something else when the next call is made. */
static void test_reused(void **state) {
        const NvrmGroupParameters compute = {.engine = NVRM_ENGINE_COMPUTE};
        uint32_t first = FIRST_NUMBER + 6;
        NvrmTarget t = target();

        /* A group, with a channel that is known by its own number, too: not stopped twice. */
        unmake(&user, first);
        (void) make_numbered(&user, user.device[0], first, NVRM_CLASS_CHANNEL_GROUP, (void *) &compute);
        (void) make(&user, first, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        assert_held(&t, ALL);
        assert_int_equal(fake_rm_disabled(2), 0);

        /* During the hold, a channel of another group. */
        unmake(&user, first);
        (void) make_numbered(&user, user.group[1], first, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        assert_int_equal(fake_rm_disabled(0), 1);
        assert_released(&t, ALL);
        assert_held(&t, ALL);
        assert_released(&t, ALL);
        nvrm_target_done(&t);
}

/* What a process may do to its files while it runs, or during a hold. One that it has closed there may live on in
 * another process, and cannot be reached before it is back. */
static void test_files_change(void **state) {
        static const struct {
                int a, b, dead; /* numbers of the two files, and of one that takes no calls; 0: closed */
        } to[] = {{9, 0, 0}, {0, 12, 0}, {12, 9, 0}, {40, 41, 0}, {9, 12, 20}, {40, 41, 9}};
        int a = process.files[9], b = fake_rm_open();
        NvrmTarget t = target();

        process.files[12] = b;
        (void) user_new(b, FIRST_NUMBER);
        for (size_t i = 0; i < 2 * ELEMENTSOF(to); i++) {
                const typeof(to[0]) *x = &to[i / 2];
                assert_int_equal(nvrm_target_hold(&t), 0);
                assert_held(&t, 2 * ALL); /* it has looked at all files */
                if (i % 2 == 0)
                        assert_released(&t, 2 * ALL);
                process.files[9] = process.files[12] = 0;
                process.files[x->a] = a;
                process.files[x->b] = b;
                process.files[x->dead] = NO_CALLS;
                process.files[0] = 0;
                if (i % 2 == 0)
                        assert_held(&t, x->a && x->b ? 2 * ALL : ALL);
                assert_int_equal(nvrm_target_release(&t), 0);
                process.files[x->a] = process.files[x->b] = process.files[x->dead] = 0;
                process.files[9] = a;
                process.files[12] = b;
                if (i % 2 != 0 && !(x->a && x->b))
                        assert_int_equal(nvrm_target_undo(&t), 0);
                assert_int_equal(fake_rm_disabled(0), 2 * ALL);
        }
        nvrm_target_done(&t);
}

/* A process with so many files that to look at them would take minutes is refused at once, and let go if it is held. */
static void test_too_many_files(void **state) {
        NvrmTarget t = target();

        assert_held(&t, ALL);
        for (int i = 20; i < FDS; i++)
                process.files[i] = fake_rm_open();
        assert_int_equal(nvrm_target_hold(&t), -E2BIG);
        assert_int_equal(t.state, TARGET_HELD);
        assert_released(&t, ALL);
        assert_held(&t, ALL);
        assert_released(&t, ALL);
        nvrm_target_done(&t);
        unsigned before = n_ioctls;
        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), -E2BIG);
        assert_true(n_ioctls - before < 5 * (NVRM_CLIENT_LAST - NVRM_CLIENT_FIRST));
}

/* Another process, and another program's questions in this one: nothing of theirs is touched. */
static void test_others(void **state) {
        int others = fake_rm_open();
        User other = user_new(others, FIRST_NUMBER);
        NvrmTarget t = target();

        assert_held(&t, ALL);
        assert_int_equal(fake_rm_disabled(0), ALL);
        assert_false(fake_rm_runs(user.client, FIRST_NUMBER + 6));
        assert_true(fake_rm_runs(other.client, FIRST_NUMBER + 6));
        assert_released(&t, 2 * ALL);
        nvrm_target_done(&t);
        fake_rm_close(others);
}

/* Several files, one of them under two numbers, one without clients; and another kind of numbers, as NVML has. */
static void test_files(void **state) {
        process.files[10] = fake_rm_open();
        process.files[11] = process.files[9];
        process.files[30] = fake_rm_open();
        User more = user_new(process.files[30], 0xa5000001U);
        NvrmTarget t = target();

        assert_int_equal(t.n_files, 3);
        assert_held(&t, 2 * ALL);

        /* The first number of the file is closed: the other one stands for it. */
        process.files[9] = 0;
        assert_released(&t, 2 * ALL);
        assert_held(&t, 2 * ALL);
        process.files[9] = process.files[11];
        process.files[11] = 0;

        /* The other file's last number is closed, and with it its clients. */
        fake_rm_close(process.files[30]);
        process.files[30] = 0;
        assert_true(more.client != 0);
        assert_released(&t, ALL);
        assert_int_equal(t.n_files, 2);
        nvrm_target_done(&t);
}

/* Channels that are made during a hold run until the next one, with whatever numbers. */
static void test_late(void **state) {
        NvrmTarget t = target();
        uint32_t freed = user.group[0];

        assert_held(&t, ALL);
        unmake(&user, freed);
        (void) make_group(&user, 1, 2);
        uint32_t group = make_numbered(&user, user.device[0], freed, NVRM_CLASS_CHANNEL_GROUP,
                        &(NvrmGroupParameters){.engine = NVRM_ENGINE_COMPUTE});
        (void) make_numbered(&user, group, freed + 1, NVRM_CLASS_CHANNEL_HOPPER, NULL);
        schedule(&user, group);
        assert_int_equal(fake_rm_disabled(0), 3);
        assert_true(fake_rm_runs(user.client, freed + 1));
        assert_held(&t, ALL - CHANNELS + 3);
        assert_false(fake_rm_runs(user.client, freed + 1));

        /* Another client, made meanwhile. */
        User more = user_new(process.files[9], FIRST_NUMBER);
        assert_held(&t, 2 * ALL - CHANNELS + 3);
        assert_released(&t, 2 * ALL - CHANNELS + 3);

        /* And one that begins with the first number again. */
        unmake(&more, more.client);
        fake_rm_set_next_client(NVRM_CLIENT_LAST);
        (void) user_new(process.files[9], FIRST_NUMBER);
        (void) user_new(process.files[9], FIRST_NUMBER);
        assert_held(&t, 3 * ALL - CHANNELS + 3);
        assert_released(&t, 3 * ALL - CHANNELS + 3);
        nvrm_target_done(&t);
}

/* A dead process of ours has left the channels as they were. */
static void test_undo(void **state) {
        NvrmTarget dead = target();
        assert_held(&dead, ALL);

        NvrmTarget t = NVRM_TARGET_NULL;
        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), 0);
        assert_int_equal(nvrm_target_undo(&t), 0);
        assert_int_equal(fake_rm_disabled(0), ALL);

        /* It died in the middle, or had two names of a channel. */
        assert_int_equal(nvrm_target_hold(&t), 0);
        dead.channels[3].stopped = dead.channels[5].stopped = false;
        assert_int_equal(nvrm_target_hold(&dead), 0);
        assert_int_equal(fake_rm_disabled(2), 2);
        assert_int_equal(nvrm_target_undo(&t), 0);
        assert_int_equal(fake_rm_disabled(0), ALL);
        dead.state = TARGET_RUNNING;
        nvrm_target_done(&dead);
        assert_int_equal(nvrm_target_release(&t), 0);
        nvrm_target_done(&t);
}

/* Two names of one channel, and one of them goes during the hold. */
static void test_two_names(void **state) {
        User more = user_new(process.files[9], FIRST_NUMBER);
        NvrmDup d = {.client = more.client,
                        .parent = more.group[0],
                        .object = more.number++,
                        .from_client = user.client,
                        .from_object = FIRST_NUMBER + 6};
        assert_int_equal(fake_rm_call(process.files[9], NVRM_NR_DUP, sizeof(d), &d), 0);
        assert_int_equal(d.status, NVRM_OK);
        NvrmTarget t = target();

        assert_held(&t, 2 * ALL - 1);
        assert_int_equal(fake_rm_disabled(2), 1);
        assert_released(&t, 2 * ALL);
        assert_held(&t, 2 * ALL - 1);
        unmake(&user, user.client);
        assert_int_equal(fake_rm_disabled(2), 1);
        assert_released(&t, ALL + 1);
        nvrm_target_done(&t);
}

static void test_failures(void **state) {
        static const struct {
                uint32_t status;
                int error;
        } of[] = {{NVRM_TIMEOUT, -ETIME}, {NVRM_RESET_REQUIRED, -EIO}, {NVRM_INSUFFICIENT_PERMISSIONS, -EACCES},
                        {NVRM_BUSY_RETRY, -EAGAIN}};
        NvrmTarget t = target();

        for (size_t i = 0; i < ELEMENTSOF(of); i++)
                for (unsigned after = 0; after < ALL; after += 7) {
                        fake_rm_fail(after, of[i].status);
                        assert_int_equal(nvrm_target_hold(&t), of[i].error);
                        assert_int_equal(t.state, TARGET_RUNNING);
                        assert_int_equal(fake_rm_disabled(0), ALL);
                        assert_held(&t, ALL);
                        fake_rm_fail(after, of[i].status);
                        assert_released(&t, ALL);
                }

        /* A channel that the driver does not release for good: all others run, and it is tried again. */
        assert_held(&t, ALL);
        fake_rm_refuse(user.client, FIRST_NUMBER + 6, NVRM_TIMEOUT, 6);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(nvrm_target_release(&t), -ETIME);
                assert_int_equal(t.state, TARGET_UNSURE);
                assert_int_equal(fake_rm_disabled(1), 1);
        }
        fake_rm_refuse(user.client, FIRST_NUMBER + 6, NVRM_TIMEOUT, 0);
        assert_released(&t, ALL);
        assert_held(&t, ALL);
        assert_released(&t, ALL);
        nvrm_target_done(&t);
}

static void test_ends(void **state) {
        NvrmTarget t = target();

        /* It closes its file. */
        assert_held(&t, ALL);
        fake_rm_close(process.files[9]);
        process.files[9] = 0;
        assert_int_equal(nvrm_target_release(&t), 0);
        assert_int_equal(t.state, TARGET_RUNNING);
        assert_int_equal(nvrm_target_hold(&t), -ENODEV);
        assert_int_equal(t.state, TARGET_RUNNING);

        /* It opens it again, and ends. */
        process.files[9] = fake_rm_open();
        user = user_new(process.files[9], FIRST_NUMBER);
        assert_held(&t, ALL);
        process.is_there = false;
        assert_int_equal(nvrm_target_release(&t), -ESRCH);
        assert_int_equal(t.state, TARGET_RUNNING);
        nvrm_target_done(&t);
}

static void test_refused(void **state) {
        NvrmTarget t = NVRM_TARGET_NULL;

        assert_int_equal(nvrm_target_open(PID, START + 1, &sys, &t), -ESRCH);
        assert_int_equal(nvrm_target_open(PID + 1, 0, &sys, &t), -ESRCH);
        process.may_be_taken = false;
        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), -EPERM);
        process.may_be_taken = true;
        fake_rm_set_version("470.256.02");
        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), -EOPNOTSUPP);
        fake_rm_set_version("580.159.04");
        int file = process.files[9];
        process.files[9] = 0;
        assert_int_equal(nvrm_target_open(PID, START, &sys, &t), -ENODEV);
        process.files[9] = file;
        assert_null(t.sys);

        /* It has not made channels yet. */
        unmake(&user, user.client);
        t = target();
        assert_int_equal(nvrm_target_hold(&t), -EAGAIN);
        assert_int_equal(t.state, TARGET_RUNNING);
        user = user_new(process.files[9], FIRST_NUMBER);
        assert_held(&t, ALL);

        /* And may no more be looked at: it stays held, and this is said. */
        process.may_be_taken = false;
        assert_int_equal(nvrm_target_release(&t), -EPERM);
        assert_int_equal(t.state, TARGET_UNSURE);
        process.may_be_taken = true;
        assert_released(&t, ALL);
        nvrm_target_done(&t);
}

static void test_words(void **state) {
        for (int i = 0; i < 140; i++)
                assert_true(strlen(nvrm_privileged_explain(-i)) > 0);
        assert_int_equal(privileged_mode_from_string("channels"), PRIVILEGED_CHANNELS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                        TEST(test_cycles),
                        TEST(test_counts),
                        TEST(test_unseen),
                        TEST(test_reused),
                        TEST(test_files_change),
                        TEST(test_too_many_files),
                        TEST(test_others),
                        TEST(test_files),
                        TEST(test_late),
                        TEST(test_undo),
                        TEST(test_two_names),
                        TEST(test_failures),
                        TEST(test_ends),
                        TEST(test_refused),
                        cmocka_unit_test(test_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
