/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Simulates the load of a recording (load.h) under another policy, or with other settings
 *
 * Time goes from event to event: a step of the load; a burst that becomes ready, or may be over; the end of a tail; a
 * policy that wants to be asked. The policy's accounts say how much of its time a burst has had. All devices have one
 * time, since there are policies that go over several.
 */

#include <inttypes.h>

#include "events.h"
#include "otherwise.h"
#include "replay.h"
#include "simulate.h"

/* Minimum time between two questions to a policy, as in the service, and between two looks at a burst. */
#define STEP_NS NSEC_PER_USEC

/* Limit of the events of a simulation: a base, and so many for each record. It allows some three hours of slices of the
 * usual length among jobs that never end. Without a limit, times that somebody wrote into a file could make a
 * simulation endless. */
#define HAPPENINGS_MAX            UINT64_C(4000000)
#define HAPPENINGS_PER_RECORD_MAX UINT64_C(100)

typedef struct SimDevice SimDevice;

typedef struct SimNode {
        uint64_t id;
        struct SimNode *parent;
        char *name, *path; /* path: of the group; NULL: not known */
        PolicyNode *node;
        PolicyNodeSettings settings;
        UT_hash_handle hh;
} SimNode;

typedef struct SimEntity {
        uint64_t id;
        SimDevice *device;
        SimNode *node;
        PolicyEntity *entity;
        PolicySettings settings;
        char *group;
        const LoadEntity *load;
        size_t next; /* `burst`: the present or next burst */
        bool ready, granted;
        uint64_t from_ns;  /* what it had run when the burst began */
        uint64_t due_ns;   /* it becomes ready, or is looked at; NSEC_INFINITY: not */
        uint64_t drain_ns; /* its tail is over; NSEC_INFINITY: it has none */
        Stint stint;
        UT_hash_handle hh;
} SimEntity;

struct SimDevice {
        uint64_t number;
        char *id;
        struct Simulation *sim;
        const PolicyOps *ops; /* NULL: it has not begun */
        Policy *policy;
        SimNode *nodes;      /* uthash, by id */
        SimEntity *entities; /* uthash, by id */
        uint64_t wake_ns;
        int level, outside;
        bool touched;
        UT_hash_handle hh;
};

typedef struct Simulation {
        Otherwise *otherwise;
        Outcome *outcome;
        SimDevice *devices; /* uthash, by number */
        Events events;
        uint64_t now_ns;
        char *why;
        size_t why_size;
} Simulation;

/* --- events --- */

static void entity_due(SimEntity *e, uint64_t at) {
        e->due_ns = at;
        if (at != NSEC_INFINITY)
                events_push(&e->device->sim->events,
                                (Event){.at_ns = at, .device = e->device->number, .entity = e->id, .kind = EVENT_DUE});
}

/* --- bursts --- */

static PolicyUsage usage_of(const SimEntity *e) {
        PolicyUsage u;

        e->device->ops->entity_usage(e->entity, e->device->sim->now_ns, &u);
        return u;
}

static const Burst *burst_of(const SimEntity *e) {
        return e->next < e->load->n_bursts ? e->load->bursts + e->next : NULL;
}

/* The rest of the burst; 0: it is over. */
static uint64_t burst_left(const SimEntity *e) {
        const Burst *b = burst_of(e);

        return b->work_ns == NSEC_INFINITY ? NSEC_INFINITY : ns_sub(b->work_ns, usage_of(e).run_ns - e->from_ns);
}

static void look_again(SimEntity *e) {
        uint64_t left = burst_left(e);

        entity_due(e, left == NSEC_INFINITY ? left : ns_add(e->device->sim->now_ns, MAX(left, STEP_NS)));
}

static void entity_asks(SimEntity *e) {
        AskStep steps[POLICY_DEPTH_MAX];
        size_t n = 0;

        for (const SimNode *node = e->node; node && n < ELEMENTSOF(steps); node = node->parent)
                n++;
        size_t i = n;
        for (const SimNode *node = e->node; node && i > 0; node = node->parent)
                steps[--i] = (AskStep){.name = node->name, .id = node->id, .weight = node->settings.weight};
        stint_asks(&e->stint, steps, n, e->settings.weight);
}

