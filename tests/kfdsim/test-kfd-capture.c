/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The fds and queues of a process that the KFD layer sees, and what it tells the service of them
 */

#undef _FILE_OFFSET_BITS

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "shim-kfd.h"

static void case_capture(void) {
        char pci[64], label[32];
        start(GFX90A);
        AqlQueue *q = queue();

        (void) snprintf(pci, sizeof(pci), "pci:%s", device.pci);
        (void) snprintf(label, sizeof(label), "queue %u", aql_queue_id(q));
        CHECK(streq(s->device, pci) && streq(s->backend, "kfd") && streq(s->label, label));
        CHECK(s->level == LEVEL_INTERRUPT && s->kfd_gpu_id == device.gpu_id && s->kfd_queue_id == aql_queue_id(q));

        dispatch(q, 10, SHORT_NS);
        finish(q);
        CHECK(aql_queue_destroy(q) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

static void case_mes(void) {
        start(GFX1100);
        AqlQueue *q = queue();

        CHECK(s->level == LEVEL_GATE);
        dispatch(q, 10, SHORT_NS);
        finish(q);

        /* The level that the service gives goes beyond the gate. */
        hold_all(1);
        dispatch(q, 10, SHORT_NS);
        CHECK(stands_still(q) && aql_queue_executed(q) == 10);
        run_all(1);
        finish(q);
}

static void case_sizes(void) {
        const size_t sizes[] = {KFD_CREATE_QUEUE_SIZE_1_11, sizeof(KfdCreateQueue)};
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizes[i], &a) == 0);
                CHECK(scheduler_until(s, client->n_queues == 1));
                CHECK(s->kfd_queue_id == a.queue_id && a.queue_percentage == 70);
                CHECK(raw_destroy(&r, a.queue_id) == 0);
                CHECK(scheduler_until(s, client->n_queues == 0));
        }

        CHECK(raw_create(&r, KFD_QUEUE_SDMA, sizeof(a), &a) == 0);
        CHECK(raw_destroy(&r, a.queue_id) == 0);
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        CHECK(s->kfd_queue_id == a.queue_id && client->next_id == 1003);
        CHECK(raw_destroy(&r, a.queue_id) == 0);

        /* The layer passes on what the kernel refuses, with the kernel's own error. */
        errno = 0;
        CHECK(raw_destroy(&r, 12345) < 0 && errno == EINVAL);
}

