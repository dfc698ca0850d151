/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched in a process, against a service that does what the test says, over a bus of the test's own
 *
 * Each case runs in a process of its own, because that is what a client is: one per process, and never torn down. The
 * program calls itself for it, so that the library's constructor sees the case's environment.
 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "include/xsched/xsched.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-scheduler.h"
#include "tests/lib/private-bus.h"

#define CHECK(condition)                                                                                    \
        do {                                                                                                \
                if (!(condition)) {                                                                         \
                        (void) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);              \
                        _exit(1);                                                                           \
                }                                                                                           \
        } while (false)

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE)

static PrivateBus bus;

static FakeScheduler *scheduler(void) {
        FakeScheduler *s = fake_scheduler_new(bus.address);

        fake_scheduler_own(s);
        return s;
}

static XschedQueue *queue(XschedQueueInfo info) {
        XschedQueue *q = NULL;

        info.size = sizeof(info);
        info.device = info.device ?: "pci:0000:65:00.0";
        info.backend = info.backend ?: "test";
        CHECK(xsched_queue_new(&info, &q) == 0);
        CHECK(q);
        return q;
}

static XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c;
}

static XschedQueue *attached_queue(FakeScheduler *s, XschedQueueInfo info) {
        uint64_t before = counters().queues;
        XschedQueue *q = queue(info);

        CHECK(scheduler_until(s, counters().queues == before + 1));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        return q;
}

typedef struct Launcher {
        XschedQueue *queue;
        pthread_t thread;
        _Atomic int began;
} Launcher;

static void *launcher_main(void *p) {
        Launcher *l = p;

        atomic_store(&l->began, xsched_queue_begin(l->queue));
        return NULL;
}

static void launch(Launcher *l, XschedQueue *q) {
        *l = (Launcher){.queue = q, .began = -1};
        CHECK(pthread_create(&l->thread, NULL, launcher_main, l) == 0);
}

static bool has_waiters(FakeClient *c, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(c->f, slot)->waiters) == n;
}

/* --- registration --- */

static void case_register(void) {
        FakeScheduler *s = scheduler();

        CHECK(counters().state == XSCHED_STATE_OFF);
        errno = ENOTUNIQ;
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.label = "main", .priority_hint = -5});
        CHECK(s->n_clients == 1);
        FakeClient *c = &s->clients[0];
        CHECK(streq(c->job, "token") && streq(c->class, "batch") && c->version[0] != '\0');
        CHECK(c->priority == -7 && c->weight == 50);
        CHECK(streq(s->device, "pci:0000:65:00.0") && streq(s->backend, "test") && streq(s->label, "main"));
        CHECK(s->priority_hint == -5);

        fake_hold(c->f, 0, NSEC_INFINITY);
        Launcher l;
        launch(&l, q);
        CHECK(poll_until(has_waiters(c, 0, 1)));
        CHECK(atomic_load(&l.began) == -1);
        fake_run(c->f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
        CHECK(atomic_load(&l.began) == XSCHED_TRACKED);
        CHECK(counters().waited == 1 && counters().tracked == 1 && counters().launches == 1);
        xsched_queue_complete(q, 1, 0);
        CHECK(fake_counted(c->f, 0) == 0);
}

