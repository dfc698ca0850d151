/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer in a process with queues, against a service that does what the test says
 *
 * To be run with libxsched-kfd.so and libkfdsim.so preloaded, in this order. Each case is a process of its own (see tests/unit/test-shim.c)
 * with an AQL client over the real libhsakmt; what became of every dispatch is asked of the proofs.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "aql.h"
#include "hal/kfd-abi.h"
#include "include/xsched/xsched.h"
#include "kfdsim.h"
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
#define GFX90A    0U
#define GFX1100   1U
#define SHORT_NS  (200 * NSEC_PER_USEC)

static char bus_address[256];

/* What every case starts from: a service, a GPU, and queues that the service knows. */
static FakeScheduler *s;
static FakeClient *client;
static AqlDevice device;

static uint64_t n_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c.queues;
}

static void start(unsigned gpu) {
        s = fake_scheduler_new(bus_address);
        fake_scheduler_own(s);
        client = s->clients;
        CHECK(aql_device_open(gpu, &device) == 0);
}

static AqlQueue *bare_queue(void) {
        AqlQueue *q = NULL;
        CHECK(aql_queue_create(&device, &(AqlOptions){}, &q) == 0);
        return q;
}

static AqlQueue *queue(void) {
        uint64_t before = n_registered();
        AqlQueue *q = bare_queue();

        CHECK(scheduler_until(s, n_registered() == before + 1));
        return q;
}

static void dispatch(AqlQueue *q, unsigned n, uint64_t duration_ns) {
        for (unsigned i = 0; i < n; i++)
                CHECK(aql_dispatch(q, duration_ns, NULL) == 0);
        aql_ring(q);
}

static void finish(AqlQueue *q) {
        CHECK(aql_queue_wait(q, now_ns() + TEST_DEADLINE_NS) == 0);
        AqlReport r = aql_queue_report(q);
        CHECK(aql_report_is_clean(&r));
}

static bool is_applied(uint32_t slot) {
        PageSlot *p = fake_slot(client->f, slot);
        return atomic_load(&p->applied) == atomic_load(&p->verdict);
}

static void hold(uint32_t slot, uint64_t lease_ns) {
        atomic_store(&fake_slot(client->f, slot)->level, LEVEL_INTERRUPT);
        fake_hold(client->f, slot, lease_ns);
        fake_client_nudge(client);
}

static void hold_all(uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        for (uint32_t i = 0; i < n; i++)
                CHECK(poll_until(is_applied(i)));
}

static void run_all(uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                fake_run(client->f, i);
        fake_client_nudge(client);
}

static void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) nanosleep(&ts, NULL);
}

/* Nothing happens for far longer than a dispatch takes: there is no event that does not come. */
static bool stands_still(const AqlQueue *q) {
        uint64_t before = aql_queue_executed(q);

        nap(100 * SHORT_NS);
        return aql_queue_executed(q) == before;
}

/* --- capture --- */

static void case_capture(void) {
        char pci[64], label[32];
        start(GFX90A);
        AqlQueue *q = queue();

        (void) snprintf(pci, sizeof(pci), "pci:%s", device.pci);
        (void) snprintf(label, sizeof(label), "queue %u", aql_queue_id(q));
        CHECK(streq(s->device, pci) && streq(s->backend, "kfd") && streq(s->label, label));
        CHECK(s->level == LEVEL_INTERRUPT && s->kfd_gpu_id == device.gpu_id &&
                        s->kfd_queue_id == aql_queue_id(q));

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

        /* Beyond, by the service's word. */
        hold_all(1);
        dispatch(q, 10, SHORT_NS);
        CHECK(stands_still(q) && aql_queue_executed(q) == 10);
        run_all(1);
        finish(q);
}

/* A program's own ioctls: the request's size is the caller's, SDMA queues are nobody's business. */
typedef struct Raw {
        int fd;
        char *memory;
} Raw;