/* All fds of one file count as one: queues end with the last of them. */
static void case_fds(void) {
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        int fds[] = {dup(r.fd), fcntl(r.fd, F_DUPFD_CLOEXEC, 100), dup2(r.fd, 200), dup3(r.fd, 201, O_CLOEXEC)};
        CHECK(close(r.fd) == 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                CHECK(fds[i] >= 0 && raw_update(fds[i], &a, 100, 7) == 0);
        }
        CHECK(dup2(STDERR_FILENO, fds[0]) == fds[0]);
        CHECK(close(fds[1]) == 0 && close_range(200, 200, 0) == 0);
        hold_all(1); /* it is still there */
        CHECK(close(fds[3]) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* Numbers in several ranges of the table: with a layer whose ranges are of this size, since those of the real one need
 * a raised limit. */
static void case_far_fds(void) {
        const int range = (int) strtol(getenv("XSCHED_TEST_FDS") ?: "65536", NULL, 10);
        const int numbers[] = {range - 1, range, 2 * range - 1, 2 * range, 5 * range + 7};
        KfdCreateQueue a, b;
        struct rlimit limit;
        KfdsimQueue q;

        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        if (limit.rlim_max < 6 * (rlim_t) range) {
                CHECK(!getenv("XSCHED_TEST_FDS"));
                return;
        }
        limit.rlim_cur = 6 * (rlim_t) range; /* libxsched's own are below what is closed here */
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        start(GFX90A);
        Raw r = raw_open();

        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                errno = EXDEV;
                CHECK((i % 2 ? dup2(r.fd, numbers[i]) : fcntl(r.fd, F_DUPFD_CLOEXEC, numbers[i])) == numbers[i]);
                CHECK(errno == EXDEV);
        }
        CHECK(close(r.fd) == 0);
        r.fd = numbers[4];
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        hold_all(1);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
                CHECK(raw_update(numbers[i], &a, 40 + (uint32_t) i, 7) == 0);
                CHECK(kfdsim_queue(a.queue_id, &q) && !q.mapped && q.priority == 7);
        }
        run_all(1);
        CHECK(poll_until(kfdsim_queue(a.queue_id, &q) && q.mapped && q.percentage == 44));

        /* An fd that came unseen joins its file. */
        const int unseen = 4 * range;
        CHECK(syscall(SYS_dup3, numbers[0], unseen, O_CLOEXEC) == unseen);
        CHECK(raw_update(unseen, &a, 50, 7) == 0);
        CHECK(close(numbers[0]) == 0 && close_range((unsigned) numbers[1], (unsigned) numbers[2], 0) == 0);
        CHECK(close(numbers[3]) == 0);
        hold_all(1); /* it is still there */
        CHECK(close(numbers[4]) == 0);
        r.fd = unseen;
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(b), &b) == 0);
        CHECK(scheduler_until(s, client->n_queues == 2));

        /* A child of fork() has no such file. */
        pid_t pid = fork();
        if (pid == 0)
                _exit(raw_update(unseen, &a, 60, 7) < 0 && errno == EBADF ? 0 : 1);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        closefrom(unseen);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* --- how an fd may come --- */

/* What <fcntl.h> makes of a call without a mode when a program is built with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);

static int by_open(void) {
        return open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_open64(void) {
        return open64(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_openat(void) {
        return openat(AT_FDCWD, KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_openat64(void) {
        return openat64(AT_FDCWD, KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_open_2(void) {
        return __open_2(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_open64_2(void) {
        return __open64_2(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_openat_2(void) {
        return __openat_2(AT_FDCWD, KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_openat64_2(void) {
        return __openat64_2(AT_FDCWD, KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
}

static int by_creat(void) {
        return creat(KFD_DEVICE_PATH, 0600);
}

static int by_fopen(void) {
        FILE *f = fopen(KFD_DEVICE_PATH, "r+e");
        CHECK(f);
        return fileno(f);
}

/* The process keeps only `copy`: the first fd is closed by a system call, which the layer does not see. */
static int only(int fd, int copy) {
        CHECK(fd >= 0 && copy >= 0 && syscall(SYS_close, fd) == 0);
        return copy;
}

static int by_dup_system_call(void) {
        int fd = by_open();
        return only(fd, (int) syscall(SYS_dup, fd));
}

