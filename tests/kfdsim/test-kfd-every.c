/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Every call into the driver fails once, with every error: an application only sees its own calls fail
 *
 * The scenario is a process with queues that are made, held, made while others are held, updated and destroyed while
 * held, let go, and outlive the service. It is run anew for the first call, the second, and so on, until one run had no
 * such call. Whatever call fails, launches on the application's queues are executed once and in order.
 *
 *      test-kfd-every [--long]           most errors at each call about queues, and one of them at each call; --long:
 *                                        all at each
 *      test-kfd-every FAILURE            one run, as KFDSIM_FAIL has it
 */

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "shim-kfd.h"

/* How a run ended, beside failing. */
#define NONE_FAILED 10

/* See fake-scheduler.c: the slot is the rest. */
#define FIRST_ID UINT64_C(1000)

#define CALLS_MAX   2000U
#define RUN_SECONDS 60U

/* --- the scenario --- */

/* The number of the ioctl that was made to fail; 0: none so far. */
static int failed_call(void) {
        int nr = 0;

        (void) kfdsim_calls(&nr);
        return nr;
}

typedef struct Queue {
        AqlQueue *aql; /* NULL: the driver would not make it, or it is gone */
        uint32_t slot;
} Queue;

static Queue queues[4];
static unsigned n_queues;
static unsigned n_destroyed;

static Queue *try_queue(void) {
        Queue *q = queues + n_queues++;
        uint64_t id = MAX(client->next_id, FIRST_ID);

        if (aql_queue_create(&device, &(AqlOptions){}, &q->aql) < 0)
                return q;
        CHECK(scheduler_until(s, client->next_id > id));
        q->slot = (uint32_t) (id % FIRST_ID);
        return q;
}

static void try_dispatch(Queue *q) {
        if (q->aql)
                dispatch(q->aql, 5, SHORT_NS);
}

/* Queues that are registered anew are on a device that has failed: nothing is held any more. */
static bool has_answered(void) {
        for (unsigned i = 0; i < n_queues; i++) {
                const PageSlot *p = fake_slot(client->f, queues[i].slot);
                uint32_t differs = atomic_load(&p->applied) ^ atomic_load(&p->verdict);
                if (queues[i].aql && (differs & ~(uint32_t) PAGE_VERDICT_HOLD) != 0)
                        return client->n_gone > n_destroyed;
        }
        return true;
}

static void order(Verdict v) {
        page_set_lease(client->f->page.header, NSEC_INFINITY);
        for (unsigned i = 0; i < n_queues; i++)
                if (queues[i].aql) {
                        atomic_store(&fake_slot(client->f, queues[i].slot)->level, LEVEL_INTERRUPT);
                        fake_verdict(client->f, queues[i].slot, v);
                }
        fake_client_nudge(client);
        CHECK(scheduler_until(s, has_answered()));
}

static bool is_mapped(const Queue *q) {
        KfdsimQueue in_driver;
        return kfdsim_queue(aql_queue_id(q->aql), &in_driver) && in_driver.mapped;
}

/* After some errors a queue that was to be destroyed is half gone, and after others it is unchanged. */
static void try_destroy(Queue *q) {
        const char *how = strempty(getenv("KFDSIM_FAIL"));

        if (!q->aql)
                return;
        if (aql_queue_destroy(q->aql) < 0 && !strstr(how, ":late") && !strstr(how, ":5:") && !strstr(how, ":62:"))
                return;
        n_destroyed++;
        q->aql = NULL;
}

/* After a failed update the application does not know whether the queue runs: it repeats the call. */
static int try_update(const Queue *q) {
        return q->aql ? aql_queue_update(q->aql, 100) : 0;
}

static void scenario(void) {
        s = fake_scheduler_new(strempty(getenv("XSCHED_BUS_ADDRESS")));
        fake_scheduler_own(s);
        client = s->clients;
        if (aql_device_open(GFX90A, &device) < 0)
                return; /* the same as without the layer */
        Queue *a = try_queue(), *b = try_queue();
        try_dispatch(a);
        try_dispatch(b);
        order(VERDICT_HOLD);
        if (failed_call() == 0)
                CHECK(!is_mapped(a) && !is_mapped(b));
        Queue *c = try_queue();
        try_dispatch(a);
        try_dispatch(c);
        bool updated = try_update(a) >= 0;
        order(VERDICT_RUN);
        try_dispatch(b);
        order(VERDICT_HOLD);
        try_destroy(b);
        Queue *d = try_queue();
        try_dispatch(d);
        order(VERDICT_RUN);
        order(VERDICT_HOLD);
        try_dispatch(c);

        fake_client_hang_up(client);
        if (!updated) {
                CHECK(try_update(a) >= 0);
                aql_ring(a->aql);
        }
        for (unsigned i = 0; i < n_queues; i++)
                if (queues[i].aql) {
                        finish(queues[i].aql);
                        try_destroy(queues + i);
                }
        aql_device_close(&device);
}

