/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xschedd: the service
 *
 * The service turns what happens (a process registers, a queue becomes ready, an administrator changes a weight) into
 * calls of a pure policy, and what the policy grants into words of shared pages. One thread and one loop decide,
 * without a blocking call towards a client; other threads close what others share (closer, strangers).
 *
 * Its rooms are folders, and rooms.conf says which may use which. One noun a file: x.[ch] is the object and its rules,
 * bus/x-dbus.[ch] its interface on the bus, state/x-state.[ch] what is kept of it over a restart. The objects say what
 * happens to them (observer), and the rooms above them do something about it.
 *
 * The objects and what decides, which is this room:
 *
 *   manager   everything there is, the lists, start and end
 *   client    one registered process: page, lifeline, eventfd, pidfd, quotas; client-match: its class
 *   queue     one slot of a client's page; hooked: how its launches are seen; numbers: of queues and clients
 *   group     the processes of a cgroup, or of a job; slices are groups of groups; group-match: whose they are
 *   origin    what stands with a cgroup, and settles how its processes are scheduled; user-units: what a user's
 *             manager says
 *   layers    what decides about settings, strongest first; resolve: what follows when that changes
 *   suspended by whom something is; suspension: that changes
 *   gone      what ends with a cgroup, and gone-watch does it; follow: who is moved from one to another
 *   job       settings that somebody made for what he starts; hold: a class for a process, while an fd is open
 *   user      what a uid has and costs; wakes, crowd and state/keep bound it; party: among whom turns and votes are
 *             divided
 *   device    one policy instance and its entities
 *   entity    what gets one verdict on one device
 *   share     a group's node in the policy of a device
 *   gang      one verdict for a group on all its devices
 *   wakes     the eventfds of all clients; edges: what their pages say then
 *   turn      what is left for the end of a turn of the loop
 *   arbiter   from events to the policy, from grants to page words, watch flags; lease; decision: how long that took
 *   ladder    how far a hold reaches, orders to drivers, what they cost (costs); tail: what is in flight behind a hold;
 *             remnant: what queues that are gone have in flight
 *   account   the time of who is alone (account-driver, estimate); tally: what a group has used of one device
 *   usage     what entities and groups have used; counters: what clients count
 *   totals    what groups have used, over their ends and the service's (group-totals)
 *   recorder  counters over time, for the record of the last minutes
 *   waits     why something does not run; walk: over all objects of a kind, with pauses
 *
 * Around it:
 *
 *   base      log, auth, notify, fdstore, journals and files
 *   settings  layers of settings and what comes of them, classes, the configuration, stored settings
 *   enforce   freeze, halt, overdue, privileged and its holder
 *   state     what survives a restart of the service, and who is kept over it (keep)
 *   bus       calls, in which order they are answered, and of whom (callers); guests: those that come without a bus;
 *             answer: one that is made in steps; spread: settings on their way to all that they are for; announce:
 *             signals
 *
 * Ownership: the manager owns devices, groups and clients; a client owns its queues; a device owns its entities. An
 * object is in the manager's tables from x_new() to x_free(), and x_free() tells the observers of its end.
 */

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>
#include <uthash.h>

#include "cgroup/attr-watch.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "policy/policy.h"
#include "service/base/cpu-latency.h"
#include "service/base/journal.h"
#include "service/base/latency.h"
#include "service/base/realtime.h"
#include "service/settings/device-settings.h"
#include "service/settings/device-tuning.h"
#include "service/settings/settings.h"
#include "service/settings/stored.h"
#include "totals.h"

#define BUS_NAME      "org.xsched.Scheduler"
#define BUS_PATH      "/org/xsched/Scheduler"
#define BUS_INTERFACE "org.xsched.Scheduler"
#define BUS_ERROR(e)  "org.xsched.Scheduler.Error." e

typedef struct Auth Auth;
typedef struct Client Client;
typedef struct Config Config;
typedef struct Device Device;
typedef struct Follow Follow;
typedef struct Group Group;
typedef struct Hold Hold;
typedef struct Job Job;
typedef struct Manager Manager;
typedef struct Privileged Privileged;
typedef struct PrivilegedClient PrivilegedClient;
typedef struct Queue Queue;
typedef struct Share Share;
typedef struct Tally Tally;
typedef struct User User;

#define MANAGER_READY_SINCE_MAX 64U