static int by_socket(void) {
        union {
                struct cmsghdr h;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.h = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
        char byte = 0;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        struct msghdr m = {
                        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        int pair[2], fd = by_open(), copy;

        memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        CHECK(sendmsg(pair[0], &m, 0) == 1 && recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC) == 1);
        memcpy(&copy, CMSG_DATA(&control.h), sizeof(copy));
        CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
        return only(fd, copy);
}

static int by_pidfd(void) {
        int fd = by_open(), process = (int) syscall(SYS_pidfd_open, getpid(), 0);
        return only(fd, (int) syscall(SYS_pidfd_getfd, process, fd, 0));
}

static int by_proc(void) {
        char path[64];
        int fd = by_open();

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return only(fd, open(path, O_RDWR | O_CLOEXEC));
}

/* Whatever way the fd came: its queue is known, can be held, has a percentage of its own, and is gone when it is
 * destroyed. */
static void use(int fd) {
        Raw r = raw_new(fd);
        KfdCreateQueue a;
        KfdsimQueue q;

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        uint32_t slot = (uint32_t) (client->next_id - 1) % 1000;
        hold(slot, NSEC_INFINITY);
        CHECK(poll_until(is_applied(slot)));
        CHECK(raw_update(fd, &a, 100, 7) == 0);
        CHECK(kfdsim_queue(a.queue_id, &q) && !q.mapped);
        CHECK(raw_destroy(&r, a.queue_id) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
        CHECK(close(fd) == 0);
}

static void case_ways(void) {
        static int (*const ways[])(void) = {
                        by_open,
                        by_open64,
                        by_openat,
                        by_openat64,
                        by_open_2,
                        by_open64_2,
                        by_openat_2,
                        by_openat64_2,
                        by_creat,
                        by_fopen,
                        by_dup_system_call,
                        by_socket,
                        by_pidfd,
                        by_proc,
        };

        start(GFX90A);
        for (size_t i = 0; i < ELEMENTSOF(ways); i++)
                use(ways[i]());
}

/* A file that came back to the process by another number is still the same: queues end with the last fd that is known,
 * and not before. */
static void case_same_file(void) {
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();
        int copy = (int) syscall(SYS_dup, r.fd);

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        CHECK(raw_update(copy, &a, 60, 7) == 0);
        CHECK(close(r.fd) == 0);
        hold_all(1); /* it is still there */
        CHECK(raw_update(copy, &a, 100, 7) == 0 && client->n_queues == 1);
        CHECK(close(copy) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* --- the rest --- */

/* Queues of copy engines, where the environment asks for it. */
static void case_sdma(void) {
        KfdCreateQueue a, b;
        KfdsimQueue q;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_SDMA, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        hold_all(1);
        CHECK(kfdsim_queue(a.queue_id, &q) && !q.mapped);
        CHECK(raw_create(&r, KFD_QUEUE_SDMA_XGMI, sizeof(b), &b) == 0 && b.queue_percentage == 70);
        CHECK(kfdsim_queue(b.queue_id, &q) && !q.mapped); /* it follows */
        run_all(1);
        CHECK(poll_until(kfdsim_queue(a.queue_id, &q) && q.mapped && q.percentage == 70));
        CHECK(poll_until(kfdsim_queue(b.queue_id, &q) && q.mapped && q.percentage == 70));
}

/* Without the environment variable such a queue is neither held, nor follows a held one. */
static void case_sdma_alone(void) {
        KfdCreateQueue a, b;
        KfdsimQueue q;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_SDMA, sizeof(a), &a) == 0);
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(b), &b) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        hold_all(1);
        CHECK(kfdsim_queue(b.queue_id, &q) && !q.mapped);
        CHECK(kfdsim_queue(a.queue_id, &q) && q.mapped && q.n_updates == 0);
        CHECK(raw_create(&r, KFD_QUEUE_SDMA, sizeof(a), &a) == 0);
        CHECK(kfdsim_queue(a.queue_id, &q) && q.mapped);
}

/* The application closes everything that it finds, ours included. */
static void case_close_all(void) {
        start(GFX90A);
        KfdCreateQueue a;
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        for (int fd = r.fd + 1; fd < r.fd + 50; fd++) {
                char link[64], target[256];
                (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                ssize_t n = readlink(link, target, sizeof(target) - 1);
                if (n > 0 && (target[n] = 0, strstr(target, "kfd")))
                        CHECK(close(fd) == 0);
        }
        hold_all(1);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        CHECK(raw_destroy(&r, a.queue_id) == 0);
}

static void case_disabled(void) {
        start(GFX90A);
        AqlQueue *q = bare_queue();

        dispatch(q, 10, SHORT_NS);
        finish(q);
        CHECK(n_registered() == 0 && s->n_clients == 0);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(capture),
                        CASE(mes),
                        CASE(sizes),
                        CASE(fds),
                        CASE(far_fds),
                        CASE(ways),
                        CASE(same_file),
                        CASE(sdma, "XSCHED_HOLD_SDMA=1"),
                        CASE(sdma_alone),
                        CASE(close_all),
                        CASE(disabled, "XSCHED_DISABLE=1"),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
