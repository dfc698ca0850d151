/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's objects without a bus
 */

#include <stdio.h>
#include <sys/socket.h>
#include <utlist.h>

#include "service/core/levels.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/enforce/enforce.h"
#include "service/settings/xsched-conf.h"
#include "service/state/state.h"
#include "tests/unit/arbiter-harness.h"

int (*cgroup_directory_instead)(const char *cgroup, char **ret);

/* In place of cgroup/'s: the cgroups are made up, and there is none to be watched. What the machine's other processes
 * do in theirs would make events, and the clients would be moved to this process's real one. */
/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_cgroup_directory(const char *cgroup, char **ret);

int __wrap_cgroup_directory(const char *cgroup, char **ret) {
        return cgroup_directory_instead ? cgroup_directory_instead(cgroup, ret) : -ENOENT;
}
/* NOLINTEND(bugprone-reserved-identifier) */

Manager *manager_make_accounting(Accounting accounting) {
        char empty[] = "/tmp/test-arbiter-XXXXXX";
        const ConfigPaths paths = {.file = empty, .classes_dir = "/nonexistent"};
        Config *config;
        Manager *m;

        int fd = mkstemp(empty);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
        assert_int_equal(config_load(&paths, NULL, NULL, NULL, &config), 0);
        assert_int_equal(unlink(empty), 0);
        config->device.tuning.accounting = accounting;
        assert_int_equal(manager_new(config, &m), 0);
        assert_int_equal(enforce_attach(m), 0);
        assert_int_equal(state_attach(m), 0);
        return m;
}

/* The manager watches no entity for its own accounting. Tests of accounting make their own manager. */
Manager *manager_make(void) {
        return manager_make_accounting(ACCOUNTING_OFF);
}

static Process join_peer(Manager *m, const char *cgroup, int priority, uid_t uid, pid_t pid) {
        const ClientParameters parameters = {.sender = ":1.1"};
        Process p;
        Peer peer;

        assert_int_equal(peer_from_pid(pid, &peer), 0);
        free(peer.cgroup);
        peer.cgroup = strdup(cgroup);
        peer.uid = uid;
        assert_int_equal(client_new(m, &peer, &parameters, &p.client, &p.fds), 0);
        if (priority != 0) {
                assert_int_equal(settings_set_priority(&p.client->group->override, priority), 0);
                group_settings_changed(p.client->group);
        }
        arbiter_flush(m);
        return p;
}

Process join_as(Manager *m, const char *cgroup, int priority, uid_t uid) {
        return join_peer(m, cgroup, priority, uid, getpid());
}

Process join_pid(Manager *m, const char *cgroup, int priority, pid_t pid) {
        return join_peer(m, cgroup, priority, getuid(), pid);
}

Process join(Manager *m, const char *cgroup, int priority) {
        return join_as(m, cgroup, priority, getuid());
}

void release(Queue *q) {
        atomic_store(&q->page_slot->outstanding, 0);
        queue_free(q);
}

void leave(Process *p) {
        Manager *m = p->client->manager;

        for (uint32_t i = 0; i < p->client->n_slots; i++)
                if (p->client->slots[i].queue)
                        atomic_store(&p->client->slots[i].queue->page_slot->outstanding, 0);
        client_free(p->client);
        client_fds_done(&p->fds);
        arbiter_flush(m);
}

Queue *queue_with(Process *p, const QueueParameters *parameters) {
        Queue *q;

        assert_int_equal(queue_new(p->client, parameters, &q), 0);
        arbiter_flush(p->client->manager);
        return q;
}

Queue *queue(Process *p, const char *device, int hint) {
        const QueueParameters parameters = {.device = device, .backend = "test", .priority_hint = hint};

        return queue_with(p, &parameters);
}

static bool hear(Queue *q, bool edge) {
        if (!edge)
                return false;
        page_mark_dirty(q->client->page.header, q->slot);
        (void) arbiter_client_woke(q->client);
        return true;
}

bool begin_in_turn(Queue *q) {
        return hear(q, page_slot_begin(q->page_slot) & PAGE_BEGIN_EDGE);
}

bool finish_in_turn(Queue *q) {
        return hear(q, page_slot_end(q->page_slot, 1));
}

void begin(Queue *q) {
        if (begin_in_turn(q))
                arbiter_flush(q->manager);
}

void finish(Queue *q) {
        if (finish_in_turn(q))
                arbiter_flush(q->manager);
}

void expect(Queue *q, uint64_t at) {
        atomic_store(&q->page_slot->expected_ns, at);
        page_mark_dirty(q->client->page.header, q->slot);
        (void) arbiter_client_woke(q->client);
        arbiter_flush(q->manager);
}

void drain(Queue *q) {
        atomic_store(&q->page_slot->waiters, atomic_load(&q->page_slot->outstanding));
        page_mark_dirty(q->client->page.header, q->slot);
        (void) arbiter_client_woke(q->client);
        atomic_store(&q->page_slot->waiters, 0);
        arbiter_flush(q->manager);
}

