/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Callers: the connections that calls come from, and the users behind them
 *
 * A caller is kept while it has calls that wait, and CALLERS_IDLE_MAX of the others, those that called last: so that
 * the bus is asked once who it is. A guest (guests.h) is one for as long as it is there, and is known from the start.
 */

#include "calls.h"
#include "cgroup/connections.h"

#define CALLERS_IDLE_MAX 1024U

typedef enum CallLane {
        LANE_CHANGES,
        LANE_READS,
        LANE_GUESTS, /* what guests call, all of which changes something */
        _CALL_LANE_MAX,
} CallLane;

/* What a guest does. */
typedef struct CallerGuest {
        int (*turn)(void *userdata); /* reads one message at most. > 0: there may be more. < 0: it has ended */
        void (*ended)(void *userdata); /* after that; frees the caller */
        void *userdata;
} CallerGuest;

typedef struct Call Call;
typedef struct Caller Caller;
typedef struct CallUser CallUser;

struct Call {
        Caller *caller;
        sd_bus_message *message;
        CallLane lane;
        size_t size;
        CallWork work; /* once it has begun, where it is made in steps */
        Call *prev, *next;
};

struct Caller {
        Calls *calls;
        CallUser *user; /* NULL until the bus has said it */
        sd_bus_slot *asking;
        Credentials credentials;
        Call *queue; /* list: the first is the next to be dispatched, or is being made */
        unsigned n_queued;
        size_t size; /* of what waits */
        bool listed; /* with its user, in the lane of its first call */
        CallLane lane;
        Caller *lane_prev, *lane_next;
        Caller *idle_prev, *idle_next; /* of Calls.idle, while nothing waits */
        UT_hash_handle hh;
        CallerGuest guest; /* turn NULL: it is a connection of the bus */
        bool ready;        /* a guest, that has something to be read */
        char name[];       /* key */
};

typedef struct CallUserLane {
        Caller *callers; /* list: those whose first call is of this lane */
        bool listed;     /* in Calls.lanes */
        int64_t credit_ns;
        CallUser *prev, *next;
} CallUserLane;

struct CallUser {
        uid_t uid;       /* user_of() */
        unsigned n_refs; /* its callers, and who looks at it */
        unsigned n_waiting[_CALL_LANE_MAX];
        size_t size; /* of all that waits */
        unsigned n_guests;
        CallUserLane lanes[_CALL_LANE_MAX];
        UT_hash_handle hh;
};

struct Calls {
        Manager *manager;
        sd_bus *bus;
        sd_bus_slot *filter;
        int (*answer)(Manager *m, sd_bus_message *message); /* see calls_new() */
        Caller *callers;                                    /* uthash, by name */
        Caller *idle;                                       /* list, the longest idle first */
        unsigned n_idle, n_unknown;
        size_t unknown_size; /* of what callers wait with whose users are not known, beyond a little each */
        CallUser *users;     /* uthash, by uid */
        CallUser *lanes[_CALL_LANE_MAX]; /* lists: users with something to do there, the next first */

        sd_event_source *turn;  /* dispatches */
        sd_event_source *timer; /* when everybody has to wait */
        uint64_t turn_ended_at, turn_took_ns;
        uint64_t changes_ns;    /* spent on changes since it was a read's turn */
        int64_t guests_lead_ns; /* spent on guests beyond what was spent on changes over the bus */
        bool bus_is_full;       /* it has not taken all that is written: nobody is answered */
        Call *released;         /* its message is in sd-bus's hands */
        Call *current;          /* and is being dispatched */
        Call *stepping;         /* whose work goes on */
        struct {
                uid_t uid;
                uint64_t at;
        } last, last_other; /* who had a turn last, and who of the other users did */
};

/* Finds or makes. */
int caller_get(Calls *c, const char *name, Caller **ret);

/* A guest: `max` of them a user may have. Takes the pidfd of the credentials on success. -EDQUOT: there are as many. */
int caller_new_guest(Calls *c, const Credentials *credentials, unsigned max, const CallerGuest *guest,
                Caller **ret);
void caller_free_guest(Caller *k);

/* The guest is to have a turn. */
void caller_is_ready(Caller *k);

/* Behind the others of its caller. Takes nothing; the message is referenced. -ENOBUFS: it, or its user, has too many
 * waiting. */
int caller_add(Caller *k, sd_bus_message *message, CallLane lane, size_t size);

/* The call is done, or is not wanted any more. */
void call_free(Call *call);

/* Whether the user has used so little lately that it goes before others: who floods never does. */
bool call_user_is_light(const Calls *c, const CallUser *u);

/* Keeps a user for as long as it is looked at. */
void call_user_ref(CallUser *u);
void call_user_unref(Calls *c, CallUser *u);

/* Takes a caller from its user's lane, and puts it back at the end, by its first call. */
void caller_unlist(Caller *k);
void caller_list(Caller *k);

void callers_free(Calls *c);

/* calls.c: there is something to do. */
void calls_wake(Calls *c);

/* calls.c: for a guest's filter, within its turn: answers the call, or has it wait. Returns what the filter returns. */
int caller_answer(Caller *k, sd_bus_message *message, sd_bus_error *error);