static void case_arguments(void) {
        XschedQueueInfo info = {.size = sizeof(info), .device = "d", .backend = "b"}, bad;
        XschedQueue *q = NULL;

        bad = info, bad.size = 4;
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        bad = info, bad.device = NULL;
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        bad = info, bad.backend = "";
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        CHECK(xsched_queue_new(NULL, &q) == -EINVAL);
        CHECK(!q);
        CHECK(xsched_queue_unref(NULL) == NULL);
        CHECK(counters().state == XSCHED_STATE_OFF);

        /* Older and newer callers. */
        info.size = offsetof(XschedQueueInfo, label);
        CHECK(xsched_queue_new(&info, &q) == 0);
        struct {
                XschedQueueInfo known;
                uint64_t unknown[4];
        } future = {.known = info};
        future.known.size = sizeof(future);
        CHECK(xsched_queue_new(&future.known, &q) == 0);
        XschedCounters c = {.size = offsetof(XschedCounters, launches), .launches = 77};
        CHECK(xsched_get_counters(&c) == 0);
        CHECK(c.launches == 77);

        CHECK(xsched_hint("Colour", 1) == -EINVAL);
        CHECK(xsched_hint(NULL, 1) == -EINVAL);
        CHECK(xsched_hint("Priority", -256) == -ERANGE);
        CHECK(xsched_hint("Weight", 0) == -ERANGE);
        CHECK(xsched_hint("Priority", -255) == 0);
}

static _Atomic int destroyed;

static void count_destroy(void *userdata) {
        atomic_fetch_add(&destroyed, *(int *) userdata);
}

static void case_unregister(void) {
        static int one = 1;
        FakeScheduler *s = scheduler();
        XschedQueue *first =
                        attached_queue(s, (XschedQueueInfo){.userdata = &one, .destroy = count_destroy});
        XschedQueue *second = attached_queue(s, (XschedQueueInfo){});

        xsched_queue_begin(first);
        xsched_queue_begin(second);
        xsched_queue_ref(first);
        xsched_queue_unref(first);
        CHECK(atomic_load(&destroyed) == 0);
        xsched_queue_unref(first);
        CHECK(scheduler_until(s, s->clients[0].n_gone == 1));
        CHECK(s->clients[0].last_gone == 1000);
        CHECK(poll_until(counters().queues == 1));
        CHECK(atomic_load(&destroyed) == 1);
        CHECK(counters().launches == 2); /* the dead count on */

        /* Its memory serves the next one. */
        XschedQueue *third = attached_queue(s, (XschedQueueInfo){});
        CHECK(third == first);
        CHECK(xsched_queue_begin(third) == XSCHED_UNTRACKED);
        CHECK(counters().launches == 3);
}

static void *storm_main(void *p) {
        for (int i = 0; i < 100; i++) {
                XschedQueue *q[4];
                for (size_t k = 0; k < ELEMENTSOF(q); k++)
                        q[k] = queue((XschedQueueInfo){.userdata = p, .destroy = count_destroy});
                for (size_t k = 0; k < ELEMENTSOF(q); k++) {
                        xsched_queue_begin(q[k]);
                        xsched_queue_unref(q[k]);
                }
        }
        return NULL;
}

static void case_storm(void) {
        static int one = 1;
        FakeScheduler *s = scheduler();
        pthread_t threads[4];

        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(&threads[i], NULL, storm_main, &one) == 0);
        CHECK(scheduler_until(s, atomic_load(&destroyed) == 1600));
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(scheduler_until(s, s->n_clients == 1 && s->clients[0].n_queues == 0));
        CHECK(counters().launches == 1600);
        CHECK(counters().queues == 0);
}

/* --- draining --- */

static _Atomic int drains;
static char drain_thread[32];

static void count_drain(XschedQueue *q, void *userdata) {
        (void) prctl(PR_GET_NAME, drain_thread);
        atomic_fetch_add(&drains, 1);
}

static void case_drain(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.drain = count_drain});
        FakeClient *c = &s->clients[0];

        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        fake_client_nudge(c); /* nothing is watched: nothing to do */
        CHECK(page_slot_set_watch(fake_slot(c->f, 0), WATCH_ALL) == PAGE_OUTSTANDING_UNTRACKED);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&drains) == 1));
        CHECK(streq(drain_thread, "xsched"));
        CHECK(fake_counted(c->f, 0) == 1);
        fake_client_nudge(c); /* under way already */
        CHECK(xsched_queue_begin(q) == XSCHED_TRACKED);
        xsched_queue_complete(q, 1, 0);
        CHECK(!fake_take_edge(c->f, 0));
        xsched_queue_drained(q);
        CHECK(atomic_load(&fake_slot(c->f, 0)->outstanding) == 0);
        CHECK(fake_take_edge(c->f, 0));
        CHECK(atomic_load(&drains) == 1);

        page_slot_set_watch(fake_slot(c->f, 0), 0);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* --- the service goes --- */

