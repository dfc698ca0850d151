/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sums up how long tenants ran and waited
 */

#include <inttypes.h>

#include "common/array.h"
#include "outcome.h"

void outcome_done(Outcome *o) {
        Tenant *t, *next;

        HASH_ITER(hh, o->tenants, t, next) {
                HASH_DEL(o->tenants, t);
                free(t->key);
                free(t->device);
                free(t->group);
                free(t->waits);
                free(t);
        }
        Asker *a, *above;
        HASH_ITER(hh, o->askers, a, above) {
                HASH_DEL(o->askers, a);
                free(a->key);
                free(a);
        }
        free(o->intervals);
        *o = (Outcome){0};
}

static Tenant *tenant_new(Outcome *o, char *key, const char *device, const char *group) {
        Tenant *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->device = strdup(device);
        t->group = strdup(group);
        if (!t->device || !t->group) {
                free(t->device);
                free(t->group);
                free(t);
                return NULL;
        }
        t->key = key;
        t->place = HASH_COUNT(o->tenants);
        HASH_ADD_KEYPTR(hh, o->tenants, t->key, strlen(t->key), t);
        return t;
}

int stint_begin(Outcome *o, const char *device, const char *group, uint64_t pid, uint64_t queue, Stint *ret) {
        char *key;
        Tenant *t;

        if (asprintf(&key, "%s %" PRIu64 " %" PRIu64 " %s", device, pid, queue, group) < 0)
                return -ENOMEM;
        HASH_FIND_STR(o->tenants, key, t);
        if (t)
                free(key);
        else {
                t = tenant_new(o, key, device, group);
                if (!t) {
                        free(key);
                        return -ENOMEM;
                }
                t->pid = pid;
                t->queue = queue;
        }
        *ret = (Stint){.outcome = o, .tenant = t, .granted = true};
        return 0;
}

static void add_wait(Stint *s, uint64_t ns) {
        Tenant *t = s->tenant;
        uint64_t *waits = array_grow(t->waits, t->n_waits, sizeof(*waits));

        if (!waits) {
                s->outcome->failed = true;
                return;
        }
        t->waits = waits;
        t->waits[t->n_waits++] = ns;
}

/* Ends the stint: adds what it was since it began. */
static void stint_close(Stint *s, uint64_t at) {
        Outcome *o = s->outcome;

        if (!s->ready || at <= s->since_ns)
                return;
        Interval *intervals = array_grow(o->intervals, o->n_intervals, sizeof(*intervals));
        if (!intervals) {
                o->failed = true;
                return;
        }
        o->intervals = intervals;
        o->intervals[o->n_intervals++] = (Interval){
                        .begin_ns = s->since_ns,
                        .end_ns = at,
                        .tenant = s->tenant->place,
                        .ran = s->granted,
        };
        s->since_ns = at;
}

static void stint_ran(Stint *s, uint64_t at) {
        if (s->ran)
                return;
        s->ran = true;
        add_wait(s, ns_sub(at, s->ready_ns));
}

/* A grant from before the entity was ready counts once the policy has looked at it, because the next dispatch may take
 * it away at the same moment. The caller reports both in their order. */
void stint_ready(Stint *s, uint64_t at_ns) {
        s->ready = true;
        s->ran = false;
        s->ready_ns = s->since_ns = at_ns;
        s->tenant->n_bursts++;
}

void stint_idle(Stint *s, uint64_t at_ns) {
        if (s->ready && s->granted)
                stint_ran(s, s->ready_ns);
        stint_close(s, at_ns);
        s->ready = false;
}

void stint_granted(Stint *s, bool granted, uint64_t at_ns) {
        if (s->granted == granted)
                return;
        if (s->ready && s->granted && at_ns > s->ready_ns)
                stint_ran(s, s->ready_ns);
        stint_close(s, at_ns);
        s->granted = granted;
        if (s->ready && granted)
                stint_ran(s, at_ns);
}

void stint_end(Stint *s, const PolicyUsage *usage, uint64_t at_ns) {
        stint_idle(s, at_ns);
        s->tenant->run_ns += usage->run_ns;
        s->tenant->wait_ns += usage->wait_ns;
        s->tenant->n_preempted += usage->n_preempted;
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

void outcome_sort(Outcome *o) {
        Tenant *t, *next;

        HASH_ITER(hh, o->tenants, t, next)
                if (t->n_waits > 0)
                        qsort(t->waits, t->n_waits, sizeof(*t->waits), compare);
}

uint64_t tenant_wait(const Tenant *t, unsigned percent) {
        if (t->n_waits == 0)
                return 0;
        return t->waits[(t->n_waits - 1) * percent / 100];
}

uint64_t outcome_device_run(const Outcome *o, const char *device) {
        const Tenant *t, *next;
        uint64_t sum = 0;

        HASH_ITER(hh, o->tenants, t, next)
                if (streq(t->device, device))
                        sum += t->run_ns;
        return sum;
}

/* --- what is asked --- */

/* Takes ownership of the key. NULL: no memory. */
static Asker *asker_get(Outcome *o, Asker *above, char *key, uint32_t weight) {
        Asker *a = NULL;

        if (!key)
                return NULL;
        HASH_FIND_STR(o->askers, key, a);
        if (a) {
                free(key);
                return a;
        }
        a = calloc(1, sizeof(*a));
        if (!a) {
                free(key);
                return NULL;
        }
        *a = (Asker){.key = key, .above = above, .weight = weight};
        if (above)
                above->below += weight;
        HASH_ADD_KEYPTR(hh, o->askers, a->key, strlen(a->key), a);
        return a;
}

static char *asker_key(const Asker *above, const AskStep *step) {
        char *key;
        int r = step->name ? asprintf(&key, "%s/%s", above->key, step->name)
                           : asprintf(&key, "%s/#%" PRIu64, above->key, step->id);

        return r < 0 ? NULL : key;
}

void stint_asks(Stint *s, const AskStep *steps, size_t n, uint32_t weight) {
        Tenant *t = s->tenant;

        if (t->asker)
                return;
        Asker *a = asker_get(s->outcome, NULL, strdup(t->device), 1);
        for (size_t i = 0; a && i < n; i++)
                a = asker_get(s->outcome, a, asker_key(a, steps + i), steps[i].weight);
        if (a)
                a = asker_get(s->outcome, a, asker_key(a, &(AskStep){.name = t->key}), weight);
        t->asker = a;
        s->outcome->failed = s->outcome->failed || !a;
}

double tenant_asked(const Tenant *t) {
        double asked = 1;

        if (!t->asker)
                return 0;
        for (const Asker *a = t->asker; a->above; a = a->above)
                asked *= a->weight / a->above->below;
        return asked;
}
