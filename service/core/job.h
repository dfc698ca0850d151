/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Job: settings that a user made for processes to come
 *
 * A job either has a group of its own, which processes join that know the token and have the uid that made the job; or
 * it belongs to the group of a cgroup, and covers all processes in there. A job ends when the process that it was made
 * for, all clients of its group, and their launches in flight have ended; group_gc() then frees the group.
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
        uid_t user;     /* the user in whose quota it counts */
        bool counted;   /* it is counted in that quota */
        bool announced; /* observers were told of it */
        Group *group;
        Settings settings;
        bool lowers; /* its settings only lower what the group has without them */
        int pidfd;   /* -EBADF: the process has ended */
        pid_t pid;
        uint64_t start_time;
        sd_event_source *pidfd_source;
        UT_hash_handle hh;
};

/* [a-zA-Z0-9._:@+-] and at most JOB_NAME_MAX - 1 long: it becomes part of a group's name. */
bool job_name_is_valid(const char *name);

typedef struct JobParameters {
        Group *group;       /* of a cgroup; NULL: a group of its own */
        const char *name;   /* of its own group */
        const char *cgroup; /* where it is made: that cgroup's settings are below the job's */
        Settings settings;
        bool lowers;
        uid_t uid;
} JobParameters;

/* Duplicates `pidfd`. -EDQUOT: the user's quota is used up. */
int job_new(Manager *m, const JobParameters *p, int pidfd, Job **ret);
Job *job_free(Job *j);

/* The job with this token; NULL when there is none, or another uid made it. */
Job *job_find(Manager *m, const char *token, uid_t uid);

/* Whether the process may join: it is in the cgroup where the job was made, or is root's, or the job has no group of
 * its own. A user could otherwise carry one cgroup's settings into another by joining a job of the first one there. */
bool job_takes(const Job *j, const Peer *peer);

/* Called for a process that may not join the job: adds those settings of the job that lower to the process's wishes.
 * The process's own wishes win. */
void job_become_wish(const Job *j, Settings *wish);

/* Finds the group that the client belongs to after its process moved to another cgroup: its job's group, if the job
 * takes it, or the cgroup's. */
int job_or_cgroup(Client *c, Group **ret);

/* Makes a job again after a restart. Opens the pidfd by pid and start time; if the process has ended, the job lives as
 * long as its clients. */
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

/* Ends the job when its process has ended, and its group has neither clients nor launches in flight. */
void job_gc(Job *j);
