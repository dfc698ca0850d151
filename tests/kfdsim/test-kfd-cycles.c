/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Eight queues in four processes on two GPUs, and a service that holds and releases at random: nothing is lost, doubled
 * or out of order
 *
 * The processes are AQL clients under the layer; each checks its own proofs at the end. XSCHED_TEST_SEED replaces the
 * seed, XSCHED_TEST_CYCLES the number of changes.
 */

#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "shim-kfd.h"

#define TENANTS      4U
#define QUEUES       2U
#define CYCLES       10000U
#define SEED         UINT64_C(88172645463325252)
#define BACKLOG_MAX  16U
#define DURATION_MAX (60 * NSEC_PER_USEC)

static _Atomic bool *stop;

static uint64_t number(const char *variable, uint64_t otherwise) {
        const char *v = getenv(variable);
        return isempty(v) ? otherwise : strtoull(v, NULL, 0);
}

static uint64_t next_random(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

/* One queue on each GPU. */
static void tenant(uint64_t seed) {
        AqlDevice gpus[QUEUES];
        AqlQueue *q[QUEUES];

        for (unsigned i = 0; i < QUEUES; i++) {
                CHECK(aql_device_open(i, gpus + i) == 0);
                CHECK(aql_queue_create(gpus + i, &(AqlOptions){}, q + i) == 0);
        }
        while (!atomic_load(stop)) {
                for (unsigned i = 0; i < QUEUES; i++) {
                        while (aql_queue_backlog(q[i]) < BACKLOG_MAX)
                                CHECK(aql_dispatch(q[i], next_random(&seed) % DURATION_MAX, NULL) == 0);
                        aql_ring(q[i]);
                }
                nap(NSEC_PER_MSEC);
        }
        for (unsigned i = 0; i < QUEUES; i++) {
                finish(q[i]);
                CHECK(aql_queue_report(q[i]).n_dispatched > BACKLOG_MAX);
                CHECK(aql_queue_destroy(q[i]) == 0);
        }
}

static pid_t tenant_start(uint64_t seed) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        tenant(seed);
        _exit(0);
}

static bool all_registered(void) {
        for (unsigned i = 0; i < TENANTS; i++)
                if (s->clients[i].n_queues != QUEUES)
                        return false;
        return true;
}

static bool all_applied(void) {
        for (unsigned i = 0; i < TENANTS; i++)
                for (uint32_t k = 0; k < QUEUES; k++) {
                        const PageSlot *p = fake_slot(s->clients[i].f, k);
                        if (atomic_load(&p->applied) != atomic_load(&p->verdict))
                                return false;
                }
        return true;
}

/* Changes some queues, and some of these again before the layer looks. */
static void change(uint64_t *seed) {
        for (unsigned i = 0; i < TENANTS; i++) {
                FakeClient *c = s->clients + i;
                uint64_t bits = next_random(seed);
                for (uint32_t k = 0; k < QUEUES; k++, bits >>= 2)
                        if (bits & 1)
                                fake_verdict(c->f, k, bits & 2 ? VERDICT_HOLD : VERDICT_RUN);
                if (bits & 0x100)
                        fake_client_nudge(c);
        }
}

static void case_cycles(void) {
        uint64_t seed = number("XSCHED_TEST_SEED", SEED), n = number("XSCHED_TEST_CYCLES", CYCLES);
        pid_t pids[TENANTS];

        printf("seed %" PRIu64 "\n", seed);
        (void) fflush(stdout);
        stop = mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK((void *) stop != MAP_FAILED);
        for (unsigned i = 0; i < TENANTS; i++)
                pids[i] = tenant_start(seed + i);
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, all_registered()));

        for (unsigned i = 0; i < TENANTS; i++) {
                page_set_lease(s->clients[i].f->page.header, NSEC_INFINITY);
                for (uint32_t k = 0; k < QUEUES; k++)
                        atomic_store(&fake_slot(s->clients[i].f, k)->level, LEVEL_INTERRUPT);
        }
        for (uint64_t i = 0; i < n; i++) {
                change(&seed);
                if (i % 8 != 7)
                        continue;
                for (unsigned k = 0; k < TENANTS; k++)
                        fake_client_nudge(s->clients + k);
                CHECK(poll_until(all_applied()));
        }

        for (unsigned i = 0; i < TENANTS; i++) {
                for (uint32_t k = 0; k < QUEUES; k++)
                        fake_run(s->clients[i].f, k);
                fake_client_nudge(s->clients + i);
        }
        atomic_store(stop, true);
        for (unsigned i = 0; i < TENANTS; i++) {
                int status;
                CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        }
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(cycles),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
