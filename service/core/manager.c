/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The manager
 */

#include <inttypes.h>

#include <poll.h>
#include <sys/prctl.h>

#include "arbiter.h"
#include "claim.h"
#include "crowd.h"
#include "edges.h"
#include "follow.h"
#include "gone-watch.h"
#include "gone.h"
#include "group-match.h"
#include "group-totals.h"
#include "job.h"
#include "lease.h"
#include "observer.h"
#include "recorder.h"
#include "remnant.h"
#include "resolve.h"
#include "service/base/closer.h"
#include "service/base/messages.h"
#include "service/base/seats.h"
#include "service/base/subuid-file.h"
#include "service/settings/xsched-conf.h"
#include "user.h"
#include "wakes.h"

/* Nothing else in this room calls arbiter_flush(). */
static void write_words(Manager *m) {
        if (turn_is_due(m))
                arbiter_flush(m);
}

static void look(Manager *m) {
        if (wakes_turn(m) > 0)
                write_words(m);
}

static const QuickOps quick_ops = {.look = edge_look, .sync_watch = edge_sync_watch};

int manager_new(Config *config, Manager **ret) {
        _cleanup_(manager_freep)
        Manager *m = calloc(1, sizeof(*m));

        if (!m) {
                config_free(config);
                return -ENOMEM;
        }
        m->config = config;
        m->state = LEDGER_NULL;
        m->cpu_latency = CPU_LATENCY_NULL;
        m->wakes = WAKES_NULL;
        m->loop.pace_ns = LOOP_STALE_NS;
        m->next_client_id = m->next_queue_id = m->next_job_id = 1;
        (void) settings_set_class(&m->default_layer, "default");

        int r = sd_event_default(&m->event);
        if (r < 0)
                return r;
        quick_init(m, &quick_ops);
        r = wakes_init(m, look);
        if (r >= 0)
                r = lease_init(m);
        if (r >= 0)
                r = follow_attach(m);
        if (r >= 0)
                r = recorder_new(m, &m->recorder);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

static void strv_free(char **v) {
        for (char **p = v; p && *p; p++)
                free(*p);
        free(v);
}

static void manager_free_objects(Manager *m) {
        Client *c, *ctmp;
        Job *j, *jtmp;
        Group *g, *gtmp;
        Device *d, *dtmp;

        claims_free(m);
        HASH_ITER(hh, m->clients, c, ctmp)
                client_free(c);
        remnants_free(m);
        HASH_ITER(hh, m->jobs, j, jtmp)
                job_free(j);
        HASH_ITER(hh, m->groups, g, gtmp)
                group_free(g);
        gone_free(m);
        HASH_ITER(hh, m->devices, d, dtmp)
                device_free(d);
        users_free(m);
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;

        totals_save(m);
        observers_manager_closing(m);
        m->stopping = true;
        manager_free_objects(m);
        observers_manager_closed(m);
        m->recorder = recorder_free(m->recorder);
        closer_finish();
        wakes_done(m);
        quick_done(m);
        observers_free(m);
        sd_event_source_disable_unref(m->lease_source);
        attr_watch_free(m->attr_watch);
        follow_free(m->follow);
        cpu_latency_done(&m->cpu_latency);
        subuid_file_free(m->subuids);
        seats_free(m->seats);
        sd_event_unref(m->event);
        config_free(m->config);
        ledger_done(&m->state);
        overrides_done(&m->overrides);
        totals_done(&m->totals);
        strv_free(m->degraded);
        free(m);
        return NULL;
}

void manager_settle(Manager *m) {
        Job *j, *tmp;

        HASH_ITER(hh, m->jobs, j, tmp)
                job_gc(j);
        manager_end_turn(m);
}

/* How fast the service has to wake: a sleeping CPU takes time to wake, in which a client may wait for a decision. */
typedef struct Alertness {
        bool shared;             /* a device has several entities */
        uint64_t busy_poll_ns;   /* how long to poll before the next sleep */
        uint64_t cpu_latency_ns; /* how long waking a CPU may take */
} Alertness;

static Alertness manager_alertness(const Manager *m) {
        Alertness a = {.cpu_latency_ns = NSEC_INFINITY};
        const Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp) {
                a.shared |= d->state != DEVICE_ALONE;
                if (d->state == DEVICE_CONTENDED) {
                        a.busy_poll_ns = MAX(a.busy_poll_ns, d->tuning.busy_poll_ns);
                        a.cpu_latency_ns = MIN(a.cpu_latency_ns, d->tuning.cpu_latency_ns);
                }
        }
        return a;
}

static void disconnect_condemned(Manager *m) {
        while (m->condemned) {
                Client *c = m->condemned;

                log_event(LOG_WARNING, MESSAGE_HOSTILE_CLIENT,
                                LOG_FIELDS(.client = c->id, .pid = c->peer.pid, .group = c->group->name),
                                "Client %" PRIu64 " (%s, pid %d, uid %u) makes it slow to be told anything, "
                                "disconnecting it",
                                c->id, c->peer.command, (int) c->peer.pid, (unsigned) c->peer.uid);
                client_free(c); /* takes it off the list */
        }
}

/* Writing verdicts may condemn a client, and disconnecting one changes verdicts: repeat until neither is due. */
void manager_end_turn(Manager *m) {
        do {
                disconnect_condemned(m);
                write_words(m);
        } while (m->condemned);
        if (m->devices_left)
                devices_trim(m);
}

/* Whether this turn sleeps for edges alone. sd_event_prepare() costs several system calls, more than the rest of a turn
 * that hears an edge; waiting for its descriptor as well as for the edges costs another one; and a sleep with a short
 * timeout costs as much again. So while turns come quickly, sd-event is asked only every LOOP_STALE_NS, and the loop
 * sleeps for longer than that where they have come quickly for long. */
