/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Phases
 *
 * Everything that happens here is an answer to a line from a tenant: all ready, so the batch jobs begin; each of them
 * has finished a task, so the latency job begins; that has ended, so the batch jobs stop; all have reported, so the
 * phase is over. Time only limits how long we wait for the next line.
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "tools/demo/child.h"
#include "tools/demo/phase.h"
#include "tools/demo/sim.h"

#define START_TIMEOUT_NS (120 * NSEC_PER_SEC)
#define STALL_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define PROGRESS_NS      (250 * NSEC_PER_MSEC)

static const char *const phase_kind_table[_PHASE_MAX] = {
                [PHASE_ALONE] = "alone",
                [PHASE_SHARED] = "shared",
                [PHASE_XSCHED] = "xsched",
};
DEFINE_STRING_TABLE_LOOKUP(phase_kind, PhaseKind);

const char *phase_kind_title(PhaseKind k) {
        static const char *const titles[_PHASE_MAX] = {
                        [PHASE_ALONE] = "alone",
                        [PHASE_SHARED] = "shared without xsched",
                        [PHASE_XSCHED] = "shared with xsched",
        };
        return titles[k];
}

typedef enum SeatState {
        SEAT_STARTING, /* opening the device, computing a first task */
        SEAT_READY,
        SEAT_BEGUN, /* told to go, no task finished since */
        SEAT_RUNNING,
        SEAT_DONE, /* has reported */
        SEAT_GONE, /* has ended */
        _SEAT_STATE_MAX,
} SeatState;

typedef struct Phase Phase;

/* A tenant, as its parent sees it. */
typedef struct Seat {
        Phase *phase;
        Role role;
        unsigned index; /* among its role */
        Child child;
        SeatState state;
        Samples tasks; /* start, and length */
        uint64_t n_skipped;
        Interception counters;
} Seat;

struct Phase {
        PhaseKind kind;
        const PhasePlan *plan;
        Seat *seats; /* the latency job first */
        struct pollfd *fds;
        unsigned n_seats;
        uint64_t start_ns, end_ns; /* the window; 0 before it opens */
        uint64_t n_batch_tasks;    /* finished since the window opened */
        uint64_t last_line_ns;
        bool stopping; /* the batch jobs have been told */
        bool failed;   /* the error was printed */
};

static void phase_done(Phase *p) {
        for (unsigned i = 0; i < p->n_seats; i++) {
                child_done(&p->seats[i].child);
                samples_done(&p->seats[i].tasks);
        }
        free(p->seats);
        free(p->fds);
        *p = (Phase){};
}

static int seat_fail(Seat *s, const char *text) {
        char who[32];

        s->phase->failed = true;
        if (s->role == ROLE_LATENCY)
                (void) snprintf(who, sizeof(who), "the latency job");
        else
                (void) snprintf(who, sizeof(who), "batch job %u", s->index + 1);
        return demo_error(-EIO, "%s: %s failed: %s", phase_kind_title(s->phase->kind), who, text);
}

static int seat_protocol_error(Seat *s, const char *line) {
        char text[192];

        (void) snprintf(text, sizeof(text), "unexpected message '%.150s'", line);
        return seat_fail(s, text);
}

static bool all_in_state(const Phase *p, Role role, SeatState state) {
        for (unsigned i = 0; i < p->n_seats; i++)
                if (p->seats[i].role == role && p->seats[i].state < state)
                        return false;
        return true;
}

static int on_hangup(Seat *s) {
        int status = child_reap(&s->child);
        char text[64];

        if (s->state == SEAT_DONE && status == 0) {
                s->state = SEAT_GONE;
                return 0;
        }
        (void) snprintf(text, sizeof(text), status > 128 ? "it was ended by signal %d" : "it ended with status %d",
                        status > 128 ? status - 128 : status);
        return seat_fail(s, text);
}

static int tell_role(Phase *p, Role role, const char *line) {
        for (unsigned i = 0; i < p->n_seats; i++) {
                Seat *s = p->seats + i;

                if (s->role != role)
                        continue;
                if (child_write(&s->child, "%s\n", line) < 0)
                        return on_hangup(s);
                if (s->state == SEAT_READY)
                        s->state = SEAT_BEGUN;
        }
        return 0;
}

