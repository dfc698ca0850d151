/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Everything that the service knows
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#include "answer.h"
#include "cgroup/container.h"
#include "describe.h"
#include "service/core/client.h"
#include "service/core/counters.h"
#include "service/core/entity-facts.h"
#include "service/core/job.h"
#include "service/core/ladder.h"
#include "service/core/suspended.h"
#include "service/core/usage.h"
#include "service/settings/json-util.h"

/* --- JSON --- */

static int add_settings(json_object *o, const SettingsResolved *s) {
        JSON_TRY(json_add_string(o, "class", s->class));
        JSON_TRY(json_add_int(o, "priority", s->policy.priority));
        JSON_TRY(json_add_u64(o, "weight", s->policy.weight));
        JSON_TRY(json_add_u64(o, "threshold", s->policy.threshold));
        JSON_TRY(json_add_string(o, "preemption", preemption_to_string(s->policy.preemption)));
        JSON_TRY(json_add_bool(o, "gang", s->policy.gang));
        return json_add_string(o, "source", settings_source_to_string(s->source));
}

static int add_counters(json_object *o, const ClientCounters *n) {
        JSON_TRY(json_add_u64(o, "submitted", n->submitted));
        JSON_TRY(json_add_u64(o, "completed", n->completed));
        JSON_TRY(json_add_u64(o, "held_usec", n->held_ns / NSEC_PER_USEC));
        return json_add_u64(o, "lease_expired", n->lease_expired);
}

/* As on the bus: for each bound the number of values up to it. */
static int add_histogram(json_object *o, const char *key, const Histogram *h) {
        json_object *all = json_object_new_object(), *counts;
        uint64_t n = 0;

        JSON_TRY(json_add(o, key, all));
        counts = json_object_new_array();
        JSON_TRY(json_add(all, "counts", counts));
        for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
                n += h->buckets[i];
                if (json_object_array_add(counts, json_object_new_int64((int64_t) n)) < 0)
                        return -ENOMEM;
        }
        JSON_TRY(json_add_u64(all, "sum_usec", h->sum_ns / NSEC_PER_USEC));
        return json_add_u64(all, "count", n + h->buckets[HISTOGRAM_BOUNDS]);
}

static int describe_device(Device *d, json_object *o) {
        PolicyDeviceUsage u;

        device_usage(d, now_ns(), &u);
        JSON_TRY(json_add_string(o, "id", d->id));
        JSON_TRY(json_add_string(o, "name", d->name));
        JSON_TRY(json_add_string(o, "backend", d->backend));
        JSON_TRY(json_add_string(o, "policy", d->ops->name));
        JSON_TRY(json_add_string(o, "state", device_state_to_string(d->state)));
        JSON_TRY(json_add_u64(o, "concurrency", d->config.concurrency));
        JSON_TRY(json_add_u64(o, "timeslice_usec", d->config.timeslice_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "starve_usec", d->config.starve_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "starve_run_usec", d->config.starve_run_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "linger_usec", d->config.linger_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "threshold", d->config.threshold));
        JSON_TRY(json_add_string(o, "preemption", preemption_to_string(d->tuning.preemption)));
        JSON_TRY(json_add_string(o, "accounting", accounting_to_string(d->tuning.accounting)));
        JSON_TRY(json_add_bool(o, "allow_mes_preemption", d->tuning.allow_mes));
        JSON_TRY(json_add_u64(o, "hold_cost_usec", d->costs.hold_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "release_cost_usec", d->costs.release_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "entities", d->n_entities));
        JSON_TRY(json_add_u64(o, "ready", d->n_ready));
        JSON_TRY(json_add_u64(o, "busy_usec", u.busy_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "kept_usec", u.kept_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "idle_usec", u.idle_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "preempted", d->n_preempted));
        return add_histogram(o, "ready_to_run_histogram", &d->ready_to_run);
}

static int add_container(json_object *o, const char *cgroup) {
        ContainerNames n;

        container_names(cgroup, &n);
        JSON_TRY(json_add_string(o, "container", n.container));
        JSON_TRY(json_add_string(o, "pod", n.pod));
        JSON_TRY(json_add_string(o, "pod_qos", n.pod_qos));
        return json_add_string(o, "slurm_job", n.slurm_job);
}

