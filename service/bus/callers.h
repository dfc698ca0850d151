/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Callers: the connections that calls come from, and the users behind them
 *
 * A caller is kept while calls of it wait. The last CALLERS_IDLE_MAX idle ones are kept, too, so that the bus is asked
 * only once who they are. A guest (guests.h) is a caller while it is connected, and is known from the start.
 */

#include <systemd/sd-bus.h>

#include "calls.h"
#include "cgroup/connections.h"

#define CALLERS_IDLE_MAX 1024U

typedef enum CallLane {
        LANE_CHANGES,
        LANE_READS,
        LANE_GUESTS, /* calls of guests, which all change something */
        _CALL_LANE_MAX,
} CallLane;

/* A guest's functions. */
typedef struct CallerGuest {
        int (*turn)(void *userdata);   /* reads one message at most. > 0: there may be more. < 0: the guest has ended */
        void (*ended)(void *userdata); /* called after that; frees the caller */
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
        CallWork work; /* of a call that is made in steps, once begun */
        Call *prev, *next;
};

struct Caller {
        Calls *calls;
        CallUser *user; /* NULL until the bus has told it */
        sd_bus_slot *asking;
        Credentials credentials;
        Call *queue; /* list: the first is dispatched next, or is in progress */
        size_t size; /* of all waiting calls */
        bool listed; /* in its user's lane of its first call */
        CallLane lane;
        Caller *lane_prev, *lane_next;
        Caller *idle_prev, *idle_next; /* in Calls.idle, while no call waits */
        UT_hash_handle hh;
        CallerGuest guest; /* turn NULL: a connection of the bus */
        bool ready;        /* a guest with a message to read */
        char name[];       /* key */
};

typedef struct CallUserLane {
        Caller *callers; /* list: callers whose first call is of this lane */
        bool listed;     /* in Calls.lanes */
        int64_t credit_ns;
        CallUser *prev, *next;
} CallUserLane;

struct CallUser {
        uid_t uid;       /* user_of() */
        unsigned n_refs; /* its callers, and call_user_ref() */
        unsigned n_waiting[_CALL_LANE_MAX];
        size_t size; /* of all waiting calls */
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
        size_t unknown_size;             /* waiting calls of unknown users, beyond a free part each */
        CallUser *users;                 /* uthash, by uid */
        CallUser *lanes[_CALL_LANE_MAX]; /* lists: users with calls in that lane, the next first */

        sd_event_source *turn;  /* dispatches */
        sd_event_source *timer; /* on when all users have to wait */
        uint64_t turn_ended_at, turn_took_ns;
        uint64_t changes_ns;    /* time spent on changes since a read last had a turn */
        int64_t guests_lead_ns; /* time spent on guests minus time spent on changes over the bus */
        bool bus_is_full;       /* the bus has not taken all messages: no call is answered */
        Call *released;         /* the call whose message sd-bus has now */
        Call *current;          /* the call that is dispatched now */
        Call *stepping;         /* the call whose next step runs now */
        struct {
                uid_t uid;
                uint64_t at;
        } last, last_other; /* the user who had the last turn, and the last other user */
};

/* There is a call to dispatch. */
void calls_wake(Calls *c);

/* Calls have their turn after the bus was read. If `urgent`, they have it before: when reading has taken as long as the
 * last turn of calls, and when a guest that used little time lately has a message. */
void calls_set_urgent(Calls *c, bool urgent);

/* Finds or makes the caller. */
int caller_get(Calls *c, const char *name, Caller **ret);

/* Makes a guest. Takes the pidfd of the credentials on success. -EDQUOT: the user has `max` guests. */
int caller_new_guest(Calls *c, const Credentials *credentials, unsigned max, const CallerGuest *guest, Caller **ret);
void caller_free_guest(Caller *k);

/* Called when the guest has a message to read: gives it a turn. */
void caller_is_ready(Caller *k);

/* Queues the message behind the caller's other calls, and takes a reference. -ENOBUFS: the caller, or its user, has too
 * many waiting. */
int caller_add(Caller *k, sd_bus_message *message, CallLane lane, size_t size);

/* Frees a call that is answered, or whose caller is gone. */
void call_free(Call *call);

/* Whether the user has used so little time lately that its calls go first; never so for one that floods. */
bool call_user_is_light(const Calls *c, const CallUser *u);

/* Keep a user while a function uses it. */
void call_user_ref(CallUser *u);
void call_user_unref(Calls *c, CallUser *u);

/* Takes a caller out of its user's lane; and appends it to the lane of its first call. */
void caller_unlist(Caller *k);
void caller_list(Caller *k);

void callers_free(Calls *c);
