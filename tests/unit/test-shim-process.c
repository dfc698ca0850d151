/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched in processes that fork, execute programs, change users, end, or switch it off
 */

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/own-fd.h"
#include "shim-cases.h"

#define FDS_MAX 1024

static void note_fds(bool open[static FDS_MAX]) {
        for (int fd = 0; fd < FDS_MAX; fd++)
                open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Number of descriptors that were not there before. Checks that all of them close on exec. */
static unsigned new_fds(const bool before[static FDS_MAX]) {
        unsigned n = 0;

        for (int fd = 0; fd < FDS_MAX; fd++) {
                int flags = fcntl(fd, F_GETFD);
                if (flags < 0 || before[fd])
                        continue;
                CHECK(flags & FD_CLOEXEC);
                n++;
        }
        return n;
}

static int wait_for(FakeScheduler *s, pid_t pid) {
        int status = -1;

        CHECK(scheduler_until(s, waitpid(pid, &status, WNOHANG) == pid));
        return status;
}

static void case_fork(void) {
        FakeScheduler *s = scheduler();
        bool fds[FDS_MAX];
        note_fds(fds);
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.drain = count_drain});
        FakeClient *c = &s->clients[0];

        /* The client's kick, bus, lifeline and wake; the service's page (twice), wake and lifeline. */
        CHECK(new_fds(fds) == 8);
        page_slot_set_watch(fake_slot(c->f, 0), WATCH_ALL);
        CHECK(xsched_queue_begin(q) == XSCHED_TRACKED);
        fake_hold(c->f, 0, NSEC_INFINITY);

        pid_t pid = fork();
        if (pid == 0) {
                /* A new process, which is no client: neither the parent's hold nor its counts are the child's. */
                CHECK(counters().state == XSCHED_STATE_OFF);
                CHECK(counters().launches == 0);
                CHECK(new_fds(fds) == 4); /* the service's are inherited, the client's closed */
                CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
                xsched_queue_complete(q, 1, 0);
                xsched_queue_drained(q);
                CHECK(fake_counted(c->f, 0) == 1);

                for (unsigned i = 0; i < s->n_clients; i++)
                        fake_client_hang_up(&s->clients[i]);
                XschedQueue *own = queue((XschedQueueInfo){.label = "child"});
                CHECK(poll_until(counters().queues == 1));
                CHECK(counters().state == XSCHED_STATE_ATTACHED);
                CHECK(xsched_queue_begin(own) == XSCHED_UNTRACKED);
                xsched_queue_unref(q);
                CHECK(poll_until(counters().launches == 2));
                _exit(0);
        }
        CHECK(pid > 0);
        CHECK(wait_for(s, pid) == 0);
        CHECK(s->n_clients == 2);
        CHECK(streq(s->label, "child"));
        CHECK(poll_until(fake_client_is_gone(&s->clients[1])));

        CHECK(!fake_client_is_gone(c));
        CHECK(fake_counted(c->f, 0) == 1);
        Launcher l;
        launch(&l, q);
        CHECK(poll_until(has_waiters(c, 0, 1)));
        fake_run(c->f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
        CHECK(counters().state == XSCHED_STATE_ATTACHED && counters().queues == 1);
}

/* The death notice of a parent does not wait for its children. */
static void case_fork_lifeline(void) {
        FakeScheduler *s = scheduler();
        int hold[2];

        CHECK(pipe(hold) == 0);
        pid_t parent = fork();
        if (parent == 0) {
                queue((XschedQueueInfo){});
                CHECK(poll_until(counters().queues == 1));
                if (fork() == 0) {
                        char c;
                        close(hold[1]);
                        (void) !read(hold[0], &c, 1); /* until the test ends */
                        _exit(0);
                }
                _exit(0);
        }
        CHECK(wait_for(s, parent) == 0);
        CHECK(s->n_clients == 1);
        CHECK(poll_until(fake_client_is_gone(&s->clients[0])));
}