static int describe_group(const Group *g, json_object *o) {
        const Group *by = group_suspended_by(g);
        PolicyUsage u;

        group_usage(g, now_ns(), &u);
        JSON_TRY(json_add_string(o, "name", g->name));
        JSON_TRY(json_add_string(o, "kind", group_kind_to_string(g->kind)));
        JSON_TRY(json_add_string(o, "unit", g->unit));
        JSON_TRY(add_container(o, g->name));
        JSON_TRY(add_settings(o, &g->resolved));
        JSON_TRY(json_add_bool(o, "suspended", by));
        JSON_TRY(json_add_string(o, "suspended_by", by ? by->name : ""));
        JSON_TRY(json_add_string(o, "parent", g->parent ? g->parent->name : ""));
        JSON_TRY(json_add_u64(o, "max", g->resolved.policy.max));
        JSON_TRY(json_add_u64(o, "min", g->resolved.policy.min));
        JSON_TRY(json_add_u64(o, "period_usec", g->resolved.policy.period_us));
        JSON_TRY(json_add_u64(o, "clients", g->n_clients));
        JSON_TRY(json_add_u64(o, "gpu_time_usec", group_gpu_time(g, now_ns()) / NSEC_PER_USEC));
        JSON_TRY(json_add_string(o, "gpu_time_source", account_source_to_string(account_group_source(g))));
        JSON_TRY(json_add_string(o, "accounting", accounting_to_string(g->resolved.accounting)));
        JSON_TRY(json_add_u64(o, "run_usec", u.run_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "kept_usec", u.kept_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "wait_usec", u.wait_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "drain_wait_usec", u.drain_wait_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "service_wait_usec", group_service_wait(g) / NSEC_PER_USEC));
        return json_add_u64(o, "preempted", u.n_preempted);
}

static int describe_client(const Client *c, json_object *o) {
        const Group *by = client_suspended_by(c);
        ClientCounters n;

        client_counters(c, &n);
        JSON_TRY(json_add_u64(o, "id", c->id));
        JSON_TRY(json_add_int(o, "pid", (int) c->peer.pid));
        JSON_TRY(json_add_u64(o, "uid", c->peer.uid));
        JSON_TRY(json_add_string(o, "command", c->peer.command));
        JSON_TRY(json_add_string(o, "shim_version", c->shim_version));
        JSON_TRY(json_add_string(o, "group", c->group->name));
        JSON_TRY(json_add_string(o, "unit", c->peer.unit));
        JSON_TRY(json_add_string(o, "slice", c->peer.slice));
        JSON_TRY(add_container(o, c->peer.cgroup));
        JSON_TRY(add_settings(o, &c->resolved));
        JSON_TRY(json_add_bool(o, "suspended", c->suspended || by));
        JSON_TRY(json_add_string(o, "suspended_by", by ? by->name : ""));
        JSON_TRY(json_add_string(o, "state", queue_state_to_string(client_state(c))));
        JSON_TRY(json_add_u64(o, "queues", c->n_queues));
        JSON_TRY(add_counters(o, &n));
        return json_add_u64(o, "edges", c->n_edges);
}

static int describe_queue(const Queue *q, json_object *o) {
        ClientCounters n;

        queue_counters(q, &n);
        JSON_TRY(json_add_u64(o, "id", q->id));
        JSON_TRY(json_add_u64(o, "client", q->client->id));
        JSON_TRY(json_add_string(o, "device", q->device->id));
        JSON_TRY(json_add_string(o, "backend", q->backend));
        JSON_TRY(json_add_string(o, "label", q->label));
        JSON_TRY(json_add_u64(o, "slot", q->slot));
        JSON_TRY(add_settings(o, &q->resolved));
        JSON_TRY(json_add_bool(o, "suspended", queue_is_suspended(q)));
        JSON_TRY(json_add_string(o, "state", queue_state_to_string(queue_state(q))));
        return add_counters(o, &n);
}

static int describe_statistics(const Manager *m, json_object *o) {
        LatencySummary s;

        latency_summary(&m->latency, &s);
        JSON_TRY(json_add_u64(o, "edges", m->n_edges));
        JSON_TRY(json_add_u64(o, "verdicts", m->n_verdicts));
        JSON_TRY(json_add_u64(o, "wakeups", m->n_wakeups));
        JSON_TRY(json_add_u64(o, "decision_p50_usec", s.p50_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "decision_p99_usec", s.p99_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "decision_max_usec", s.max_ns / NSEC_PER_USEC));
        JSON_TRY(json_add_u64(o, "decision_samples", s.n_samples));
        JSON_TRY(add_histogram(o, "decision_histogram", &m->decisions));
        return add_histogram(o, "ready_to_run_histogram", &m->ready_to_run);
}