static void case_hang_up(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){});
        Launcher l;

        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        launch(&l, q);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        fake_client_hang_up(&s->clients[0]);
        CHECK(pthread_join(l.thread, NULL) == 0); /* free, and no lease had to end for it */
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(counters().lease_expired == 0);

        /* It comes back by itself, with a new page. */
        CHECK(scheduler_until(s, s->n_clients == 2 && counters().queues == 1));
        FakeClient *c = &s->clients[1];
        CHECK(atomic_load(&fake_slot(c->f, 0)->outstanding) == PAGE_OUTSTANDING_UNTRACKED);
        CHECK(atomic_load(&fake_slot(c->f, 0)->submitted) == 2);
        page_slot_set_watch(fake_slot(c->f, 0), WATCH_ALL);
        xsched_queue_complete(q, 1, 0); /* the old page's launch */
        CHECK(fake_counted(c->f, 0) == 0);
        CHECK(xsched_queue_begin(q) == XSCHED_TRACKED);
        CHECK(fake_counted(c->f, 0) == 1);
}

static void case_no_service(void) {
        FakeScheduler *s = fake_scheduler_new(bus.address);
        XschedQueue *q = queue((XschedQueueInfo){});

        CHECK(poll_until(counters().state == XSCHED_STATE_CONNECTING));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        for (int i = 0; i < 50; i++)
                fake_scheduler_turn(s);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1));
        CHECK(counters().launches == 1);
}

static void case_bus_lost(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){});
        Launcher l;

        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        launch(&l, q);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        CHECK(kill(bus.pid, SIGKILL) == 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
        CHECK(poll_until(counters().state == XSCHED_STATE_DETACHED));
        CHECK(poll_until(fake_client_is_gone(&s->clients[0]))); /* and the service is told */
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* The lifeline stays open over a restart: nobody registers anew, and what fell into the gap is made up for. */
static void case_restart(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){});
        FakeClient *c = &s->clients[0];

        fake_scheduler_disown(s);
        XschedQueue *second = queue((XschedQueueInfo){.label = "in the gap"});
        xsched_queue_unref(first);
        CHECK(poll_until(counters().queues == 0));
        CHECK(xsched_queue_begin(second) == XSCHED_UNTRACKED);
        fake_scheduler_reconnect(s, bus.address);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1 && c->n_gone == 1));
        CHECK(s->n_clients == 1 && c->n_queues == 1 && c->last_gone == 1000);
        CHECK(streq(s->label, "in the gap"));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        CHECK(!fake_client_is_gone(c));
}

static void case_amnesia(void) {
        FakeScheduler *s = scheduler();

        attached_queue(s, (XschedQueueInfo){});
        s->refuse_queue = "org.xsched.Scheduler.Error.NoSuchClient";
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, fake_client_is_gone(&s->clients[0])));
        s->refuse_queue = NULL;
        CHECK(scheduler_until(s, counters().queues == 2));
        CHECK(s->n_clients >= 2);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* --- the service does not want us, or is no service of ours --- */

static void case_refused(void) {
        FakeScheduler *s = scheduler();

        s->refuse_client = "org.xsched.Scheduler.Error.QuotaExceeded";
        XschedQueue *q = queue((XschedQueueInfo){});
        for (int i = 0; i < 100; i++)
                fake_scheduler_turn(s);
        CHECK(counters().state == XSCHED_STATE_CONNECTING);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);

        /* A new service may think differently. */
        s->refuse_client = NULL;
        fake_scheduler_disown(s);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1));
}

