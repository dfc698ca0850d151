/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Callers
 */

#include <utlist.h>

#include "callers.h"
#include "calls.h"
#include "common/bus-names.h"
#include "service/base/log.h"
#include "service/core/user.h"

/* Limits for callers whose user is not known yet, and for the waiting calls of one of them: about sixty short ones,
 * since each counts what it costs beside its arguments, or one long one. All of them together may have as much waiting
 * as a user, and each has this much in any case, so that no caller can use up the memory that another caller's first
 * call needs. */
#define UNKNOWN_MAX       4096U
#define UNKNOWN_SIZE_MAX  CALL_SIZE_MAX
#define UNKNOWN_SURE_SIZE (4U << 10)

/* Limit of a user's waiting calls in bytes. */
#define USER_SIZE_MAX (8U << 20)

/* A user who has used less of the budget for changes goes before others: 2 ms of CPU at once, or as much of a CPU as
 * the budget is. */
#define USER_LIGHT_NS (UINT64_C(2) * USER_CPU_COST * NSEC_PER_MSEC)

/* --- the turn of calls --- */

void calls_wake(Calls *c) {
        (void) sd_event_source_set_enabled(c->turn, SD_EVENT_ON);
}

void calls_set_urgent(Calls *c, bool urgent) {
        (void) sd_event_source_set_priority(c->turn, urgent ? PRIORITY_CALLS_DUE : PRIORITY_CALLS);
}

/* --- users --- */

static CallUser *call_user_get(Calls *c, uid_t uid) {
        CallUser *u;

        HASH_FIND(hh, c->users, &uid, sizeof(uid), u);
        if (u)
                return u;
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->uid = uid;
        HASH_ADD(hh, c->users, uid, sizeof(u->uid), u);
        return u;
}

void call_user_ref(CallUser *u) {
        u->n_refs++;
}

void call_user_unref(Calls *c, CallUser *u) {
        if (--u->n_refs > 0)
                return;
        HASH_DEL(c->users, u);
        free(u);
}

bool call_user_is_light(const Calls *c, const CallUser *u) {
        const User *of = user_find(c->manager, u->uid);

        return !of || bucket_has_credit(of->budgets + USER_CHANGES, now_ns(), USER_LIGHT_NS);
}

/* A user who is new in the list and has used little goes first: a registration is a few calls in sequence, and would
 * wait for the others' quantum at each. */
static void user_list(Calls *c, CallUser *u, CallLane lane) {
        CallUserLane *l = u->lanes + lane;

        if (l->listed || !l->callers)
                return;
        l->listed = true;
        if (call_user_is_light(c, u))
                DL_PREPEND2(c->lanes[lane], u, lanes[lane].prev, lanes[lane].next);
        else
                DL_APPEND2(c->lanes[lane], u, lanes[lane].prev, lanes[lane].next);
}

static void user_unlist(Calls *c, CallUser *u, CallLane lane) {
        CallUserLane *l = u->lanes + lane;

        if (!l->listed || l->callers)
                return;
        l->listed = false;
        l->credit_ns = MIN(l->credit_ns, 0); /* a debt is kept, a credit is for the turn */
        DL_DELETE2(c->lanes[lane], u, lanes[lane].prev, lanes[lane].next);
}

/* --- those who are not known yet --- */

/* Bytes that a caller has waiting beyond what each may have. */
static size_t unknown_excess(size_t size) {
        return size > UNKNOWN_SURE_SIZE ? size - UNKNOWN_SURE_SIZE : 0;
}

static void unknown_resize(Caller *k, size_t size) {
        k->calls->unknown_size -= unknown_excess(k->size);
        k->calls->unknown_size += unknown_excess(size);
}

static bool unknown_has_room(const Caller *k, size_t size) {
        size_t others = k->calls->unknown_size - unknown_excess(k->size);

        return k->size + size <= UNKNOWN_SIZE_MAX && others + unknown_excess(k->size + size) <= USER_SIZE_MAX;
}

/* --- callers --- */

void caller_unlist(Caller *k) {
        if (!k->listed)
                return;
        k->listed = false;
        DL_DELETE2(k->user->lanes[k->lane].callers, k, lane_prev, lane_next);
        user_unlist(k->calls, k->user, k->lane);
}

void caller_list(Caller *k) {
        if (k->listed || !k->user || !(k->queue || k->ready))
                return;
        k->listed = true;
        k->lane = k->queue ? k->queue->lane : LANE_GUESTS;
        DL_APPEND2(k->user->lanes[k->lane].callers, k, lane_prev, lane_next);
        user_list(k->calls, k->user, k->lane);
        if (k->lane == LANE_GUESTS && call_user_is_light(k->calls, k->user))
                calls_set_urgent(k->calls, true);
        calls_wake(k->calls);
}

static void caller_set_idle(Caller *k, bool idle) {
        Calls *c = k->calls;

        if (k->guest.turn)
                return;
        if (idle) {
                DL_APPEND2(c->idle, k, idle_prev, idle_next);
                c->n_idle++;
        } else {
                DL_DELETE2(c->idle, k, idle_prev, idle_next);
                c->n_idle--;
        }
}

