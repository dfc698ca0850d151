/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The arbiter
 */

#include <utlist.h>

#include "ahead.h"
#include "arbiter.h"
#include "counters.h"
#include "crowd.h"
#include "decision.h"
#include "edges.h"
#include "gang.h"
#include "group-totals.h"
#include "ladder.h"
#include "lease.h"
#include "levels.h"
#include "observer.h"
#include "overlaps.h"
#include "quick.h"
#include "review.h"
#include "rota.h"
#include "stall.h"
#include "suspended.h"
#include "tail.h"

/* Minimum delay to the next dispatch, so that a policy asking for 'now' cannot spin the loop. */
#define ARBITER_TIMER_MIN_NS (20 * NSEC_PER_USEC)

typedef struct SlotWords {
        Verdict verdict;
        uint32_t threshold, budget_us, lead_us, level;
} SlotWords;

static bool entity_is_scheduled(const Entity *e) {
        return e->policy && e->preemption != PREEMPTION_OFF;
}

bool arbiter_holds(const Entity *e) {
        if (!entity_is_scheduled(e))
                return false;
        if (e->gang != GANG_NONE)
                return e->gang == GANG_HOLD;
        if (!device_grants_in_force(e->device))
                return false;
        return e->grant.verdict == VERDICT_HOLD || (e->yields && !policy_is_owed(e->policy));
}

/* A member of a gang may run although the policy of its own device holds it: it then gets the smallest threshold.
 * Launches that can be taken off the device need not drain, so they may be many, unless a setting says otherwise. */
static uint32_t queue_threshold(const Queue *q) {
        const Entity *e = q->entity;
        bool by_gang = e->grant.verdict == VERDICT_HOLD && e->gang == GANG_RUN;
        uint32_t threshold = by_gang ? e->device->config.threshold : e->grant.threshold;

        if (e->gang == GANG_DRAIN)
                return 1;
        if (!device_grants_in_force(e->device))
                return 0;
        if (threshold == 0 || (e->settings.threshold != 0 && !e->settings.threshold_lowers) ||
                        !e->device->tuning.threshold_by_level || !ladder_has_driver(q) || !ladder_can_take_off(q))
                return threshold;
        threshold = MAX(threshold, DEVICE_THRESHOLD_STOPPABLE);
        return e->settings.threshold_lowers ? MIN(threshold, e->settings.threshold) : threshold;
}

static SlotWords wanted_words(const Queue *q) {
        const Entity *e = q->entity;
        SlotWords w = {.verdict = VERDICT_RUN};

        if (queue_is_suspended(q))
                w.verdict = VERDICT_HOLD;
        else if (e && entity_is_scheduled(e)) {
                w.verdict = q->sits_out || arbiter_holds(e) ? VERDICT_HOLD : VERDICT_RUN;
                w.threshold = queue_threshold(q);
        } else if (e && e->policy && e->limited)
                w.threshold = queue_threshold(q); /* it launches little until the service hears of its work */
        if (w.threshold != 0 && e->gang != GANG_DRAIN) {
                w.budget_us = e->device->tuning.budget_us;
                w.lead_us = e->device->tuning.lead_us;
        }
        w.level = ladder_level(q, w.verdict);
        return w;
}

void arbiter_queue_ready(Queue *q, bool ready, uint64_t at) {
        q->device->account.edges += ready != q->ready;
        if (ready && !q->ready && q->entity) {
                q->entity->n_wakes++;
                if (q->entity->held_since > 0) {
                        ladder_ready_while_held(q);
                        if (observers_hear_holds(q->manager))
                                observers_entity_ready(q->entity);
                }
        }
        q->ready = ready;
        queue_note_wait(q);
        device_note_cause(q->device, at);
        if (!ready && q->tail)
                tail_drained(q, at);
        entity_update_queue_at(q, at);
        if (q->entity && q->entity->rota.listed)
                rota_heard(q);
}

static void entity_note_held(Entity *e) {
        bool held = arbiter_holds(e);

        if (held == (e->held_since > 0))
                return;
        uint64_t now = now_ns();
        ladder_set_held(e, held, now);
        if (observers_hear_holds(e->device->manager))
                observers_entity_held(e, held, now);
}

/* --- words --- */