/* Called when all tenants of a role have changed their state: decides what comes next. */
static int phase_advance(Phase *p) {
        char line[96];

        if (!all_in_state(p, ROLE_LATENCY, SEAT_READY) || !all_in_state(p, ROLE_BATCH, SEAT_READY))
                return 0;

        if (all_in_state(p, ROLE_LATENCY, SEAT_DONE)) {
                if (p->stopping)
                        return 0;
                p->stopping = true;
                return tell_role(p, ROLE_BATCH, "stop");
        }
        if (p->start_ns != 0)
                return 0;
        if (!all_in_state(p, ROLE_BATCH, SEAT_RUNNING)) {
                for (unsigned i = 0; i < p->n_seats; i++)
                        if (p->seats[i].role == ROLE_BATCH && p->seats[i].state == SEAT_READY)
                                return tell_role(p, ROLE_BATCH, "go 0 0 0");
                return 0;
        }

        p->start_ns = now_ns();
        p->end_ns = p->start_ns + p->plan->duration_ns;
        (void) snprintf(line, sizeof(line), "go %" PRIu64 " %" PRIu64 " %" PRIu64, p->start_ns, p->end_ns,
                        p->plan->period_ns);
        return tell_role(p, ROLE_LATENCY, line);
}

static int on_task(Seat *s, uint64_t start, uint64_t end) {
        if (s->state < SEAT_BEGUN || s->state > SEAT_RUNNING || end < start)
                return seat_fail(s, "a task at a time when it should not have run one");
        s->state = SEAT_RUNNING;
        if (s->role == ROLE_BATCH && s->phase->start_ns != 0)
                s->phase->n_batch_tasks++;
        return samples_add(&s->tasks, start, end - start);
}

static int on_done(Seat *s, const char *line) {
        Interception *c = &s->counters;

        if (sscanf(line, "done %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
                            &c->tasks, &c->launches, &c->seen, &c->tracked, &c->waited, &c->waited_ns,
                            &c->expired) != 7)
                return seat_protocol_error(s, line);
        s->state = SEAT_DONE;
        return 0;
}

static int on_line(const char *line, void *userdata) {
        Seat *s = userdata;
        uint64_t start, end;
        const char *text;
        int r;

        s->phase->last_line_ns = now_ns();
        if (sscanf(line, "task %" SCNu64 " %" SCNu64, &start, &end) == 2)
                r = on_task(s, start, end);
        else if (streq(line, "ready") && s->state == SEAT_STARTING) {
                s->state = SEAT_READY;
                r = 0;
        } else if (sscanf(line, "skipped %" SCNu64, &s->n_skipped) == 1)
                r = 0;
        else if (startswith(line, "done "))
                r = on_done(s, line);
        else if ((text = startswith(line, "error ")))
                r = seat_fail(s, text);
        else
                r = seat_protocol_error(s, line);
        return r < 0 ? r : phase_advance(s->phase);
}

static int seat_start(Seat *s) {
        const PhasePlan *plan = s->phase->plan;
        bool latency = s->role == ROLE_LATENCY, xsched = s->phase->kind == PHASE_XSCHED;
        char priority[32], kernels[16], rounds[16], seed[16];
        const char *argv[16];
        size_t n = 0;

        (void) snprintf(priority, sizeof(priority), "--priority=%d",
                        latency ? plan->high_priority : plan->low_priority);
        (void) snprintf(kernels, sizeof(kernels), "%u", latency ? plan->n_kernels : plan->n_batch_kernels);
        (void) snprintf(rounds, sizeof(rounds), "%u", plan->calibration->rounds);
        (void) snprintf(seed, sizeof(seed), "%u", latency ? 1 : s->index + 2);

        if (xsched) {
                argv[n++] = plan->xschedctl;
                argv[n++] = "run";
                argv[n++] = priority;
                argv[n++] = "--";
        }
        argv[n++] = sim_player(plan->device);
        argv[n++] = "--tenant";
        argv[n++] = role_to_string(s->role);
        argv[n++] = strempty(plan->device);
        argv[n++] = seed;
        argv[n++] = kernels;
        argv[n++] = rounds;
        argv[n++] = xsched ? "1" : "0";
        argv[n] = NULL;
        return child_start(&s->child, argv, xsched ? CHILD_XSCHED : CHILD_NATIVE);
}

