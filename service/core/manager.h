/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xschedd: the service
 *
 * The service turns events (a process registers, a queue becomes ready, an administrator changes a weight) into calls
 * of a pure policy, and the policy's grants into words of shared pages. One thread and one loop decide, without a
 * blocking call towards a client; other threads close fds that clients share, because closing them can block (closer,
 * strangers).
 *
 * Its rooms are folders, and rooms.conf says which may use which. One noun a file: x.[ch] is the object and its rules,
 * bus/x-dbus.[ch] its interface on the bus, state/x-state.[ch] its state that survives a restart. The objects tell what
 * happens to them (observer), and the rooms above subscribe to that.
 *
 * This room, core, holds the objects and the decisions:
 *
 *   manager   owns all objects and lists; start and end of the service
 *   client    one registered process: page, lifeline, eventfd, pidfd, quotas; client-match: its class
 *   queue     one slot of a client's page; hooked: how its launches are seen; numbers: of queues and clients
 *   group     the processes of a cgroup, or of a job; slices are groups of groups; group-match: whose they are
 *   origin    the settings that a cgroup's directory and unit carry; user-units: the settings that a user's
 *             manager has
 *   layers    the layers of settings of an object, strongest first; resolve: applies a change of them
 *   suspended which object suspends another; suspension: suspends and resumes
 *   gone      what ends with a cgroup; gone-watch: ends it; follow: processes that move to another cgroup
 *   job       settings that a user made for processes to come; claim: a class for a process, while an fd is open
 *   user      quotas and budgets of a uid; wakes, crowd and state/keep enforce them; party: the owners among whom turns
 *             and votes are divided
 *   device    one policy instance and its entities
 *   entity    a group, client or queue that gets one verdict on one device
 *   share     a group's node in the policy of a device
 *   activity  whose entities belong to the active session of a seat
 *   gang      one verdict for a group on all its devices; stall: stopped processes
 *   wakes     the eventfds of all clients; edges: reads their pages after a wake-up; ahead: has the CPU fetch what that
 *             will read
 *   turn      work that is left for the end of a turn of the loop
 *   arbiter   from events to the policy, from grants to page words, watch flags; lease; decision: latency of decisions
 *   ladder    how far a hold reaches, orders to drivers, their costs (costs); tail: launches in flight behind a hold;
 *             remnant: launches in flight of freed queues
 *   account   run time of an entity that is alone (account-driver, estimate); tally: a group's usage of one device
 *   usage     usage of entities and groups; counters: the counters in clients' pages
 *   totals    usage of groups that outlives them and the service (group-totals)
 *   recorder  counters over time, for the record of the last minutes
 *   taping    records the calls and decisions of policies
 *   waits     why an entity does not run; walk: over all objects of a kind, with pauses
 *
 * Around it:
 *
 *   base      log, auth, notify, systemd, fdstore, ledgers and files
 *   settings  layers of settings and how they resolve, classes, the configuration (xsched-conf), overrides
 *   enforce   freeze, halt, overdue, privileged and its pauser
 *   state     makes objects survive a restart of the service; keep: which clients have room in the fd store
 *   bus       calls, the order of their answers, and their callers (callers); guests: callers without a bus;
 *             answer: a reply that is made in steps; spread: applies settings to clients and queues in steps; announce:
 *             signals
 *
 * Ownership: the manager owns devices, groups and clients; a client owns its queues; a device owns its entities. An
 * object is in the manager's tables from x_new() to x_free(), and x_free() tells the observers of its end.
 */

#include <systemd/sd-event.h>
#include <uthash.h>

#include "cgroup/attr-watch.h"
#include "common/bus-names.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "due.h"
#include "policy/policy.h"
#include "service/base/cpu-latency.h"
#include "service/base/latency.h"
#include "service/base/ledger.h"
#include "service/base/realtime.h"
#include "service/settings/device-settings.h"
#include "service/settings/device-tuning.h"
#include "service/settings/overrides.h"
#include "service/settings/settings.h"
#include "totals.h"

typedef struct Auth Auth;
typedef struct Client Client;
typedef struct Config Config;
typedef struct Device Device;
typedef struct Follow Follow;
typedef struct Group Group;
typedef struct Claim Claim;
typedef struct Job Job;
typedef struct Manager Manager;
typedef struct Privileged Privileged;
typedef struct PrivilegedClient PrivilegedClient;
typedef struct Queue Queue;
typedef struct Share Share;
typedef struct Tally Tally;
typedef struct TotalsFile TotalsFile;
typedef struct User User;

#define MANAGER_READY_SINCE_MAX 64U

/* Priorities of event sources. Verdicts never wait for calls; leases are renewed before everything else. */
#define PRIORITY_LEASES    SD_EVENT_PRIORITY_IMPORTANT
#define PRIORITY_EDGES     (SD_EVENT_PRIORITY_NORMAL - 10) /* causes of verdicts: wakes, ends, due times */
#define PRIORITY_CALLS_DUE (SD_EVENT_PRIORITY_NORMAL - 5)
#define PRIORITY_BUS       SD_EVENT_PRIORITY_NORMAL
#define PRIORITY_CALLS     (SD_EVENT_PRIORITY_NORMAL + 10) /* see calls.h */