static void write_level(Queue *q, uint32_t level, bool is_order) {
        if (is_order) {
                ladder_note_order(q, now_ns());
                atomic_store_explicit(&q->page_slot->ordered_ns, q->ordered_ns, memory_order_relaxed);
        }
        queue_slot(q)->level = level;
        atomic_store_explicit(&q->page_slot->level, level, memory_order_relaxed);
}

static void write_verdict(Queue *q, Verdict v) {
        Client *c = q->client;
        Slot *s = queue_slot(q);
        uint32_t waiters;
        uint64_t now;
        Crowd t;

        s->word = page_slot_put_verdict(q->page_slot, s->word, v, &waiters);
        if (waiters > 0 && crowd_begin(&t, c)) {
                page_slot_wake(q->page_slot, waiters);
                crowd_end(&t);
        }
        now = now_ns();
        edge_verdict(q, v == VERDICT_RUN, now);
        if (v == VERDICT_HOLD)
                tail_begin(q);
        else if (q->tail && (q->counted_ready || !q->ready)) /* its entity may be held for another reason */
                tail_end(q, now);
        queue_note_wait(q);
        q->manager->n_verdicts++;
        q->manager->verdict_at = now;
}

/* Observers act on queues that are held by privilege, and on the other queues of their clients. */
static void set_privileged(Queue *q, bool privileged) {
        Client *c = q->client;
        bool any = c->n_privileged > 0;

        c->n_privileged += (unsigned) privileged - (unsigned) q->privileged;
        q->privileged = privileged;
        if (any || privileged)
                observers_queue_turning(q);
}

/* The level goes before the verdict, and the driver's order after it. */
static void sync_verdict(Queue *q, const SlotWords *w) {
        bool hold = w->verdict == VERDICT_HOLD, turns = queue_holds(q) != hold;
        bool privileged = hold && ladder_is_privileged(q);

        if (turns || privileged != q->privileged)
                set_privileged(q, privileged);
        if (!turns && w->level == queue_slot(q)->level)
                return;
        turn_due(q->manager);
        bool is_order = w->level >= LEVEL_DEQUEUE || (queue_holds(q) && queue_slot(q)->level >= LEVEL_DEQUEUE);
        if (q->ordered_ns != 0)
                ladder_before_order(q);
        /* The lease goes before the verdict: a hold whose lease has expired would let one launch pass. */
        if (turns && hold)
                lease_begin(q->client);
        write_level(q, w->level, is_order);
        if (turns)
                write_verdict(q, w->verdict);
        if (is_order && hold && q->flies)
                rota_note_stop(q, q->ordered_ns);
        if (is_order)
                ladder_after_order(q);
        if (turns && !hold)
                lease_end(q->client);
        if (turns && observers_hear_holds(q->manager))
                observers_queue_turned(q);
}

static void sync_words(Queue *q, const SlotWords *w) {
        Slot *s = queue_slot(q);

        if (s->threshold != w->threshold) {
                s->threshold = w->threshold;
                atomic_store_explicit(&q->page_slot->threshold, w->threshold, memory_order_relaxed);
        }
        if (s->budget_us != w->budget_us) {
                s->budget_us = w->budget_us;
                atomic_store_explicit(&q->page_slot->budget_us, w->budget_us, memory_order_relaxed);
        }
        if (s->lead_us != w->lead_us) {
                s->lead_us = w->lead_us;
                atomic_store_explicit(&q->page_slot->lead_us, w->lead_us, memory_order_relaxed);
        }
        sync_verdict(q, w);
}

/* A queue may have joined an entity whose grant its policy has not decided yet. So while the device is due for a
 * dispatch, only that dispatch turns its verdict. A suspension hangs on no decision. */
void arbiter_sync_queue(Queue *q) {
        edge_sync_watch(q);
        SlotWords w = wanted_words(q);
        if (q->device->pending && !queue_is_suspended(q) && queue_holds(q) != (w.verdict == VERDICT_HOLD)) {
                q->device->sync = true;
                return;
        }
        if (q->entity)
                entity_note_held(q->entity);
        sync_words(q, &w);
}

void arbiter_release_queue(Queue *q) {
        const SlotWords open = {.verdict = VERDICT_RUN, .level = queue_slot(q)->level};

        edge_end_watch(q);
        sync_words(q, &open);
}