static void burst_begin(SimEntity *e) {
        uint64_t now = e->device->sim->now_ns;

        e->device->ops->entity_ready(e->entity, now);
        e->ready = true;
        e->from_ns = usage_of(e).run_ns;
        e->drain_ns = NSEC_INFINITY;
        stint_ready(&e->stint, now);
        entity_asks(e);
        e->due_ns = NSEC_INFINITY;
        if (e->granted)
                look_again(e);
        e->device->touched = true;
}

/* The next burst comes as long after this one as it did in the recording. */
static void burst_end(SimEntity *e) {
        const Burst *b = burst_of(e);
        uint64_t now = e->device->sim->now_ns, idle_ns = b->idle_ns;

        e->device->ops->entity_idle(e->entity, now);
        e->ready = false;
        e->drain_ns = NSEC_INFINITY;
        stint_idle(&e->stint, now);
        e->next++;
        b = burst_of(e);
        entity_due(e, b ? ns_add(now, ns_sub(b->ready_ns, idle_ns)) : NSEC_INFINITY);
        e->device->touched = true;
}

/* Called at a grant, a look, or the end of a tail. */
static void burst_look(SimEntity *e) {
        if (!e->ready)
                return;
        if (burst_left(e) == 0)
                burst_end(e);
        else if (e->granted)
                look_again(e);
}

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        SimEntity *e = owner;
        SimDevice *d = userdata;
        bool run = grant->verdict == VERDICT_RUN, was = e->granted;

        e->granted = run;
        stint_granted(&e->stint, run, d->sim->now_ns);
        if (!e->ready || was == run)
                return;
        if (run) {
                e->drain_ns = NSEC_INFINITY;
                entity_due(e, d->sim->now_ns);
                return;
        }
        e->due_ns = NSEC_INFINITY;
        e->drain_ns = ns_add(d->sim->now_ns, e->load->n_tails > 0 ? e->load->tails_ns / e->load->n_tails : 0);
        events_push(&d->sim->events,
                        (Event){.at_ns = e->drain_ns, .device = d->number, .entity = e->id, .kind = EVENT_DRAINED});
}

/* --- devices --- */

static SimDevice *find_device(const Simulation *s, uint64_t number) {
        SimDevice *d;

        HASH_FIND(hh, s->devices, &number, sizeof(number), d);
        return d;
}

static SimNode *find_node(const SimDevice *d, uint64_t id) {
        SimNode *n;

        HASH_FIND(hh, d->nodes, &id, sizeof(id), n);
        return n;
}

static SimEntity *find_entity(const SimDevice *d, uint64_t id) {
        SimEntity *e;

        HASH_FIND(hh, d->entities, &id, sizeof(id), e);
        return e;
}

static void entity_remove(SimEntity *e) {
        SimDevice *d = e->device;
        PolicyUsage u = usage_of(e);

        stint_end(&e->stint, &u, d->sim->now_ns);
        d->ops->entity_free(e->entity, d->sim->now_ns);
        HASH_DEL(d->entities, e);
        free(e->group);
        free(e);
        d->touched = true;
}

static void node_remove(SimNode *n, SimDevice *d) {
        d->ops->node_free(n->node, d->sim->now_ns);
        HASH_DEL(d->nodes, n);
        free(n->name);
        free(n->path);
        free(n);
}

static void device_clear(SimDevice *d) {
        SimEntity *e, *next;

        HASH_ITER(hh, d->entities, e, next)
                entity_remove(e);
        while (d->nodes)
                node_remove(ELMT_FROM_HH(d->nodes->hh.tbl, d->nodes->hh.tbl->tail), d);
        if (d->policy)
                d->policy = d->ops->free(d->policy);
        d->ops = NULL;
        d->touched = false;
        d->wake_ns = NSEC_INFINITY;
        d->level = d->outside = POLICY_LEVEL_NONE;
}

/* The highest level of the devices with that policy but one: NULL, or the one that has the highest of all. */
static int highest_level(const Simulation *s, const PolicyOps *ops, const SimDevice *but, const SimDevice **ret) {
        const SimDevice *d, *next, *highest = NULL;
        int level = POLICY_LEVEL_NONE;

        HASH_ITER(hh, s->devices, d, next)
                if (d != but && d->ops == ops && d->level > level) {
                        level = d->level;
                        highest = d;
                }
        if (ret)
                *ret = highest;
        return level;
}