static Raw raw_open(void) {
        Raw r = {.fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC)};

        CHECK(r.fd >= 0);
        r.memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(r.memory != MAP_FAILED);
        return r;
}

static int raw_create(const Raw *r, uint32_t type, size_t size, KfdCreateQueue *ret) {
        *ret = (KfdCreateQueue){
                        .ring_base_address = (uintptr_t) r->memory,
                        .ring_size = 4096,
                        .write_pointer_address = (uintptr_t) r->memory + 8192,
                        .read_pointer_address = (uintptr_t) r->memory + 8192 + 128,
                        .gpu_id = device.gpu_id,
                        .queue_type = type,
                        .queue_percentage = 70,
                        .queue_priority = 7,
                        .ctx_save_restore_address = (uintptr_t) r->memory + 16384,
                        .ctx_save_restore_size = 4096,
        };
        return ioctl(r->fd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, size), ret);
}

static int raw_destroy(const Raw *r, uint32_t id) {
        KfdDestroyQueue a = {.queue_id = id};
        return ioctl(r->fd, KFD_IOC_DESTROY_QUEUE, &a);
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

        /* What the kernel refuses is refused, with its own error. */
        errno = 0;
        CHECK(raw_destroy(&r, 12345) < 0 && errno == EINVAL);
}

