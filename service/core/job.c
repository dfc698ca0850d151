/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Jobs
 */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "client.h"
#include "common/time-util.h"
#include "job.h"
#include "observer.h"
#include "resolve.h"
#include "service/settings/xsched-conf.h"
#include "user.h"
#include "walk.h"

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

/* Resolves the group's settings, and, if the job is a cgroup's, those of groups below, which inherit the job's
 * settings. */
static void group_job_changed(Group *g) {
        group_settings_changed(g);
        if (g->kind == GROUP_CGROUP)
                groups_below_changed(g->manager, g->name);
}

static void job_leave(Group *g) {
        g->job = NULL;
        if (!g->manager->stopping)
                group_job_changed(g);
        (void) group_gc(g);
}

/* The end of a job is a change of settings like its begin, which was a call: it is charged to the user's budget. */
static void pay_end(const Job *j, uint64_t began) {
        uint64_t now = now_ns();

        if (!j->manager->stopping)
                user_pay_change(j->manager, j->user, now, now - began);
}

Job *job_free(Job *j) {
        if (!j)
                return NULL;

        Manager *m = j->manager;
        uint64_t began = now_ns();
        sd_event_source_disable_unref(j->pidfd_source);
        safe_close(j->pidfd);
        if (j->hh.tbl) {
                walks_forget(m, WALK_JOBS, j);
                HASH_DEL(m->jobs, j);
        }
        if (j->announced)
                observers_job_gone(j);
        if (j->group)
                job_leave(j->group);
        if (j->announced)
                pay_end(j, began);
        if (j->counted)
                user_give(m, j->user, USER_JOBS);
        free(j);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Job *, job_free);

void job_gc(Job *j) {
        if (j->pidfd < 0 && j->group->n_clients == 0 && !j->group->entities)
                job_free(j);
}

static int on_job_pidfd(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Job *j = userdata;

        j->pidfd_source = sd_event_source_disable_unref(j->pidfd_source);
        j->pidfd = safe_close(j->pidfd);
        job_gc(j);
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

static int job_make(Manager *m, uint64_t id, const char *token, uid_t uid, unsigned limit, Job **ret) {
        _cleanup_(job_freep)
        Job *j = calloc(1, sizeof(*j));

        if (!j)
                return -ENOMEM;
        *j = (Job){
                        .manager = m,
                        .id = id,
                        .uid = uid,
                        .user = user_of(m, uid),
                        .pidfd = -EBADF,
        };
        (void) snprintf(j->token, sizeof(j->token), "%s", token);
        int r = user_take(m, j->user, USER_JOBS, limit);
        if (r < 0)
                return r;
        j->counted = true;
        HASH_ADD_STR(m->jobs, token, j);
        *ret = TAKE_PTR(j);
        return 0;
}

/* `group` NULL: a new one. */
static int job_join(Job *j, Group *group, const char *name, const char *cgroup, const Settings *settings, bool lowers) {
        Group *g = group;

        if (!g) {
                int r = group_new(j->manager, GROUP_JOB, name, NULL, isempty(cgroup) ? NULL : cgroup, &g);
                if (r < 0)
                        return r;
        }
        j->settings = *settings;
        j->lowers = lowers;
        j->group = g;
        g->job = j;
        group_job_changed(g);
        return 0;
}

/* Watches the process that the job is for. */
static int job_begin(Job *j, int fd) {
        _cleanup_close_ int pidfd = fcntl(fd, F_DUPFD_CLOEXEC, 3);

        if (pidfd < 0)
                return negative_errno();
        int r = pidfd_get_pid(pidfd, &j->pid);
        if (r < 0)
                return r;
        r = process_stat(j->pid, NULL, &j->start_time);
        if (r < 0)
                return r;
        r = job_watch(j, pidfd);
        if (r < 0)
                return r;
        TAKE_FD(pidfd);
        return 0;
}

static void job_announce(Job *j) {
        j->announced = true;
        observers_job_added(j);
}

int job_new(Manager *m, const JobParameters *p, int pidfd, Job **ret) {
        _cleanup_(job_freep)
        Job *j = NULL;
        char token[JOB_TOKEN_SIZE], name[JOB_NAME_MAX + 32];

        int r = make_token(token);
        if (r < 0)
                return r;
        r = job_make(m, m->next_job_id, token, p->uid, m->config->limits.jobs_per_user, &j);
        if (r < 0)
                return r;
        r = job_begin(j, pidfd);
        if (r < 0)
                return r;
        (void) snprintf(name, sizeof(name), "job:%" PRIu64 ":%s", j->id, strempty(p->name));
        r = job_join(j, p->group, name, p->cgroup, &p->settings, p->lowers);
        if (r < 0)
                return r;
        m->next_job_id++;
        job_announce(j);
        *ret = TAKE_PTR(j);
        return 0;
}

Job *job_find(Manager *m, const char *token, uid_t uid) {
        Job *j;

        HASH_FIND_STR(m->jobs, token, j);
        return j && j->uid == uid && j->group->kind == GROUP_JOB ? j : NULL;
}

bool job_takes(const Job *j, const Peer *peer) {
        const Group *g = j->group;

        return peer->uid == 0 || g->kind != GROUP_JOB || !g->origin || streq(g->origin->path, peer->cgroup);
}

void job_become_wish(const Job *j, Settings *wish) {
        Settings s = j->settings;

        if (!j->lowers)
                return;
        settings_merge(&s, wish);
        *wish = s;
}

int job_or_cgroup(Client *c, Group **ret) {
        const Job *j = c->group->job;

        if (c->group->kind == GROUP_JOB && (!j || job_takes(j, &c->peer))) {
                *ret = c->group;
                return 0;
        }
        int r = group_get(c->manager, c->peer.cgroup, ret);
        if (r >= 0 && c->group->kind == GROUP_JOB)
                job_become_wish(j, &c->wish);
        return r;
}

/* Finds the group of a cgroup; NULL: the job has a group of its own. */
static int find_cgroup(Manager *m, const char *group, Group **ret) {
        *ret = NULL;
        if (startswith(group, "job:"))
                return group_find(m, group) ? -EBADMSG : 0;
        if (group[0] != '/')
                return -EBADMSG;
        int r = group_get(m, group, ret);
        return r >= 0 && (*ret)->job ? -EBADMSG : r;
}

int job_restore(Manager *m, const JobKept *k, Job **ret) {
        _cleanup_(job_freep)
        Job *j = NULL;
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Group *g;

        if (k->id == 0 || strlen(k->token) != JOB_TOKEN_SIZE - 1)
                return -EBADMSG;
        int r = find_cgroup(m, k->group, &g);
        if (r < 0)
                return r;
        r = job_make(m, k->id, k->token, k->uid, UINT_MAX, &j);
        if (r < 0)
                return r;
        r = job_join(j, g, k->group, k->cgroup, &k->settings, k->lowers);
        if (r < 0)
                return r;
        j->pid = k->pid;
        j->start_time = k->start_time;
        m->next_job_id = MAX(m->next_job_id, k->id + 1);

        if (k->pid > 0 && peer_from_pid(k->pid, &peer) >= 0 && peer.start_time == k->start_time) {
                r = job_watch(j, peer.pidfd);
                if (r < 0)
                        return r;
                TAKE_FD(peer.pidfd);
        }
        job_announce(j);
        *ret = TAKE_PTR(j);
        return 0;
}