/* The parent has closed our numbers, and uses them for files of its own: its child has these. */
static void case_fork_with_our_numbers(void) {
        FakeScheduler *s = scheduler();
        bool before[FDS_MAX], ours[FDS_MAX] = {};

        pid_t parent = fork();
        if (parent == 0) {
                note_fds(before);
                queue((XschedQueueInfo){});
                CHECK(poll_until(counters().queues == 1));
                for (int fd = 0; fd < FDS_MAX; fd++) {
                        ours[fd] = !before[fd] && fcntl(fd, F_GETFD) >= 0;
                        CHECK(!ours[fd] || dup2(STDERR_FILENO, fd) == fd);
                }
                pid_t child = fork();
                if (child == 0) {
                        for (int fd = 0; fd < FDS_MAX; fd++)
                                CHECK(!ours[fd] || fcntl(fd, F_GETFD) >= 0);
                        _exit(0);
                }
                int status = -1;
                CHECK(waitpid(child, &status, 0) == child && status == 0);
                _exit(0);
        }
        CHECK(wait_for(s, parent) == 0);
}

/* Sockets that are made one after another have inode numbers next to each other. */
static void case_marks_of_neighbours(void) {
        int fds[4];

        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 2) == 0);
        for (unsigned i = 0; i < ELEMENTSOF(fds); i++)
                for (unsigned k = 0; k < ELEMENTSOF(fds); k++)
                        CHECK(own_fd_is(fds[k], own_fd_mark(fds[i])) == (i == k));
        for (unsigned i = 0; i < ELEMENTSOF(fds); i++)
                (void) close(fds[i]);
}

/* A sandbox in which no process may ask what a descriptor is. Its own are believed to be its own. */
static void case_sandbox(void) {
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};
        FakeScheduler *s = scheduler();

        pid_t pid = fork();
        if (pid == 0) {
                uint64_t mark = own_fd_mark(STDERR_FILENO);
                CHECK(own_fd_is(STDERR_FILENO, mark) && !own_fd_is(STDERR_FILENO, mark ^ 1));
                CHECK(!own_fd_is(FDS_MAX - 1, mark) && !own_fd_is(FDS_MAX - 1, 0));
                CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
                CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
                CHECK(own_fd_is(STDERR_FILENO, mark) && own_fd_is(STDERR_FILENO, own_fd_mark(STDERR_FILENO)));
                queue((XschedQueueInfo){});
                for (;;)
                        (void) pause();
        }
        CHECK(scheduler_until(s, s->n_clients > 0)); /* it gets as far as that; the page it cannot take */
        CHECK(kill(pid, SIGKILL) == 0);
        (void) wait_for(s, pid);
}

/* A sandbox in which the control thread cannot be started: whoever looks from outside finds the reason. */
static void case_sandbox_without_eventfd(void) {
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_eventfd2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};

        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
        CHECK(!maps_say("xsched: its"));
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(maps_say("xsched: its thread cannot be started: Operation not permitted :xsched"));
}

/* A child without fork handlers, as of a language runtime that calls the kernel itself. */
static _unused_ void case_bare_clone(void) {
        FakeScheduler *s = scheduler();

        attached_queue(s, (XschedQueueInfo){});
        pid_t pid = (pid_t) syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
                XschedQueue *own = queue((XschedQueueInfo){.label = "clone"});
                CHECK(counters().launches == 0);
                CHECK(poll_until(counters().queues == 1));
                CHECK(xsched_queue_begin(own) == XSCHED_UNTRACKED);
                _exit(0);
        }
        CHECK(pid > 0);
        CHECK(wait_for(s, pid) == 0);
        CHECK(s->n_clients == 2 && streq(s->label, "clone"));
        CHECK(!fake_client_is_gone(&s->clients[0]));
}

/* A program that the process starts has neither the library's descriptors nor a client. */
static void case_spawn(void) {
        FakeScheduler *s = scheduler();
        char *arguments[] = {(char *) "sh", (char *) "-c", (char *) "ls -l /proc/self/fd", NULL};
        char line[256];
        bool leaked = false;
        int out[2];
        pid_t pid;

        attached_queue(s, (XschedQueueInfo){});
        CHECK(pipe2(out, O_CLOEXEC) == 0);
        posix_spawn_file_actions_t actions;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_adddup2(&actions, out[1], 1) == 0);
        CHECK(posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ) == 0);
        close(out[1]);
        FILE *f = fdopen(out[0], "r");
        while (fgets(line, sizeof(line), f))
                leaked = leaked || strstr(line, "socket:") || strstr(line, "eventfd") || strstr(line, "memfd");
        CHECK(wait_for(s, pid) == 0);
        CHECK(!leaked);
        CHECK(s->n_clients == 1 && !fake_client_is_gone(&s->clients[0]));
}