static int run_here(void) {
        scenario();
        return failed_call() == 0 ? NONE_FAILED : EXIT_SUCCESS;
}

/* --- the runs --- */

static int run_with(const char *failure) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
                (void) setenv("KFDSIM_FAIL", failure, true);
                (void) setenv("TSAN_OPTIONS", "die_after_fork=0:halt_on_error=1:atexit_sleep_ms=100", true);
                (void) setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1", true);
                (void) alarm(RUN_SECONDS);
                (void) execl("/proc/self/exe", "test-kfd-every", failure, (char *) NULL);
                _exit(127);
        }
        int status = -1;
        (void) waitpid(pid, &status, 0);
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NONE_FAILED))
                return WEXITSTATUS(status);
        printf("FAILED with KFDSIM_FAIL=%s: status 0x%x\n", failure, (unsigned) status);
        (void) fflush(stdout);
        return -EIO;
}

/* Errors of the driver; each comes before and after the driver has done its work, except where it cannot have done
 * anything. */
static const struct {
        int error;
        const char *how;
} errors[] = {
                {EINTR, ""},
                {EIO, ":late"},
                {ETIME, ""},
                {EACCES, ":late"},
                {EBUSY, ""},
                {ENOMEM, ""},
                {EINTR, ":late"},
                {EIO, ""},
                {ETIME, ":late"},
                {EACCES, ""},
};

/* Several runs at once, because each waits more than it works. */
#define WORKERS 4U

typedef struct Count {
        unsigned runs, failed;
        unsigned calls[2]; /* about queues, all */
} Count;

/* Lets each n-th call fail, from the worker's first one on, until there is no such call. */
static unsigned run_each(int nr, size_t n_errors, unsigned worker, Count *c) {
        for (unsigned n = worker; n < CALLS_MAX; n += WORKERS)
                for (size_t i = 0; i < n_errors; i++) {
                        size_t k = (n * n_errors + i) % ELEMENTSOF(errors);
                        char failure[64];
                        (void) snprintf(failure, sizeof(failure), "%d:%d:1:%u%s", nr, errors[k].error, n,
                                        errors[k].how);
                        int r = run_with(failure);
                        c->runs++;
                        c->failed += r < 0;
                        if (r == NONE_FAILED)
                                return n;
                }
        c->failed++;
        return CALLS_MAX;
}

_noreturn_ static void work(unsigned worker, bool is_long, Count *c) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(private_bus_start(&bus) == 0);
        CHECK(setenv("XSCHED_BUS_ADDRESS", bus.address, true) == 0);
        c->calls[0] = run_each(-1, is_long ? ELEMENTSOF(errors) : 7, worker, c);
        c->calls[1] = run_each(0, is_long ? ELEMENTSOF(errors) : 1, worker, c);
        private_bus_stop(&bus);
        (void) fflush(stdout);
        _exit(0);
}

static bool run_all_of_them(bool is_long) {
        Count *counts = mmap(NULL, sizeof(Count) * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t workers[WORKERS];
        Count sum = {};
        int status;

        CHECK(counts != MAP_FAILED);
        for (unsigned i = 0; i < WORKERS; i++) {
                workers[i] = fork();
                CHECK(workers[i] >= 0);
                if (workers[i] == 0)
                        work(i, is_long, counts + i);
        }
        for (unsigned i = 0; i < WORKERS; i++) {
                CHECK(waitpid(workers[i], &status, 0) == workers[i]);
                sum.failed += counts[i].failed + (status != 0);
                sum.runs += counts[i].runs;
                for (size_t k = 0; k < ELEMENTSOF(sum.calls); k++)
                        sum.calls[k] = MAX(sum.calls[k], counts[i].calls[k]);
        }
        printf("%u runs: %u calls, %u of them about queues; %u failed\n", sum.runs, sum.calls[1], sum.calls[0],
                        sum.failed);
        /* The scenario makes at least so many calls. */
        return sum.failed == 0 && sum.calls[0] >= 12 && sum.calls[1] > sum.calls[0];
}

int main(int argc, char *argv[]) {
        if (!kfdsim_fail) {
                puts("to be run on kfdsim");
                return 1;
        }
        if (argc > 1 && getenv("KFDSIM_FAIL"))
                _exit(run_here()); /* nothing is ever torn down */
        bool is_long = argc > 1 && streq(argv[1], "--long");
        if (argc == 1 || is_long)
                return run_all_of_them(is_long) ? EXIT_SUCCESS : EXIT_FAILURE;
        CHECK(private_bus_start(&bus) == 0);
        CHECK(setenv("XSCHED_BUS_ADDRESS", bus.address, true) == 0);
        int r = run_with(argv[1]);
        private_bus_stop(&bus);
        return r < 0;
}
