/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Jobs: settings that somebody made for what he starts, for as long as it is there
 *
 * A job of one kind is a group of its own: who knows the token, and has the uid that made the job, may join it. One of
 * the other kind belongs to the group of a cgroup, and joins whoever is in that. A job lives as long as the process
 * that it was made for, or any client of its group, or what those have left in flight: the group is then left to
 * group_gc().
 */

#include "cgroup/peer.h"
#include "group.h"

#define JOB_TOKEN_SIZE 33U /* 128 bits in hexadecimal, and the zero */
#define JOB_NAME_MAX   64U

struct Job {
        Manager *manager;
        uint64_t id;
        char token[JOB_TOKEN_SIZE];
        uid_t uid;
        uid_t user;     /* whose quota it is in, */
        bool counted;   /* when it is */
        bool announced; /* observers know of it */
        Group *group;
        Settings settings;
        bool lowers; /* the settings only lower what the group would have without them */
        int pidfd;   /* -EBADF when the process is gone */
        pid_t pid;
        uint64_t start_time;
        sd_event_source *pidfd_source;
        UT_hash_handle hh;
};

/* [a-zA-Z0-9._:@+-] and at most JOB_NAME_MAX - 1 long: it becomes part of a group's name. */
bool job_name_is_valid(const char *name);

typedef struct JobParameters {
        Group *group;       /* of a cgroup; NULL: a group of its own */
        const char *name;   /* of that */
        const char *cgroup; /* and where it is made: that cgroup's settings are below the job's */
        Settings settings;
        bool lowers;
        uid_t uid;
} JobParameters;

/* Copies pidfd. -EDQUOT: the user's quota. */
int job_new(Manager *m, const JobParameters *p, int pidfd, Job **ret);
Job *job_free(Job *j);

/* NULL when there is none, or it is somebody else's. */
Job *job_find(Manager *m, const char *token, uid_t uid);

/* Whether the process is where the job was made. A job is below its cgroup, and a user has processes in many: with a
 * job of one of them he would carry what that one has into the others. The administrator may. */
bool job_takes(const Job *j, const Peer *peer);

/* Of a process that is somewhere else: what the job would have lowered it to is its own wish, below what it wishes
 * itself. */
void job_become_wish(const Job *j, Settings *wish);

/* The group that a client belongs to where its process is now: still its job's, or its cgroup's. */
int job_or_cgroup(Client *c, Group **ret);

/* The job again, after a restart. `pidfd` is opened by number and start time; a process that ended meanwhile leaves a
 * job that lives by its clients. */
typedef struct JobKept {
        uint64_t id;
        const char *token, *group, *cgroup;
        uid_t uid;
        Settings settings;
        bool lowers;
        pid_t pid;
        uint64_t start_time;
} JobKept;

int job_restore(Manager *m, const JobKept *k, Job **ret);

/* Ends the job when its process is gone, its group has no clients, and nothing of those runs on. */
void job_gc(Job *j);