/* Writes one kind of verdict at a time, holds before runs: so two entities of different tiers are never on the device
 * at once by our own doing. */
static void write_entity(Entity *e, Verdict only) {
        Queue *q;

        entity_note_held(e);
        DL_FOREACH2(e->queues, q, entity_next) {
                SlotWords w = wanted_words(q);
                if (w.verdict != only)
                        continue;
                edge_sync_watch(q);
                sync_words(q, &w);
        }
}

/* --- what the policy says --- */

void arbiter_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        Entity *e = owner;

        if (e->told_ready && (e->grant.verdict == VERDICT_RUN || e->carried_out == VERDICT_RUN))
                e->tail_awaited = grant->verdict == VERDICT_HOLD;
        if (grant->verdict == VERDICT_RUN)
                overlaps_forget(e);
        e->grant = *grant;
        entity_words_changed(e);
}

/* The entity may run now. The time since it could have run was spent waiting for the service. */
static void note_service_wait(Entity *e, uint64_t cause) {
        if (e->held_since == 0 || !e->told_ready || arbiter_holds(e))
                return;
        e->service_wait_ns += ns_sub(now_ns(), MAX(cause, e->ready_at));
}

static void note_preempted(Device *d, Entity *e) {
        if (!e->told_ready || e->carried_out == VERDICT_HOLD || e->grant.verdict == VERDICT_RUN)
                return;
        d->n_preempted++;
        if (d->preempted)
                return;
        d->preempted = e;
        LL_PREPEND2(d->manager->preempted, d, preempted_next);
}

static void write_holds(Device *d) {
        Entity *e;

        LL_FOREACH2(d->changed, e, changed_next) {
                note_preempted(d, e);
                write_entity(e, VERDICT_HOLD);
                if (e->grant.verdict == VERDICT_HOLD)
                        e->carried_out = VERDICT_HOLD;
        }
}

static void write_runs(Device *d) {
        uint64_t cause = d->cause_at;
        Entity *e, *tmp;

        d->cause_at = NSEC_INFINITY;
        LL_FOREACH2(d->changed, e, changed_next)
        if (e->tail_awaited || gang_is_held(e))
                tail_settle(e, now_ns());
        LL_FOREACH_SAFE2(d->changed, e, tmp, changed_next) {
                note_service_wait(e, cause);
                write_entity(e, VERDICT_RUN);
                if (d->preempted && e->told_ready && e->grant.verdict == VERDICT_RUN)
                        d->preempted_by = e;
                e->carried_out = e->grant.verdict;
                e->changed = false;
                e->changed_next = NULL;
        }
        d->changed = NULL;
        if (d->overlaps)
                overlaps_note_runner(d);
}

/* --- states --- */

static void device_set_state(Device *d, DeviceState state, uint64_t now) {
        if (d->state == state)
                return;
        d->state = state;
        d->forecast_stale = true;
        d->settle_at = d->stall_at = NSEC_INFINITY;
        d->probe_at = state == DEVICE_SOLE ? now + ARBITER_PROBE_NS : NSEC_INFINITY;
        d->saved_at = state == DEVICE_QUIET ? 0 : d->saved_at; /* no other turn may come for long */
        d->sync = true;
        account_state_changed(d, now);
}

/* Limits and levels need counts of all queues, so a device that has them never watches a single entity only. */
static bool device_is_never_sole(const Device *d) {
        return d->n_limited > 0 || levels_concern(d);
}

static DeviceState device_next_state(Device *d, uint64_t now) {
        if (d->n_active == 0 || (d->n_active == 1 && !device_is_never_sole(d)))
                return DEVICE_ALONE;
        if (d->n_ready > 1)
                return DEVICE_CONTENDED;

        switch (d->state) {
        case DEVICE_QUIET:
                return d->n_ready == 0 ? DEVICE_QUIET : DEVICE_CONTENDED;
        case DEVICE_SOLE:
                return d->n_ready == 1 && !device_is_never_sole(d) && now < d->probe_at ? DEVICE_SOLE
                                                                                        : DEVICE_CONTENDED;
        case DEVICE_CONTENDED:
                if (now < d->settle_at)
                        return DEVICE_CONTENDED;
                return d->n_ready == 0 ? DEVICE_QUIET : DEVICE_SOLE;
        default:
                return DEVICE_CONTENDED;
        }
}