static void case_queue_refused(void) {
        FakeScheduler *s = scheduler();

        s->queues_max = 1;
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){.label = "first"});
        XschedQueue *second = queue((XschedQueueInfo){.label = "second"});
        for (int i = 0; i < 50; i++)
                fake_scheduler_turn(s);
        CHECK(counters().queues == 1 && counters().state == XSCHED_STATE_ATTACHED);
        CHECK(xsched_queue_begin(second) == XSCHED_UNTRACKED);

        /* Room for it now. */
        xsched_queue_unref(first);
        CHECK(scheduler_until(s, s->clients[0].n_gone == 1 && counters().queues == 1));
        CHECK(streq(s->label, "second"));
}

static void case_bad_page(void) {
        FakeScheduler *s = scheduler();

        s->bad_page = true;
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->n_clients == 1 && fake_client_is_gone(&s->clients[0])));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(counters().state == XSCHED_STATE_CONNECTING);
}

static void case_bad_slots(void) {
        FakeScheduler *s = scheduler();

        s->force_slot = PAGE_SLOTS_MAX;
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->n_clients == 1 && s->clients[0].n_gone >= 1));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        s->force_slot = 5;
        attached_queue(s, (XschedQueueInfo){});
        XschedQueue *twin = queue((XschedQueueInfo){}); /* in the slot of the one before */
        CHECK(scheduler_until(s, s->clients[0].n_gone >= 2));
        CHECK(xsched_queue_begin(twin) == XSCHED_UNTRACKED);
}

static void case_hints(void) {
        FakeScheduler *s = scheduler();

        CHECK(xsched_hint("Priority", -100) == 0); /* before there is anybody to tell */
        attached_queue(s, (XschedQueueInfo){});
        CHECK(s->clients[0].priority == -100);
        CHECK(xsched_hint("Weight", 25) == 0);
        CHECK(xsched_hint("Threshold", 3) == 0);
        CHECK(scheduler_until(s, s->hint_weight == 25 && s->hint_threshold == 3));
        CHECK(s->hint_priority == -100);
}

/* --- processes --- */

#define FDS_MAX 256

static void note_fds(bool open[static FDS_MAX]) {
        for (int fd = 0; fd < FDS_MAX; fd++)
                open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* How many descriptors there are that were not there before; all of them close on exec. */
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
                /* A new process, and nobody's client: the parent's hold is not its own, nor are its counts. */
                CHECK(counters().state == XSCHED_STATE_OFF);
                CHECK(counters().launches == 0);
                CHECK(new_fds(fds) == 4); /* the service's came along by the fork, the client's did not */
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

/* A child that no fork handler has seen, as of a language runtime that calls the kernel itself. */
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

/* Of a program that the process starts, nothing is left: neither descriptors nor a client. */
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
                leaked = leaked || strstr(line, "socket:") || strstr(line, "eventfd") ||
                                strstr(line, "memfd");
        CHECK(wait_for(s, pid) == 0);
        CHECK(!leaked);
        CHECK(s->n_clients == 1 && !fake_client_is_gone(&s->clients[0]));
}

/* setuid() stops every thread for a moment, those that block all signals, too. */
static void case_setuid(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){});
        Launcher l;

        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        launch(&l, q);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        CHECK(setresuid(getuid(), geteuid() == 0 ? 65534 : geteuid(), (uid_t) -1) == 0);
        CHECK(atomic_load(&l.began) == -1);
        attached_queue(s, (XschedQueueInfo){}); /* the connection stays who it was */
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

/* Forks at any instruction of launches, holds and registrations. */
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

/* --- holds beyond the gate --- */

/* A backend that can stop what has been submitted: what its calls said. */
static struct {
        _Atomic uint32_t n_holds, n_releases;
        _Atomic uint32_t last_n;
        _Atomic int fail_hold, fail_release;
        _Atomic bool held;
} stopper;

