/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The ladder
 */

#include <utlist.h>

#include "crowd.h"
#include "entity-facts.h"
#include "ladder.h"
#include "suspended.h"
#include "turn.h"

#define GFX_MES 11UL /* the first generation with MES */

void ladder_resolve(Entity *e) {
        e->preemption = preemption_combine(e->settings.preemption, e->device->tuning.preemption);
}

bool ladder_name_has_mes(const char *backend, const char *name) {
        if (!streq_ptr(backend, "kfd"))
                return false;

        /* Names are "gfx90a" or "gfx1100": the last two characters are the minor version and the stepping. */
        const char *version = startswith(strempty(name), "gfx");
        size_t n = version ? strlen(version) : 0;
        if (n < 3 || n > 6 || strspn(version, "0123456789") < n - 2)
                return true;
        unsigned long major = 0;
        for (size_t i = 0; i < n - 2; i++)
                major = major * 10 + (unsigned long) (version[i] - '0');
        return major >= GFX_MES;
}

PreemptLevel ladder_queue_max_level(const Queue *q) {
        return q->mes && q->device->tuning.allow_mes ? LEVEL_INTERRUPT : q->max_level;
}

static PreemptionInput queue_input(const Queue *q) {
        return (PreemptionInput){
                        .setting = q->entity->preemption,
                        .max_level = ladder_queue_max_level(q),
                        .mes = q->mes,
                        .mes_allowed = q->device->tuning.allow_mes,
        };
}

bool ladder_can_take_off(const Queue *q) {
        const PreemptionInput in = queue_input(q);

        return preemption_reach(&in) >= LEVEL_DEQUEUE;
}

/* --- estimates --- */

/* Estimates how much longer the launches in flight will take: their usual length, less the time since the driver can
 * have begun them. A launch that has already taken longer may be about to end, or be longer than usual: the next look
 * tells which. */
static uint64_t rest_of_flight(const Queue *q, uint64_t flying_ns) {
        uint64_t since = atomic_load_explicit(&q->page_slot->flying_since_ns, memory_order_relaxed);

        if (!queue_holds(q))
                since = MAX(since, q->ordered_ns);
        return costs_rest(flying_ns, ns_sub(now_ns(), since));
}

uint64_t ladder_queue_drain(const Queue *q) {
        uint32_t outstanding = atomic_load_explicit(&q->page_slot->outstanding, memory_order_relaxed);
        uint32_t waiters = atomic_load_explicit(&q->page_slot->waiters, memory_order_relaxed);
        uint32_t mean_ns = atomic_load_explicit(&q->page_slot->mean_ns, memory_order_relaxed);

        if (outstanding & PAGE_OUTSTANDING_UNTRACKED)
                return PREEMPTION_UNKNOWN;
        /* Launches that wait at the gate are outstanding, but not in flight. */
        uint32_t n = outstanding > waiters ? outstanding - waiters : 0;
        uint64_t flying_ns = atomic_load_explicit(&q->page_slot->flying_ns, memory_order_relaxed);
        return n > 0 && flying_ns > 0 ? rest_of_flight(q, flying_ns) : costs_drain(n, mean_ns);
}

static bool queue_is_obedient(const Queue *q) {
        return atomic_load_explicit(&q->page_slot->applied, memory_order_relaxed) == queue_slot(q)->word;
}

bool ladder_queue_is_off(const Queue *q) {
        return queue_holds(q) && queue_slot(q)->level >= LEVEL_DEQUEUE && queue_is_obedient(q);
}

uint64_t ladder_entity_drain(const Entity *e) {
        uint64_t sum = 0;
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next)
                if (!q->sits_out || !ladder_queue_is_off(q))
                        sum = costs_drain_add(sum, ladder_queue_drain(q));
        return sum;
}

uint64_t ladder_client_drain(const Client *c) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue)
                        sum = costs_drain_add(sum, ladder_queue_drain(c->slots[i].queue));
        return sum;
}

/* --- choosing --- */

static bool privilege_is_possible(const Client *c) {
        const PrivilegeOps *ops = c->manager->privilege;

        return ops && ops->is_possible(c);
}