static int phase_start(Phase *p) {
        p->seats = calloc(1 + p->plan->n_low, sizeof(Seat));
        p->fds = calloc(1 + p->plan->n_low, sizeof(struct pollfd));
        if (!p->seats || !p->fds)
                return demo_error(-ENOMEM, "out of memory");

        unsigned wanted = 1 + (p->kind == PHASE_ALONE ? 0 : p->plan->n_low);
        while (p->n_seats < wanted) {
                Seat *s = p->seats + p->n_seats;

                *s = (Seat){
                                .phase = p,
                                .role = p->n_seats == 0 ? ROLE_LATENCY : ROLE_BATCH,
                                .index = p->n_seats == 0 ? 0 : p->n_seats - 1,
                                .child = CHILD_NULL,
                };
                p->n_seats++;
                int r = seat_start(s);
                if (r < 0)
                        return r;
        }
        p->last_line_ns = now_ns();
        return 0;
}

static void report_progress(const Phase *p, phase_progress_t progress, void *userdata) {
        uint64_t now = now_ns();
        PhaseProgress s = {
                        .kind = p->kind,
                        .warming_up = p->start_ns == 0,
                        .elapsed_ns = p->start_ns == 0 ? 0 : MIN(now - p->start_ns, p->plan->duration_ns),
                        .duration_ns = p->plan->duration_ns,
                        .latency = &p->seats[0].tasks,
                        .n_batch_tasks = p->n_batch_tasks,
        };

        if (progress)
                progress(&s, userdata);
}

/* One round of poll(): returns how many seats are still there, or what failed. */
static int phase_poll(Phase *p) {
        struct pollfd *fds = p->fds;
        int n_left = 0;

        for (unsigned i = 0; i < p->n_seats; i++) {
                bool gone = p->seats[i].state == SEAT_GONE;

                fds[i] = (struct pollfd){.fd = gone ? -1 : p->seats[i].child.output, .events = POLLIN};
                n_left += !gone;
        }
        if (n_left == 0 || poll(fds, p->n_seats, (int) (PROGRESS_NS / NSEC_PER_MSEC)) <= 0)
                return n_left;

        for (unsigned i = 0; i < p->n_seats; i++) {
                if (fds[i].fd < 0 || fds[i].revents == 0)
                        continue;
                int r = child_read(&p->seats[i].child, on_line, p->seats + i);
                if (r == 0)
                        r = on_hangup(p->seats + i);
                if (r < 0)
                        return p->failed ? r : seat_fail(p->seats + i, strerror(-r));
        }
        return n_left;
}

static int phase_loop(Phase *p, phase_progress_t progress, void *userdata) {
        uint64_t next_progress = 0;

        for (;;) {
                int r = phase_poll(p);
                if (r <= 0)
                        return r;

                uint64_t now = now_ns();
                if (now >= next_progress) {
                        report_progress(p, progress, userdata);
                        next_progress = now + PROGRESS_NS;
                }
                if (now > p->last_line_ns + (p->start_ns == 0 ? START_TIMEOUT_NS : STALL_TIMEOUT_NS))
                        return demo_error(-ETIMEDOUT, "%s: no tenant has finished anything for %" PRIu64 " s",
                                        phase_kind_title(p->kind), (now - p->last_line_ns) / NSEC_PER_SEC);
        }
}

/* Tasks a second within the window; those across its edges count for the part that is inside. */
static double batch_rate(const Phase *p, const Seat *s) {
        double tasks = 0;

        for (size_t i = 0; i < s->tasks.n; i++) {
                uint64_t start = s->tasks.items[i].at_ns, end = start + s->tasks.items[i].ns;
                uint64_t inside = ns_sub(MIN(end, p->end_ns), MAX(start, p->start_ns));

                if (end > start)
                        tasks += (double) inside / (double) (end - start);
        }
        return tasks * (double) NSEC_PER_SEC / (double) (p->end_ns - p->start_ns);
}