/* Who comes first in the loop. Verdicts wait for nobody's calls; leases are renewed before everything else. */
#define PRIORITY_LEASES SD_EVENT_PRIORITY_IMPORTANT
#define PRIORITY_EDGES                                                                                      \
        (SD_EVENT_PRIORITY_NORMAL - 10) /* what verdicts follow from: wakes, ends, due times */
#define PRIORITY_CALLS_DUE (SD_EVENT_PRIORITY_NORMAL - 5)
#define PRIORITY_BUS       SD_EVENT_PRIORITY_NORMAL
#define PRIORITY_CALLS     (SD_EVENT_PRIORITY_NORMAL + 10) /* see calls.h */

typedef enum ClientEvent {
        CLIENT_ADDED,   /* its five fds exist */
        CLIENT_REMOVED, /* its fds are about to be closed */
} ClientEvent;

/* keep.h */
typedef struct Keep {
        unsigned max_fds; /* that the service manager keeps */
        unsigned n_clients;
        size_t n_bytes; /* of the names of their fds */
} Keep;

/* wakes.h */
typedef struct Wakes {
        int epoll;
        unsigned (*hear)(Manager *m); /* wakes_turn() */
        uint64_t looked_at;           /* by the last of those; 0: not yet, not all clients are there */
        bool busy;                    /* verdicts are being made */
        sd_event_source *timer;       /* ticks while `flooded` is not empty */
        User *flooded;                /* list */
        unsigned n_flooded;
} Wakes;

/* hold.h */
typedef struct Holds {
        Hold *all, *ended;             /* lists: those that are held, and those whose ends are not through */
        struct HeldProcess *processes; /* uthash, by process */
        unsigned n_for_descendants;
        uint64_t next_id;
        sd_event_source *source; /* on while `ended` is not empty; once there was one */
} Holds;

#define WAKES_NULL ((Wakes){.epoll = -EBADF})

/* quick.h */
typedef struct Quick {
        const struct QuickOps *ops;
        Queue *queues; /* list: those that are looked at */
        unsigned n;
        uint64_t looked_at;
        uint64_t timer_at; /* NSEC_INFINITY: off */
        sd_event_source *timer;
} Quick;

struct Manager {
        sd_event *event;
        sd_bus *bus;
        Config *config; /* config.h; owned; replaced as a whole by manager_set_config() */
        const struct Options *
                        options; /* options.h; the command line; read again by manager_reload() in reload.c */
        struct Connections *connections; /* cgroup/connections.h; owned; NULL without a bus */
        struct Calls *calls;             /* calls.h; owned; NULL without a bus */
        struct Walk *walks;              /* list; walk.h */
        struct Recorder *recorder;       /* recorder.h; owned */
        struct Observer *observers;      /* list; observer.h; owned */
        struct Auth *auth;               /* auth.h; owned; NULL without a bus */
        struct Gate *gate;               /* gate.h; likewise */
        struct Guests *guests;           /* guests.h; owned; NULL without a socket of its own */
        Settings default_layer;          /* names the class "default", below everything else */

        Device *devices;            /* uthash, by id */
        Client *clients;            /* uthash, by id */
        Queue *queues;              /* uthash, by id */
        Group *groups;              /* uthash, by name */
        Job *jobs;                  /* uthash, by token */
        struct Origin *origins;     /* uthash, by path; kept alive by the groups */
        User *users;                /* uthash, by uid */
        struct SubuidFile *subuids; /* subuid-file.h; NULL: every uid is a user */
        Holds holds;
        struct Freezer *freezers; /* uthash, by unit; freeze.h */

        uint64_t next_client_id;
        uint64_t next_queue_id;
        uint64_t next_job_id;
        uint64_t client_ids_end,
                        queue_ids_end; /* of those that are written down as given out: manager_reserve_ids() */

        AttrWatch *attr_watch; /* of origins; once there was one */
        Follow *follow;        /* follow.h; while there are clients */

        Device *pending;                      /* list: to be dispatched by arbiter_flush() */
        bool turn_due;                        /* turn.h */
        const struct PrivilegeOps *privilege; /* ladder.h; NULL: nobody has it to offer */
        Privileged *privileged;               /* privileged.h; NULL: cannot be */
        Client *holding;                      /* list: clients with held slots, whose leases are renewed */
        Wakes wakes;
        Quick quick;
        Keep keep;
        Client *condemned;  /* list: manager_turn() disconnects them */
        Client *to_be_told; /* list: ladder_flush() notifies them */
        Queue *ordered;     /* list: not seen to have obeyed yet */
        Queue *untold;      /* list: tell.h */
        sd_event_source *tell_source;
        Device *preempted;             /* list: of what happened there the bus is told last */
        sd_event_source *lease_source; /* off while `holding` is empty */