bool ladder_can_stop(const Queue *q) {
        PreemptionInput in = queue_input(q);

        in.privileged = privilege_is_possible(q->client);
        return preemption_can_be_taken_off(&in);
}

static bool ignores_orders(const Entity *e, uint64_t now) {
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next)
                if (queue_holds(q) && queue_slot(q)->level >= LEVEL_DEQUEUE && q->ordered_ns > 0 &&
                                ns_sub(now, q->ordered_ns) >= LADDER_IGNORED_NS && !queue_is_obedient(q))
                        return true;
        return false;
}

/* Where a process cannot stop its queues, the costs are those of a privileged hold: the highest of the entity's
 * clients. */
static void take_privileged_costs(const Entity *e, PreemptionInput *in) {
        const PrivilegeOps *ops = e->device->manager->privilege;
        const Queue *q;
        HalCosts c;

        in->hold_ns = in->release_ns = 0;
        DL_FOREACH2(e->queues, q, entity_next)
                if (ops && ops->costs(q->client, &c)) {
                        in->hold_ns = MAX(in->hold_ns, c.hold_ns);
                        in->release_ns = MAX(in->release_ns, c.release_ns);
                }
}

/* The queues of an entity have one owner, or the entity is a group of several owners, who have one vote together. */
static Costs entity_costs(const Entity *e, uint64_t now) {
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next)
                if (q->vote)
                        return costs_for(q->vote, &e->device->costs, now);
        return costs_for(NULL, &e->device->costs, now);
}

static PreemptionInput entity_input(const Entity *e, uint64_t now) {
        const Costs costs = entity_costs(e, now);
        PreemptionInput in = {
                        .setting = e->preemption,
                        .mes_allowed = e->device->tuning.allow_mes,
                        .eager = !e->device->tuning.adaptive,
                        .ignored = ignores_orders(e, now),
                        .drain_ns = ladder_entity_drain(e),
                        .held_ns = ns_sub(now, e->held_since),
                        .hold_ns = costs.hold_ns,
                        .release_ns = costs.release_ns,
                        .expected = e->yields,
                        .expected_ns = ns_sub(e->device->expected_at, now),
        };
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next) {
                in.max_level = MAX(in.max_level, ladder_queue_max_level(q));
                in.mes |= q->mes;
                in.privileged |= privilege_is_possible(q->client);
        }
        if (in.privileged && in.max_level < LEVEL_DEQUEUE)
                take_privileged_costs(e, &in);
        return in;
}

/* --- who flies --- */

/* In a process with more queues, single queues are not looked at: they all count as in flight. */
#define FLIGHT_QUEUES_MAX 64U

/* Whether launches of the queue may be on the device: it has some in flight, or launches need not pass the gate. */
static bool queue_may_fly(const Queue *q) {
        return q->hooked != HOOKED_CALLS || page_slot_read_in_flight(q->page_slot) > 0;
}

/* Looks at all queues of the client, because a driver may be able to stop only the whole process. */
static bool client_may_fly(const Client *c, const Device *d) {
        if (c->n_queues > FLIGHT_QUEUES_MAX)
                return true;
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue && c->slots[i].queue->device == d && queue_may_fly(c->slots[i].queue))
                        return true;
        return false;
}

/* Notes which clients have launches on the device. Returns whether that changed. */
static bool look_who_flies(Entity *e) {
        bool changed = false;
        Queue *q;

        e->looks_at_flights = false;
        DL_FOREACH2(e->queues, q, entity_next)
                q->client->flights_looked = false;
        DL_FOREACH2(e->queues, q, entity_next) {
                Client *c = q->client;
                if (!c->flights_looked)
                        c->flies = client_may_fly(c, e->device);
                c->flights_looked = true;
                changed |= q->flies != c->flies;
                q->flies = c->flies;
        }
        return changed;
}

/* Whether a queue of the entity may be taken off the device, by its driver or by privilege. Of all others the gate is
 * all there is. */
