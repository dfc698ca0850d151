/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Jobs: groups that somebody made on purpose, instead of by cgroup
 *
 * Who knows the token, and has the uid that made the job, may join it. A job lives as long as the process that it was made for, or any
 * client of it: its group is then left to group_gc().
 */

#include "group.h"

#define JOB_TOKEN_SIZE 33U /* 128 bits in hexadecimal, and the zero */
#define JOB_NAME_MAX   64U

struct Job {
        Manager *manager;
        uint64_t id;
        char token[JOB_TOKEN_SIZE];
        uid_t uid;
        Group *group;
        Settings settings;
        int pidfd; /* -EBADF when the process is gone */
        pid_t pid;
        uint64_t start_time;
        sd_event_source *pidfd_source;
        UT_hash_handle hh;
};

/* [a-zA-Z0-9._:@+-] and at most JOB_NAME_MAX - 1 long: it becomes part of a group's name. */
bool job_name_is_valid(const char *name);

/* Takes pidfd (on success). -EDQUOT: the user's quota. */
int job_new(Manager *m, const char *name, const Settings *settings, uid_t uid, int pidfd, Job **ret);
Job *job_free(Job *j);

/* NULL when there is none, or it is somebody else's. */
Job *job_find(Manager *m, const char *token, uid_t uid);

/* The job again, after a restart: same token, id and group. `pidfd` is opened by number and start time; a process that ended
 * meanwhile leaves a job that lives by its clients. */
int job_restore(Manager *m, uint64_t id, const char *token, uid_t uid, const char *group,
                const Settings *settings, pid_t pid, uint64_t start_time, Job **ret);

/* Ends the job when its process is gone and its group has no clients. */
void job_gc(Job *j);