static bool device_holds_anybody(const Device *d) {
        const Entity *e;

        DL_FOREACH2(d->entities, e, device_next)
                if (e->policy && e->grant.verdict == VERDICT_HOLD)
                        return true;
        return false;
}

/* Moves on to the state that the counts ask for, and sets its watch flags. A look at newly watched queues can change
 * the counts, and with them the state. Each state sets its flags once, so the loop ends. */
static void device_settle(Device *d, uint64_t now) {
        for (unsigned i = 0; i < _DEVICE_STATE_MAX; i++) {
                if (d->state == DEVICE_CONTENDED) {
                        if (d->n_ready > 1 || (d->n_ready > 0 && device_is_never_sole(d)))
                                d->settle_at = NSEC_INFINITY;
                        else if (d->settle_at == NSEC_INFINITY)
                                d->settle_at = now + ARBITER_SETTLE_NS;
                }
                /* DEVICE_SOLE, and no entity is held: no look is due until another queue comes. */
                if (d->state == DEVICE_SOLE && now >= d->probe_at && !device_holds_anybody(d))
                        d->probe_at = NSEC_INFINITY;

                DeviceState before = d->state;
                device_set_state(d, device_next_state(d, now), now);
                if (d->sync) {
                        Entity *e;
                        Queue *q;
                        DL_FOREACH2(d->entities, e, device_next)
                                DL_FOREACH2(e->queues, q, entity_next)
                                        edge_sync_watch(q);
                }
                if (d->state == before)
                        break;
        }
}

/* --- turns --- */

static void device_arm(Device *d) {
        uint64_t at = MIN(d->settle_at, d->probe_at);
        at = MIN(at, d->stall_at);
        at = MIN(at, d->review_at);
        at = MIN(at, d->account.at);
        at = MIN(at, d->rota_at);
        at = MIN(at, d->forecast_at);
        at = MIN(at, d->overlap_at);
        at = MIN(at, d->save_at);

        due_set_by(&d->due, MIN(at, d->dispatch_at), MIN(at, d->dispatch_by));
}

static void on_due(Due *due) {
        Device *d = container_of(due, Device, due);

        device_note_cause(d, d->dispatch_at);
        device_touch(d);
}

void arbiter_device_init(Device *d) {
        due_init(&d->due, &d->manager->dues, on_due);
}

void arbiter_tell_others(Device *d, bool gone, uint64_t now) {
        Device *o, *tmp;

        if (!levels_update(d, gone, now))
                return;
        HASH_ITER(hh, d->manager->devices, o, tmp)
                if (o->level_told) {
                        o->level_told = false;
                        device_touch(o);
                }
}

static void device_words_changed(Device *d) {
        Entity *e;

        d->sync = false;
        DL_FOREACH2(d->entities, e, device_next)
                entity_words_changed(e);
}

/* Devices with the same global policy may have to decide again after this. */
static void device_decide(Device *d) {
        uint64_t now = now_ns();

        if (now >= d->stall_at)
                stalls_look(d, now);
        if (d->manager->quick.n > 0 && d->n_ready > 1)
                quick_look(d->manager, now);
        device_settle(d, now);
        if (d->sync) {
                device_words_changed(d);
                now = now_ns();
        }
        device_note_cause(d, now);
        overlaps_look(d, now);
        d->decided_at = now;
        uint64_t at = d->ops->dispatch(d->policy, now);
        d->dispatch_at = at == NSEC_INFINITY ? at : MAX(at, now + ARBITER_TIMER_MIN_NS);
        uint64_t by = MAX(policy_latest(d->policy), d->dispatch_at);
        d->dispatch_by = MIN(by, ns_add(d->dispatch_at, LOOP_STALE_MAX_NS));
        if (levels_count(d))
                arbiter_tell_others(d, false, now);
        if (d->n_gangs > 0)
                gang_note_runners(d);
}

