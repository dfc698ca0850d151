/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Writes and restores the manager's own state
 */

#include "manager-state.h"
#include "service/base/log.h"
#include "service/core/client.h"
#include "service/core/gone.h"
#include "service/core/job.h"
#include "service/core/resolve.h"
#include "service/core/suspension.h"
#include "service/core/walk.h"
#include "service/settings/json-util.h"
#include "service/settings/overrides.h"

/* Limits of the cleaning that each change does: the number of old records that it writes anew, and of objects that it
 * looks at. */
#define CLEAN_WRITES 2U
#define CLEAN_LOOKS  32U

/* --- writing --- */

static int fill_device(const Device *d, json_object *o) {
        JSON_TRY(json_add_string(o, "id", d->id));
        JSON_TRY(json_add_string(o, "name", d->name));
        JSON_TRY(json_add_string(o, "backend", d->backend));
        return json_fill_device_settings(o, &d->runtime);
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

static int fill_manager(Manager *m, json_object *o) {
        json_object *devices = json_object_new_array(), *all = NULL;

        JSON_TRY(json_add_u64(o, "next_client_id", MAX(m->next_client_id, m->client_ids_end)));
        JSON_TRY(json_add_u64(o, "next_queue_id", MAX(m->next_queue_id, m->queue_ids_end)));
        JSON_TRY(json_add_u64(o, "next_job_id", m->next_job_id));
        JSON_TRY(json_add(o, "devices", devices));
        JSON_TRY(fill_devices(m, devices));
        JSON_TRY(json_add(o, "all_devices", all = json_object_new_object()));
        return json_fill_device_settings(all, &m->every_device);
}

static int append_manager(Manager *m) {
        _cleanup_json_ json_object *o = json_object_new_object();

        if (!o)
                return -ENOMEM;
        JSON_TRY(fill_manager(m, o));
        return ledger_append(&m->state, o);
}

static int append_job(Job *j) {
        _cleanup_json_ json_object *record = json_object_new_object();
        json_object *o = json_object_new_object();

        JSON_TRY(json_add(record, "job", o));
        JSON_TRY(fill_job(j, o));
        return ledger_append(&j->manager->state, record);
}

static int append_group(Group *g) {
        _cleanup_json_ json_object *record = json_object_new_object();
        json_object *o = json_object_new_object();

        JSON_TRY(json_add(record, "group", o));
        JSON_TRY(fill_group(g, o));
        return ledger_append(&g->manager->state, record);
}

/* `kind`: "job_gone", with its token, or "group_gone", with its name. */
static int append_gone(Manager *m, const char *kind, const char *name) {
        _cleanup_json_ json_object *record = json_object_new_object();

        if (!record)
                return -ENOMEM;
        JSON_TRY(json_add_string(record, kind, name));
        return ledger_append(&m->state, record);
}

static bool has_settings(const Group *g) {
        return !settings_is_empty(&g->override) || !settings_is_empty(&g->lowering) || g->suspended;
}

static int append_all(Manager *m) {
        Group *g, *gtmp;
        Job *j, *jtmp;

        JSON_TRY(append_manager(m));
        HASH_ITER(hh, m->jobs, j, jtmp)
                JSON_TRY(append_job(j));
        HASH_ITER(hh, m->groups, g, gtmp) {
                g->written = has_settings(g);
                if (g->written)
                        JSON_TRY(append_group(g));
        }
        return 0;
}

static int write_anew(Manager *m) {
        ledger_begin(&m->state);
        int r = append_all(m);
        if (r < 0) {
                ledger_abort(&m->state);
                return r;
        }
        return ledger_commit(&m->state);
}

/* --- what is outdated --- */

typedef struct StateCleaning {
        Walk walk;   /* objects that are written anew */
        uint64_t to; /* records before this offset are outdated at the end */
} StateCleaning;

static void cleaning_end(Manager *m) {
        if (!m->state_cleaning)
                return;
        walk_end(&m->state_cleaning->walk);
        free(TAKE_PTR(m->state_cleaning));
}

static int cleaning_begin(Manager *m) {
        StateCleaning *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        m->state_cleaning = c;
        c->to = m->state.end;
        walk_begin(&c->walk, m, WALK_JOBS);
        return append_manager(m);
}

/* Does the next object. Returns > 0 when there was one; *ret_written: whether it was written. */
static int clean_next(Walk *walk, bool *ret_written) {
        void *object = walk_next(walk);
        bool written = true;
        int r = 0;

        if (!object)
                return 0;
        if (walk->table == WALK_JOBS)
                r = append_job(object);
        else {
                written = ((const Group *) object)->written;
                if (written)
                        r = append_group(object);
        }
        *ret_written = written;
        return r < 0 ? r : 1;
}

/* All objects of a kind are done. Returns > 0 when there is another kind. */
static int clean_next_table(Manager *m) {
        StateCleaning *c = m->state_cleaning;
        uint64_t to = c->to;

        if (c->walk.table == WALK_JOBS) {
                walk_end(&c->walk);
                walk_begin(&c->walk, m, WALK_GROUPS);
                return 1;
        }
        cleaning_end(m);
        return ledger_forget(&m->state, to);
}

/* Each change does a part of the cleaning, so that no change waits for all of it. */
static int clean(Manager *m) {
        unsigned writes = CLEAN_WRITES, looks = CLEAN_LOOKS;
        bool written = false;
        int r = 1;

        if (!m->state_cleaning) {
                if (!ledger_is_bloated(&m->state))
                        return 0;
                r = cleaning_begin(m);
        }
        while (r >= 0 && m->state_cleaning && writes > 0 && looks-- > 0) {
                r = clean_next(&m->state_cleaning->walk, &written);
                if (r == 0)
                        r = clean_next_table(m);
                else if (r > 0)
                        writes -= written;
        }
        return r;
}

static bool is_open(const Manager *m) {
        return m->state.fd >= 0 && !m->stopping && !m->restoring;
}

static void written(Manager *m, int r) {
        if (r >= 0)
                r = clean(m);
        if (r >= 0)
                return;
        /* The record that could not be written may be missing behind this offset, so the old ones stay. */
        cleaning_end(m);
        log_warning_errno(r, "What was set now would not survive a restart: %m");
}

void manager_state_changed(Manager *m) {
        if (is_open(m))
                written(m, append_manager(m));
}

void manager_state_job(Job *j) {
        if (is_open(j->manager))
                written(j->manager, append_job(j));
}

void manager_state_job_gone(Job *j) {
        if (is_open(j->manager))
                written(j->manager, append_gone(j->manager, "job_gone", j->token));
}

void manager_state_group(Group *g) {
        if (!is_open(g->manager))
                return;
        if (!has_settings(g)) {
                manager_state_group_gone(g);
                return;
        }
        g->written = true;
        written(g->manager, append_group(g));
}

void manager_state_group_gone(Group *g) {
        if (!is_open(g->manager) || !g->written)
                return;
        g->written = false;
        written(g->manager, append_gone(g->manager, "group_gone", g->name));
}

void manager_state_close(Manager *m) {
        m->client_ids_end = m->queue_ids_end = 0;
        manager_state_changed(m);
        cleaning_end(m);
}

/* --- reading --- */

/* Former versions wrote the policy in lower case. */
static void read_device_settings(json_object *o, DeviceSettings *ret) {
        *ret = DEVICE_SETTINGS_NULL;
        if (!json_object_is_type(o, json_type_object))
                return;
        json_object_object_foreach(o, key, v)(void)
                        json_take_device_setting(streq(key, "policy") ? "Policy" : key, v, ret);
}

static int restore_device_entry(Manager *m, json_object *o) {
        DeviceSettings s;
        Device *d;

        int r = device_get(m, json_get_string(o, "id"), json_get_string(o, "name"), json_get_string(o, "backend"),
                        DEVICE_OWNER_NONE, &d);
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

/* Makes the group again. Called after the jobs were restored: their groups exist already, and only get their overrides
 * back. If the cgroup is gone, its settings have ended, or wait for its unit. */
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
                if (startswith(name, "job:") || !overrides_name_is_valid(name))
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
        groups_below_changed(m, g->name); /* jobs that exist already inherit them */
        group_set_suspended(g, suspended);
        g->cgroup_id = id;
        return 0;
}

static int restore_each(Manager *m, json_object *table, int (*restore)(Manager *m, json_object *o)) {
        int first = 0;

        json_object_object_foreach(table, key, o) {
                (void) key;
                int r = restore(m, o);
                if (r < 0 && first == 0)
                        first = r;
        }
        return first;
}

static int restore_devices(Manager *m, json_object *o) {
        json_object *array;
        int first = 0;

        if (!json_object_object_get_ex(o, "devices", &array) || !json_object_is_type(array, json_type_array))
                return 0;
        for (size_t i = 0; i < json_object_array_length(array); i++) {
                int r = restore_device_entry(m, json_object_array_get_idx(array, i));
                if (r < 0 && first == 0)
                        first = r;
        }
        return first;
}

/* The last records of the former service. */
typedef struct Former {
        Manager *manager;
        json_object *last;          /* the manager's own record */
        json_object *jobs, *groups; /* by token, by name */
} Former;

static int keep_last(json_object *table, const char *key, json_object *o) {
        return json_object_object_add(table, key, json_object_get(o)) < 0 ? -ENOMEM : 0;
}

/* Reads the format of former versions, which had all objects in one record. */
static int read_array(json_object *record, const char *name, const char *key, json_object *table) {
        json_object *array;

        if (!json_object_object_get_ex(record, name, &array) || !json_object_is_type(array, json_type_array))
                return 0;
        for (size_t i = 0; i < json_object_array_length(array); i++) {
                json_object *o = json_object_array_get_idx(array, i);
                JSON_TRY(keep_last(table, json_get_string(o, key), o));
        }
        return 0;
}

static int read_manager(Former *f, json_object *record) {
        Manager *m = f->manager;

        m->next_job_id = MAX(m->next_job_id, json_get_u64(record, "next_job_id"));
        json_object_put(f->last);
        f->last = json_object_get(record);
        JSON_TRY(read_array(record, "jobs", "token", f->jobs));
        return read_array(record, "groups", "name", f->groups);
}

static int read_record(json_object *record, void *userdata) {
        Former *f = userdata;
        Manager *m = f->manager;
        json_object *o;

        if (json_object_object_get_ex(record, "job", &o)) {
                m->next_job_id = MAX(m->next_job_id, json_get_u64(o, "id") + 1);
                return keep_last(f->jobs, json_get_string(o, "token"), o);
        }
        if (json_object_object_get_ex(record, "group", &o))
                return keep_last(f->groups, json_get_string(o, "name"), o);
        if (json_object_object_get_ex(record, "job_gone", &o))
                json_object_object_del(f->jobs, json_object_get_string(o));
        else if (json_object_object_get_ex(record, "group_gone", &o))
                json_object_object_del(f->groups, json_object_get_string(o));
        else
                return read_manager(f, record);
        return 0;
}

/* A service that ended in order has given back the ids that it had reserved. */
static int restore_manager(Manager *m, json_object *o) {
        json_object *all;

        m->next_client_id = MAX(m->next_client_id, json_get_u64(o, "next_client_id"));
        m->next_queue_id = MAX(m->next_queue_id, json_get_u64(o, "next_queue_id"));
        if (json_object_object_get_ex(o, "all_devices", &all))
                read_device_settings(all, &m->every_device);
        return restore_devices(m, o);
}

static void restore_former(Former *f) {
        Manager *m = f->manager;
        int failed = 0;

        if (f->last)
                failed += restore_manager(m, f->last) < 0;
        failed += restore_each(m, f->jobs, restore_job) < 0;
        failed += restore_each(m, f->groups, restore_group) < 0;
        if (failed > 0)
                log_warning("Not everything that was set before the restart could be set again");
}

static int read_former(Manager *m, const Ledger *ledger) {
        _cleanup_json_ json_object *jobs = json_object_new_object(), *groups = json_object_new_object();
        Former f = {.manager = m, .jobs = jobs, .groups = groups};

        if (!jobs || !groups)
                return -ENOMEM;
        int r = ledger_read(ledger, read_record, &f);
        if (r >= 0)
                restore_former(&f);
        json_object_put(f.last);
        return r;
}

static int restore_from(Manager *m, int fd) {
        Ledger former;

        int r = ledger_open(fd, &former);
        if (r < 0)
                return r;
        m->restoring = true;
        r = read_former(m, &former);
        m->restoring = false;
        return r;
}

int manager_state_open(Manager *m, int fd) {
        int r = ledger_new("xsched-state", &m->state);
        if (r < 0)
                return r;
        if (fd >= 0) {
                r = restore_from(m, fd);
                if (r < 0)
                        log_warning_errno(r, "What was set before the restart cannot be read: %m");
        }
        return write_anew(m);
}
