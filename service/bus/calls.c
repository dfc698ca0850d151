/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The order of calls
 *
 * A call that has its turn is handed back to sd-bus (sd_bus_enqueue_for_read()), which dispatches it as if it had just
 * come. The filter knows it by its address: the call keeps a reference for as long.
 *
 * Reading messages from the bus and answering calls share the time when there is work for both: answers get as much
 * time as the reading before them took. So a flood of messages does not delay answers, and costly answers do not keep
 * later calls from being read.
 */

#include <sys/socket.h>
#include <utlist.h>

#include "callers.h"
#include "calls.h"
#include "common/bus-names.h"
#include "gate.h"
#include "service/base/auth-sender.h"
#include "service/base/auth.h"
#include "service/base/log.h"
#include "service/core/client.h"
#include "service/core/turn.h"
#include "service/core/user.h"

/* TURN_NS: length of a turn, after which the loop looks at all other events. QUANTUM_NS: a user's part of it, after
 * which the next user comes. */
#define TURN_NS    (50 * NSEC_PER_USEC)
#define QUANTUM_NS (200 * NSEC_PER_USEC)

/* Reads get a turn after so much time of changes, if changes never end. */
#define CHANGES_AT_ONCE_NS (1 * NSEC_PER_MSEC)

/* Reads come before guests that have used little after this time, so that many such guests cannot keep reads
 * waiting. */
#define READS_LATEST_NS (4 * NSEC_PER_MSEC)

/* A user may take half a second of CPU at once, on top of the share. */
#define CALLS_ROOM_NS (USER_CPU_COST * NSEC_PER_SEC / 2)

/* A long answer also costs the time in which the bus takes it and no other caller is answered. While others call or
 * have clients, a user's long answers may be 4 MB per second together, and 1 MB at once: this leaves the bus nearly all
 * of its time for others. */
#define LONG_ANSWER_SIZE (64U << 10)
#define ANSWER_BYTE_NS   250U
#define ANSWERS_ROOM_NS  (NSEC_PER_SEC / 4)
#define OTHERS_NS        NSEC_PER_SEC /* how recent another user's last call has to be */

/* A new answer goes behind all messages that the bus has not taken yet. UNREAD_SIZE_MAX limits those that sd-bus has
 * written to the socket. While sd-bus has messages that are not written yet, no call is answered; with more than
 * UNWRITTEN_MAX of them, calls are not even refused with an error. */
#define UNREAD_SIZE_MAX (64 << 10)
#define UNWRITTEN_MAX   8192U

/* --- what is in a call --- */

typedef struct Member {
        const char *interface, *member; /* member NULL: all members; ending in '*': all that begin so */
} Member;

static const Member reads[] = {
                {BUS_INTERFACE, "List*"},
                {BUS_INTERFACE, "Get*"},
                {BUS_INTERFACE, "Explain*"},
                {BUS_INTERFACE, "Describe"},
                {BUS_INTERFACE, "Dump"},
                {BUS_INTERFACE ".Device", "Measure"},
                {BUS_INTERFACE ".Device", "Preview"},
                {BUS_INTERFACE ".Group", "Preview"},
                {BUS_PROPERTIES, "Get*"},
                {BUS_INTROSPECT, NULL},
                {BUS_OBJECTS, NULL},
                {BUS_PEER, NULL},
};

static bool member_matches(const Member *m, const char *interface, const char *member) {
        if (!streq(m->interface, interface))
                return false;
        if (!m->member)
                return true;
        size_t n = strlen(m->member);
        return m->member[n - 1] == '*' ? strncmp(m->member, member, n - 1) == 0 : streq(m->member, member);
}

/* An unknown call counts as a change. */
static CallLane message_lane(sd_bus_message *message) {
        const char *interface = strempty(sd_bus_message_get_interface(message)),
                   *member = strempty(sd_bus_message_get_member(message));

        for (size_t i = 0; i < ELEMENTSOF(reads); i++)
                if (member_matches(reads + i, interface, member))
                        return LANE_READS;
        return LANE_CHANGES;
}