        /* What is told of clients that come and go; for the fd store. */
        void (*client_hook)(Client *c, ClientEvent event, void *userdata);
        void *client_hook_userdata;

        bool devices_left; /* by their last queues: manager_turn() looks */

        struct Gone *gone;    /* uthash, by path; gone.h */
        struct Halts *halts;  /* halt.h; once there was a client */
        unsigned n_suspended; /* groups that are, themselves */
        unsigned n_gangs;     /* entities that are members of gangs */

        uint64_t n_edges;
        uint64_t n_looks; /* at quick queues */
        uint64_t n_verdicts;
        uint64_t n_wakeups;
        unsigned n_unheld;   /* queues that a hold does not stop */
        bool unheld_is_said; /* Degraded has it */
        uint64_t n_lease_expired; /* of queues that are gone: launches that passed a hold whose lease had run out */
        Realtime realtime;
        RealtimeLoad load;
        CpuLatency cpu_latency;
        LatencyRing latency;
        Histogram decisions, ready_to_run;             /* decision.h */
        LatencyRing wake_latency, driver_latency;      /* of orders to drivers, as clients tell */
        uint64_t ready_since[MANAGER_READY_SINCE_MAX]; /* ready edges whose verdicts are not written yet */
        unsigned n_ready_since;
        uint64_t verdict_at; /* when the last verdict of this turn was written; 0: none yet */

        char **degraded;             /* NULL-terminated, see manager_set_degraded() */
        DeviceSettings every_device; /* SetPolicy for every device, those to come included */

        Totals totals; /* group-totals.h */
        bool totals_are_stored;
        uint64_t totals_store_at;
        struct TotalsCopy *totals_copy; /* on its way to the disk */

        Stored stored; /* settings that outlive a reboot */
        Journal state; /* manager-state.h */
        struct StateCleaning
                        *state_cleaning; /* manager-state.h; owned; while what is outdated is gone through */
        bool restoring;                  /* from the former service's state */
        bool stopping;                   /* nothing is announced or written down any more */
};

/* Takes the configuration. The loop is made here. What stands above the objects is attached next, in this order, by who
 * makes the manager: enforce_attach(), state_attach(), and bus_attach() with a bus. */
int manager_new(Config *config, Manager **ret);
Manager *manager_free(Manager *m);
DEFINE_TRIVIAL_CLEANUP_FUNC(Manager *, manager_free);

/* All that was kept over a restart has been adopted: jobs that ended while nobody looked are let go. */
void manager_settle(Manager *m);

/* Before a client or a queue has its number: it is nobody else's later, however this service ends. */
void manager_reserve_ids(Manager *m); /* numbers.c */

/* Waits for something to happen, at most so long, and handles it; > 0 when something did. */
int manager_turn(Manager *m, uint64_t timeout_ns);

/* The end of a turn, which manager_turn() comes to: verdicts that are due, clients to be disconnected, devices to be
 * forgotten. */
void manager_end_turn(Manager *m);

/* Runs until sd_event_exit(). */
int manager_loop(Manager *m);

/* Replaces the configuration and applies it to everything that exists; nobody's state is lost. Takes config. */
void manager_set_config(Manager *m, Config *config);

/* manager-config.c: what the configuration says about a device. */
const PolicyOps *manager_device_config(
                Manager *m, const char *id, PolicyConfig *ret, DeviceTuning *ret_tuning);

/* Settings of the configuration's classes; for settings_resolve(), userdata is the Manager. */
const Settings *manager_lookup_class(const char *name, void *userdata);

/* After the configuration changed: every client's settings anew. */
void manager_settings_changed(Manager *m);

/* manager-degraded.c: what the service says of itself, for its manager: that it is degraded, and why. */
const char *manager_status(const Manager *m, char *buf, size_t size);

/* Adds or removes (`text` NULL) the reason `key` from the Degraded property. */
int manager_set_degraded(Manager *m, const char *key, const char *text);

/* Adoption after a restart (fdstore.h moves the fds, client-state.h knows what they mean). Everything is by fd: the
 * meta memfd of each client says what its page, lifeline, eventfd and pidfd belong to. */
