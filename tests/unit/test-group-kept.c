/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The kept settings of a group: after random changes they equal those resolved anew from all layers, and so do the
 * settings of clients and queues that build on them
 */

#include <config.h>

#include <stdio.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "service/core/group-match.h"
#include "service/core/job.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"
#include "service/core/resolve.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/config-fixture.h"

#define STEPS     3000U
#define PROCESSES 12U

static unsigned random_state;

static unsigned pick(unsigned n) {
        random_state = random_state * 1664525U + 1013904223U;
        return (random_state >> 8) % n;
}

/* Units, cgroups below units, users' sessions; some are above others. */
static const char *const places[] = {
                "/",
                "/system.slice/a.service",
                "/system.slice/a.service/worker",
                "/system.slice/a.service/worker/deep",
                "/system.slice/b.service",
                "/user.slice/user-1000.slice/session-1.scope",
                "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
                "/user.slice/user-1000.slice/user@1000.service/app.slice",
};

/* Slices get settings, too, and have no process of their own. */
static const char *const slices[] = {"/system.slice", "/user.slice", "/user.slice/user-1000.slice"};

static const char *const classes[] = {"default", "batch", "fast", "capped", "nobody-knows-it"};

static void put_classes(void) {
        put(ETC "/classes.d/default.class", "[Class]\nWeight=90\n");
        put(ETC "/classes.d/batch.class", "[Class]\nPriority=-10\nWeight=20\nThreshold=3\n[Match]\nUnit=a.service\n");
        put(ETC "/classes.d/fast.class", "[Class]\nPriority=10\nMin=10%\n");
        put(ETC "/classes.d/capped.class", "[Class]\nMax=50%\nPeriod=20ms\n[Match]\nUser=1000\n");
}

static Settings random_settings(void) {
        Settings s = SETTINGS_NULL;

        for (unsigned n = pick(4); n > 0; n--)
                switch (pick(7)) {
                case 0:
                        (void) settings_set_priority(&s, (int) pick(41) - 20);
                        break;
                case 1:
                        (void) settings_set_weight(&s, 1 + pick(300));
                        break;
                case 2:
                        (void) settings_set_threshold(&s, pick(5));
                        break;
                case 3:
                        (void) settings_set_max(&s, 1 + pick(100));
                        break;
                case 4:
                        (void) settings_set_period(&s, 10000 + 10000 * pick(3));
                        break;
                case 5:
                        (void) settings_set_min(&s, pick(30));
                        break;
                default:
                        (void) settings_set_class(&s, classes[pick(ELEMENTSOF(classes))]);
                }
        return s;
}

/* --- asked anew --- */

static void assert_same(const char *name, const SettingsResolved *kept, const SettingsResolved *fresh) {
        bool same = settings_policy_equal(&kept->policy, &fresh->policy) && kept->source == fresh->source &&
                        kept->accounting == fresh->accounting && streq(kept->class, fresh->class);
        Settings now;

        settings_from_resolved(fresh, &now);
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (!settings_holds(kept, &now, k) || kept->from[k] != fresh->from[k]) {
                        print_error("%s: %s is not what its layers say: it is from %s, and should be from %s\n", name,
                                        settings_key_to_string(k), settings_source_to_string(kept->from[k]),
                                        settings_source_to_string(fresh->from[k]));
                        same = false;
                }
        if (!same)
                fail_msg("%s: what is kept is from %s, and what is so from %s", name,
                                settings_source_to_string(kept->source), settings_source_to_string(fresh->source));
}

static void lower(const Manager *m, SettingsResolved *r, const Settings *s, SettingsSource source) {
        (void) settings_lower_by(r, s, source, manager_lookup_class, (void *) m);
}

static void check_group(Group *g) {
        SettingsLayer layers[GROUP_LAYERS_MAX], lowering[GROUP_LOWERING_MAX];
        SettingsResolved r;
        size_t n = group_layers(g, layers);

        settings_resolve(layers, n, manager_lookup_class, g->manager, &r);
        if (g->kind == GROUP_JOB &&
                        (r.from[SETTINGS_MIN] == SETTINGS_FROM_CLASS || r.from[SETTINGS_MIN] == SETTINGS_FROM_DEFAULT))
                r.policy.min = 0;
        n = group_lowering_layers(g, lowering);
        (void) settings_lower_by_layers(&r, lowering, n, manager_lookup_class, g->manager);
        assert_same(g->name, &g->resolved, &r);
}

static void check_client(Client *c) {
        SettingsLayer layers[CLIENT_LAYERS_MAX], lowering[CLIENT_LOWERING_MAX];
        size_t n_lowering = client_lowering_layers(c, lowering), n = client_layers(c, layers);
        SettingsResolved r;

        settings_resolve(layers, n, manager_lookup_class, c->manager, &r);
        (void) settings_lower_by_layers(&r, lowering, n_lowering, manager_lookup_class, c->manager);
        assert_same(c->group->name, &c->resolved, &r);
        for (uint32_t i = 0; i < c->n_slots; i++) {
                SettingsLayer of_queue[QUEUE_LAYERS_MAX];
                const Queue *q = c->slots[i].queue;

                if (!q)
                        continue;
                n = queue_layers(q, of_queue);
                settings_resolve(of_queue, n, manager_lookup_class, c->manager, &r);
                (void) settings_lower_by_layers(&r, lowering, n_lowering, manager_lookup_class, c->manager);
                if (q->priority_hint < 0 && !settings_has(&q->override, SETTINGS_PRIORITY)) {
                        Settings hint = SETTINGS_NULL;

                        (void) settings_set_priority(
                                        &hint, MAX(r.policy.priority + q->priority_hint, POLICY_PRIORITY_MIN));
                        lower(c->manager, &r, &hint, SETTINGS_FROM_WISH);
                }
                lower(c->manager, &r, &q->wish, SETTINGS_FROM_WISH);
                lower(c->manager, &r, &q->lowering, SETTINGS_FROM_OWNER);
                assert_same(q->label, &q->resolved, &r);
        }
}

