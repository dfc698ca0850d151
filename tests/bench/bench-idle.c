/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service while nobody needs it: how often it wakes up, and how much memory it takes
 *
 * Twice: with clients that are registered and idle, and with one of them launching without pause, alone. In both cases the answer
 * should be never. Asking wakes the service up, too: what one question costs is measured first, and left out.
 */

#include <inttypes.h>
#include <stdio.h>

#include "bench.h"

#define N_CLIENTS   4U
#define SETTLE_NS   (2 * NSEC_PER_SEC)
#define ANSWERED_NS (100 * NSEC_PER_MSEC)
#define N_QUESTIONS 5U

typedef struct Shared {
        _Atomic uint32_t launch, stop;
        _Atomic uint64_t n_launches;
} Shared;

static void launch_all_the_time(Shared *s, XschedQueue *q) {
        while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
                if (atomic_load_explicit(&s->launch, memory_order_relaxed)) {
                        if (xsched_queue_begin(q) == XSCHED_TRACKED)
                                xsched_queue_complete(q, 1, 0);
                        atomic_fetch_add_explicit(&s->n_launches, 1, memory_order_relaxed);
                }
                sleep_until_ns(now_ns() + 20 * NSEC_PER_USEC);
        }
}

static int client_main(const ClientPlan *p) {
        XschedQueue *q = client_attach(p);

        if (streq(p->role, "busy"))
                launch_all_the_time(p->memory, q);
        client_wait_for_end(p);
        xsched_queue_unref(q);
        return 0;
}

typedef struct Quiet {
        uint64_t wakeups, switches, launches;
} Quiet;

/* NWakeups, and in *ret_question what asking for it costs: once more now and then than usually, when the answer does not leave in
 * the turn of the loop in which the question came. */
static uint64_t ask(const Service *service, uint64_t *ret_question) {
        uint64_t last = service_get(service, "NWakeups"), most = 0;

        for (unsigned i = 0; i < N_QUESTIONS; i++) {
                uint64_t now = service_get(service, "NWakeups");

                most = MAX(most, now - last);
                last = now;
        }
        *ret_question = most;
        return last;
}

static Quiet measure(const Service *service, const Shared *s, unsigned seconds) {
        uint64_t question;

        sleep_until_ns(now_ns() + SETTLE_NS);
        uint64_t before = ask(service, &question);
        sleep_until_ns(now_ns() + ANSWERED_NS);
        Quiet q = {
                        .switches = process_switches(service->pid),
                        .launches = atomic_load(&s->n_launches),
        };
        sleep_until_ns(now_ns() + seconds * NSEC_PER_SEC);
        q.switches = process_switches(service->pid) - q.switches;
        q.launches = atomic_load(&s->n_launches) - q.launches;
        q.wakeups = ns_sub(service_get(service, "NWakeups") - before, question);
        return q;
}

int main(int argc, char *argv[]) {
        Clients clients;
        ClientPlan plan;

        if (client_plan(argc, argv, sizeof(Shared), &plan))
                return client_main(&plan);

        unsigned seconds = MAX(bench_number(argc, argv, "--seconds", 10), 1U);
        Service service = service_open();
        uint64_t pss_empty_kb = process_pss_kb(service.pid);

        clients_init(&clients, &service, sizeof(Shared));
        Shared *s = clients.memory;
        for (unsigned i = 0; i < N_CLIENTS; i++)
                clients_add(&clients, i == 0 ? "busy" : "idle", 0);
        clients_wait(&clients);

        uint64_t pss_kb = process_pss_kb(service.pid);
        Quiet idle = measure(&service, s, seconds);
        atomic_store(&s->launch, 1);
        Quiet busy = measure(&service, s, seconds);

        atomic_store(&s->stop, 1);
        clients_done(&clients);
        service_close(&service);
        if (busy.launches == 0)
                bench_die("the busy client launched nothing: nothing was measured");

        if (bench_flag(argc, argv, "--json"))
                printf("{\"seconds\": %u, \"clients\": %u, \"idle_wakeups\": %" PRIu64
                       ", \"idle_switches\": %" PRIu64 ", \"alone_wakeups\": %" PRIu64
                       ", \"alone_switches\": %" PRIu64 ", \"alone_launches\": %" PRIu64
                       ", \"pss_empty_kb\": %" PRIu64 ", \"pss_kb\": %" PRIu64 "}\n",
                                seconds, N_CLIENTS, idle.wakeups, idle.switches, busy.wakeups, busy.switches,
                                busy.launches, pss_empty_kb, pss_kb);
        else
                printf("%u idle clients, %u s: %" PRIu64 " wake-ups, %" PRIu64 " context switches\n"
                       "one of them launching alone, %" PRIu64 " launches in %u s: %" PRIu64
                       " wake-ups, %" PRIu64 " context switches\n"
                       "memory (Pss): %" PRIu64 " KiB without clients, %" PRIu64 " KiB with %u\n",
                                N_CLIENTS, seconds, idle.wakeups, idle.switches, busy.launches, seconds,
                                busy.wakeups, busy.switches, pss_empty_kb, pss_kb, N_CLIENTS);
        return 0;
}
