/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Players
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/array.h"
#include "player.h"

/* The latest time at which a policy can be asked, because it adds to times. */
#define AT_MAX (TAPE_NUMBER_MAX / 2)

_printf_(3, 4) static int say(Player *p, int r, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(p->why, sizeof(p->why), format, ap);
        va_end(ap);
        return r;
}

void player_init(Player *p, const PlayerOps *ops, void *userdata) {
        static const PlayerOps none = {0};

        *p = (Player){.ops = ops ?: &none, .userdata = userdata};
}

PlayerDevice *player_device(const Player *p, uint64_t number) {
        PlayerDevice *d;

        HASH_FIND(hh, p->devices, &number, sizeof(number), d);
        return d;
}

/* --- what there is --- */

static PlayerNode *device_node(const PlayerDevice *d, uint64_t id) {
        PlayerNode *n;

        HASH_FIND(hh, d->nodes, &id, sizeof(id), n);
        return n;
}

static PlayerEntity *device_entity(const PlayerDevice *d, uint64_t id) {
        PlayerEntity *e;

        HASH_FIND(hh, d->entities, &id, sizeof(id), e);
        return e;
}

static void entity_remove(PlayerEntity *e, uint64_t at) {
        PlayerDevice *d = e->device;

        if (d->player->ops->entity_removed)
                d->player->ops->entity_removed(e, at, d->player->userdata);
        d->ops->entity_free(e->entity, at);
        HASH_DEL(d->entities, e);
        if (e->node)
                e->node->n_below--;
        free(e->group);
        free(e);
}

static void node_remove(PlayerNode *n, uint64_t at) {
        PlayerDevice *d = n->device;

        d->ops->node_free(n->node, at);
        HASH_DEL(d->nodes, n);
        if (n->parent)
                n->parent->n_below--;
        free(n->name);
        free(n);
}

/* Frees children first. No node is above an older one, so from the end there is always one without children. */
static void device_clear(PlayerDevice *d) {
        uint64_t at = d->player->last_ns;
        PlayerEntity *e, *next;

        HASH_ITER(hh, d->entities, e, next)
                entity_remove(e, at);
        while (d->nodes)
                node_remove(ELMT_FROM_HH(d->nodes->hh.tbl, d->nodes->hh.tbl->tail), at);
        if (d->policy)
                d->policy = d->ops->free(d->policy);
        d->ops = NULL;
        free(d->got);
        d->got = NULL;
        d->n_got = d->n_got_lost = 0;
}

void player_done(Player *p) {
        PlayerDevice *d;

        while ((d = p->devices)) {
                device_clear(d);
                HASH_DEL(p->devices, d);
                free(d->id);
                free(d);
        }
}

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
        PlayerEntity *e = owner;
        PlayerDevice *d = userdata;
        TapeGrant *got = array_grow(d->got, d->n_got, sizeof(*got));

        if (!got) {
                d->n_got_lost++;
                return;
        }
        d->got = got;
        d->got[d->n_got++] = (TapeGrant){.entity = e->id, .grant = *grant};
}

/* --- records --- */

typedef int (*play_t)(PlayerDevice *d, const TapeRecord *r);

static int play_policy(PlayerDevice *d, const TapeRecord *r) {
        const PolicyOps *ops = r->name ? policy_find(r->name) : NULL;
        const PolicyCallbacks callbacks = {.grant = on_grant, .userdata = d};
        Policy *policy;

        if (!ops)
                return say(d->player, -EBADMSG, "there is no policy \"%s\"", strempty(r->name));
        int result = ops->new (&r->config, &callbacks, &policy);
        if (result == -EINVAL)
                return say(d->player, -EBADMSG, "no policy can have these parameters");
        if (result < 0)
                return result;
        device_clear(d);
        d->ops = ops;
        d->policy = policy;
        d->config = r->config;
        return 1;
}

static int play_configure(PlayerDevice *d, const TapeRecord *r) {
        if (d->ops->configure(d->policy, &r->config, r->at_ns) < 0)
                return say(d->player, -EBADMSG, "no policy can have these parameters");
        d->config = r->config;
        return 1;
}

static int find_parent(PlayerDevice *d, uint64_t id, PlayerNode **ret) {
        *ret = id > 0 ? device_node(d, id) : NULL;
        if (id > 0 && !*ret)
                return say(d->player, -EBADMSG, "there is no node %" PRIu64, id);
        return 0;
}