static int print_object(Answer *a, json_object *o) {
        const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE);

        return text ? fprintf(a->file, "%s%s", a->n > 0 ? "," : "", text) : -ENOMEM;
}

/* json-c writes each object. The frame around them is written as it goes: an answer is made in steps (answer.h), and
 * json-c writes whole documents only. */
static int describe_table(Answer *a, WalkTable table) {
        static const char *const keys[_WALK_ON_BUS_MAX] = {
                        [WALK_DEVICES] = "devices",
                        [WALK_GROUPS] = "groups",
                        [WALK_CLIENTS] = "clients",
                        [WALK_QUEUES] = "queues",
        };

        return table == WALK_DEVICES ? fprintf(a->file, "{\"version\":\"" XSCHED_VERSION "\",\"%s\":[", keys[table])
                                     : fprintf(a->file, "],\"%s\":[", keys[table]);
}

static int describe_object(Answer *a, WalkTable table, void *object) {
        _cleanup_json_ json_object *o = json_object_new_object();

        if (!o)
                return -ENOMEM;
        switch (table) {
        case WALK_DEVICES:
                JSON_TRY(describe_device(object, o));
                break;
        case WALK_GROUPS:
                JSON_TRY(describe_group(object, o));
                break;
        case WALK_CLIENTS:
                JSON_TRY(describe_client(object, o));
                break;
        default:
                JSON_TRY(describe_queue(object, o));
        }
        return print_object(a, o);
}

static int describe_rest(Manager *m, json_object *root) {
        JSON_TRY(json_add_bool(root, "can_store", overrides_is_open(&m->overrides)));
        json_object *degraded = json_object_new_array();
        JSON_TRY(json_add(root, "degraded", degraded));
        for (char **p = m->degraded; p && *p; p++)
                if (json_object_array_add(degraded, json_object_new_string(*p)) < 0)
                        return -ENOMEM;

        json_object *statistics = json_object_new_object();
        JSON_TRY(json_add(root, "statistics", statistics));
        return describe_statistics(m, statistics);
}

static int describe_end(Answer *a) {
        _cleanup_json_ json_object *rest = json_object_new_object();
        const char *text;

        if (!rest)
                return -ENOMEM;
        JSON_TRY(describe_rest(a->manager, rest));
        text = json_object_to_json_string_ext(rest, JSON_C_TO_STRING_NOSLASHESCAPE);
        if (!text || fprintf(a->file, "],%s", text + 1) < 0)
                return -ENOMEM;
        return answer_send_text(a);
}

int describe_json(Manager *m, sd_bus_message *message) {
        static const AnswerOps ops = {
                        .begin = describe_table,
                        .object = describe_object,
                        .end = describe_end,
                        .tables = {WALK_DEVICES, WALK_GROUPS, WALK_CLIENTS, WALK_QUEUES},
                        .n_tables = 4,
        };
        return answer_text(m, message, &ops, NULL);
}

/* --- text --- */

static void dump_queue(const Queue *q, FILE *f) {
        const PageSlot *s = q->page_slot;
        char entity[128] = "-";

        if (q->entity)
                (void) entity_name(q->entity, entity, sizeof(entity));
        fprintf(f,
                        "  queue %" PRIu64 " client %" PRIu64 " device %s entity %s"
                        " slot %u: word=%u level=%u/%u threshold=%u budget=%u watch=%u ready=%d stalled=%d boosted=%d"
                        " page{outstanding=%#x waiters=%u applied=%u}\n",
                        q->id, q->client->id, q->device->id, entity, q->slot, queue_slot(q)->word, queue_slot(q)->level,
                        ladder_queue_max_level(q), queue_slot(q)->threshold, queue_slot(q)->budget_us,
                        queue_slot(q)->watch, q->ready, q->stalled, q->boosted,
                        atomic_load_explicit(&s->outstanding, memory_order_relaxed),
                        atomic_load_explicit(&s->waiters, memory_order_relaxed),
                        atomic_load_explicit(&s->applied, memory_order_relaxed));
}

static void dump_time(FILE *f, const char *name, uint64_t at, uint64_t now) {
        if (at == NSEC_INFINITY)
                fprintf(f, " %s=never", name);
        else
                fprintf(f, " %s=%+.3fms", name, ((double) at - (double) now) / (double) NSEC_PER_MSEC);
}