/* What follows from the decision, apart from verdicts. */
static void device_follow_up(Device *d, uint64_t now) {
        if (stalls_may_be(d))
                stalls_time(d, now);
        if (!account_rests(&d->account) || d->state == DEVICE_ALONE || d->state == DEVICE_SOLE)
                account_turn(d, now);
        device_turn_totals(d, now);
        d->rota_at = d->rotas ? rota_turn(d, now) : NSEC_INFINITY;
        if (d->forecast_stale || now >= d->forecast_at || d->forecast_hold_ns != d->costs.hold_ns)
                forecast_turn(d, now);
        if (now >= d->review_at)
                device_review(d, now);
        if (d->sync)
                device_words_changed(d);
}

static void decide_pending(Manager *m) {
        Device *d;

        while ((d = m->pending)) {
                LL_DELETE2(m->pending, d, pending_next);
                d->pending = false;
                device_decide(d);
                tails_settle_held(d);
                if (d->decided)
                        continue;
                d->decided = true;
                LL_PREPEND2(m->decided, d, decided_next);
        }
}

/* All levels are known before a device decides, and those that a decision changes are told after it. What a gang does
 * hangs on all its devices; no policy hears of it, so this ends. */
static void decide(Manager *m) {
        Device *d;

        LL_FOREACH2(m->pending, d, pending_next)
        if (levels_count(d))
                arbiter_tell_others(d, false, now_ns());
        while (m->pending) {
                decide_pending(m);
                if (m->n_gangs == 0)
                        break;
                LL_FOREACH2(m->decided, d, decided_next)
                if (d->n_gangs > 0)
                        gang_update_device(d, now_ns());
        }
}

/* Holds go first, over all devices: then no lower level of a global policy ever runs beside a higher one. Who is held
 * may be found idle by that: then all decide again first. It ends, because each time one more queue is held. */
static void carry_out(Manager *m) {
        uint64_t now = now_ns();
        Device *d, *tmp;

        LL_FOREACH2(m->decided, d, decided_next)
        device_follow_up(d, now);
        LL_FOREACH2(m->decided, d, decided_next)
        write_holds(d);
        ladder_flush(m); /* first, because orders to drivers take longest */
        if (m->pending)
                return;
        LL_FOREACH_SAFE2(m->decided, d, tmp, decided_next) {
                write_runs(d);
                device_arm(d);
                d->decided = false;
                d->decided_next = NULL;
        }
        m->decided = NULL;
}

/* Tells observers of preemptions at the end of the turn, when all verdicts are written. */
static void tell_preempted(Manager *m) {
        while (m->preempted) {
                Device *d = m->preempted;
                LL_DELETE2(m->preempted, d, preempted_next);
                observers_device_preempted(d, TAKE_PTR(d->preempted), TAKE_PTR(d->preempted_by));
        }
}

void arbiter_flush(Manager *m) {
        bool busy = m->wakes.busy;

        m->wakes.busy = true;
        m->turn_due = false;
        m->verdict_at = 0;
        while (m->pending) {
                decide(m);
                carry_out(m);
        }
        ladder_flush(m);
        if (m->ordered)
                ladder_look(m);
        if (m->turn_end_asked) {
                m->turn_end_asked = false;
                observers_turn_ended(m);
        }
        if (m->n_ready_since > 0)
                decision_end(m);
        if (m->preempted)
                tell_preempted(m);
        m->wakes.busy = busy;
}

/* --- edges --- */

unsigned arbiter_client_woke(Client *c) {
        bool again = c->id == c->manager->last_edge;
        unsigned n = 0;
        uint64_t expected;

        for (uint32_t word = 0; word * 64 < c->n_slots; word++) {
                uint64_t bits = page_take_dirty(c->page.header, word);
                while (bits != 0) {
                        uint32_t slot = word * 64 + (uint32_t) __builtin_ctzll(bits);
                        bits &= bits - 1;
                        Queue *q = slot < c->n_slots ? c->slots[slot].queue : NULL;
                        if (!q)
                                continue;
                        n++;
                        if (!again)
                                ahead_fetch_more(q);
                        expected = atomic_load_explicit(&q->page_slot->expected_ns, memory_order_relaxed);
                        if (expected != q->expected_ns)
                                forecast_heard(q, expected);
                        edge_look(q);
                        if (quick_heard(q))
                                edge_sync_watch(q);
                        if (!again)
                                ahead_note(q);
                }
        }
        c->n_edges += n;
        c->manager->n_edges += n;
        return n;
}
