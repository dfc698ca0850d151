/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Groups: the processes of a cgroup, or of a job, and everything below
 *
 * A group is made by its first client, by the first below it, by settings given to it in advance, or with its job. It
 * goes when nothing is left to remember: no client, nobody below, no override, no suspension, no job, and nothing of it
 * runs on (tail.h).
 *
 * A group with clients, its own or below, is below the group of the cgroup above, up to "/"; a job is below the cgroup
 * that it was made in. That is the hierarchy in which weights, maxima and minima count (share.h). Without clients a
 * group stands for itself.
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
int group_kind_from_string(const char *s);

struct Group {
        Manager *manager;
        GroupKind kind;
        char *name, *path; /* path: on the bus */
        char *unit;
        Job *job;              /* while there is one: of a GROUP_JOB always */
        struct Origin *origin; /* of the cgroup; of a job, of the cgroup that it was made in; NULL when there is none */

        Settings override;  /* SetGroup, Group.Set: until the next boot */
        bool written;       /* that, or what else was set for it, for the next service: manager-state.h */
        Settings effective; /* with what is stored for it */
        Settings lowering;  /* SetGroup, Group.Set by the user whose processes are all in it: only lowers */
        uid_t lowering_uid; /* by whom: it counts while that is so */
        bool lowering_counts;
        Settings match;     /* names the class whose [Match] fits, if one does */
        char *match_detail; /* why */
        SettingsResolved resolved;
        bool suspended;     /* itself: ends with its cgroup */
        uint64_t cgroup_id; /* of its cgroup when it was suspended, or given settings; 0: unknown */

        Group *parent;   /* while there are clients, or groups below; NULL for "/" */
        Group *children; /* list, by children_prev/children_next */
        Group *children_prev, *children_next;
        unsigned n_children, n_jobs; /* of which are jobs */
        bool awaited;                /* a client is about to join: it stays, whoever leaves */
        Share *shares;               /* list, by group_prev/group_next */

        Client *clients; /* list, by group_prev/group_next */
        unsigned n_clients;
        uint64_t owner;   /* of all clients since the first came: party.h */
        Entity *entities; /* list, by group_prev/group_next: of the group and of its clients and queues */

        PolicyUsage usage;         /* of entities that are gone */
        PolicyUsage born;          /* what it began with */
        TotalsSlot *totals;        /* its entry; group-totals.h */
        Tally *tallies;            /* the same by device: list, by group_prev/group_next; tally.h */
        uint64_t service_wait_ns;  /* likewise */
        AccountSource gone_source; /* how the last of them was counted */
        uint64_t gone_run_ns;      /* of groups below that are gone */
        uint64_t told_run_ns;      /* what of its time a group above has among those */

        UT_hash_handle hh;
};

/* A path may be as deep as somebody likes to nest directories; a group is made for each level of it. */
#define GROUP_DEPTH_MAX 64U

/* What the groups of a cgroup's path may cost in memory, in bytes, if nobody else is in any of them. */
unsigned group_cost(const char *cgroup);

/* Finds or makes the group of a cgroup, or makes a job's. -EDQUOT: deeper than GROUP_DEPTH_MAX. */
int group_get(Manager *m, const char *cgroup, Group **ret);
int group_new(Manager *m, GroupKind kind, const char *name, const char *unit, const char *cgroup,
                Group **ret);
Group *group_free(Group *g);

/* By name, by cgroup path, or by the name of a unit of the system's manager. NULL when there is none. */
Group *group_find(Manager *m, const char *name);

/* Frees the group when nothing is left to remember. Returns NULL then, else g. */
Group *group_gc(Group *g);

/* All of those, after a restart: not every client came back. */
void groups_gc(Manager *m);

/* resolve.c: after a change of anything that its settings come from. Resolves them, and those of its clients and
 * queues. */
void group_settings_changed(Group *g);

/* Only resolves them, for a group that is being made. */
void group_resolve(Group *g);

/* Of these what comes before its clients are looked at, which follow (spread.h), and what comes after. */
void group_own_settings_changed(Group *g);
void group_settings_settled(Group *g);

/* After a client came or went: [Match] may see something else now. */
void group_members_changed(Group *g);

/* One joins: of whom all are from now on, for party.h. */
void group_set_owner(Group *g, uint64_t owner);

/* The same for what is above, too: who lowered a group is alone in it no longer, or again. */
void groups_note_owners(Group *g);

/* group-match.c: finds `match` anew, and whether `lowering` counts. Return whether it is another than before. */
bool group_match(Group *g);
bool group_note_lowering(Group *g);

/* The uid that all clients of a group have, or AUTH_NO_OWNER. */
uid_t group_owner(const Group *g);

/* The same, of those of the groups below, too: who may lower it. */
uid_t group_tree_owner(const Group *g);

/* What lowers it is that user's from now on, who has all that is there; nothing is left of another's. */
void group_lowering_of(Group *g, uid_t uid);

/* After a change of what is set for the cgroup, or the unit, of this name: those below inherit it. */
void groups_below_changed(Manager *m, const char *name);

/* Whether it is one of those. */
bool group_inherits_from(const Group *g, const char *name);

/* A client is about to join: it is below the groups above from now on. */
int group_attach(Group *g);

/* A client has left, or nobody came: the group goes when nothing is left of it, and so do those above. */
void group_left(Group *g);

/* suspension.c: holds everything below as well, and whoever comes there. */
void group_set_suspended(Group *g, bool suspended);

/* suspended.c: the group by which it is suspended: itself, or the nearest above. NULL when it is not. */
const Group *group_suspended_by(const Group *g);

/* usage.c */
void group_usage(const Group *g, uint64_t now, PolicyUsage *ret);

/* What of its waits was for us: from what let it go to the verdict that said so. */
uint64_t group_service_wait(const Group *g);

/* Run time of the group and of everything that is or was below it. */
uint64_t group_gpu_time(const Group *g, uint64_t now);

/* Whether it is a slice. What a class says of who is in no other, or by [Match], is said of processes, and not of all
 * of them together. Processes that are in jobs are the cgroup's still: nobody takes its limits off by making jobs of
 * all that is there. */
bool group_is_inner(const Group *g);

/* layers.c: the layers that decide, strongest first. At most GROUP_LAYERS_MAX. */
#define GROUP_LAYERS_MAX (3U + ORIGIN_LAYERS_MAX) /* override, job, what stands with the cgroup, default */
size_t group_layers(const Group *g, SettingsLayer layers[static GROUP_LAYERS_MAX]);

/* What applies last, and only ever lowers: by owners of cgroups, by jobs, and by who owns it. Returns how many layers
 * there are. */
#define GROUP_LOWERING_MAX (ORIGIN_LOWERING_MAX + 2U)
size_t group_lowering_layers(const Group *g, SettingsLayer layers[static GROUP_LOWERING_MAX]);
size_t group_lower(const Group *g, SettingsResolved *r);

/* What its settings are stored by; NULL for a job's, whose are not. */
const char *group_stored_name(const Group *g);
