/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Jobs
 */

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "arbiter.h"
#include "config.h"
#include "job.h"
#include "manager-state.h"
#include "user.h"

bool job_name_is_valid(const char *name) {
        static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@+-";

        if (isempty(name))
                return false;
        size_t n = strlen(name);
        return n < JOB_NAME_MAX && strspn(name, ok) == n;
}

static int make_token(char token[static JOB_TOKEN_SIZE]) {
        uint8_t bytes[(JOB_TOKEN_SIZE - 1) / 2];

        ssize_t n = getrandom(bytes, sizeof(bytes), 0);
        if (n != (ssize_t) sizeof(bytes))
                return n < 0 ? negative_errno() : -EIO;
        for (size_t i = 0; i < sizeof(bytes); i++)
                (void) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

Job *job_free(Job *j) {
        if (!j)
                return NULL;

        Manager *m = j->manager;
        sd_event_source_disable_unref(j->pidfd_source);
        safe_close(j->pidfd);
        bool listed = j->hh.tbl;
        if (listed) {
                HASH_DEL(m->jobs, j);
                user_give(m, j->uid, USER_JOBS);
        }
        if (j->group) {
                j->group->job = NULL;
                group_gc(j->group);
        }
        free(j);
        if (listed)
                manager_state_changed(m);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Job *, job_free);

void job_gc(Job *j) {
        if (j->pidfd < 0 && j->group->n_clients == 0)
                job_free(j);
}

static int on_job_pidfd(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Job *j = userdata;
        Manager *m = j->manager;

        j->pidfd_source = sd_event_source_disable_unref(j->pidfd_source);
        j->pidfd = safe_close(j->pidfd);
        job_gc(j);
        arbiter_flush(m);
        return 0;
}

/* Takes the pidfd on success. */
static int job_watch(Job *j, int pidfd) {
        int r = sd_event_add_io(j->manager->event, &j->pidfd_source, pidfd, EPOLLIN, on_job_pidfd, j);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(j->pidfd_source, "job");
        j->pidfd = pidfd;
        return 0;
}

static int job_make(Manager *m, uint64_t id, const char *token, uid_t uid, const char *group,
                const Settings *settings, unsigned limit, Job **ret) {
        _cleanup_(job_freep)
        Job *j = calloc(1, sizeof(*j));

        if (!j)
                return -ENOMEM;
        *j = (Job){
                        .manager = m,
                        .id = id,
                        .uid = uid,
                        .settings = *settings,
                        .pidfd = -EBADF,
        };
        (void) snprintf(j->token, sizeof(j->token), "%s", token);
        int r = user_take(m, uid, USER_JOBS, limit);
        if (r < 0)
                return r;
        HASH_ADD_STR(m->jobs, token, j);

        r = group_new(m, GROUP_JOB, group, NULL, &j->group);
        if (r < 0)
                return r;
        j->group->job = j;
        group_settings_changed(j->group);
        *ret = TAKE_PTR(j);
        return 0;
}

int job_new(Manager *m, const char *name, const Settings *settings, uid_t uid, int pidfd, Job **ret) {
        _cleanup_(job_freep)
        Job *j = NULL;
        char token[JOB_TOKEN_SIZE], group[JOB_NAME_MAX + 32];
        pid_t pid;

        int r = pidfd_get_pid(pidfd, &pid);
        if (r < 0)
                return r;
        uint64_t start_time;
        r = process_stat(pid, NULL, &start_time);
        if (r < 0)
                return r;
        r = make_token(token);
        if (r < 0)
                return r;

        (void) snprintf(group, sizeof(group), "job:%" PRIu64 ":%s", m->next_job_id, name);
        r = job_make(m, m->next_job_id, token, uid, group, settings, m->config->limits.jobs_per_user, &j);
        if (r < 0)
                return r;
        j->pid = pid;
        j->start_time = start_time;
        r = job_watch(j, pidfd);
        if (r < 0)
                return r;
        m->next_job_id++;
        manager_state_changed(m);
        *ret = TAKE_PTR(j);
        return 0;
}

Job *job_find(Manager *m, const char *token, uid_t uid) {
        Job *j;

        HASH_FIND_STR(m->jobs, token, j);
        return j && j->uid == uid ? j : NULL;
}

int job_restore(Manager *m, uint64_t id, const char *token, uid_t uid, const char *group,
                const Settings *settings, pid_t pid, uint64_t start_time, Job **ret) {
        _cleanup_(job_freep)
        Job *j = NULL;
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;

        if (id == 0 || strlen(token) != JOB_TOKEN_SIZE - 1 || !startswith(group, "job:") ||
                        group_find(m, group))
                return -EBADMSG;
        int r = job_make(m, id, token, uid, group, settings, UINT_MAX, &j);
        if (r < 0)
                return r;
        j->pid = pid;
        j->start_time = start_time;
        m->next_job_id = MAX(m->next_job_id, id + 1);

        if (pid > 0 && peer_from_pid(pid, &peer) >= 0 && peer.start_time == start_time) {
                r = job_watch(j, peer.pidfd);
                if (r < 0)
                        return r;
                TAKE_FD(peer.pidfd);
        }
        *ret = TAKE_PTR(j);
        return 0;
}