void configure_all(Manager *m, const char *key, uint64_t value) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        Device *d, *tmp;

        assert_int_equal(device_settings_set(&s, device_key_find(key), value), 0);
        HASH_ITER(hh, m->devices, d, tmp)
                assert_int_equal(device_configure(d, &s), 0);
        arbiter_flush(m);
}

void set_costs(Queue *q, uint64_t hold_ns, uint64_t release_ns) {
        const PolicyParty party = entity_party(q->entity);
        CostVotes *v = &q->device->votes;

        costs_vote_put(v, q->vote);
        assert_int_equal(costs_vote_get(v, &party, &q->vote), 0);
        costs_vote_learn(v, q->vote, true, hold_ns, hold_ns, now_ns());
        costs_vote_learn(v, q->vote, false, release_ns, release_ns, now_ns());
        q->device->costs = costs_votes(v);
        device_touch(q->device);
        arbiter_flush(q->manager);
}

bool held(const Queue *q) {
        bool hold = atomic_load(&q->page_slot->verdict) & PAGE_VERDICT_HOLD;

        assert_int_equal(hold, queue_holds(q));
        if (hold)
                assert_true(atomic_load(&q->client->page.header->lease_until_ns) > now_ns());
        return hold;
}

uint32_t watch(const Queue *q) {
        return atomic_load(&q->page_slot->watch);
}

/* A watched queue has the state that its edges reported. The service looks at the other queues. */
static void check_watch(const Queue *q) {
        assert_int_equal(watch(q), queue_slot(q)->watch);
        assert_int_equal(q->quick.looked, queue_slot(q)->watch == PAGE_WATCH_COUNTED);
        if (q->quick.looked) {
                assert_true(q->quick.is && q->ready && !queue_holds(q));
                assert_int_equal(q->device->state, DEVICE_CONTENDED);
                assert_true(q->manager->quick.due.at != NSEC_INFINITY);
        } else if (queue_slot(q)->watch != 0)
                assert_int_equal(q->ready, atomic_load(&q->page_slot->outstanding) != 0);
}

void check(Manager *m) {
        Device *d, *dtmp;
        Client *c, *ctmp;
        Entity *e;
        Queue *q;

        HASH_ITER(hh, m->devices, d, dtmp) {
                unsigned n_entities = 0, n_active = 0, n_ready = 0, n_queues = 0;
                DL_FOREACH2(d->entities, e, device_next) {
                        unsigned queues = 0, active = 0, ready = 0;
                        DL_FOREACH2(e->queues, q, entity_next) {
                                assert_ptr_equal(q->entity, e);
                                assert_ptr_equal(q->device, d);
                                check_watch(q);
                                queues++;
                                active += !queue_is_suspended(q);
                                ready += !queue_is_suspended(q) && q->ready && !q->stalled;
                                if (queue_is_suspended(q))
                                        assert_true(held(q));
                                else
                                        (void) held(q);
                        }
                        assert_int_equal(e->n_queues, queues);
                        assert_int_equal(e->n_active, active);
                        assert_int_equal(e->n_ready, ready);
                        assert_true(queues > 0 || e->remnants);
                        assert_true(e->policy ? active > 0 || e->n_tails > 0 : active == 0);
                        assert_int_equal(e->told_ready, ready > 0);
                        n_entities++;
                        n_active += active > 0;
                        n_ready += ready > 0;
                        n_queues += queues;
                }
                assert_int_equal(d->n_entities, n_entities);
                assert_int_equal(d->n_active, n_active);
                assert_int_equal(d->n_ready, n_ready);
                assert_int_equal(d->n_queues, n_queues);
                assert_int_equal(d->state == DEVICE_ALONE, n_active == 0 || (n_active == 1 && !levels_concern(d)));
                assert_null(d->changed);
                assert_false(d->pending);
        }
        HASH_ITER(hh, m->clients, c, ctmp) {
                unsigned holding = 0;
                for (uint32_t i = 0; i < c->n_slots; i++)
                        holding += c->slots[i].queue && queue_holds(c->slots[i].queue);
                assert_int_equal(c->n_holding, holding);
                if (holding == 0)
                        assert_int_equal(atomic_load(&c->page.header->lease_until_ns), 0);
        }
}

unsigned user_count(const Manager *m, uid_t uid, UserCount what) {
        const User *u = user_find(m, uid);

        return u ? u->n[what] : 0;
}

Two two_make(int low_priority, const QueueParameters *h, const QueueParameters *l) {
        Two t = {.m = manager_make()};

        t.high = join(t.m, "/high", 10);
        t.low = join(t.m, "/low", low_priority);
        t.h = h ? queue_with(&t.high, h) : queue(&t.high, "d", 0);
        t.l = l ? queue_with(&t.low, l) : queue(&t.low, "d", 0);
        t.d = device_find(t.m, "d");
        return t;
}

void two_done(Two *t) {
        check(t->m);
        leave(&t->high);
        leave(&t->low);
        manager_free(t->m);
}
