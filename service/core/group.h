/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Group: the processes of a cgroup, or of a job, and everything below
 *
 * A group is made by its first client, by the first below it, by settings given to it in advance, or with its job. It
 * is freed when it has no client, no group below, no override, no suspension, no job, and no launches in flight
 * (tail.h).
 *
 * A group with clients, its own or below, has as parent the group of the cgroup above, up to "/"; the parent of a job's
 * group is the group of the cgroup that the job was made in. Weights, maxima and minima count in this hierarchy
 * (share.h). A group without clients has no parent.
 */

#include "entity.h"
#include "origin.h"
#include "service/settings/match.h"
#include "service/settings/settings.h"

typedef enum GroupKind {
        GROUP_CGROUP,
        GROUP_JOB,
        _GROUP_KIND_MAX,
} GroupKind;

const char *group_kind_to_string(GroupKind v);

/* The group's resolved settings, kept because its clients and queues stack theirs on top. It depends on the group's
 * layers alone; group_resolve() has to be called after every change of one of these. */
typedef struct GroupKept {
        SettingsBase base;
        SettingsResolved lowered; /* `base` after all layers that lower the group */
        struct GroupLowering {
                SettingsSource source;
                Settings settings;
        } * lowering; /* these layers, in order; NULL: no memory, group_lower() collects them again */
        size_t n_lowering;
} GroupKept;

struct Group {
        Manager *manager;
        GroupKind kind;
        char *name;
        char *unit;
        Job *job;              /* NULL: none; a GROUP_JOB always has one */
        struct Origin *origin; /* of the cgroup, or of the cgroup that the job was made in; may be NULL */

        Settings override;  /* SetGroup, Group.Set: until the next boot */
        bool written;       /* its settings are saved for the next service: manager-state.h */
        Settings effective; /* `override` on top of its stored settings */
        Settings lowering;  /* SetGroup, Group.Set by the user whose processes are all in it: only lowers */
        uid_t lowering_uid; /* who set `lowering`: it counts while all processes are this user's */
        bool lowering_counts;
        Settings match;     /* names the class whose [Match] fits, if one does */
        char *match_detail; /* why */
        bool match_of_unit; /* an ancestor is the unit that `match` is for, and has its Weight, Max and Min */
        SettingsResolved resolved;
        GroupKept kept;
        bool suspended;     /* the group itself; ends with its cgroup */
        uint64_t cgroup_id; /* of its cgroup when it was suspended or got settings; 0: unknown */

        Group *parent;   /* NULL without clients and groups below, and for "/" */
        Group *children; /* list, by children_prev/children_next */
        Group *children_prev, *children_next;
        unsigned n_children, n_jobs; /* n_jobs: children that are jobs */
        bool awaited;                /* a client is about to join: do not free it */
        Share *shares;               /* list, by group_prev/group_next */

        Client *clients; /* list, by group_prev/group_next */
        unsigned n_clients;
        uint64_t owner;   /* owner of all clients since the first one: party.h */
        Entity *entities; /* list, by group_prev/group_next: of the group and of its clients and queues */

        PolicyUsage usage;         /* of freed entities */
        PolicyUsage born;          /* its usage at its start, from `totals` */
        TotalsSlot *totals;        /* its entry; group-totals.h */
        Tally *tallies;            /* usage by device: list, by group_prev/group_next; tally.h */
        uint64_t service_wait_ns;  /* of freed entities */
        AccountSource gone_source; /* how the last freed entity was counted */
        uint64_t gone_run_ns;      /* of freed groups below */
        uint64_t told_run_ns;      /* part of its run time that the parent has counted in gone_run_ns */

        UT_hash_handle hh;
};

/* Deepest path that gets a group: each level costs a group, and users can nest directories without limit. */
#define GROUP_DEPTH_MAX 64U

/* Memory, in bytes, of the groups of all levels of a cgroup's path, if none of them is shared. */
unsigned group_cost(const char *cgroup);

/* Finds or makes the group of a cgroup, or makes a job's. -EDQUOT: deeper than GROUP_DEPTH_MAX. */
int group_get(Manager *m, const char *cgroup, Group **ret);
int group_new(Manager *m, GroupKind kind, const char *name, const char *unit, const char *cgroup, Group **ret);
Group *group_free(Group *g);

/* By name, by cgroup path, or by the name of a unit of the system's manager. NULL when there is none. */
Group *group_find(Manager *m, const char *name);

/* Frees the group when nothing is left to remember. Returns NULL then, else g. */
Group *group_gc(Group *g);

/* group_gc() for all groups, after a restart from which not every client came back. */
void groups_gc(Manager *m);

/* Called after a client came or went: matches classes again, and resolves when the class changed, or always
 * (`resolve`). */
void group_members_changed(Group *g, bool resolve);

/* Called when a client joins: sets the common owner of all clients, for party.h. */
void group_set_owner(Group *g, uint64_t owner);

/* Called when owners of clients changed: checks here and above whether `lowering` still counts. */
void groups_note_owners(Group *g);

/* Makes `uid`, who owns all clients here, the owner of `lowering`; drops another user's. */
void group_lowering_of(Group *g, uid_t uid);

/* Called before a client joins: links the group to its parents. */
int group_attach(Group *g);

/* Called after a client has left, or has not come: frees the group, and those above, when nothing is left of them. */
void group_left(Group *g);
