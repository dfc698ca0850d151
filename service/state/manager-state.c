/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the manager itself keeps over a restart
 */

#include "manager-state.h"
#include "service/base/log.h"
#include "service/core/arbiter.h"
#include "service/core/gone.h"
#include "service/core/job.h"
#include "service/settings/json-util.h"
#include "service/settings/stored.h"

/* --- writing --- */

static int fill_device_settings(const DeviceSettings *s, json_object *o) {
        JSON_TRY(json_add_string(o, "policy", s->ops ? s->ops->name : NULL));
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (device_settings_has(s, device_keys + i))
                        JSON_TRY(json_add_u64(o, device_keys[i].name,
                                        device_key_get(device_keys + i, &s->values)));
        if (s->has_preemption)
                JSON_TRY(json_add_string(o, "Preemption", preemption_to_string(s->preemption)));
        if (s->has_accounting)
                JSON_TRY(json_add_string(o, "Accounting", accounting_to_string(s->accounting)));
        return 0;
}

static int fill_device(const Device *d, json_object *o) {
        JSON_TRY(json_add_string(o, "id", d->id));
        JSON_TRY(json_add_string(o, "name", d->name));
        JSON_TRY(json_add_string(o, "backend", d->backend));
        return fill_device_settings(&d->runtime, o);
}

static int fill_group(const Group *g, json_object *o) {
        JSON_TRY(json_add_string(o, "name", g->name));
        JSON_TRY(json_add_settings(o, "override", &g->override));
        if (!settings_is_empty(&g->lowering)) {
                JSON_TRY(json_add_settings(o, "lowering", &g->lowering));
                JSON_TRY(json_add_u64(o, "lowering_uid", g->lowering_uid));
        }
        JSON_TRY(json_add_u64(o, "cgroup", g->cgroup_id));
        return json_add_bool(o, "suspended", g->suspended);
}

static int fill_job(const Job *j, json_object *o) {
        JSON_TRY(json_add_u64(o, "id", j->id));
        JSON_TRY(json_add_string(o, "token", j->token));
        JSON_TRY(json_add_u64(o, "uid", j->uid));
        JSON_TRY(json_add_string(o, "group", j->group->name));
        JSON_TRY(json_add_string(o, "cgroup", j->group->origin ? j->group->origin->path : NULL));
        JSON_TRY(json_add_settings(o, "settings", &j->settings));
        JSON_TRY(json_add_bool(o, "lowers", j->lowers));
        JSON_TRY(json_add_int(o, "pid", (int) j->pid));
        return json_add_u64(o, "start_time", j->start_time);
}

static int fill_devices(Manager *m, json_object *array) {
        Device *d, *tmp;
        json_object *o;

        HASH_ITER(hh, m->devices, d, tmp) {
                if (device_settings_is_empty(&d->runtime))
                        continue;
                JSON_TRY(json_append_object(array, &o));
                JSON_TRY(fill_device(d, o));
        }
        return 0;
}

static int fill_groups(Manager *m, json_object *array) {
        Group *g, *tmp;
        json_object *o;

        HASH_ITER(hh, m->groups, g, tmp) {
                if (settings_is_empty(&g->override) && settings_is_empty(&g->lowering) && !g->suspended)
                        continue;
                JSON_TRY(json_append_object(array, &o));
                JSON_TRY(fill_group(g, o));
        }
        return 0;
}

static int fill_jobs(Manager *m, json_object *array) {
        Job *j, *tmp;
        json_object *o;

        HASH_ITER(hh, m->jobs, j, tmp) {
                JSON_TRY(json_append_object(array, &o));
                JSON_TRY(fill_job(j, o));
        }
        return 0;
}

static int fill(Manager *m, json_object *o) {
        json_object *devices = json_object_new_array(), *groups = NULL, *jobs = NULL, *all = NULL;

        JSON_TRY(json_add_u64(o, "next_client_id", MAX(m->next_client_id, m->client_ids_end)));
        JSON_TRY(json_add_u64(o, "next_queue_id", MAX(m->next_queue_id, m->queue_ids_end)));
        JSON_TRY(json_add_u64(o, "next_job_id", m->next_job_id));
        JSON_TRY(json_add(o, "devices", devices));
        JSON_TRY(fill_devices(m, devices));
        JSON_TRY(json_add(o, "groups", groups = json_object_new_array()));
        JSON_TRY(fill_groups(m, groups));
        JSON_TRY(json_add(o, "jobs", jobs = json_object_new_array()));
        JSON_TRY(fill_jobs(m, jobs));
        JSON_TRY(json_add(o, "all_devices", all = json_object_new_object()));
        return fill_device_settings(&m->every_device, all);
}

static int write_state(Manager *m) {
        _cleanup_json_ json_object *o = json_object_new_object();

        if (!o)
                return -ENOMEM;
        int r = fill(m, o);
        if (r < 0)
                return r;
        journal_begin(&m->state);
        r = journal_append(&m->state, o);
        if (r < 0) {
                journal_abort(&m->state);
                return r;
        }
        return journal_commit(&m->state);
}

void manager_state_changed(Manager *m) {
        if (m->state.fd < 0 || m->stopping || m->restoring)
                return;
        int r = write_state(m);
        if (r < 0)
                log_warning_errno(r, "What was set now would not survive a restart: %m");
}