static bool may_be_taken_off(const Entity *e) {
        const Queue *q;

        if (e->preemption == PREEMPTION_PRIVILEGED)
                return true;
        DL_FOREACH2(e->queues, q, entity_next)
                if (ladder_has_driver(q))
                        return true;
        return false;
}

/* Returns whether that has changed for a client of the entity. */
static bool entity_choose_level(Entity *e, uint64_t now) {
        e->gate_only = !may_be_taken_off(e);
        if (e->gate_only) {
                e->choice = (PreemptionChoice){
                                .level = e->preemption == PREEMPTION_OFF ? LEVEL_OBSERVE : LEVEL_GATE,
                };
                e->review_at = NSEC_INFINITY;
                e->looks_at_flights = false;
                return false;
        }
        PreemptionInput in = entity_input(e, now);
        uint64_t patience = preemption_patience(&in);

        e->choice = preemption_choose(&in);
        e->review_at = NSEC_INFINITY;
        if (patience != UINT64_MAX)
                e->review_at = MAX(e->held_since + patience, now + LADDER_REVIEW_MIN_NS);
        else if (in.privileged && !e->choice.privileged && e->choice.level >= LEVEL_DEQUEUE)
                e->review_at = now + LADDER_IGNORED_NS;
        entity_review_by(e, e->review_at);
        return look_who_flies(e);
}

void ladder_set_held(Entity *e, bool held, uint64_t now) {
        e->held_since = held ? now : 0;
        if (held)
                (void) entity_choose_level(e, now);
        else
                e->review_at = NSEC_INFINITY;
}

void ladder_ready_while_held(Queue *q) {
        Entity *e = q->entity;
        bool others_are_off = e->choice.level >= LEVEL_DEQUEUE;

        if ((others_are_off && q->flies) || e->review_at != NSEC_INFINITY)
                return; /* taken off already, or due later: an edge does not put that off */
        uint64_t now = now_ns();
        if (!others_are_off)
                e->held_since = now;
        if (e->gate_only)
                return;
        /* The gate counts a launch before it waits there. So look again when it has had time to arrive. */
        e->looks_at_flights = others_are_off;
        e->review_at = now + LADDER_REVIEW_MIN_NS;
        entity_review_by(e, e->review_at);
}

bool ladder_review(Entity *e, uint64_t now) {
        if (e->held_since == 0 || now < e->review_at)
                return false;
        if (e->looks_at_flights) {
                e->review_at = NSEC_INFINITY;
                return look_who_flies(e);
        }
        PreemptionChoice before = e->choice;
        return entity_choose_level(e, now) || before.level != e->choice.level ||
                        before.privileged != e->choice.privileged;
}

/* A suspension is long, so the queue is taken off the device as far as its driver can. */
static PreemptionChoice suspended_choice(const Queue *q) {
        const PreemptionInput in = {
                        .setting = q->entity ? q->entity->preemption : PREEMPTION_AUTO,
                        .max_level = ladder_queue_max_level(q),
                        .mes = q->mes,
                        .mes_allowed = q->device->tuning.allow_mes,
                        .privileged = privilege_is_possible(q->client),
                        .drain_ns = PREEMPTION_UNKNOWN,
                        .held_ns = UINT64_MAX,
        };
        return preemption_choose(&in);
}

static PreemptLevel suspended_level(const Queue *q) {
        return MAX(suspended_choice(q).level, (PreemptLevel) LEVEL_GATE);
}

bool ladder_is_privileged(const Queue *q) {
        if (queue_is_suspended(q))
                return suspended_choice(q).privileged;
        return q->entity && q->entity->choice.privileged;
}

PreemptLevel ladder_level(const Queue *q, Verdict v) {
        if (v == VERDICT_RUN)
                return queue_slot(q)->level;
        if (queue_is_suspended(q))
                return suspended_level(q);
        /* A queue that is taken off stays so when its turn ends: letting it drain would let it go. */
        if (q->sits_out && queue_holds(q) && queue_slot(q)->level >= LEVEL_DEQUEUE)
                return queue_slot(q)->level;
        if (!q->entity || q->entity->held_since == 0 || q->entity->choice.level < LEVEL_DEQUEUE || !q->flies)
                return LEVEL_GATE;
        PreemptLevel most = ladder_queue_max_level(q);
        return MIN(q->entity->choice.level, most);
}