/* Of one policy: as service/core/levels.h has it. */
static void tell_levels_of(Simulation *s, const PolicyOps *ops) {
        const SimDevice *highest;
        SimDevice *d, *next;

        HASH_ITER(hh, s->devices, d, next)
                if (d->ops == ops)
                        d->level = ops->level(d->policy);
        int level = highest_level(s, ops, NULL, &highest), other = highest_level(s, ops, highest, NULL);
        HASH_ITER(hh, s->devices, d, next) {
                int outside = d == highest ? other : level;

                if (d->ops != ops || outside == d->outside)
                        continue;
                d->outside = outside;
                d->ops->outside(d->policy, outside, s->now_ns);
                d->touched = true;
        }
}

static void tell_levels(Simulation *s) {
        for (const PolicyOps *const *ops = policy_all; *ops; ops++)
                if (policy_is_global(*ops))
                        tell_levels_of(s, *ops);
}

static void dispatch_one(SimDevice *d) {
        d->touched = false;
        d->wake_ns = d->ops->dispatch(d->policy, d->sim->now_ns);
        if (d->wake_ns == NSEC_INFINITY)
                return;
        d->wake_ns = MAX(d->wake_ns, d->sim->now_ns + STEP_NS);
        events_push(&d->sim->events, (Event){.at_ns = d->wake_ns, .device = d->number, .kind = EVENT_WAKE});
}

/* All levels are known before a device decides, as in the service. Decisions may change levels to and fro: a device
 * that is touched again is asked again when time has passed. */
static void dispatch(Simulation *s) {
        bool any = true;

        for (unsigned i = 0; i < 4 && any; i++) {
                SimDevice *d, *next;

                any = false;
                tell_levels(s);
                HASH_ITER(hh, s->devices, d, next)
                        if (d->ops && d->touched) {
                                any = true;
                                dispatch_one(d);
                        }
        }
}

/* --- steps of the load --- */

static int step_device(Simulation *s, const TapeRecord *r) {
        SimDevice *d = calloc(1, sizeof(*d));

        if (!d)
                return -ENOMEM;
        *d = (SimDevice){
                        .number = r->device,
                        .id = strdup(r->name),
                        .sim = s,
                        .wake_ns = NSEC_INFINITY,
                        .level = POLICY_LEVEL_NONE,
                        .outside = POLICY_LEVEL_NONE,
        };
        if (!d->id) {
                free(d);
                return -ENOMEM;
        }
        HASH_ADD(hh, s->devices, number, sizeof(d->number), d);
        return 0;
}

static int step_policy(SimDevice *d, const TapeRecord *r) {
        const PolicyOps *ops = d->sim->otherwise->ops ?: policy_find(r->name);
        const PolicyCallbacks callbacks = {.grant = on_grant, .userdata = d};
        PolicyConfig config = r->config;
        Policy *policy;

        int k = otherwise_config(d->sim->otherwise, &config, d->sim->why, d->sim->why_size);
        if (k >= 0)
                k = ops->new (&config, &callbacks, &policy);
        if (k < 0)
                return k;
        device_clear(d);
        d->ops = ops;
        d->policy = policy;
        return 0;
}

static int step_configure(SimDevice *d, const TapeRecord *r) {
        PolicyConfig config = r->config;

        int k = otherwise_config(d->sim->otherwise, &config, d->sim->why, d->sim->why_size);
        return k < 0 ? k : d->ops->configure(d->policy, &config, d->sim->now_ns);
}

static int node_settings(const SimNode *n, const Simulation *s, PolicyNodeSettings *settings) {
        int r = n->path ? otherwise_node(s->otherwise, n->path, settings, s->why, s->why_size) : 0;

        if (r < 0 || !n->name || streq_ptr(n->name, n->path))
                return r;
        return otherwise_node(s->otherwise, n->name, settings, s->why, s->why_size);
}