static bool loop_is_quick(Loop *l, uint64_t now) {
        uint64_t since = MIN(ns_sub(now, l->turned_at), LOOP_STALE_NS);

        l->turned_at = now;
        l->pace_ns = (3 * l->pace_ns + since) / 4;
        bool quick = l->pace_ns < LOOP_STALE_NS / 2;
        if (!quick || since == LOOP_STALE_NS)
                l->quick_since = now;
        return quick;
}

static bool loop_is_stale(const Loop *l, uint64_t now) {
        return !l->prepared || now - l->prepared_at >= LOOP_STALE_NS;
}

/* Until when the loop may sleep without an edge. */
static uint64_t loop_quick_until(const Loop *l, uint64_t now) {
        uint64_t ns = (now - l->quick_since) / LOOP_PATIENCE;

        return l->prepared_at + CLAMP(ns, LOOP_STALE_NS, LOOP_STALE_MAX_NS);
}

/* Returns > 0 when sd-event has something to dispatch. */
static int loop_wait(Manager *m) {
        m->loop.prepared = false;
        return sd_event_wait(m->event, 0);
}

static int loop_prepare(Manager *m, uint64_t now) {
        int r = m->loop.prepared ? loop_wait(m) : 0;

        if (r != 0)
                return r;
        r = sd_event_prepare(m->event);
        m->loop.prepared = r == 0;
        m->loop.prepared_at = now;
        return r;
}

/* Sleeps until `until_ns`, an edge, or an event of sd-event. Returns as loop_wait(). */
static int loop_sleep(Manager *m, uint64_t now, uint64_t until_ns, unsigned *ret_n_woke) {
        const struct timespec timeout = ns_to_timespec(ns_sub(until_ns, now));
        struct pollfd fds[] = {
                        {.fd = sd_event_get_fd(m->event), .events = POLLIN},
                        {.fd = m->wakes.epoll, .events = POLLIN},
        };

        int r = ppoll(fds, ELEMENTSOF(fds), until_ns == NSEC_INFINITY ? NULL : &timeout, NULL);
        if (r < 0)
                return errno == EINTR ? 0 : negative_errno();
        *ret_n_woke = fds[1].revents != 0 ? wakes_turn(m) : 0;
        return fds[0].revents != 0 ? loop_wait(m) : 0;
}

/* Looks at the wakes between any two events of the loop, so that other events never keep edges waiting. */
int manager_turn(Manager *m, uint64_t timeout_ns) {
        uint64_t now = now_ns();
        uint64_t until = timeout_ns >= NSEC_INFINITY - now ? NSEC_INFINITY : now + timeout_ns;
        bool quick = loop_is_quick(&m->loop, now);
        unsigned n_woke = 0;

        int r = quick && !loop_is_stale(&m->loop, now) ? 0 : loop_prepare(m, now);
        uint64_t due = quick ? dues_latest(&m->dues) : dues_next(&m->dues);
        until = MIN(until, due);
        if (quick)
                until = MIN(until, loop_quick_until(&m->loop, now));
        if (quick && r == 0 && timeout_ns > 0)
                r = wakes_sleep(m, now, until, &n_woke);
        else if (r == 0)
                r = loop_sleep(m, now, until, &n_woke);
        else if (r > 0)
                n_woke = wakes_turn(m);
        if (r < 0)
                return r;
        if (n_woke > 0)
                write_words(m); /* verdicts do not wait until the next event is handled */
        /* What has become due since the edges were heard waits for the next turn, which does not sleep then. */
        unsigned n_due = dues_turn(&m->dues, n_woke > 0 ? m->wakes.looked_at : now_ns());
        if (r > 0)
                r = sd_event_dispatch(m->event);
        if (r < 0)
                return r;
        manager_end_turn(m);
        return r > 0 || n_woke > 0 || n_due > 0;
}

int manager_loop(Manager *m) {
        uint64_t last = 0;
        int r;

        /* Due times are as exact as a timer: by default the kernel may let a sleeper sleep on for 50 us. */
        (void) prctl(PR_SET_TIMERSLACK, 1UL);
        do {
                Alertness a = manager_alertness(m);
                bool poll = a.busy_poll_ns > 0 && now_ns() - last < a.busy_poll_ns;

                realtime_set(&m->realtime, a.shared && a.busy_poll_ns == 0 && !realtime_is_busy(&m->load, now_ns()));
                cpu_latency_set(&m->cpu_latency, NULL, a.cpu_latency_ns);
                r = manager_turn(m, poll ? 0 : NSEC_INFINITY);
                if (r < 0)
                        return r;
                if (r > 0) {
                        m->n_wakeups++;
                        last = now_ns();
                }
        } while (sd_event_get_state(m->event) != SD_EVENT_FINISHED);

        int code = 0;
        r = sd_event_get_exit_code(m->event, &code);
        return r < 0 ? r : code;
}

void manager_settings_changed(Manager *m) {
        Group *g, *gtmp;
        Device *d, *dtmp;

        HASH_ITER(hh, m->devices, d, dtmp)
                device_load_config(d);
        HASH_ITER(hh, m->groups, g, gtmp)
                (void) group_match(g); /* groups below call group_match(), too */
        HASH_ITER(hh, m->groups, g, gtmp)
                group_settings_changed(g);
}

void manager_set_config(Manager *m, Config *config) {
        config_free(m->config);
        m->config = config;
        origins_refresh(m);
        manager_settings_changed(m);
}