/* --- orders --- */

static void forget_order(Queue *q) {
        if (q->looked_for)
                DL_DELETE2(q->manager->ordered, q, ordered_prev, ordered_next);
        q->looked_for = false;
        q->ordered_ns = q->obeyed_ns = 0;
}

void ladder_note_order(Queue *q, uint64_t now) {
        forget_order(q);
        q->ordered_ns = now;
}

/* Puts the queue on the list of those that are looked at until their drivers have obeyed, unless the order did not
 * change the word. */
static void look_for_order(Queue *q) {
        if (q->ordered_ns == 0 || q->looked_for || queue_is_obedient(q))
                return;
        q->looked_for = true;
        DL_APPEND2(q->manager->ordered, q, ordered_prev, ordered_next);
}

void ladder_look(Manager *m) {
        for (unsigned i = 0; i < LADDER_LOOKS && m->ordered; i++) {
                Queue *q = m->ordered;

                DL_DELETE2(m->ordered, q, ordered_prev, ordered_next);
                q->looked_for = !queue_is_obedient(q);
                if (q->looked_for)
                        DL_APPEND2(m->ordered, q, ordered_prev, ordered_next);
                else
                        q->obeyed_ns = now_ns();
        }
}

static void learn(Queue *q, uint32_t wake_ns, uint32_t call_ns) {
        Manager *m = q->manager;
        Device *d = q->device;
        uint64_t sum = (uint64_t) wake_ns + call_ns, elapsed = ns_sub(q->obeyed_ns ?: now_ns(), q->ordered_ns);

        /* The client has reported no time so far: the order was taken back before the client looked. */
        if (sum == 0)
                return;
        elapsed = MIN(elapsed, (uint64_t) LADDER_IGNORED_NS);
        latency_add(&m->wake_latency, MIN((uint64_t) wake_ns, elapsed));
        latency_add(&m->driver_latency, MIN((uint64_t) call_ns, elapsed));
        if (!q->vote && q->entity) {
                const PolicyParty party = entity_party(q->entity);

                (void) costs_vote_get(&d->votes, &party, &q->vote); /* without memory nothing is learned */
        }
        if (!q->vote)
                return;
        costs_vote_learn(&d->votes, q->vote, queue_holds(q), sum, elapsed, now_ns());
        d->costs = costs_votes(&d->votes);
        if (queue_holds(q))
                forecast_stopped(d, q->ordered_ns, MIN(sum, elapsed));
}

void ladder_queue_gone(Queue *q) {
        forget_order(q);
        if (!q->vote)
                return;
        q->vote = costs_vote_put(&q->device->votes, q->vote);
        q->device->costs = costs_votes(&q->device->votes);
}

void ladder_before_order(Queue *q) {
        const PageSlot *s = q->page_slot;

        if (!queue_is_obedient(q))
                return;
        if (queue_holds(q))
                learn(q, atomic_load_explicit(&s->hold_wake_ns, memory_order_relaxed),
                                atomic_load_explicit(&s->hold_call_ns, memory_order_relaxed));
        else
                learn(q, atomic_load_explicit(&s->release_wake_ns, memory_order_relaxed),
                                atomic_load_explicit(&s->release_call_ns, memory_order_relaxed));
        forget_order(q);
}

void ladder_after_order(Queue *q) {
        Client *c = q->client;

        look_for_order(q);
        if (c->to_be_told)
                return;
        c->to_be_told = true;
        turn_due(c->manager);
        LL_PREPEND2(c->manager->to_be_told, c, to_be_told_next);
}

void ladder_flush(Manager *m) {
        while (m->to_be_told) {
                Client *c = m->to_be_told;
                LL_DELETE2(m->to_be_told, c, to_be_told_next);
                c->to_be_told = false;
                client_notify(c);
        }
}

void ladder_forget(Client *c) {
        if (!c->to_be_told)
                return;
        LL_DELETE2(c->manager->to_be_told, c, to_be_told_next);
        c->to_be_told = false;
}
