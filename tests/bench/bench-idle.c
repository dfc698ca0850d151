/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service while nobody needs it: how often it wakes up, and how much memory it takes
 *
 * Three times: with clients that are registered and idle; with one of them alone launching now and then, as a server
 * does; and with one of them alone keeping the device busy, as training does. In the first and the last case it should
 * never wake up. A server's requests wake it while other clients might want the device in between. The benchmark's own
 * questions wake the service, too: their cost is measured first, and subtracted.
 */

#include <inttypes.h>
#include <stdio.h>

#include "bench.h"

#define N_CLIENTS   4U
#define SETTLE_NS   (2 * NSEC_PER_SEC)
#define ANSWERED_NS (100 * NSEC_PER_MSEC)
#define N_QUESTIONS 5U
#define STREAM_NS   (100 * NSEC_PER_USEC)
#define REQUEST_NS  (10 * NSEC_PER_MSEC)

typedef enum Case {
        CASE_IDLE,
        CASE_REQUESTS,
        CASE_STREAM,
        _CASE_MAX,
} Case;

static const char *const case_name[_CASE_MAX] = {
                [CASE_IDLE] = "idle",
                [CASE_STREAM] = "stream",
                [CASE_REQUESTS] = "requests",
};

static const char *const case_text[_CASE_MAX] = {
                [CASE_IDLE] = "all idle",
                [CASE_STREAM] = "one always busy",
                [CASE_REQUESTS] = "one busy now and then",
};

typedef struct Shared {
        _Atomic uint32_t now; /* Case */
        _Atomic uint32_t stop;
        _Atomic uint64_t n_launches;
} Shared;

static void launch_all_the_time(Shared *s, XschedQueue *q) {
        uint32_t in_flight = 0;

        while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
                Case now = (Case) atomic_load_explicit(&s->now, memory_order_relaxed);

                if (now != CASE_IDLE) {
                        in_flight += xsched_queue_begin(q) == XSCHED_TRACKED;
                        atomic_fetch_add_explicit(&s->n_launches, 1, memory_order_relaxed);
                }
                /* A stream has its next launch submitted before the last one ends. */
                uint32_t keep = now == CASE_STREAM;
                if (in_flight > keep) {
                        xsched_queue_complete(q, in_flight - keep, 0);
                        in_flight = keep;
                }
                sleep_until_ns(now_ns() + (now == CASE_STREAM ? STREAM_NS : REQUEST_NS));
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

/* Returns NWakeups, and in *ret_question the wake-ups that the question costs: now and then one more than usual, when
 * the answer does not leave in the same turn of the loop. */
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
        Quiet quiet[_CASE_MAX];
        for (unsigned i = 0; i < _CASE_MAX; i++) {
                atomic_store(&s->now, i);
                quiet[i] = measure(&service, s, seconds);
                if (i != CASE_IDLE && quiet[i].launches == 0)
                        bench_die("the busy client launched nothing: nothing was measured");
        }
        atomic_store(&s->stop, 1);
        clients_done(&clients);
        service_close(&service);

        bool json = bench_flag(argc, argv, "--json");
        printf(json ? "{\"seconds\": %u, \"clients\": %u, " : "in %u s, with %u clients\n", seconds, N_CLIENTS);
        for (unsigned i = 0; i < _CASE_MAX; i++)
                printf(json ? "\"%s\": {\"launches\": %" PRIu64 ", \"wakeups\": %" PRIu64 ", \"switches\": %" PRIu64
                              "}, "
                            : "%-22s %8" PRIu64 " launches %8" PRIu64 " wake-ups %8" PRIu64 " context switches\n",
                                json ? case_name[i] : case_text[i], quiet[i].launches, quiet[i].wakeups,
                                quiet[i].switches);
        printf(json ? "\"pss_empty_kb\": %" PRIu64 ", \"pss_kb\": %" PRIu64 "}\n"
                    : "memory (Pss): %" PRIu64 " KiB without clients, %" PRIu64 " KiB with\n",
                        pss_empty_kb, pss_kb);
        return 0;
}
