/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Spreading
 */

#include "spread.h"
#include "bus-util.h"
#include "calls.h"
#include "service/core/numbers.h"
#include "service/core/resolve.h"
#include "service/core/turn.h"
#include "service/core/walk.h"

/* A step begins no further object after this time. */
#define STEP_NS (30 * NSEC_PER_USEC)

typedef enum SpreadStage {
        SPREAD_GROUPS,  /* groups below: their own settings */
        SPREAD_CLIENTS, /* clients of these groups and of the group itself, with their queues */
        SPREAD_SETTLED, /* the groups are settled: observers are told */
        SPREAD_DONE,
} SpreadStage;

typedef struct Spread {
        Manager *manager;
        sd_bus_message *message; /* the call */
        char *name;              /* of the group; NULL: the settings are a process's or a client's */
        pid_t pid;
        uint64_t start_time;
        SpreadStage stage;
        Walk walk;       /* of the stage */
        uint64_t client; /* the client whose queues are being resolved; 0: none */
        uint32_t slot;   /* the slot of its next queue */
} Spread;

static Spread *spread_free(Spread *s) {
        if (!s)
                return NULL;
        walk_end(&s->walk);
        sd_bus_message_unref(s->message);
        free(s->name);
        free(s);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Spread *, spread_free);

static void free_spread(void *userdata) {
        (void) spread_free(userdata);
}

static void spread_begin(Spread *s, SpreadStage stage) {
        walk_end(&s->walk);
        s->stage = stage;
        if (stage != SPREAD_DONE)
                walk_begin(&s->walk, s->manager, stage == SPREAD_CLIENTS ? WALK_CLIENTS : WALK_GROUPS);
}

/* Resolves the client's next queue. */
static void spread_queue(Spread *s) {
        const Client *c = client_find(s->manager, s->client);

        while (c && s->slot < c->n_slots && !c->slots[s->slot].queue)
                s->slot++;
        if (c && s->slot < c->n_slots)
                (void) queue_settings_changed(c->slots[s->slot++].queue);
        else
                s->client = 0;
}

static bool is_for_client(const Spread *s, const Client *c) {
        if (!s->name)
                return c->peer.pid == s->pid && c->peer.start_time == s->start_time;
        return streq(c->group->name, s->name) || group_inherits_from(c->group, s->name);
}

static void spread_to_client(Spread *s, Client *c) {
        if (!is_for_client(s, c))
                return;
        client_own_settings_changed(c);
        s->client = c->id;
        s->slot = 0;
}

static void spread_to_group(const Spread *s, Group *g) {
        bool below = group_inherits_from(g, s->name);

        if (s->stage == SPREAD_GROUPS && below)
                group_own_settings_changed(g);
        else if (s->stage == SPREAD_SETTLED && (below || streq(g->name, s->name)))
                group_settings_settled(g);
}

/* Does one object. Returns whether there may be more. */
static bool spread_one(Spread *s) {
        if (s->client != 0) {
                spread_queue(s);
                return s->client != 0 || s->stage != SPREAD_DONE;
        }
        void *object = walk_next(&s->walk);
        if (!object)
                spread_begin(s, s->name ? s->stage + 1 : SPREAD_DONE);
        else if (s->stage == SPREAD_CLIENTS)
                spread_to_client(s, object);
        else
                spread_to_group(s, object);
        return s->stage != SPREAD_DONE;
}

static int step(void *userdata) {
        Spread *s = userdata;
        uint64_t until = now_ns() + STEP_NS;
        bool more;

        do {
                more = spread_one(s);
                turn_look(s->manager);
        } while (more && now_ns() < until);
        return more ? 1 : MIN(bus_answer(s->manager, s->message, NULL), 0);
}

static Spread *spread_new(Manager *m, sd_bus_message *message) {
        Spread *s = malloc(sizeof(*s));

        if (!s)
                return NULL;
        *s = (Spread){.manager = m, .message = sd_bus_message_ref(message), .stage = SPREAD_DONE};
        return s;
}

static int spread_go_on(Spread *s) {
        const CallWork work = {step, free_spread, s};

        return call_go_on(s->manager, s->message, &work);
}

int spread_client(Client *c, sd_bus_message *message) {
        Spread *s = spread_new(c->manager, message);

        if (!s)
                return -ENOMEM;
        s->client = c->id;
        return spread_go_on(s);
}

int spread_process(Manager *m, const Peer *peer, sd_bus_message *message) {
        Spread *s = spread_new(m, message);

        if (!s)
                return -ENOMEM;
        s->pid = peer->pid;
        s->start_time = peer->start_time;
        spread_begin(s, SPREAD_CLIENTS);
        return spread_go_on(s);
}

int spread_group(Manager *m, const char *name, sd_bus_message *message) {
        _cleanup_(spread_freep)
        Spread *s = spread_new(m, message);

        if (!s)
                return -ENOMEM;
        s->name = strdup(name);
        if (!s->name)
                return -ENOMEM;
        spread_begin(s, SPREAD_GROUPS);
        return spread_go_on(TAKE_PTR(s));
}