static void caller_free(Caller *k) {
        Calls *c = k->calls;

        while (k->queue)
                call_free(k->queue);
        caller_unlist(k);
        caller_set_idle(k, false);
        if (!k->user)
                c->n_unknown--;
        else
                call_user_unref(c, k->user);
        sd_bus_slot_unref(k->asking);
        credentials_done(&k->credentials);
        if (!k->guest.turn)
                HASH_DEL(c->callers, k);
        free(k);
}

static void callers_trim(Calls *c) {
        while (c->n_idle > CALLERS_IDLE_MAX)
                caller_free(c->idle);
}

void callers_free(Calls *c) {
        Caller *k, *tmp;

        HASH_ITER(hh, c->callers, k, tmp)
                caller_free(k);
}

/* --- who it is --- */

static void caller_know(Caller *k, CallUser *u) {
        k->calls->n_unknown--;
        k->user = u;
        call_user_ref(u);
        k->calls->unknown_size -= unknown_excess(k->size);
        for (Call *call = k->queue; call; call = call->next) {
                u->n_waiting[call->lane]++;
                u->size += call->size;
        }
        caller_list(k);
}

static int on_credentials(sd_bus_message *reply, void *userdata, sd_bus_error *ret_error) {
        Caller *k = userdata;
        CallUser *u = NULL;

        k->asking = sd_bus_slot_unref(k->asking);
        if (credentials_read(reply, &k->credentials) >= 0)
                u = call_user_get(k->calls, user_of(k->calls->manager, k->credentials.uid));
        /* NULL: the caller has gone, or there is no memory; then its call is not answered. */
        if (u)
                caller_know(k, u);
        else
                caller_free(k);
        return 1;
}

int caller_get(Calls *c, const char *name, Caller **ret) {
        Caller *k;

        HASH_FIND_STR(c->callers, name, k);
        if (k) {
                *ret = k;
                return 0;
        }
        if (c->n_unknown >= UNKNOWN_MAX)
                return -ENOBUFS;
        size_t n = strlen(name) + 1;
        k = calloc(1, sizeof(*k) + n);
        if (!k)
                return -ENOMEM;
        k->calls = c;
        k->credentials = CREDENTIALS_NULL;
        memcpy(k->name, name, n);
        int r = sd_bus_call_method_async(c->bus, &k->asking, DRIVER_NAME, DRIVER_PATH, DRIVER_INTERFACE,
                        "GetConnectionCredentials", on_credentials, k, "s", name);
        if (r < 0) {
                free(k);
                return r;
        }
        c->n_unknown++;
        HASH_ADD_STR(c->callers, name, k);
        caller_set_idle(k, true);
        callers_trim(c);
        *ret = k;
        return 0;
}

/* --- guests --- */

int caller_new_guest(Calls *c, const Credentials *credentials, unsigned max, const CallerGuest *guest, Caller **ret) {
        CallUser *u = call_user_get(c, user_of(c->manager, credentials->uid));

        if (!u)
                return -ENOMEM;
        call_user_ref(u);
        Caller *k = u->n_guests < max ? calloc(1, sizeof(*k) + 1) : NULL;
        if (!k) {
                int r = u->n_guests < max ? -ENOMEM : -EDQUOT;
                call_user_unref(c, u);
                return r;
        }
        u->n_guests++;
        k->calls = c;
        k->user = u;
        k->credentials = *credentials;
        k->guest = *guest;
        *ret = k;
        return 0;
}

void caller_free_guest(Caller *k) {
        k->ready = false;
        k->user->n_guests--;
        caller_free(k);
}

void caller_is_ready(Caller *k) {
        k->ready = true;
        caller_list(k);
}

/* --- calls --- */

static bool has_room(const Caller *k, CallLane lane, size_t size) {
        const CallUser *u = k->user;

        if (!u)
                return unknown_has_room(k, size);
        return u->n_waiting[lane] < (lane == LANE_READS ? CALLS_READS_MAX : CALLS_CHANGES_MAX) &&
                        u->size + size <= USER_SIZE_MAX;
}

int caller_add(Caller *k, sd_bus_message *message, CallLane lane, size_t size) {
        if (!has_room(k, lane, size))
                return -ENOBUFS;
        Call *call = malloc(sizeof(*call));
        if (!call)
                return -ENOMEM;
        *call = (Call){.caller = k, .message = sd_bus_message_ref(message), .lane = lane, .size = size};
        if (!k->queue)
                caller_set_idle(k, false);
        DL_APPEND(k->queue, call);
        if (k->user) {
                k->user->n_waiting[lane]++;
                k->user->size += size;
        } else
                unknown_resize(k, k->size + size);
        k->size += size;
        caller_list(k);
        return 0;
}

void call_free(Call *call) {
        Caller *k = call->caller;
        Calls *c = k->calls;

        if (call->work.free)
                call->work.free(call->work.userdata);
        if (c->released == call)
                c->released = NULL;
        if (c->current == call)
                c->current = NULL;
        caller_unlist(k);
        DL_DELETE(k->queue, call);
        if (k->user) {
                k->user->n_waiting[call->lane]--;
                k->user->size -= call->size;
        } else
                unknown_resize(k, k->size - call->size);
        k->size -= call->size;
        sd_bus_message_unref(call->message);
        free(call);
        if (!k->queue)
                caller_set_idle(k, true);
        caller_list(k);
}