static int stopper_apply(XschedQueue *const *queues, void *const *userdata, uint32_t n, int held) {
        for (uint32_t i = 0; i < n; i++)
                CHECK(userdata[i] == &stopper && queues[i]);
        atomic_store(&stopper.last_n, n);
        int r = atomic_exchange(held ? &stopper.fail_hold : &stopper.fail_release, 0);
        if (r == 0)
                atomic_store(&stopper.held, held);
        atomic_fetch_add(held ? &stopper.n_holds : &stopper.n_releases, 1);
        return r;
}

static XschedQueueInfo stoppable(void) {
        return (XschedQueueInfo){.apply = stopper_apply, .userdata = &stopper, .level = LEVEL_INTERRUPT};
}

static void order(FakeClient *c, uint32_t slot, PreemptLevel level, uint64_t lease_ns) {
        atomic_store(&fake_slot(c->f, slot)->level, level);
        fake_hold(c->f, slot, lease_ns);
        fake_client_nudge(c);
}

static bool is_applied(FakeClient *c, uint32_t slot) {
        return atomic_load(&fake_slot(c->f, slot)->applied) == atomic_load(&fake_slot(c->f, slot)->verdict);
}

static void case_stop(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *a = attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1)); /* the first verdict */
        (void) attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 2));
        FakeClient *c = &s->clients[0];

        /* The gate alone: no matter what the backend could do. */
        order(c, 0, LEVEL_GATE, NSEC_INFINITY);
        order(c, 1, LEVEL_INTERRUPT, NSEC_INFINITY);
        CHECK(poll_until(is_applied(c, 1)));
        CHECK(atomic_load(&stopper.n_holds) == 1 && atomic_load(&stopper.last_n) == 1);
        CHECK(!is_applied(c, 0));
        CHECK(xsched_queue_get_state(a) == XSCHED_QUEUE_HELD);
        fake_run(c->f, 0);
        fake_run(c->f, 1);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 3 && is_applied(c, 1)));
        CHECK(xsched_queue_get_state(a) == 0);

        /* Both of one device in one batch. */
        atomic_store(&fake_slot(c->f, 0)->level, LEVEL_DEQUEUE);
        fake_hold(c->f, 0, NSEC_INFINITY);
        order(c, 1, LEVEL_DEQUEUE, NSEC_INFINITY);
        CHECK(poll_until(is_applied(c, 0) && is_applied(c, 1)));
        CHECK(atomic_load(&stopper.n_holds) == 2 && atomic_load(&stopper.last_n) == 2);

        /* A queue that goes is let go. */
        xsched_queue_unref(a);
        CHECK(scheduler_until(s, c->n_queues == 1));
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 4));
        fake_client_hang_up(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 5 && !atomic_load(&stopper.held)));
}

/* Nobody says anything: the lease alone. */
static void case_stop_lease(void) {
        FakeScheduler *s = scheduler();
        (void) attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1));
        FakeClient *c = &s->clients[0];
        PageHeader *h = c->f->page.header;

        uint64_t start = now_ns();
        order(c, 0, LEVEL_INTERRUPT, 200 * NSEC_PER_MSEC);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 1));
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 2));
        CHECK(now_ns() - start >= 200 * NSEC_PER_MSEC);

        /* Renewed: held again, and as long as it is renewed. */
        page_set_lease(h, NSEC_INFINITY);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 2));
        CHECK(atomic_load(&stopper.n_releases) == 2);
        page_set_lease(h, 0);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 3));
}