/* Fds of one file are one: queues end with the last of them. */
static void case_fds(void) {
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        int fds[] = {dup(r.fd), fcntl(r.fd, F_DUPFD_CLOEXEC, 100), dup2(r.fd, 200),
                        dup3(r.fd, 201, O_CLOEXEC)};
        CHECK(close(r.fd) == 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                KfdUpdateQueue u = {.ring_base_address = a.ring_base_address,
                                .queue_id = a.queue_id,
                                .ring_size = a.ring_size,
                                .queue_percentage = 100};
                CHECK(fds[i] >= 0 && ioctl(fds[i], KFD_IOC_UPDATE_QUEUE, &u) == 0);
        }
        CHECK(dup2(STDERR_FILENO, fds[0]) == fds[0]);
        CHECK(close(fds[1]) == 0 && close_range(200, 200, 0) == 0);
        hold_all(1); /* it is still there */
        CHECK(close(fds[3]) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* --- holds --- */

static void case_hold(void) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        for (int i = 0; i < 20; i++) {
                dispatch(a, 5, SHORT_NS);
                dispatch(b, 5, SHORT_NS);
                hold_all(2);
                CHECK(i % 10 != 0 || (stands_still(a) && stands_still(b)));
                dispatch(a, 5, SHORT_NS); /* rung while it is unmapped */
                run_all(2);
                finish(a);
                finish(b);
        }

        /* One alone. */
        hold(0, NSEC_INFINITY);
        CHECK(poll_until(is_applied(0)));
        dispatch(a, 5, SHORT_NS);
        dispatch(b, 5, SHORT_NS);
        finish(b);
        CHECK(stands_still(a) && aql_queue_backlog(a) == 5);
        run_all(1);
        finish(a);
}

/* The runtime's own word about its queue is remembered, and counts when the hold is over. */
static void case_update(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        CHECK(aql_queue_update(q, 100) == 0);
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        CHECK(aql_queue_update(q, 0) == 0);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        CHECK(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        finish(q);

        hold_all(1);
        CHECK(aql_queue_update(q, 101) != 0);
        CHECK(aql_queue_destroy(q) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

static void case_create_held(void) {
        AqlQueue *storm[40];
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        for (size_t i = 0; i < ELEMENTSOF(storm); i++) {
                storm[i] = bare_queue();
                dispatch(storm[i], 3, SHORT_NS);
        }
        CHECK(stands_still(storm[0]) && aql_queue_executed(storm[0]) == 0);

        /* The first verdict of its own: run, though the other is held. */
        CHECK(scheduler_until(s, n_registered() == ELEMENTSOF(storm) + 1));
        for (size_t i = 0; i < ELEMENTSOF(storm); i++)
                finish(storm[i]);
        CHECK(aql_queue_executed(q) == 0);

        /* Without one: let go with the last that is held, or when that is destroyed. */
        fake_scheduler_disown(s);
        AqlQueue *late = bare_queue();
        dispatch(late, 3, SHORT_NS);
        CHECK(stands_still(late) && aql_queue_executed(late) == 0);
        CHECK(aql_queue_destroy(q) == 0);
        finish(late);
}

static void case_lease(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        dispatch(q, 200, 10 * SHORT_NS);
        hold(0, 300 * NSEC_PER_MSEC);
        CHECK(poll_until(is_applied(0)));
        CHECK(stands_still(q));
        finish(q); /* nobody says anything */

        page_set_lease(client->f->page.header, NSEC_INFINITY);
        CHECK(poll_until(fake_slot(client->f, 0)->applied & PAGE_VERDICT_HOLD));
        dispatch(q, 10, SHORT_NS);
        CHECK(stands_still(q));
        fake_client_hang_up(client);
        finish(q);
}

/* --- edges --- */

static uint32_t outstanding(uint32_t slot) {
        return atomic_load(&fake_slot(client->f, slot)->outstanding);
}

static void case_edges(void) {
        start(GFX90A);
        AqlQueue *q = queue();
        PageSlot *slot = fake_slot(client->f, 0);

        CHECK(outstanding(0) == PAGE_OUTSTANDING_UNTRACKED);
        dispatch(q, 50, SHORT_NS);
        CHECK(page_slot_set_watch(slot, WATCH_ALL) == PAGE_OUTSTANDING_UNTRACKED);
        fake_client_nudge(client);
        CHECK(poll_until(outstanding(0) > 0 && !(outstanding(0) & PAGE_OUTSTANDING_UNTRACKED)));
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);
        CHECK(poll_until(fake_take_edge(client->f, 0)));

        /* Ready by its index alone, and idle. */
        for (int i = 0; i < 10; i++) {
                dispatch(q, 4, SHORT_NS);
                CHECK(poll_until(fake_take_edge(client->f, 0)));
                CHECK(poll_until(outstanding(0) == 0));
                finish(q);
        }
        CHECK(poll_until(atomic_load(&slot->completed) == 40));
        CHECK(atomic_load(&slot->mean_ns) > 0);

        /* Ready while it is held, and known to be when it is let go. */
        hold_all(1);
        dispatch(q, 4, SHORT_NS);
        CHECK(poll_until(outstanding(0) == 4));
        run_all(1);
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);

        /* Not watched: nobody knows. */
        (void) page_slot_set_watch(slot, 0);
        CHECK(poll_until(outstanding(0) == PAGE_OUTSTANDING_UNTRACKED));
}

/* --- errors --- */

static void fail_updates(const char *error, int count, int skip, const char *how) {
        char text[64];

        (void) snprintf(text, sizeof(text), "%d:%s:%d:%d%s", KFD_NR_UPDATE_QUEUE, error, count, skip, how);
        CHECK(kfdsim_fail(text) == 0);
}

static void case_interrupted(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        for (int late = 0; late < 2; late++) {
                dispatch(q, 20, SHORT_NS);
                fail_updates("4", 3, 0, late ? ":late" : "");
                hold_all(1);
                CHECK(stands_still(q));
                fail_updates("4", 3, 0, late ? ":late" : "");
                run_all(1);
                finish(q);
        }
        CHECK(s->level == LEVEL_INTERRUPT);
}

/* At each call of a batch, before and after it has done its work: nobody is held then, and the level is known to be lower. */
static void fail_hold(const char *error, int skip, const char *how) {
        AqlQueue *q[3];

        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                q[i] = queue();
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                dispatch(q[i], 20, SHORT_NS);
        fail_updates(error, 1, skip, how);
        for (uint32_t i = 0; i < ELEMENTSOF(q); i++) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        CHECK(scheduler_until(s, client->n_gone == ELEMENTSOF(q) && client->n_queues == ELEMENTSOF(q)));
        CHECK(s->level == LEVEL_GATE);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                finish(q[i]);
}

static void case_fail_first(void) {
        start(GFX90A);
        fail_hold("5", 0, "");
}

static void case_fail_second(void) {
        start(GFX90A);
        fail_hold("62", 1, ":late");
}

static void case_fail_last(void) {
        start(GFX90A);
        fail_hold("13", 2, ":late");
}

static void case_fail_hang(void) {
        start(GFX90A);
        fail_hold("hang", 1, "");
}

static void case_fail_release(void) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        for (int skip = 0; skip < 2; skip++) {
                dispatch(a, 20, SHORT_NS);
                dispatch(b, 20, SHORT_NS);
                hold_all(2);
                fail_updates("62", 3, skip, skip ? ":late" : "");
                run_all(2);
                finish(a);
                finish(b);
                break; /* a device that has failed is not held again */
        }
}

/* --- processes --- */

static void case_fork(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        pid_t pid = fork();
        if (pid == 0) {
                Raw r = raw_open();
                KfdCreateQueue a;
                /* Nothing is held here, and nothing of the parent's is touched. */
                CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
                CHECK(raw_destroy(&r, a.queue_id) == 0);
                CHECK(close(r.fd) == 0);
                _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);

        /* vfork() itself is what is tested. */
        /* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
        pid = vfork();
        if (pid == 0) {
                for (int fd = 3; fd < 300; fd++)
                        (void) close(fd);
                execl("/bin/true", "true", (char *) NULL);
                _exit(127);
        }
        /* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);

        CHECK(stands_still(q) && client->n_queues == 1);
        run_all(1);
        finish(q);
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

/* --- running the cases --- */

typedef struct Case {
        const char *name;
        void (*run)(void);
        const char *environment; /* one variable */
} Case;

static const Case cases[] = {
#define CASE(name, ...)                                                                                     \
        { #name, case_##name, ##__VA_ARGS__ }
                CASE(capture),
                CASE(mes),
                CASE(sizes),
                CASE(fds),
                CASE(hold),
                CASE(update),
                CASE(create_held),
                CASE(lease),
                CASE(edges),
                CASE(interrupted),
                CASE(fail_first),
                CASE(fail_second),
                CASE(fail_last),
                CASE(fail_hang),
                CASE(fail_release),
                CASE(fork),
                CASE(close_all),
                CASE(disabled, "XSCHED_DISABLE=1"),
};

static bool spawn_case(const Case *c) {
        PrivateBus b;

        if (private_bus_start(&b) < 0) {
                puts("no dbus-daemon");
                exit(77);
        }
        pid_t child = fork();
        if (child == 0) {
                (void) alarm(60);
                setenv("XSCHED_BUS_ADDRESS", b.address, true);
                if (c->environment)
                        putenv((char *) c->environment);
                execl("/proc/self/exe", "test-shim-kfd", c->name, (char *) NULL);
                _exit(127);
        }
        int status = -1;
        (void) waitpid(child, &status, 0);
        private_bus_stop(&b);
        printf("%s %s\n", status == 0 ? "ok    " : "FAILED", c->name);
        fflush(stdout);
        return status == 0;
}

static int run_case(const Case *c) {
        (void) snprintf(bus_address, sizeof(bus_address), "%s", strempty(getenv("XSCHED_BUS_ADDRESS")));
        c->run();
        _exit(0); /* nothing is ever torn down */
}

int main(int argc, char *argv[]) {
        unsigned failed = 0;

        if (!kfdsim_fail) {
                puts("to be run on kfdsim");
                return 1;
        }
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                if (argc == 1)
                        failed += !spawn_case(cases + i);
                else if (streq(argv[1], cases[i].name))
                        return getenv("XSCHED_BUS_ADDRESS") ? run_case(cases + i) : !spawn_case(cases + i);
        return failed > 0;
}