static int step_node(SimDevice *d, const TapeRecord *r) {
        SimNode *parent = r->parent > 0 ? find_node(d, r->parent) : NULL, *n = calloc(1, sizeof(*n));

        if (!n)
                return -ENOMEM;
        *n = (SimNode){.id = r->node, .parent = parent, .settings = r->node_settings};
        n->name = r->name ? strdup(r->name) : NULL;
        if (n->name &&
                        asprintf(&n->path, "%s%s%s", parent && parent->path ? parent->path : "",
                                        n->name[0] == '/' || (parent && streq_ptr(parent->path, "/")) ? "" : "/",
                                        n->name) < 0)
                n->path = NULL;
        int k = node_settings(n, d->sim, &n->settings);
        n->settings.name = n->name;
        if (k >= 0)
                k = d->ops->node_new(d->policy, parent ? parent->node : NULL, &n->settings, d->sim->now_ns, &n->node);
        if (k < 0) {
                free(n->name);
                free(n->path);
                free(n);
                return k;
        }
        HASH_ADD(hh, d->nodes, id, sizeof(n->id), n);
        return 0;
}

static int step_node_set(SimDevice *d, const TapeRecord *r) {
        SimNode *n = find_node(d, r->node);
        PolicyNodeSettings settings = r->node_settings;

        int k = node_settings(n, d->sim, &settings);
        if (k < 0)
                return k;
        n->settings = settings;
        d->ops->node_configure(n->node, &settings, d->sim->now_ns);
        return 0;
}

static int step_entity(SimDevice *d, const TapeRecord *r, const LoadEntity *load) {
        SimEntity *e = calloc(1, sizeof(*e));
        const Burst *b;

        if (!e)
                return -ENOMEM;
        *e = (SimEntity){
                        .id = r->entity,
                        .device = d,
                        .node = r->node > 0 ? find_node(d, r->node) : NULL,
                        .settings = r->settings,
                        .group = strdup(strempty(r->group)),
                        .load = load,
                        .granted = true,
                        .due_ns = NSEC_INFINITY,
                        .drain_ns = NSEC_INFINITY,
        };
        int k = e->group ? otherwise_entity(d->sim->otherwise, e->group, &e->settings, d->sim->why, d->sim->why_size)
                         : -ENOMEM;
        if (k >= 0)
                k = stint_begin(d->sim->outcome, d->id, e->group, r->pid, r->queue, &e->stint);
        if (k >= 0)
                k = d->ops->entity_new(
                                d->policy, e->node ? e->node->node : NULL, e, &e->settings, d->sim->now_ns, &e->entity);
        if (k < 0) {
                free(e->group);
                free(e);
                return k;
        }
        HASH_ADD(hh, d->entities, id, sizeof(e->id), e);
        b = burst_of(e);
        if (b)
                entity_due(e, MAX(b->ready_ns, d->sim->now_ns));
        return 0;
}

static int step_entity_set(SimDevice *d, const TapeRecord *r) {
        SimEntity *e = find_entity(d, r->entity);
        PolicySettings settings = r->settings;

        int k = otherwise_entity(d->sim->otherwise, e->group, &settings, d->sim->why, d->sim->why_size);
        if (k < 0)
                return k;
        e->settings = settings;
        d->ops->entity_configure(e->entity, &settings, d->sim->now_ns);
        return 0;
}

static int step_entity_move(SimDevice *d, const TapeRecord *r) {
        SimEntity *e = find_entity(d, r->entity);

        e->node = r->node > 0 ? find_node(d, r->node) : NULL;
        return d->ops->entity_move(e->entity, e->node ? e->node->node : NULL, d->sim->now_ns);
}

static int step_lost(Simulation *s) {
        SimDevice *d, *next;

        HASH_ITER(hh, s->devices, d, next)
                device_clear(d);
        return 0;
}