static void add_counters(Interception *sum, const Interception *c) {
        uint64_t percent = c->launches > 0 ? MIN(c->seen * 100 / c->launches, UINT64_C(100)) : 0;

        sum->least_seen_percent = sum->tasks == 0 ? percent : MIN(sum->least_seen_percent, percent);
        sum->tasks += c->tasks;
        sum->launches += c->launches;
        sum->seen += c->seen;
        sum->tracked += c->tracked;
        sum->waited += c->waited;
        sum->waited_ns += c->waited_ns;
        sum->expired += c->expired;
}

static int collect(Phase *p, PhaseResult *ret) {
        Seat *latency = p->seats;
        PhaseResult r = {
                        .kind = p->kind,
                        .valid = true,
                        .start_ns = p->start_ns,
                        .window_ns = p->end_ns - p->start_ns,
                        .n_batch = p->n_seats - 1,
                        .n_skipped = latency->n_skipped,
                        .n_missed = latency->n_skipped,
        };

        if (latency->tasks.n == 0)
                return seat_fail(latency, "it finished no task");
        r.batch_rate = calloc(MAX(r.n_batch, UINT32_C(1)), sizeof(double));
        if (!r.batch_rate)
                return demo_error(-ENOMEM, "out of memory");

        for (unsigned i = 0; i < p->n_seats; i++) {
                Seat *s = p->seats + i;

                add_counters(r.interception + s->role, &s->counters);
                if (s->role == ROLE_BATCH) {
                        r.batch_rate[s->index] = batch_rate(p, s);
                        r.batch_total += r.batch_rate[s->index];
                }
        }
        for (size_t i = 0; i < latency->tasks.n; i++) {
                latency->tasks.items[i].at_ns = ns_sub(latency->tasks.items[i].at_ns, p->start_ns);
                r.n_missed += latency->tasks.items[i].ns > p->plan->deadline_ns;
        }
        r.latency = TAKE_GENERIC(latency->tasks, (Samples){});
        *ret = r;
        return 0;
}

/* A figure that was measured without xsched must not be shown as one of xsched's, nor the other way round. */
static int check_interception(const PhaseResult *r) {
        for (unsigned role = 0; role < _ROLE_MAX; role++) {
                const Interception *c = r->interception + role;

                if (c->tasks == 0)
                        continue;
                if (r->kind == PHASE_XSCHED && c->least_seen_percent < 100)
                        return demo_error(-EIO,
                                        "%s: the layer saw %" PRIu64 " of the %" PRIu64
                                        " launches of the %s jobs: the figures would not be xsched's",
                                        phase_kind_title(r->kind), c->seen, c->launches, role_to_string((Role) role));
                if (r->kind != PHASE_XSCHED && c->seen > 0)
                        return demo_error(-EIO, "%s: the layer was there although it should not have been",
                                        phase_kind_title(r->kind));
        }
        if (r->kind == PHASE_XSCHED && r->n_batch > 0 && r->interception[ROLE_BATCH].tracked == 0)
                return demo_error(-EIO, "%s: xschedd never saw the jobs contend: they are not on one device for it",
                                phase_kind_title(r->kind));
        return 0;
}

void phase_result_done(PhaseResult *r) {
        samples_done(&r->latency);
        free(r->batch_rate);
        *r = (PhaseResult){};
}

int phase_run(PhaseKind kind, const PhasePlan *plan, phase_progress_t progress, void *userdata, PhaseResult *ret) {
        _cleanup_(phase_done)
        Phase p = {.kind = kind, .plan = plan};
        _cleanup_(phase_result_done)
        PhaseResult result = {};

        int r = phase_start(&p);
        if (r < 0)
                return r;
        r = phase_loop(&p, progress, userdata);
        if (r < 0)
                return r;
        r = collect(&p, &result);
        if (r < 0)
                return r;
        r = check_interception(&result);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(result, (PhaseResult){});
        return 0;
}