/* Adds the size of the rest of the container; stops beyond the limit. */
static int add_size(sd_bus_message *message, size_t *size) {
        const char *contents, *s;
        char type;

        while (*size <= CALL_SIZE_MAX) {
                int r = sd_bus_message_peek_type(message, &type, &contents);
                if (r <= 0)
                        return r;
                *size += 16;
                if (type == SD_BUS_TYPE_STRING || type == SD_BUS_TYPE_OBJECT_PATH || type == SD_BUS_TYPE_SIGNATURE) {
                        r = sd_bus_message_read_basic(message, type, &s);
                        *size += r > 0 ? strlen(s) : 0;
                } else if (contents) {
                        r = sd_bus_message_enter_container(message, type, contents);
                        if (r >= 0)
                                r = add_size(message, size);
                        if (r >= 0 && *size <= CALL_SIZE_MAX)
                                r = sd_bus_message_exit_container(message);
                } else {
                        uint64_t any;
                        r = sd_bus_message_read_basic(message, type, &any);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The approximate size in memory. */
static int message_size(sd_bus_message *message, size_t *ret) {
        size_t size = 1024 + strlen(strempty(sd_bus_message_get_path(message)));

        int r = add_size(message, &size);
        if (r < 0)
                return r;
        r = sd_bus_message_rewind(message, true);
        if (r < 0)
                return r;
        *ret = size;
        return 0;
}

/* --- budgets --- */

static const UserBudget lane_budgets[_CALL_LANE_MAX] = {
                [LANE_CHANGES] = USER_CHANGES, [LANE_READS] = USER_READS, [LANE_GUESTS] = USER_CHANGES};

static void note_user(Calls *c, uid_t uid, uint64_t now) {
        if (c->last.uid != uid) {
                c->last_other = c->last;
                c->last.uid = uid;
        }
        c->last.at = now;
}

static bool others_call(const Calls *c, uid_t uid, uint64_t now) {
        return ns_sub(now, c->last.uid == uid ? c->last_other.at : c->last.at) < OTHERS_NS;
}

static bool others_have_clients(Manager *m, uid_t uid) {
        const User *u = user_get(m, uid);

        return u && HASH_COUNT(m->clients) > u->n[USER_CLIENTS];
}

void call_sends(Manager *m, size_t size) {
        Calls *c = m->calls;
        uint64_t now = now_ns();

        if (!c || !c->stepping || size < LONG_ANSWER_SIZE)
                return;
        uid_t uid = c->stepping->caller->user->uid;
        Bucket *b = user_budget(c->manager, uid, USER_ANSWERS);
        if (b && (others_call(c, uid, now) || others_have_clients(m, uid)))
                bucket_take(b, now, (uint64_t) size * ANSWER_BYTE_NS);
}

static void charge(Calls *c, CallUser *u, CallLane lane, uint64_t now, uint64_t took_ns) {
        Bucket *b = user_budget(c->manager, u->uid, lane_budgets[lane]);

        note_user(c, u->uid, now);
        u->lanes[lane].credit_ns -= (int64_t) took_ns;
        if (lane != LANE_READS)
                c->changes_ns += took_ns;
        else
                c->changes_ns = 0;
        if (lane != LANE_READS)
                c->guests_lead_ns = CLAMP(c->guests_lead_ns + (lane == LANE_GUESTS ? 1 : -1) * (int64_t) took_ns,
                                -(int64_t) CHANGES_AT_ONCE_NS, (int64_t) CHANGES_AT_ONCE_NS);
        if (b)
                bucket_take(b, now, took_ns * USER_CPU_COST);
}

/* Returns when the user has credit again. */
static uint64_t credit_at(const Calls *c, const CallUser *u, CallLane lane, uint64_t now) {
        const Bucket *b = user_budget(c->manager, u->uid, lane_budgets[lane]),
                     *answers = user_budget(c->manager, u->uid, USER_ANSWERS);
        uint64_t at = b ? bucket_credit_at(b, now, CALLS_ROOM_NS) : now;

        return lane == LANE_READS && answers ? MAX(at, bucket_credit_at(answers, now, ANSWERS_ROOM_NS)) : at;
}

/* --- turns --- */

static uint64_t n_unwritten(const Calls *c) {
        uint64_t n = 0;

        return sd_bus_get_n_queued_write(c->bus, &n) < 0 ? 0 : n;
}

/* Returns the next user of the lane that has credit; *at: when the first of the others has credit again. */
static CallUser *lane_next_user(Calls *c, CallLane lane, uint64_t now, uint64_t *at) {
        CallUser *u, *tmp;

        DL_FOREACH_SAFE2(c->lanes[lane], u, tmp, lanes[lane].next) {
                uint64_t then = credit_at(c, u, lane, now);
                if (then <= now)
                        return u;
                *at = MIN(*at, then);
        }
        return NULL;
}

/* Returns the user to serve. NULL: none before *at, or before the bus has taken what is written. */
static CallUser *next_user(Calls *c, CallLane *ret_lane, uint64_t now, uint64_t *at) {
        CallUser *users[_CALL_LANE_MAX];

        *at = UINT64_MAX;
        uint64_t unwritten = n_unwritten(c);
        c->bus_is_full = unwritten > 0;
        users[LANE_GUESTS] = unwritten > UNWRITTEN_MAX / 2 ? NULL : lane_next_user(c, LANE_GUESTS, now, at);
        users[LANE_READS] = c->bus_is_full ? NULL : lane_next_user(c, LANE_READS, now, at);
        users[LANE_CHANGES] = c->bus_is_full ? NULL : lane_next_user(c, LANE_CHANGES, now, at);

        bool light = users[LANE_GUESTS] && call_user_is_light(c, users[LANE_GUESTS]);
        bool due = users[LANE_READS] && c->changes_ns >= (light ? READS_LATEST_NS : CHANGES_AT_ONCE_NS);
        bool guest = users[LANE_GUESTS] && (light || !users[LANE_CHANGES] || c->guests_lead_ns <= 0);
        CallLane change = guest ? LANE_GUESTS : LANE_CHANGES;
        *ret_lane = users[change] && !due ? change : LANE_READS;
        return users[*ret_lane];
}

/* Has sd-bus dispatch the message. */
static void call_dispatch(Call *call) {
        Calls *c = call->caller->calls;

        c->released = call;
        int r = sd_bus_enqueue_for_read(c->bus, call->message);
        if (r < 0) {
                (void) sd_bus_reply_method_errno(call->message, r, NULL);
                call_free(call);
                return;
        }
        /* Messages before it in sd-bus's queue are queued as calls on the way. */
        while (c->released && sd_bus_process(c->bus, NULL) > 0)
                ;
        if (c->current && !c->current->work.step)
                call_free(c->current);
        c->current = NULL;
}

static void call_step(Call *call) {
        Calls *c = call->caller->calls;

        c->stepping = call;
        int r = call->work.step(call->work.userdata);
        c->stepping = NULL;
        if (r > 0)
                return;
        if (r < 0)
                (void) sd_bus_reply_method_errno(call->message, r, NULL);
        call_free(call);
}

/* Reads one message of the guest at most. */
static void guest_turn(Caller *k) {
        Calls *c = k->calls;
        Call *released = TAKE_PTR(c->released);

        k->ready = false;
        caller_unlist(k);
        int r = k->guest.turn(k->guest.userdata);
        if (c->current && !c->current->work.step)
                call_free(c->current);
        c->current = NULL;
        c->released = released;
        if (r < 0)
                k->guest.ended(k->guest.userdata);
        else if (r > 0)
                caller_is_ready(k);
}

/* Does one call, or one step of it. The caller then goes behind the others of its user, unless the call has more
 * steps. */
static void user_serve(CallUser *u, CallLane lane) {
        Caller *k = u->lanes[lane].callers;
        Call *call = k->queue;

        if (!call)
                guest_turn(k);
        else if (call->work.step)
                call_step(call);
        else
                call_dispatch(call);
}

static void lane_rotate(Calls *c, CallUser *u, CallLane lane) {
        if (!u->lanes[lane].listed)
                return;
        DL_DELETE2(c->lanes[lane], u, lanes[lane].prev, lanes[lane].next);
        DL_APPEND2(c->lanes[lane], u, lanes[lane].prev, lanes[lane].next);
}

/* Answers calls of one user until its quantum or the turn is over. Returns the time that it took. */
static uint64_t serve(Calls *c, CallUser *u, CallLane lane, uint64_t now, uint64_t until) {
        CallUserLane *l = u->lanes + lane;

        if (l->credit_ns <= 0)
                l->credit_ns += QUANTUM_NS;
        call_user_ref(u);
        while (l->credit_ns > 0 && l->callers && now < until && !c->released) {
                uint64_t before = now;
                user_serve(u, lane);
                now = now_ns();
                charge(c, u, lane, now, now - before);
                turn_look(c->manager);
                if (lane != LANE_GUESTS && n_unwritten(c) > 0)
                        break;
        }
        if (l->credit_ns <= 0)
                lane_rotate(c, u, lane);
        call_user_unref(c, u);
        return now;
}

static void wait_until(Calls *c, uint64_t at) {
        (void) sd_event_source_set_enabled(c->turn, SD_EVENT_OFF);
        (void) sd_event_source_set_time(c->timer, at == UINT64_MAX ? UINT64_MAX : DIV_ROUND_UP(at, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *s, void *userdata) {
        Calls *c = userdata;
        uint64_t began = now_ns(), now = began, at;
        CallLane lane;

        while (now < began + TURN_NS && !c->released) {
                CallUser *u = next_user(c, &lane, now, &at);
                if (!u) {
                        wait_until(c, at);
                        break;
                }
                now = serve(c, u, lane, now, began + TURN_NS);
        }
        if (c->released) /* sd-bus has the message, and dispatches it next */
                (void) sd_event_source_set_enabled(c->turn, SD_EVENT_OFF);
        c->turn_ended_at = now;
        c->turn_took_ns = now - began;
        calls_set_urgent(c, false);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        calls_wake(userdata);
        return 0;
}

/* sd-bus goes on writing between two turns of the loop, and does not tell when all is written. */
static int before_sleep(sd_event_source *s, void *userdata) {
        Calls *c = userdata;

        if (c->bus_is_full && n_unwritten(c) == 0)
                calls_wake(c);
        return 0;
}

/* --- taking in --- */

static int refuse(Calls *c, const char *why, sd_bus_error *error) {
        if (n_unwritten(c) > UNWRITTEN_MAX)
                return 1;
        return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED, why);
}

static int take_in(Calls *c, sd_bus_message *message, const char *sender, sd_bus_error *error) {
        Caller *k = NULL;
        size_t size = 0;

        int r = message_size(message, &size);
        if (r < 0)
                return r;
        if (size > CALL_SIZE_MAX)
                return refuse(c, "The arguments are too long", error);
        r = caller_get(c, sender, &k);
        if (r >= 0)
                r = caller_add(k, message, message_lane(message), size);
        if (r == -ENOBUFS)
                return refuse(c,
                                k && k->user ? "Too many calls of this user wait to be answered"
                                             : "Too many calls wait until the bus has said whose they are",
                                error);
        return r < 0 ? r : 1;
}

/* Notes the message's sender, so that handlers need not ask again. NULL: none. */
static void set_sender(Calls *c, const sd_bus_message *message, const Caller *k) {
        auth_know_sender(message, k ? k->credentials.uid : UID_NONE, k ? k->user->uid : UID_NONE);
        if (k && k->guest.turn)
                auth_know_process(k->credentials.pid, k->credentials.pidfd);
        if (c->manager->connections)
                connections_lend(c->manager->connections, message, k ? &k->credentials : NULL);
}

/* Calls are answered in the order of their arrival: this is the caller's only call. */
int caller_answer(Caller *k, sd_bus_message *message, sd_bus_error *error) {
        Calls *c = k->calls;

        set_sender(c, message, k);
        if (!auth_is_waiting(c->manager->auth, message)) {
                int r = caller_add(k, message, LANE_GUESTS, 0);
                if (r < 0)
                        return r;
                c->current = k->queue;
        }
        return gate_call(c->manager->gate, message, error);
}

/* sd-bus dispatches the call that was handed back to it. */
static int dispatched(Calls *c, sd_bus_message *message) {
        c->current = TAKE_PTR(c->released);
        calls_wake(c);
        set_sender(c, message, c->current->caller);
        return c->answer(c->manager, message);
}

static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const char *sender = sd_bus_message_get_sender(message);
        Calls *c = userdata;
        Caller *k;

        set_sender(c, NULL, NULL);
        if (sd_bus_message_is_method_call(message, NULL, NULL) <= 0 || !sender)
                return 0;
        if (c->released && c->released->message == message)
                return dispatched(c, message);
        if (auth_is_waiting(c->manager->auth, message)) {
                HASH_FIND_STR(c->callers, sender, k);
                if (k && k->user)
                        set_sender(c, message, k);
                return 0;
        }
        if (now_ns() - c->turn_ended_at >= c->turn_took_ns)
                calls_set_urgent(c, true);
        return take_in(c, message, sender, error);
}

/* --- life --- */

int call_go_on(Manager *m, sd_bus_message *message, const CallWork *work) {
        Calls *c = m->calls;
        int r;

        if (c && c->current && c->current->message == message) {
                c->current->work = *work;
                return 1;
        }
        while ((r = work->step(work->userdata)) > 0)
                turn_look(m);
        work->free(work->userdata);
        return r < 0 ? r : 1;
}

/* sd-bus makes the socket's buffer as large as it can; the bus would handle all that is in it before an answer. */
static void limit_unread(Calls *c) {
        const int size = UNREAD_SIZE_MAX;
        int fd = sd_bus_get_fd(c->bus);

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0)
                log_debug_errno(negative_errno(), "Failed to limit what is sent to the bus at once, ignoring: %m");
}

static int add_sources(Calls *c) {
        sd_event *event = c->manager->event;

        int r = sd_event_add_defer(event, &c->turn, on_turn, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->turn, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(c->turn, PRIORITY_CALLS);
        if (r >= 0)
                r = sd_event_add_time(event, &c->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_prepare(c->timer, before_sleep);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->turn, "calls");
        (void) sd_event_source_set_description(c->timer, "calls-wait");
        return 0;
}

int calls_new(Manager *m, sd_bus *bus, call_answer_t answer, Calls **ret) {
        Calls *c = malloc(sizeof(*c));

        if (!c)
                return -ENOMEM;
        *c = (Calls){.manager = m, .bus = sd_bus_ref(bus), .answer = answer};
        limit_unread(c);
        int r = add_sources(c);
        if (r >= 0)
                r = sd_bus_add_filter(bus, &c->filter, on_message, c);
        if (r < 0) {
                calls_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

Calls *calls_free(Calls *c) {
        if (!c)
                return NULL;
        callers_free(c);
        sd_bus_slot_unref(c->filter);
        sd_event_source_disable_unref(c->turn);
        sd_event_source_disable_unref(c->timer);
        sd_bus_unref(c->bus);
        free(c);
        return NULL;
}

sd_bus *calls_bus(const Calls *c) {
        return c ? c->bus : NULL;
}
