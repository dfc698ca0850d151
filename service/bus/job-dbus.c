/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Jobs on the bus
 */

#include <fcntl.h>

#include "answer.h"
#include "audit.h"
#include "calls.h"
#include "cgroup/cgroup-attr.h"
#include "common/bus-names.h"
#include "job-dbus.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/base/auth-sender.h"
#include "service/core/job.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"
#include "service/core/turn.h"
#include "service/settings/xsched-conf.h"

static void audit_job(Manager *m, sd_bus_message *message, const Job *j, const JobParameters *p, pid_t pid) {
        const AuditObject o = {
                        .fields = {.group = j->group->name, .pid = pid},
                        .name = j->group->name,
                        .how = " (job)",
        };

        audit_own(m, message, &o, &p->settings, p->lowers);
}

typedef struct JobArguments {
        const char *name;
        Settings settings;
        ProcessName process;
        uint64_t flags;
        uid_t uid; /* of the caller */
} JobArguments;

static int read_arguments(Manager *m, sd_bus_message *message, JobArguments *ret, sd_bus_error *error) {
        JobArguments a = {};

        int r = sd_bus_message_read(message, "s", &a.name);
        if (r < 0)
                return r;
        r = bus_read_settings(m, message, &a.settings, error);
        if (r < 0)
                return r;
        r = bus_read_process(message, &a.process);
        if (r >= 0)
                r = sd_bus_message_read(message, "t", &a.flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(a.flags, JOB_FLAG_CGROUP | JOB_FLAG_CHECK, error);
        if (r < 0)
                return r;
        if (!job_name_is_valid(a.name))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                "A job's name is made of letters, digits and '._:@+-', and shorter than %u",
                                JOB_NAME_MAX);
        r = auth_sender_uid(message, &a.uid);
        if (r < 0)
                return r;
        *ret = a;
        return 0;
}

static int find_process(Manager *m, sd_bus_message *message, const JobArguments *a, Peer *ret, sd_bus_error *error) {
        const ProcessName *p = &a->process;
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;

        int r = p->pid == 0 ? peer_from_sender(m->connections, message, &peer) : peer_from_pid((pid_t) p->pid, &peer);
        if (r < 0 && p->pid == 0)
                return bus_peer_error(r, error);
        if (r >= 0 && p->start_time > 0 && peer.start_time != p->start_time)
                r = -ESRCH; /* the pid is another process's by now */
        if (r < 0)
                return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "The process has ended");
        if (a->uid != 0 && peer.uid != a->uid)
                return sd_bus_error_set(error, BUS_ERROR("NotOwner"), "That is another user's process");
        *ret = TAKE_GENERIC(peer, PEER_NULL);
        return 0;
}

/* The owner of a cgroup: the user who may make and remove processes' groups in it. */
static uid_t owner_of(const char *cgroup) {
        uid_t uid;

        return cgroup_owner(cgroup, &uid) >= 0 && uid != 0 ? uid : UID_NONE;
}

/* Resolves the group's settings as they would be with those of the job. */
static void job_would_be(const Group *g, const Settings *s, SettingsResolved *ret) {
        SettingsLayer layers[GROUP_LAYERS_MAX + 1];
        SettingsResolved r;

        /* The job's layer is right below the override, which is the first. */
        size_t n = group_layers(g, layers + 1);
        layers[0] = layers[1];
        layers[1] = (SettingsLayer){SETTINGS_FROM_JOB, NULL, s};
        settings_resolve(layers, n + 1, manager_lookup_class, g->manager, &r);
        (void) group_lower(g, &r);
        *ret = r;
}

static AuthRequest cgroup_request(const Group *g, const JobArguments *a) {
        SettingsResolved changed;

        job_would_be(g, &a->settings, &changed);
        return bus_settings_request(&g->resolved, &changed, owner_of(g->name), g->name);
}

static int check_cgroup_job(
                Manager *m, sd_bus_message *message, const JobArguments *a, const char *cgroup, sd_bus_error *error) {
        Group *g;

        int r = group_get(m, cgroup, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        if (g->job || g->kind != GROUP_CGROUP)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s is another job's already", g->name);
        const AuthRequest request = cgroup_request(g, a);
        r = auth_check(m->auth, message, &request, error);
        group_gc(g); /* an open question to polkit does not keep the group */
        return r;
}

int check_create_job(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        Manager *m = userdata;
        JobArguments a = {};

        int r = read_arguments(m, message, &a, error);
        if (r < 0)
                return r;
        r = find_process(m, message, &a, &peer, error);
        if (r < 0)
                return r;
        if (a.flags & JOB_FLAG_CGROUP)
                return check_cgroup_job(m, message, &a, peer.cgroup, error);
        const AuthRequest request = bus_own_request(m, &a.settings, a.uid, a.name);
        return auth_check(m->auth, message, &request, error);
}

static int create_cgroup_job(
                Manager *m, sd_bus_message *message, const JobArguments *a, const Peer *peer, sd_bus_error *error) {
        Group *g;
        Job *j;

        int r = group_get(m, peer->cgroup, &g);
        if (r < 0)
                return bus_error_from_errno(r, error);
        const AuthRequest request = cgroup_request(g, a);
        const JobParameters p = {
                        .group = g,
                        .settings = a->settings,
                        .lowers = bus_only_lowers(&request, a->uid),
                        .uid = a->uid,
        };
        r = job_new(m, &p, peer->pidfd, &j);
        if (r < 0) {
                group_gc(g);
                return bus_error_from_errno(r, error);
        }
        audit_job(m, message, j, &p, peer->pid);
        _cleanup_free_ char *path = group_path(g);
        r = bus_answer(m, message, "so", "", path);
        return r < 0 ? r : 1;
}

static int create_own_job(
                Manager *m, sd_bus_message *message, const JobArguments *a, const Peer *peer, sd_bus_error *error) {
        const AuthRequest request = bus_own_request(m, &a->settings, a->uid, a->name);
        const JobParameters p = {
                        .name = a->name,
                        .cgroup = peer->cgroup,
                        .settings = a->settings,
                        .lowers = bus_only_lowers(&request, a->uid),
                        .uid = a->uid,
        };
        Job *j;

        int r = job_new(m, &p, peer->pidfd, &j);
        if (r < 0)
                return bus_error_from_errno(r, error);
        turn_look(m);
        audit_job(m, message, j, &p, peer->pid);
        _cleanup_free_ char *path = group_path(j->group);
        return bus_answer(m, message, "so", j->token, path);
}

BUS_MANAGER_CHANGE(method_create_job) {
        _cleanup_(peer_done)
        Peer peer = PEER_NULL;
        JobArguments a = {};

        int r = read_arguments(m, message, &a, error);
        if (r < 0)
                return r;
        if (a.flags & JOB_FLAG_CHECK)
                return sd_bus_reply_method_return(message, "so", "", BUS_PATH);
        r = find_process(m, message, &a, &peer, error);
        if (r < 0)
                return r;
        turn_look(m);
        return a.flags & JOB_FLAG_CGROUP ? create_cgroup_job(m, message, &a, &peer, error)
                                         : create_own_job(m, message, &a, &peer, error);
}