/* setuid() interrupts every thread for a moment, also those that block all signals. */
static void case_setuid(void) {
        FakeScheduler *s = scheduler();
        Launcher l;

        launch_held(s, &l);
        CHECK(setresuid(getuid(), geteuid() == 0 ? 65534 : geteuid(), (uid_t) -1) == 0);
        CHECK(atomic_load(&l.began) == -1);
        attached_queue(s, (XschedQueueInfo){}); /* the connection keeps its former identity */
        fake_run(s->clients[0].f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
}

static _Atomic bool stop_launching;

static void *launch_for_ever(void *p) {
        uint64_t n = 0;

        for (; !atomic_load(&stop_launching); n++)
                if (xsched_queue_begin(p) == XSCHED_TRACKED)
                        xsched_queue_complete(p, 1, 1000);
        return (void *) (uintptr_t) n;
}

/* Forks come at any instruction of launches, holds and registrations. */
static void case_fork_in_the_middle(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){});
        FakeClient *c = &s->clients[0];
        pthread_t threads[4];
        uint64_t sum = 0;

        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(&threads[i], NULL, launch_for_ever, q) == 0);
        for (int i = 0; i < 50; i++) {
                if (i % 3 == 0)
                        fake_hold(c->f, 0, NSEC_INFINITY);
                page_slot_set_watch(fake_slot(c->f, 0), i % 2 ? WATCH_ALL : 0);
                pid_t pid = fork();
                if (pid == 0) {
                        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
                        CHECK(counters().launches == 1);
                        XschedQueue *own = queue((XschedQueueInfo){});
                        CHECK(xsched_queue_begin(own) == XSCHED_UNTRACKED);
                        _exit(0);
                }
                fake_run(c->f, 0);
                s->refuse_client = "org.freedesktop.DBus.Error.AccessDenied"; /* the children */
                CHECK(wait_for(s, pid) == 0);
        }
        atomic_store(&stop_launching, true);
        for (size_t i = 0; i < ELEMENTSOF(threads); i++) {
                void *n;
                CHECK(pthread_join(threads[i], &n) == 0);
                sum += (uintptr_t) n;
        }
        CHECK(counters().launches == sum);
        CHECK(atomic_load(&fake_slot(c->f, 0)->submitted) == sum);
        CHECK(fake_counted(c->f, 0) == 0);
        CHECK(!fake_client_is_gone(c));
}

/* exit() does not wait for a thread in a held gate. */
static void case_exit_while_held(void) {
        FakeScheduler *s = scheduler();
        int go[2];
        char c;

        CHECK(pipe(go) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                Launcher l;
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                XschedQueue *q = queue((XschedQueueInfo){});
                CHECK(poll_until(counters().queues == 1));
                CHECK(read(go[0], &c, 1) == 1); /* held by now */
                launch(&l, q);
                CHECK(read(go[0], &c, 1) == 1); /* waiting by now */
                exit(0);
        }
        CHECK(scheduler_until(s, s->n_clients == 1 && s->clients[0].n_queues == 1));
        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        CHECK(write(go[1], "x", 1) == 1);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        CHECK(write(go[1], "x", 1) == 1);
        CHECK(wait_for(s, pid) == 0);
        CHECK(poll_until(fake_client_is_gone(&s->clients[0])));
}

static void case_disabled(void) {
        FakeScheduler *s = scheduler();
        static int one = 1;

        XschedQueue *q = queue((XschedQueueInfo){.userdata = &one, .destroy = count_destroy});
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        xsched_queue_unref(q);
        (void) queue((XschedQueueInfo){});
        CHECK(atomic_load(&destroyed) == 1);
        for (int i = 0; i < 20; i++)
                fake_scheduler_turn(s);
        CHECK(s->n_clients == 0);
        CHECK(counters().state == XSCHED_STATE_OFF);
        CHECK(counters().launches == 1);
}

static const BusCase cases[] = {
                CASE(fork),
                CASE(fork_lifeline),
                CASE(fork_with_our_numbers),
                CASE(marks_of_neighbours),
                CASE(sandbox),
                CASE(sandbox_without_eventfd),
                CASE(fork_in_the_middle),
#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer takes the parent's threads for the child's */
                CASE(bare_clone),
#endif
                CASE(spawn),
                CASE(setuid),
                CASE(exit_while_held),
                CASE(disabled, "XSCHED_DISABLE=1"),
};

int main(int argc, char *argv[]) {
        return run_cases(cases, ELEMENTSOF(cases), argc, argv);
}