static void check_all(Manager *m) {
        Group *g, *gtmp;
        Client *c, *ctmp;

        HASH_ITER(hh, m->groups, g, gtmp)
                check_group(g);
        HASH_ITER(hh, m->clients, c, ctmp)
                check_client(c);
}

/* --- changes --- */

static Group *some_group(Manager *m) {
        unsigned n = HASH_COUNT(m->groups), i = n > 0 ? pick(n) : 0;
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                if (i-- == 0)
                        return g;
        return NULL;
}

static void group_and_below_changed(Group *g) {
        _cleanup_free_ char *name = strdup(g->name);
        Manager *m = g->manager;

        assert_non_null(name);
        group_settings_changed(g);
        groups_below_changed(m, name);
}

static void change_group(Group *g) {
        switch (pick(4)) {
        case 0:
                g->override = random_settings();
                break;
        case 1:
                if (group_tree_owner(g) == UID_NONE)
                        return;
                group_lowering_of(g, group_tree_owner(g));
                g->lowering = random_settings();
                break;
        case 2:
                if (g->job)
                        g->job->settings = random_settings();
                break;
        default:
                if (g->origin) {
                        const Settings told = random_settings();

                        origin_set_told(g->origin, &told);
                }
                return;
        }
        group_and_below_changed(g);
}

static void change_client(Client *c) {
        Queue *q = c->n_slots > 0 ? c->slots[pick(c->n_slots)].queue : NULL;
        Settings *const of_client[] = {&c->override, &c->lowering, &c->wish, &c->claim, &c->claim_lowers};

        if (q && pick(2) == 0) {
                Settings *const of_queue[] = {&q->override, &q->lowering, &q->wish};

                *of_queue[pick(ELEMENTSOF(of_queue))] = random_settings();
                (void) queue_settings_changed(q);
        } else {
                *of_client[pick(ELEMENTSOF(of_client))] = random_settings();
                client_settings_changed(c);
        }
}

static void make_job(Manager *m, Job **jobs) {
        JobParameters p = {.name = "job", .settings = random_settings(), .lowers = pick(2) == 0, .uid = getuid()};
        Job **j = jobs + pick(4);
        Group *g = some_group(m);

        if (*j) {
                *j = job_free(*j);
                return;
        }
        if (pick(2) == 0 && g && g->kind == GROUP_CGROUP && !g->job)
                p.group = g;
        else
                p.cgroup = places[pick(ELEMENTSOF(places))];
        _cleanup_close_ int pidfd = pidfd_open(getpid(), 0);
        assert_true(pidfd >= 0);
        assert_int_equal(job_new(m, &p, pidfd, j), 0);
}

static void come_or_go(Manager *m, Process *p) {
        if (p->client)
                leave(p);
        else {
                *p = join_as(m, places[pick(ELEMENTSOF(places))], 0, pick(2) == 0 ? 1000 : getuid());
                for (unsigned n = pick(3); n > 0; n--)
                        (void) queue(p, pick(2) == 0 ? "d" : "e", -(int) pick(3));
                return;
        }
        *p = (Process){};
}

static void change_slice(Manager *m) {
        Group *g;

        assert_int_equal(group_get(m, slices[pick(ELEMENTSOF(slices))], &g), 0);
        g->override = random_settings();
        group_and_below_changed(g);
        (void) group_gc(g);
}

static void test_random(void **state) {
        const char *seed = getenv("KEPT_SEED");
        Process processes[PROCESSES] = {};
        Job *jobs[4] = {};
        unsigned n_checked = 0;

        random_state = seed ? (unsigned) strtoul(seed, NULL, 10) : (unsigned) now_ns();
        print_message("KEPT_SEED=%u\n", random_state);
        put_classes();
        Manager *m = manager_make();
        manager_set_config(m, load(NULL));
        for (unsigned i = 0; i < STEPS; i++) {
                Process *p = processes + pick(PROCESSES);

                switch (pick(8)) {
                case 0:
                case 1:
                        come_or_go(m, p);
                        break;
                case 2:
                        change_slice(m);
                        break;
                case 3:
                        make_job(m, jobs);
                        break;
                case 4:
                        manager_settings_changed(m);
                        break;
                case 5:
                        if (HASH_COUNT(m->groups) > 0)
                                change_group(some_group(m));
                        break;
                default:
                        if (p->client)
                                change_client(p->client);
                }
                arbiter_flush(m);
                check_all(m);
                n_checked += HASH_COUNT(m->groups);
        }
        assert_true(n_checked > STEPS);
        for (unsigned i = 0; i < PROCESSES; i++)
                if (processes[i].client)
                        leave(processes + i);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_random, config_setup, config_teardown)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