void manager_state_close(Manager *m) {
        m->client_ids_end = m->queue_ids_end = 0;
        manager_state_changed(m);
}

/* --- reading --- */

static void read_device_settings(json_object *o, DeviceSettings *ret) {
        json_object *v;

        *ret = DEVICE_SETTINGS_NULL;
        ret->ops = policy_find(json_get_string(o, "policy"));
        for (size_t i = 0; i < DEVICE_KEYS_N; i++)
                if (json_object_object_get_ex(o, device_keys[i].name, &v))
                        (void) device_settings_set(ret, device_keys + i, json_object_get_uint64(v));
        if (json_object_object_get_ex(o, "Preemption", &v))
                (void) device_settings_set_preemption(ret, json_object_get_string(v));
        if (json_object_object_get_ex(o, "Accounting", &v))
                (void) device_settings_set_accounting(ret, json_object_get_string(v));
}

static int restore_device(Manager *m, json_object *o) {
        DeviceSettings s;
        Device *d;

        int r = device_get(m, json_get_string(o, "id"), json_get_string(o, "name"),
                        json_get_string(o, "backend"), DEVICE_OWNER_NONE, &d);
        if (r < 0)
                return r;
        read_device_settings(o, &s);
        return device_configure(d, &s);
}

static int restore_job(Manager *m, json_object *o) {
        JobKept k = {
                        .id = json_get_u64(o, "id"),
                        .token = json_get_string(o, "token"),
                        .group = json_get_string(o, "group"),
                        .cgroup = json_get_string(o, "cgroup"),
                        .uid = (uid_t) json_get_u64(o, "uid"),
                        .lowers = json_get_bool(o, "lowers"),
                        .pid = (pid_t) json_get_int(o, "pid"),
                        .start_time = json_get_u64(o, "start_time"),
        };
        Job *j;

        json_get_settings(o, "settings", &k.settings);
        return job_restore(m, &k, &j);
}

/* After the jobs: a job's group is there already, and only gets its override back. What was said of a cgroup that is
 * gone is over, or waits for its unit. */
static int restore_group(Manager *m, json_object *o) {
        const char *name = json_get_string(o, "name");
        bool suspended = json_get_bool(o, "suspended");
        uint64_t id = json_get_u64(o, "cgroup");
        Settings override, lowering;
        Group *g = group_find(m, name);

        json_get_settings(o, "override", &override);
        json_get_settings(o, "lowering", &lowering);
        if (gone_since(name, id)) {
                if (suspended)
                        gone_log_resumed(name);
                suspended = false;
                id = 0;
                if (gone_forgets(name) && !(settings_is_empty(&override) && settings_is_empty(&lowering))) {
                        gone_log_forgotten(name);
                        override = lowering = SETTINGS_NULL;
                }
                if (settings_is_empty(&override) && settings_is_empty(&lowering))
                        return 0;
        }
        if (!g) {
                if (startswith(name, "job:") || !stored_name_is_valid(name))
                        return 0;
                int r = group_get(m, name, &g);
                if (r < 0)
                        return r;
        }
        g->override = override;
        g->lowering = lowering;
        if (!settings_is_empty(&g->lowering))
                g->lowering_uid = (uid_t) json_get_u64(o, "lowering_uid");
        group_settings_changed(g);
        groups_below_changed(m, g->name); /* jobs that are there already */
        group_set_suspended(g, suspended);
        g->cgroup_id = id;
        return 0;
}

static int restore_each(
                Manager *m, json_object *o, const char *key, int (*restore)(Manager *m, json_object *o)) {
        json_object *array;
        int first = 0;

        if (!json_object_object_get_ex(o, key, &array) || !json_object_is_type(array, json_type_array))
                return 0;
        for (size_t i = 0; i < json_object_array_length(array); i++) {
                int r = restore(m, json_object_array_get_idx(array, i));
                if (r < 0 && first == 0)
                        first = r;
        }
        return first;
}

static int restore_record(json_object *o, void *userdata) {
        Manager *m = userdata;
        json_object *all;
        int failed = 0;

        m->next_client_id = MAX(m->next_client_id, json_get_u64(o, "next_client_id"));
        m->next_queue_id = MAX(m->next_queue_id, json_get_u64(o, "next_queue_id"));
        m->next_job_id = MAX(m->next_job_id, json_get_u64(o, "next_job_id"));
        if (json_object_object_get_ex(o, "all_devices", &all))
                read_device_settings(all, &m->every_device);

        failed += restore_each(m, o, "devices", restore_device) < 0;
        failed += restore_each(m, o, "jobs", restore_job) < 0;
        failed += restore_each(m, o, "groups", restore_group) < 0;
        if (failed > 0)
                log_warning("Not everything that was set before the restart could be set again");
        return 0;
}

static int restore_from(Manager *m, int fd) {
        Journal former;

        int r = journal_open(fd, &former);
        if (r < 0)
                return r;
        m->restoring = true;
        r = journal_read(&former, restore_record, m);
        m->restoring = false;
        return r;
}

int manager_state_open(Manager *m, int fd) {
        int r = journal_new("xsched-state", &m->state);
        if (r < 0)
                return r;
        if (fd >= 0) {
                r = restore_from(m, fd);
                if (r < 0)
                        log_warning_errno(r, "What was set before the restart cannot be read: %m");
        }
        return write_state(m);
}