static void case_stop_failure(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1));
        FakeClient *c = &s->clients[0];

        /* A failed hold is not tried again for the same verdict, but for the next one. */
        atomic_store(&stopper.fail_hold, -ETIME);
        order(c, 0, LEVEL_INTERRUPT, NSEC_INFINITY);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 1));
        fake_client_nudge(c);
        fake_run(c->f, 0);
        fake_hold(c->f, 0, NSEC_INFINITY);
        fake_client_nudge(c);
        CHECK(poll_until(is_applied(c, 0)));
        CHECK(atomic_load(&stopper.n_holds) == 2);

        /* Letting go is tried until it works. */
        atomic_store(&stopper.fail_release, -EIO);
        fake_run(c->f, 0);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 3 && !atomic_load(&stopper.held)));
        CHECK(poll_until(is_applied(c, 0)));

        /* Another level: the queue is registered anew. */
        xsched_queue_lower_level(q, LEVEL_GATE);
        CHECK(scheduler_until(s, c->n_gone == 1 && c->n_queues == 1));
        CHECK(scheduler_until(s, s->level == LEVEL_GATE));
}

/* --- running the cases --- */

typedef struct Case {
        const char *name;
        void (*run)(void);
        const char *environment; /* one variable */
} Case;

static const Case cases[] = {
#define CASE(name, ...)                                                                                     \
        { #name, case_##name, ##__VA_ARGS__ }
                CASE(register),
                CASE(arguments),
                CASE(unregister),
                CASE(storm),
                CASE(drain),
                CASE(hang_up),
                CASE(no_service),
                CASE(bus_lost),
                CASE(restart),
                CASE(amnesia),
                CASE(refused),
                CASE(queue_refused),
                CASE(bad_page),
                CASE(bad_slots),
                CASE(hints),
                CASE(fork),
                CASE(fork_lifeline),
                CASE(fork_in_the_middle),
#ifndef __SANITIZE_THREAD__ /* it takes the parent's threads for the child's */
                CASE(bare_clone),
#endif
                CASE(spawn),
                CASE(setuid),
                CASE(exit_while_held),
                CASE(stop),
                CASE(stop_lease),
                CASE(stop_failure),
                CASE(disabled, "XSCHED_DISABLE=1"),
};

static int run_case(const Case *c) {
        bus.pid = (pid_t) strtol(strempty(getenv("TEST_BUS_PID")), NULL, 10);
        (void) snprintf(bus.address, sizeof(bus.address), "%s", strempty(getenv("XSCHED_BUS_ADDRESS")));
        c->run();
        fflush(NULL);
        _exit(0);
}

/* A new bus for each: some end it. */
static bool spawn_case(const Case *c) {
        char pid[32];
        PrivateBus b;

        if (private_bus_start(&b) < 0) {
                puts("no dbus-daemon");
                exit(77);
        }
        (void) snprintf(pid, sizeof(pid), "%d", (int) b.pid);

        pid_t child = fork();
        if (child == 0) {
                (void) alarm(60);
                setenv("TEST_BUS_PID", pid, true);
                setenv("XSCHED_BUS_ADDRESS", b.address, true);
                setenv("XSCHED_JOB", "token", true);
                setenv("XSCHED_CLASS", "batch", true);
                setenv("XSCHED_PRIORITY", "-7", true);
                setenv("XSCHED_WEIGHT", "50", true);
                /* Forks with threads are what is tested here, and nothing is ever torn down. */
                setenv("TSAN_OPTIONS", "die_after_fork=0:halt_on_error=1", true);
                setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1", true);
                if (c->environment)
                        putenv((char *) c->environment);
                execl("/proc/self/exe", "test-shim", c->name, (char *) NULL);
                _exit(127);
        }
        int status = -1;
        (void) waitpid(child, &status, 0);
        private_bus_stop(&b);
        printf("%s %s\n", status == 0 ? "ok    " : "FAILED", c->name);
        fflush(stdout);
        return status == 0;
}

int main(int argc, char *argv[]) {
        unsigned failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (argc == 1)
                        failed += !spawn_case(&cases[i]);
                else if (streq(argv[1], cases[i].name))
                        return getenv("TEST_BUS_PID") ? run_case(&cases[i]) : !spawn_case(&cases[i]);
        return failed > 0;
}