static int play_node(PlayerDevice *d, const TapeRecord *r) {
        PolicyNodeSettings settings = r->node_settings;
        PlayerNode *parent;

        int result = find_parent(d, r->parent, &parent);
        if (result < 0)
                return result;
        if (r->node == 0 || device_node(d, r->node))
                return say(d->player, -EBADMSG, "there is a node %" PRIu64 " already", r->node);
        PlayerNode *n = calloc(1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        *n = (PlayerNode){.id = r->node, .parent = parent, .device = d, .settings = r->node_settings};
        settings.name = r->name;
        n->name = r->name ? strdup(r->name) : NULL;
        result = r->name && !n->name
                        ? -ENOMEM
                        : d->ops->node_new(d->policy, parent ? parent->node : NULL, &settings, r->at_ns, &n->node);
        if (result < 0) {
                free(n->name);
                free(n);
                return result == -EINVAL ? say(d->player, -EBADMSG, "the node is too deep") : result;
        }
        if (parent)
                parent->n_below++;
        HASH_ADD(hh, d->nodes, id, sizeof(n->id), n);
        return 1;
}

static int play_node_set(PlayerDevice *d, const TapeRecord *r) {
        PlayerNode *n;

        int result = find_parent(d, r->node, &n);
        if (result < 0)
                return result;
        if (!n)
                return say(d->player, -EBADMSG, "the root has no settings");
        n->settings = r->node_settings;
        d->ops->node_configure(n->node, &r->node_settings, r->at_ns);
        return 1;
}

static int play_node_gone(PlayerDevice *d, const TapeRecord *r) {
        PlayerNode *n;

        int result = find_parent(d, r->node, &n);
        if (result < 0)
                return result;
        if (!n || n->n_below > 0)
                return say(d->player, -EBADMSG, "something is below node %" PRIu64, r->node);
        node_remove(n, r->at_ns);
        return 1;
}

static int play_entity(PlayerDevice *d, const TapeRecord *r) {
        Player *p = d->player;
        PlayerNode *node;

        int result = find_parent(d, r->node, &node);
        if (result < 0)
                return result;
        if (device_entity(d, r->entity))
                return say(p, -EBADMSG, "there is an entity %" PRIu64 " already", r->entity);
        PlayerEntity *e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;
        *e = (PlayerEntity){
                        .id = r->entity,
                        .device = d,
                        .node = node,
                        .settings = r->settings,
                        .group = strdup(strempty(r->group)),
                        .pid = r->pid,
                        .queue = r->queue,
                        .grant = {.verdict = VERDICT_RUN},
        };
        result = e->group
                        ? d->ops->entity_new(d->policy, node ? node->node : NULL, e, &r->settings, r->at_ns, &e->entity)
                        : -ENOMEM;
        if (result < 0) {
                free(e->group);
                free(e);
                return result;
        }
        if (node)
                node->n_below++;
        HASH_ADD(hh, d->entities, id, sizeof(e->id), e);
        return p->ops->entity_added ? p->ops->entity_added(e, r->at_ns, p->userdata) ?: 1 : 1;
}

static int find_entity(PlayerDevice *d, const TapeRecord *r, PlayerEntity **ret) {
        *ret = device_entity(d, r->entity);
        return *ret ? 0 : say(d->player, -EBADMSG, "there is no entity %" PRIu64, r->entity);
}

static int play_entity_set(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        e->settings = r->settings;
        d->ops->entity_configure(e->entity, &r->settings, r->at_ns);
        return 1;
}

static int play_entity_move(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;
        PlayerNode *to;

        int result = find_entity(d, r, &e);
        if (result >= 0)
                result = find_parent(d, r->node, &to);
        if (result >= 0)
                result = d->ops->entity_move(e->entity, to ? to->node : NULL, r->at_ns);
        if (result < 0)
                return result;
        if (e->node)
                e->node->n_below--;
        if (to)
                to->n_below++;
        e->node = to;
        return 1;
}

static bool usage_equal(const PolicyUsage *a, const PolicyUsage *b) {
        return a->run_ns == b->run_ns && a->kept_ns == b->kept_ns && a->wait_ns == b->wait_ns &&
                        a->drain_wait_ns == b->drain_wait_ns && a->n_preempted == b->n_preempted;
}

static int check_usage(const PlayerEntity *e, const TapeRecord *r) {
        PolicyUsage u;

        e->device->ops->entity_usage(e->entity, r->at_ns, &u);
        if (usage_equal(&u, &r->usage))
                return 1;
        return say(e->device->player, 0,
                        "entity %" PRIu64 " ran %" PRIu64 " ns, waited %" PRIu64 " ns, and lost its grant %" PRIu64
                        " times; recorded are %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                        e->id, u.run_ns, u.wait_ns, u.n_preempted, r->usage.run_ns, r->usage.wait_ns,
                        r->usage.n_preempted);
}

static int play_used(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        return result < 0 ? result : check_usage(e, r);
}

static int play_entity_gone(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        result = check_usage(e, r);
        entity_remove(e, r->at_ns);
        return result;
}

static int play_edge(PlayerDevice *d, const TapeRecord *r) {
        const PlayerOps *told = d->player->ops;
        bool ready = r->kind == TAPE_READY;
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        (ready ? d->ops->entity_ready : d->ops->entity_idle)(e->entity, r->at_ns);
        if (e->ready == ready)
                return 1;
        e->ready = ready;
        if (ready && told->ready)
                told->ready(e, r->at_ns, d->player->userdata);
        if (!ready && told->idle)
                told->idle(e, r->at_ns, d->player->userdata);
        return 1;
}

static int play_drained(PlayerDevice *d, const TapeRecord *r) {
        const PlayerOps *told = d->player->ops;
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        d->ops->entity_drained(e->entity, r->at_ns);
        if (told->drained)
                told->drained(e, r->at_ns, d->player->userdata);
        return 1;
}

static int play_tail(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        d->ops->entity_tail(e->entity, r->at_ns);
        return 1;
}

static int play_tail_had(PlayerDevice *d, const TapeRecord *r) {
        PlayerEntity *e;

        int result = find_entity(d, r, &e);
        if (result < 0)
                return result;
        d->ops->entity_tail_had(e->entity, r->had_ns, r->at_ns);
        return 1;
}

static int play_outside(PlayerDevice *d, const TapeRecord *r) {
        if (r->level < POLICY_LEVEL_NONE || r->level > POLICY_PRIORITY_MAX)
                return say(d->player, -EBADMSG, "there is no level %d", r->level);
        d->ops->outside(d->policy, r->level, r->at_ns);
        return 1;
}

static int play_device_used(PlayerDevice *d, const TapeRecord *r) {
        PolicyDeviceUsage u;

        d->ops->device_usage(d->policy, r->at_ns, &u);
        if (u.busy_ns == r->device_usage.busy_ns && u.kept_ns == r->device_usage.kept_ns &&
                        u.idle_ns == r->device_usage.idle_ns)
                return 1;
        return say(d->player, 0,
                        "the device was busy %" PRIu64 " ns, kept %" PRIu64 " ns, idle %" PRIu64
                        " ns; recorded are %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                        u.busy_ns, u.kept_ns, u.idle_ns, r->device_usage.busy_ns, r->device_usage.kept_ns,
                        r->device_usage.idle_ns);
}

static int differs(PlayerDevice *d, const TapeGrant *got, const TapeGrant *want) {
        const TapeGrant *g = got ?: want;
        const char *verdict = verdict_to_string(g->grant.verdict);

        if (!got || !want)
                return say(d->player, 0, "entity %" PRIu64 " is told %s with threshold %" PRIu32 ", which is %s",
                                g->entity, verdict, g->grant.threshold, got ? "not recorded" : "only recorded");
        return say(d->player, 0,
                        "entity %" PRIu64 " is told %s with threshold %" PRIu32 "; recorded is that entity %" PRIu64
                        " is told %s with threshold %" PRIu32,
                        got->entity, verdict, got->grant.threshold, want->entity,
                        verdict_to_string(want->grant.verdict), want->grant.threshold);
}

static int compare(PlayerDevice *d, const TapeRecord *r, uint64_t wake) {
        size_t n = MAX(d->n_got, r->n_grants);

        for (size_t i = 0; i < n; i++) {
                const TapeGrant *got = i < d->n_got ? d->got + i : NULL, *want = i < r->n_grants ? r->grants + i : NULL;

                if (!got || !want || got->entity != want->entity || got->grant.verdict != want->grant.verdict ||
                                got->grant.threshold != want->grant.threshold)
                        return differs(d, got, want);
        }
        if (wake == r->wake_ns)
                return 1;
        return say(d->player, 0, "the policy wants to be asked again at %" PRIu64 "; recorded is %" PRIu64, wake,
                        r->wake_ns);
}

static int play_dispatch(PlayerDevice *d, const TapeRecord *r) {
        Player *p = d->player;

        d->n_got = d->n_got_lost = 0;
        uint64_t wake = d->ops->dispatch(d->policy, r->at_ns);
        if (d->n_got_lost > 0)
                return -ENOMEM;
        p->n_dispatches++;
        p->n_grants += d->n_got;
        for (size_t i = 0; i < d->n_got; i++) {
                PlayerEntity *e = device_entity(d, d->got[i].entity);
                PolicyGrant former = e->grant;

                e->grant = d->got[i].grant;
                if (p->ops->granted)
                        p->ops->granted(e, &former, r->at_ns, p->userdata);
        }
        return compare(d, r, wake);
}

static const play_t plays[_TAPE_KIND_MAX] = {
                [TAPE_POLICY] = play_policy,
                [TAPE_CONFIGURE] = play_configure,
                [TAPE_NODE] = play_node,
                [TAPE_NODE_SET] = play_node_set,
                [TAPE_NODE_GONE] = play_node_gone,
                [TAPE_ENTITY] = play_entity,
                [TAPE_ENTITY_SET] = play_entity_set,
                [TAPE_ENTITY_MOVE] = play_entity_move,
                [TAPE_ENTITY_GONE] = play_entity_gone,
                [TAPE_READY] = play_edge,
                [TAPE_IDLE] = play_edge,
                [TAPE_DRAINED] = play_drained,
                [TAPE_TAIL] = play_tail,
                [TAPE_TAIL_HAD] = play_tail_had,
                [TAPE_OUTSIDE] = play_outside,
                [TAPE_DISPATCH] = play_dispatch,
                [TAPE_USED] = play_used,
                [TAPE_DEVICE_USED] = play_device_used,
};

/* --- the tape --- */

static int play_begin(Player *p, const TapeRecord *r) {
        if (p->begun)
                return say(p, -EBADMSG, "it begins a second time");
        if (r->version != TAPE_VERSION)
                return say(p, -EBADMSG, "it is of version %" PRIu64 ", and this reads version %u", r->version,
                                TAPE_VERSION);
        p->begun = true;
        p->begin_ns = p->last_ns = r->at_ns;
        p->realtime_us = r->realtime_us;
        return 1;
}

static int play_device(Player *p, const TapeRecord *r) {
        if (isempty(r->name) || player_device(p, r->device))
                return say(p, -EBADMSG, "the device has no name, or is there already");
        PlayerDevice *d = calloc(1, sizeof(*d));
        if (!d)
                return -ENOMEM;
        *d = (PlayerDevice){.number = r->device, .id = strdup(r->name), .player = p};
        if (!d->id) {
                free(d);
                return -ENOMEM;
        }
        HASH_ADD(hh, p->devices, number, sizeof(d->number), d);
        return 1;
}

static int play_lost(Player *p, const TapeRecord *r) {
        PlayerDevice *d, *next;

        p->lost = true;
        p->n_lost += r->lost;
        HASH_ITER(hh, p->devices, d, next)
                device_clear(d);
        return 1;
}

static int play_call(Player *p, const TapeRecord *r) {
        PlayerDevice *d = player_device(p, r->device);

        if (!d || (!d->ops && r->kind != TAPE_POLICY && !p->lost))
                return say(p, -EBADMSG, "device %" PRIu64 " has not begun", r->device);
        if (!d->ops && r->kind != TAPE_POLICY)
                return 1;
        return plays[r->kind](d, r);
}

int player_play(Player *p, const TapeRecord *r) {
        p->n_records++;
        if (r->at_ns > AT_MAX)
                return say(p, -EBADMSG, "that is no time");
        if (!p->begun && r->kind != TAPE_BEGIN)
                return say(p, -EBADMSG, "it does not begin with \"begin\"");
        if (p->ended)
                return say(p, -EBADMSG, "it goes on after its end");
        p->last_ns = MAX(p->last_ns, r->at_ns);

        switch (r->kind) {
        case TAPE_BEGIN:
                return play_begin(p, r);
        case TAPE_DEVICE:
                return play_device(p, r);
        case TAPE_LOST:
                return play_lost(p, r);
        case TAPE_END:
                p->ended = true;
                return 1;
        default:
                return play_call(p, r);
        }
}
