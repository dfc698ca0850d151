/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Statistics: what monitoring asks for again and again, in one answer
 *
 * Its length depends on the number of devices, and of groups that use them, and not on the number of clients and
 * queues.
 */

#include <config.h>

#include <utlist.h>

#include "answer.h"
#include "cgroup/container.h"
#include "device-metrics.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/core/counters.h"
#include "service/core/tally.h"
#include "statistics-dbus.h"

/* --- histograms --- */

int bus_append_histogram(sd_bus_message *reply, const Histogram *h) {
        uint64_t n = 0;

        int r = sd_bus_message_open_container(reply, 'r', "a(tt)tt");
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(tt)");
        for (unsigned i = 0; r >= 0 && i < HISTOGRAM_BOUNDS; i++) {
                n += h->buckets[i];
                r = sd_bus_message_append(reply, "(tt)", histogram_bound_us(i), n);
        }
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = sd_bus_message_append(reply, "tt", h->sum_ns / NSEC_PER_USEC, n + h->buckets[HISTOGRAM_BOUNDS]);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_histogram(sd_bus_message *reply, const char *key, const Histogram *h) {
        int r = sd_bus_message_open_container(reply, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append_basic(reply, 's', key);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'v', "(a(tt)tt)");
        if (r >= 0)
                r = bus_append_histogram(reply, h);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* --- elements --- */

#define ELEMENT_SIZE 512

static int begin_element(sd_bus_message *reply, const char *kind, const char *name, const char *device) {
        int r = sd_bus_message_open_container(reply, 'r', "sssa{sv}");
        if (r >= 0)
                r = sd_bus_message_append(reply, "sss", kind, name, device);
        return r < 0 ? r : sd_bus_message_open_container(reply, 'a', "{sv}");
}

static int end_element(sd_bus_message *reply) {
        int r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_degraded(const Manager *m, sd_bus_message *reply) {
        int r = sd_bus_message_open_container(reply, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append_basic(reply, 's', "Degraded");
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'v', "as");
        if (r >= 0)
                r = sd_bus_message_append_strv(reply, m->degraded);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_service(Answer *a) {
        const Manager *m = a->manager;
        sd_bus_message *reply = a->reply;

        int r = begin_element(reply, "service", "", "");
        if (r >= 0)
                r = sd_bus_message_append(reply, "{sv}{sv}{sv}{sv}{sv}{sv}{sv}", "Version", "s", XSCHED_VERSION,
                                "NClients", "u", (uint32_t) HASH_COUNT(m->clients), "NQueues", "u",
                                (uint32_t) HASH_COUNT(m->queues), "NEdges", "t", m->n_edges, "NVerdicts", "t",
                                m->n_verdicts, "NWakeups", "t", m->n_wakeups, "NLeaseExpired", "t", a->sum);
        if (r >= 0)
                r = append_degraded(m, reply);
        if (r >= 0)
                r = append_histogram(reply, "DecisionHistogram", &m->decisions);
        return r < 0 ? r : end_element(reply);
}

static int append_measured(const Device *d, sd_bus_message *reply) {
        int r = sd_bus_message_open_container(reply, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append_basic(reply, 's', "Metrics");
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'v', "a{sv}");
        if (r >= 0)
                r = device_append_metrics(d, reply);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_hooked(const Device *d, sd_bus_message *reply) {
        static const char *const keys[_HOOKED_MAX] = {
                        [HOOKED_UNKNOWN] = "NQueuesUnknown",
                        [HOOKED_CALLS] = "NQueuesCalls",
                        [HOOKED_DOORBELL] = "NQueuesDoorbell",
                        [HOOKED_CREATE] = "NQueuesCreate",
                        [HOOKED_POLL] = "NQueuesPoll",
                        [HOOKED_NONE] = "NQueuesNone",
        };
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < _HOOKED_MAX; i++)
                r = sd_bus_message_append(reply, "{sv}", keys[i], "u", (uint32_t) d->n_hooked[i]);
        return r < 0 ? r : sd_bus_message_append(reply, "{sv}", "NQueuesUnheld", "u", (uint32_t) d->n_unheld);
}

static int append_device(Device *d, sd_bus_message *reply) {
        _cleanup_free_ char *path = device_path(d);
        PolicyDeviceUsage u;

        if (!path)
                return -ENOMEM;
        device_usage(d, now_ns(), &u);
        int r = begin_element(reply, "device", path, d->id);
        if (r >= 0)
                r = sd_bus_message_append(reply, "{sv}{sv}{sv}{sv}{sv}{sv}{sv}", "Name", "s", d->name, "Backend", "s",
                                d->backend, "Policy", "s", d->ops->name, "NEntities", "u", (uint32_t) d->n_entities,
                                "NReady", "u", (uint32_t) d->n_ready, "NQueues", "u", (uint32_t) d->n_queues,
                                "NPreempted", "t", d->n_preempted);
        if (r >= 0)
                r = sd_bus_message_append(reply, "{sv}{sv}{sv}", "BusyUSec", "t", u.busy_ns / NSEC_PER_USEC, "KeptUSec",
                                "t", u.kept_ns / NSEC_PER_USEC, "IdleUSec", "t", u.idle_ns / NSEC_PER_USEC);
        if (r >= 0)
                r = append_hooked(d, reply);
        if (r >= 0)
                r = append_histogram(reply, "ReadyToRunHistogram", &d->ready_to_run);
        if (r >= 0)
                r = append_measured(d, reply);
        if (r >= 0)
                r = end_element(reply);
        return r < 0 ? r : (int) (ELEMENT_SIZE + ELEMENT_SIZE + strlen(path) + strlen(d->name));
}

static int append_container(sd_bus_message *reply, const char *cgroup) {
        ContainerNames n;

        container_names(cgroup, &n);
        return sd_bus_message_append(reply, "{sv}{sv}{sv}", "Container", "s", n.container, "Pod", "s", n.pod,
                        "SlurmJob", "s", n.slurm_job);
}

static int append_usage(const TallySum *s, uint64_t now, sd_bus_message *reply) {
        const PolicyUsage *u = &s->usage;
        uint64_t held_ns = s->held_since_ns > 0 ? ns_sub(now, s->held_since_ns) : 0;

        return sd_bus_message_append(reply, "{sv}{sv}{sv}{sv}{sv}{sv}{sv}{sv}{sv}", "RunUSec", "t",
                        u->run_ns / NSEC_PER_USEC, "KeptUSec", "t", u->kept_ns / NSEC_PER_USEC, "WaitUSec", "t",
                        u->wait_ns / NSEC_PER_USEC, "DrainWaitUSec", "t", u->drain_wait_ns / NSEC_PER_USEC,
                        "ServiceWaitUSec", "t", s->service_wait_ns / NSEC_PER_USEC, "NPreempted", "t", u->n_preempted,
                        "NHeld", "u", (uint32_t) s->n_held, "HeldReason", "s", strempty(s->held_why), "HeldUSec", "t",
                        held_ns / NSEC_PER_USEC);
}

static int append_tally(const Group *g, const Tally *t, sd_bus_message *reply) {
        uint64_t now = now_ns();
        TallySum s;

        tally_sum(t, now, &s);
        int r = begin_element(reply, "group", g->name, t->device->id);
        if (r >= 0)
                r = sd_bus_message_append(reply, "{sv}{sv}{sv}{sv}{sv}{sv}{sv}", "Unit", "s", g->unit, "Class", "s",
                                g->resolved.class, "Priority", "i", g->resolved.policy.priority, "Weight", "u",
                                g->resolved.policy.weight, "NClients", "u", (uint32_t) g->n_clients, "NQueues", "u",
                                (uint32_t) s.n_queues, "GPUTimeSource", "s", account_source_to_string(s.source));
        if (r >= 0)
                r = append_container(reply, g->name);
        if (r >= 0)
                r = append_usage(&s, now, reply);
        if (r >= 0)
                r = end_element(reply);
        return r < 0 ? r : (int) (ELEMENT_SIZE + 4 * strlen(g->name));
}

static int append_group(const Group *g, sd_bus_message *reply) {
        const Tally *t;
        int sum = 0;

        DL_FOREACH2(g->tallies, t, group_next) {
                int r = append_tally(g, t, reply);
                if (r < 0)
                        return r;
                sum += r;
        }
        return sum;
}

/* Queues appear only as their sum. The freed ones come first: a queue that is freed meanwhile is left out, this once,
 * and not counted twice. */
static int begin_table(Answer *a, WalkTable table) {
        if (table == WALK_QUEUES)
                a->sum = a->manager->n_lease_expired;
        return 0;
}

static int append_object(Answer *a, WalkTable table, void *object) {
        ClientCounters n;

        switch (table) {
        case WALK_QUEUES:
                queue_counters(object, &n);
                a->sum += n.lease_expired;
                return 0;
        case WALK_DEVICES:
                return append_device(object, a->reply);
        default:
                return append_group(object, a->reply);
        }
}

static int end_all(Answer *a) {
        int r = append_service(a);
        return r < 0 ? r : answer_send(a);
}

int method_list_statistics(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .begin = begin_table,
                        .object = append_object,
                        .end = end_all,
                        .tables = {WALK_QUEUES, WALK_DEVICES, WALK_GROUPS},
                        .n_tables = 3,
        };

        int r = bus_read_flags(message, error);
        return r < 0 ? r : answer_list(userdata, message, &ops, "(sssa{sv})");
}