typedef enum ClientEvent {
        CLIENT_ADDED,   /* its five fds exist */
        CLIENT_REMOVED, /* its fds are still open, and closed next */
} ClientEvent;

/* keep.h */
typedef struct Keep {
        unsigned max_fds; /* limit of the fd store */
        unsigned n_clients;
        size_t n_bytes; /* total length of their fds' names */
} Keep;

/* client_find() */
#define CLIENTS_FOUND 1024U

/* Where objects of a client were when its last edge was handled, as numbers: they may have been freed since. ahead.h */
typedef struct Ahead {
        uintptr_t page, slots, page_slot, queue, entity, policy;
} Ahead;

typedef struct ClientPlace {
        Client *client;
        Ahead ahead;
} ClientPlace;

/* wakes.h */
typedef struct Wakes {
        int epoll;
        void (*look)(Manager *m); /* turn_look() */
        uint64_t looked_at;       /* CLOCK_MONOTONIC ns of the last wakes_turn(); 0: not all clients are there yet */
        bool busy;                /* verdicts are being made */
        bool polls;               /* there is no epoll_pwait2() */
        int alarm;                /* timerfd: ends a sleep at the latest */
        uint64_t alarm_at;        /* NSEC_INFINITY: off */
        sd_event_source *timer;   /* ticks while `flooded` is not empty */
        User *flooded;            /* list */
        unsigned n_flooded;
} Wakes;

/* claim.h */
typedef struct Claims {
        Claim *all, *ended;               /* lists: open claims, and closed ones whose clients still follow */
        struct ClaimedProcess *processes; /* uthash, by process */
        unsigned n_for_descendants;
        uint64_t next_id;
        sd_event_source *source; /* on while `ended` is not empty; NULL until a claim has ended */
} Claims;

#define WAKES_NULL ((Wakes){.epoll = -EBADF, .alarm = -EBADF, .alarm_at = NSEC_INFINITY})

/* While turns come quickly, sd-event's events, and changes that handlers make to its sources, are late by LOOP_STALE_NS
 * at most; and by LOOP_STALE_MAX_NS where edges that have come for LOOP_PATIENCE times as long stop all at once. */
#define LOOP_STALE_NS     (1 * NSEC_PER_MSEC)
#define LOOP_STALE_MAX_NS (5 * NSEC_PER_MSEC)
#define LOOP_PATIENCE     8U

/* manager_turn(). Between sd_event_prepare() and sd_event_wait(), sd-event's descriptor says whether it has events. */
typedef struct Loop {
        bool prepared;
        uint64_t prepared_at;
        uint64_t turned_at;   /* when the last turn began */
        uint64_t pace_ns;     /* moving mean of the time from turn to turn, each LOOP_STALE_NS at most */
        uint64_t quick_since; /* since when turns have come without a pause */
} Loop;

/* quick.h */
typedef struct Quick {
        const struct QuickOps *ops;
        Queue *queues; /* list: queues that the timer looks at */
        unsigned n;
        uint64_t looked_at;
        Due due;
} Quick;

struct Manager {
        sd_event *event;
        struct Systemd *systemd;         /* systemd.h; owned by the room bus; NULL without a bus */
        char bus_id[33];                 /* of the bus whose unique names clients have; "" without a bus */
        Config *config;                  /* xsched-conf.h; owned; replaced as a whole by manager_set_config() */
        const struct Options *options;   /* options.h; the command line; read again by manager_reload() in reload.c */
        struct Connections *connections; /* cgroup/connections.h; likewise */
        struct Calls *calls;             /* calls.h; likewise */
        struct Walk *walks;              /* list; walk.h */
        struct Recorder *recorder;       /* recorder.h; owned */
        struct Taping *taping;           /* taping.h; NULL: nothing is being recorded */
        struct Observer *observers;      /* list; observer.h; owned */
        struct Auth *auth;               /* auth.h; likewise */
        struct Gate *gate;               /* gate.h; likewise */
        struct Guests *guests;           /* guests.h; likewise; NULL without a socket of its own */
        Settings default_layer;          /* names the class "default", below everything else */

        Device *devices;            /* uthash, by id */
        Client *clients;            /* uthash, by id */
        Queue *queues;              /* uthash, by id */
        Group *groups;              /* uthash, by name */
        Job *jobs;                  /* uthash, by token */
        struct Origin *origins;     /* uthash, by path; kept alive by the groups */
        User *users;                /* uthash, by uid */
        struct SubuidFile *subuids; /* subuid-file.h; NULL: every uid is a user */
        struct Seats *seats;        /* seats.h; NULL: no device has had a policy that goes by sessions */
        Claims claims;
        struct Freezer *freezers; /* uthash, by unit; freeze.h */