static void dump_entity(const Entity *e, uint64_t now, FILE *f) {
        char name[128];

        fprintf(f, "    entity %s %s: priority=%d weight=%u queues=%u active=%u ready=%u %s threshold=%u%s\n",
                        entity_kind_to_string(e->kind), entity_name(e, name, sizeof(name)), e->settings.priority,
                        e->settings.weight, e->n_queues, e->n_active, e->n_ready, verdict_to_string(e->grant.verdict),
                        e->grant.threshold, e->policy ? "" : " (not in the policy)");
        if (e->held_since > 0) {
                fprintf(f, "      preemption=%s level=%s drain=%" PRIu64, preemption_to_string(e->preemption),
                                preempt_level_to_string(e->choice.level), ladder_entity_drain(e));
                dump_time(f, "held", e->held_since, now);
                dump_time(f, "review", e->review_at, now);
                fputc('\n', f);
        }
        if (e->forecast.n_visits > 0)
                fprintf(f,
                                "      forecast: period=%.3fms spread=%.3fms visits=%" PRIu64 " expected=%" PRIu64
                                " stop=%.3fms slowest=%.3fms\n",
                                (double) e->forecast.period_ns / (double) NSEC_PER_MSEC,
                                (double) e->forecast.spread_ns / (double) NSEC_PER_MSEC, e->forecast.n_visits,
                                e->forecast.n_expected, (double) e->device->costs.hold_ns / (double) NSEC_PER_MSEC,
                                (double) e->device->openings.slowest_ns / (double) NSEC_PER_MSEC);
}

static void dump_device(const Device *d, FILE *f) {
        uint64_t now = now_ns();
        const Entity *e;

        fprintf(f, "  device %s: policy=%s state=%s queues=%u entities=%u active=%u ready=%u stalled=%u budget=%u",
                        d->id, d->ops->name, device_state_to_string(d->state), d->n_queues, d->n_entities, d->n_active,
                        d->n_ready, d->n_stalled, d->tuning.budget_us);
        dump_time(f, "dispatch", d->dispatch_at, now);
        dump_time(f, "settle", d->settle_at, now);
        dump_time(f, "probe", d->probe_at, now);
        dump_time(f, "review", d->review_at, now);
        fputc('\n', f);
        DL_FOREACH2(d->entities, e, device_next)
                dump_entity(e, now, f);
}

static void dump_client(const Client *c, FILE *f) {
        fprintf(f, "  client %" PRIu64 " pid=%d uid=%u group=%s queues=%u holding=%u silent=%d own=%d\n", c->id,
                        (int) c->peer.pid, (unsigned) c->peer.uid, c->group->name, c->n_queues, c->n_holding, c->silent,
                        c->own);
}

static int dump_table(Answer *a, WalkTable table) {
        const Manager *m = a->manager;

        if (table == WALK_DEVICES)
                return fprintf(a->file,
                                "xschedd " XSCHED_VERSION "\nedges=%" PRIu64 " verdicts=%" PRIu64 " wakeups=%" PRIu64
                                "\ndevices:\n",
                                m->n_edges, m->n_verdicts, m->n_wakeups);
        return fprintf(a->file, table == WALK_CLIENTS ? "clients:\n" : "queues:\n");
}

static int dump_object(Answer *a, WalkTable table, void *object) {
        if (table == WALK_DEVICES)
                dump_device(object, a->file);
        else if (table == WALK_CLIENTS)
                dump_client(object, a->file);
        else
                dump_queue(object, a->file);
        return 0;
}

static int dump_end(Answer *a) {
        Job *j, *tmp;

        fprintf(a->file, "jobs:\n");
        HASH_ITER(hh, a->manager->jobs, j, tmp)
                fprintf(a->file, "  job %s pid=%d uid=%u\n", j->group->name, (int) j->pid, (unsigned) j->uid);
        return answer_send_text(a);
}

int describe_text(Manager *m, sd_bus_message *message) {
        static const AnswerOps ops = {
                        .begin = dump_table,
                        .object = dump_object,
                        .end = dump_end,
                        .tables = {WALK_DEVICES, WALK_CLIENTS, WALK_QUEUES},
                        .n_tables = 3,
        };
        return answer_memfd(m, message, &ops);
}