/* The records were played before, so the objects that they name exist. */
static int step(Simulation *s, const LoadStep *l) {
        const TapeRecord *r = &l->record;
        SimDevice *d = find_device(s, r->device);

        if (r->kind == TAPE_DEVICE)
                return step_device(s, r);
        if (r->kind == TAPE_LOST)
                return step_lost(s);
        if (r->kind == TAPE_POLICY)
                return step_policy(d, r);
        if (!d->ops)
                return 0;
        d->touched = true;
        switch (r->kind) {
        case TAPE_CONFIGURE:
                return step_configure(d, r);
        case TAPE_NODE:
                return step_node(d, r);
        case TAPE_NODE_SET:
                return step_node_set(d, r);
        case TAPE_NODE_GONE:
                node_remove(find_node(d, r->node), d);
                return 0;
        case TAPE_ENTITY:
                return step_entity(d, r, l->entity);
        case TAPE_ENTITY_SET:
                return step_entity_set(d, r);
        case TAPE_ENTITY_MOVE:
                return step_entity_move(d, r);
        default:
                entity_remove(find_entity(d, r->entity));
                return 0;
        }
}

/* --- time --- */

static void happen(Simulation *s, const Event *v) {
        SimDevice *d = find_device(s, v->device);
        SimEntity *e = d && d->ops ? find_entity(d, v->entity) : NULL;

        switch (v->kind) {
        case EVENT_WAKE:
                if (d && d->ops && d->wake_ns == v->at_ns)
                        d->touched = true;
                break;
        case EVENT_DRAINED:
                if (!e || e->drain_ns != v->at_ns)
                        break;
                e->drain_ns = NSEC_INFINITY;
                d->ops->entity_drained(e->entity, s->now_ns);
                d->touched = true;
                burst_look(e);
                break;
        default:
                if (!e || e->due_ns != v->at_ns)
                        break;
                e->due_ns = NSEC_INFINITY;
                if (e->ready)
                        burst_look(e);
                else
                        burst_begin(e);
        }
}

/* Checks the limit of events: looks, and decisions that followed. */
static int check_bound(const Simulation *s, const Load *l, uint64_t n_looks) {
        if (n_looks + s->outcome->n_intervals <= HAPPENINGS_MAX + l->n_records * HAPPENINGS_PER_RECORD_MAX)
                return 0;
        (void) snprintf(s->why, s->why_size,
                        "the recording goes on for %" PRIu64 " s: too much would happen in so long, %" PRIu64
                        " things in the first %" PRIu64 " s alone",
                        (l->end_ns - l->begin_ns) / NSEC_PER_SEC, n_looks, (s->now_ns - l->begin_ns) / NSEC_PER_SEC);
        return -E2BIG;
}

static int run(Simulation *s, const Load *l) {
        uint64_t n_looks = 0;
        size_t i = 0;
        int r = 0;

        while (r >= 0 && !s->events.failed && !s->outcome->failed) {
                uint64_t next_step = i < l->n_steps ? l->steps[i].at_ns : NSEC_INFINITY;
                uint64_t next_event = events_next(&s->events);
                uint64_t next = MIN(next_step, next_event);

                if (next > s->now_ns)
                        dispatch(s);
                next_event = events_next(&s->events);
                next = MIN(next_step, next_event);
                if (next > l->end_ns)
                        break;
                s->now_ns = MAX(s->now_ns, next);
                if (next_step <= next_event)
                        r = step(s, l->steps + i++);
                else {
                        Event v = events_pop(&s->events);
                        happen(s, &v);
                        r = check_bound(s, l, ++n_looks);
                }
        }
        s->now_ns = MAX(s->now_ns, l->end_ns);
        return s->events.failed || s->outcome->failed ? -ENOMEM : r;
}

int simulate(const Load *l, Otherwise *o, Outcome *ret, char *why, size_t size) {
        Simulation s = {.otherwise = o, .outcome = ret, .now_ns = l->begin_ns, .why = why, .why_size = size};
        SimDevice *d, *next;

        why[0] = '\0';
        ret->begin_ns = l->begin_ns;
        ret->end_ns = l->end_ns;
        int r = run(&s, l);
        if (r >= 0)
                r = otherwise_check_groups(o, why, size);
        HASH_ITER(hh, s.devices, d, next) {
                device_clear(d);
                HASH_DEL(s.devices, d);
                free(d->id);
                free(d);
        }
        events_done(&s.events);
        if (r < 0 && why[0] == '\0')
                (void) snprintf(why, size, "%s", r == -EINVAL ? "no policy can have these parameters" : strerror(-r));
        return r;
}