        ClientPlace found[CLIENTS_FOUND]; /* of `clients`, by id: client_find() */
        uint64_t last_edge;               /* id of the client whose edge was handled last; 0: none */

        uint64_t next_client_id;
        uint64_t next_queue_id;
        uint64_t next_job_id;
        uint64_t client_ids_end, queue_ids_end; /* ids below these are reserved on disk: manager_reserve_ids() */

        AttrWatch *attr_watch; /* of origins; NULL until there is one */
        Follow *follow;        /* follow.h; while there are clients */

        Device *pending;                      /* list: to be dispatched by arbiter_flush() */
        Device *decided;                      /* list: dispatched, and the verdicts are yet to be written */
        bool turn_due, turn_end_asked;        /* turn.h */
        const struct PrivilegeOps *privilege; /* ladder.h; NULL: no room offers privileged holds */
        Privileged *privileged;               /* privileged.h; NULL: no privileged holds */
        Client *holding;                      /* list: clients with held slots, whose leases are renewed */
        Wakes wakes;
        Dues dues;
        Loop loop;
        Quick quick;
        Keep keep;
        Client *condemned;  /* list: manager_turn() disconnects them */
        Client *to_be_told; /* list: ladder_flush() notifies them */
        Queue *ordered;     /* list: queues whose driver was not yet seen to obey */
        Queue *untold;      /* list: tell.h */
        sd_event_source *tell_source;
        Device *preempted;             /* list: devices whose preemptions are told at the end of the turn */
        sd_event_source *lease_source; /* off while `holding` is empty */

        /* Called when a client comes or goes; moves its fds into and out of the fd store. */
        void (*client_hook)(Client *c, ClientEvent event, void *userdata);
        void *client_hook_userdata;

        bool devices_left; /* a device lost its last queue: manager_turn() trims devices */

        struct Gone *gone;    /* uthash, by path; gone.h */
        struct Halts *halts;  /* halt.h; NULL until there is a client */
        unsigned n_suspended; /* groups with `suspended` set */
        unsigned n_gangs;     /* entities that are members of gangs */

        uint64_t n_edges;
        uint64_t n_looks; /* at quick queues */
        uint64_t n_verdicts;
        uint64_t n_wakeups;
        unsigned n_unheld;        /* queues with Queue.unheld */
        bool unheld_is_said;      /* the Degraded property names them */
        uint64_t n_lease_expired; /* launches of freed queues that passed a hold whose lease had run out */
        Realtime realtime;
        RealtimeLoad load;
        CpuLatency cpu_latency;
        LatencyRing latency;
        Histogram decisions, ready_to_run;             /* decision.h */
        LatencyRing wake_latency, driver_latency;      /* the latter: latency of orders to drivers, as clients tell */
        uint64_t ready_since[MANAGER_READY_SINCE_MAX]; /* ready edges whose verdicts are not written yet */
        unsigned n_ready_since;
        uint64_t verdict_at; /* when the last verdict of this turn was written; 0: none yet */

        char **degraded;             /* NULL-terminated, see manager_set_degraded() */
        DeviceSettings every_device; /* set for every device until the next boot, also for devices to come */

        Totals totals;           /* group-totals.h */
        TotalsFile *totals_file; /* totals-file.h; owned by the room state; NULL: the totals are in no file */

        Overrides overrides; /* stored settings: they outlive a reboot */
        Ledger state;        /* manager-state.h */
        struct StateCleaning
                        *state_cleaning; /* manager-state.h; owned; NULL unless outdated records are being removed */
        bool restoring;                  /* the former service's state is being read */
        bool taping_observed;            /* taping.h */
        bool stopping;                   /* no more signals, and no more writes of state */
};

/* Takes ownership of the configuration, and makes the event loop. The caller then attaches the rooms above core, in
 * this order: enforce_attach(), state_attach(), and bus_attach() where there is a bus. */
int manager_new(Config *config, Manager **ret);
Manager *manager_free(Manager *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(Manager *, manager_free);

/* Called when all kept objects are adopted: frees jobs whose process ended while no service ran. */
void manager_settle(Manager *m);

/* Waits for an event, `timeout_ns` at most, and handles it. Returns > 0 when there was one. */
int manager_turn(Manager *m, uint64_t timeout_ns);

/* The end of a turn, called by manager_turn(): writes due verdicts, disconnects condemned clients, trims devices. */
void manager_end_turn(Manager *m);

/* Runs until sd_event_exit(). */
int manager_loop(Manager *m);

/* Replaces the configuration and applies it to all objects, which keep their state. Takes ownership of `config`. */
void manager_set_config(Manager *m, Config *config);

/* Called after the configuration changed: resolves every client's settings again. */
void manager_settings_changed(Manager *m);

/* Adoption after a restart: fdstore.h moves the fds, and client-state.h reads their meaning from each client's meta
 * memfd. */
