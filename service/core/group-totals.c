/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a group has used, over its end and the service's
 */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <utlist.h>

#include "account.h"
#include "cgroup/cgroup-path.h"
#include "common/parse-util.h"
#include "group-totals.h"
#include "party.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/base/state-file.h"
#include "user.h"

#define SAVE_BUSY_NS (1 * NSEC_PER_SEC)
#define SAVE_IDLE_NS (100 * NSEC_PER_MSEC)
#define STORE_NS     (300 * NSEC_PER_SEC)
#define NEW_FILE     "." TOTALS_FILE ".new"

static uint64_t now_s(void) {
        return (uint64_t) time(NULL);
}

/* --- which entry --- */

/* The unit whose own cgroup that is; NULL: none that comes again. */
static const char *lasting_unit(const Group *g) {
        const char *slash = strrchr(g->name, '/');

        if (g->kind != GROUP_CGROUP || g->name[0] != '/')
                return NULL;
        if (streq(g->name, "/"))
                return "-.slice";
        if (cgroup_path_trusted(g->name) != strlen(g->name))
                return NULL;
        return endswith(slash, ".service") || endswith(slash, ".slice") ? slash + 1 : NULL;
}

static bool has_entry(const Group *g) {
        return g->name[0] == '/' || g->kind == GROUP_JOB;
}

void group_totals_join(Group *g) {
        const char *unit = lasting_unit(g);
        TotalsSlot *s = has_entry(g) ? totals_get(&g->manager->totals, unit ?: g->name, unit) : NULL;

        if (!s)
                return;
        g->totals = s;
        g->usage = (PolicyUsage){
                        .run_ns = s->run_ns,
                        .kept_ns = s->kept_ns,
                        .wait_ns = s->wait_ns,
                        .drain_wait_ns = s->drain_wait_ns,
                        .n_preempted = s->n_preempted,
        };
        g->service_wait_ns = s->service_wait_ns;
        g->gone_run_ns = s->below_ns;
        g->told_run_ns = s->run_ns + s->below_ns; /* a group above has counted that */
        g->gone_source = (AccountSource) s->source;
        g->born = g->usage;
}

/* --- saving --- */

void entity_save_totals(Entity *e, const PolicyUsage *u) {
        uint64_t run_ns = ns_sub(u->run_ns, e->saved.run_ns);
        TotalsSlot *s = e->group->totals;
        if (s) {
                s->run_ns += run_ns;
                s->kept_ns += ns_sub(u->kept_ns, e->saved.kept_ns);
                s->wait_ns += ns_sub(u->wait_ns, e->saved.wait_ns);
                s->drain_wait_ns += ns_sub(u->drain_wait_ns, e->saved.drain_wait_ns);
                s->n_preempted += ns_sub(u->n_preempted, e->saved.n_preempted);
                s->service_wait_ns += ns_sub(e->service_wait_ns, e->saved_service_wait_ns);
                if (account_entity_source(e) != ACCOUNT_NONE)
                        s->source = account_entity_source(e);
        }
        for (Group *above = run_ns > 0 ? e->group->parent : NULL; above; above = above->parent)
                if (above->totals)
                        above->totals->below_ns += run_ns;
        e->saved = *u;
        e->saved_service_wait_ns = e->service_wait_ns;
}

/* --- the end of a group --- */

static void log_end(const Group *g, const PolicyUsage *u) {
        char run[FORMAT_NSEC_MAX], wait[FORMAT_NSEC_MAX];
        const LogUsage usage = {
                        .unit = g->unit,
                        .source = account_source_to_string(g->gone_source),
                        .run_us = u->run_ns / NSEC_PER_USEC,
                        .kept_us = u->kept_ns / NSEC_PER_USEC,
                        .wait_us = u->wait_ns / NSEC_PER_USEC,
                        .n_preempted = u->n_preempted,
        };

        log_event(LOG_INFO, MESSAGE_GROUP_ENDED, LOG_FIELDS(.group = g->name, .usage = &usage),
                        "%s ran on GPUs for %s, and waited for %s", g->name,
                        format_nsec(run, sizeof(run), u->run_ns - u->run_ns % NSEC_PER_USEC),
                        format_nsec(wait, sizeof(wait), u->wait_ns - u->wait_ns % NSEC_PER_USEC));
}

void group_totals_leave(Group *g) {
        Manager *m = g->manager;
        const PolicyUsage life = {
                        .run_ns = ns_sub(g->usage.run_ns, g->born.run_ns),
                        .kept_ns = ns_sub(g->usage.kept_ns, g->born.kept_ns),
                        .wait_ns = ns_sub(g->usage.wait_ns, g->born.wait_ns),
                        .n_preempted = ns_sub(g->usage.n_preempted, g->born.n_preempted),
        };

        if (m->stopping)
                return; /* the group goes on, and its entry with it */
        /* Who used nothing is not told of, and who makes many groups not more often than his budget lets him. */
        if ((life.run_ns > 0 || life.wait_ns > 0) &&
                        user_may_log(m, g->owner == PARTY_SEVERAL ? 0 : (uid_t) g->owner))
                log_end(g, &life);
        if (g->totals)
                totals_leave(&m->totals, TAKE_PTR(g->totals), now_s());
}

/* --- files --- */

/* The first of those that the service manager gave. */
static const char *directory_of(const char *variable, char buf[static PATH_MAX]) {
        const char *all = getenv(variable);

        if (isempty(all))
                return NULL;
        (void) snprintf(buf, PATH_MAX, "%.*s", (int) strcspn(all, ":"), all);
        return buf;
}

static void bad_file(Manager *m, const char *directory, const char *why) {
        char text[PATH_MAX + TOTALS_WHY_MAX];

        int r = state_file_set_aside(directory, TOTALS_FILE);
        (void) snprintf(text, sizeof(text), "%s/" TOTALS_FILE ": %s; %s", directory, why,
                        r < 0 ? "it could not be kept aside" : "kept as " TOTALS_FILE ".bad");
        log_event(LOG_ERR, MESSAGE_STATE_BAD, LOG_FIELDS(.error = -EBADMSG), "%s", text);
        if (manager_set_degraded(m, "stored totals", text) < 0)
                log_oom();
}

/* Whether there was such a file. */
static bool load(Manager *m, const char *directory) {
        _cleanup_free_ char *data = NULL;
        char why[TOTALS_WHY_MAX];
        size_t size;

        int r = state_file_read(directory, TOTALS_FILE, &data, &size);
        if (r == -ENOENT)
                return false;
        if (r >= 0)
                r = totals_load(&m->totals, data, size, now_s(), why);
        else
                (void) snprintf(why, sizeof(why), "it cannot be read: %s", strerror(-r));
        if (r != 0)
                bad_file(m, directory, why);
        return r >= 0;
}

/* A table in the runtime directory, in the place of the former one, whose entries it has. */
static int open_table(Manager *m, const char *runtime, bool *ret_found) {
        _cleanup_close_ int dir = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
                return negative_errno();
        (void) unlinkat(dir, NEW_FILE, 0);
        _cleanup_close_ int fd =
                        openat(dir, NEW_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return negative_errno();
        int r = totals_new(fd, &m->totals);
        if (r < 0)
                return r;
        *ret_found = load(m, runtime);
        return renameat(dir, NEW_FILE, dir, TOTALS_FILE) < 0 ? negative_errno() : 0;
}

/* There is no room for a new one: the former goes on. Where it cannot, what it has is taken, and it goes: it would be
 * older than the copy on the disk when the next service looks. */
static int reuse_table(Manager *m, const char *runtime, bool *ret_found) {
        _cleanup_close_ int dir = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
                return negative_errno();
        (void) unlinkat(dir, NEW_FILE, 0);
        _cleanup_close_ int fd =
                        openat(dir, TOTALS_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return negative_errno();
        int r = totals_adopt(fd, now_s(), &m->totals);
        if (r >= 0) {
                *ret_found = true;
                return 0;
        }
        if (totals_new(-1, &m->totals) < 0)
                return -ENOMEM;
        *ret_found = load(m, runtime);
        (void) unlinkat(dir, TOTALS_FILE, 0);
        return r;
}

/* With r 0 all is well. */
static void set_degraded(Manager *m, const char *key, const char *what, int r) {
        char text[256];

        (void) snprintf(text, sizeof(text), "%s: %s", what, strerror(-r));
        if (manager_set_degraded(m, key, r < 0 ? text : NULL) < 0)
                log_oom();
}

void totals_open(Manager *m, bool has_directories) {
        char state[PATH_MAX], runtime[PATH_MAX];
        bool found = false;
        int r = 0;

        if (has_directories && directory_of("RUNTIME_DIRECTORY", runtime))
                r = open_table(m, runtime, &found);
        if (r < 0 && !m->totals.map) {
                int error = r;

                r = reuse_table(m, runtime, &found);
                r = r == -ENOENT ? error : r;
        }
        set_degraded(m, "counters", "those of groups will not survive the service", r);
        if (!m->totals.map && totals_new(-1, &m->totals) < 0) {
                log_oom();
                return;
        }
        m->totals_are_stored = has_directories && directory_of("STATE_DIRECTORY", state);
        if (m->totals_are_stored && !found)
                (void) load(m, state);
        m->totals_store_at = now_ns() + STORE_NS;
}

static bool group_is_there(const char *name, void *userdata) {
        const Manager *m = userdata;
        Group *g;

        HASH_FIND_STR(m->groups, name, g);
        return g;
}

void totals_settle(Manager *m) {
        if (m->totals.map)
                totals_gc(&m->totals, group_is_there, m);
}

/* --- the copy on the disk --- */

typedef struct TotalsCopy {
        char *data, directory[PATH_MAX];
        size_t size;
        int result;
        atomic_bool done;
        pthread_t thread;
} TotalsCopy;

static void *copy_thread(void *arg) {
        TotalsCopy *c = arg;

        c->result = state_file_write(c->directory, TOTALS_FILE, c->data, c->size);
        atomic_store(&c->done, true);
        return NULL;
}

static void note_copy(Manager *m, int r) {
        set_degraded(m, "stored counters", "those of units would not survive a reboot", r);
}

/* Waits for the disk, unless that has ended. */
static void copy_end(Manager *m) {
        TotalsCopy *c = TAKE_PTR(m->totals_copy);

        if (!c)
                return;
        (void) pthread_join(c->thread, NULL);
        note_copy(m, c->result);
        free(c->data);
        free(c);
}

static int copy_begin(Manager *m) {
        TotalsCopy *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        int r = directory_of("STATE_DIRECTORY", c->directory)
                        ? totals_print(&m->totals, now_s(), &c->data, &c->size)
                        : -ENOENT;
        if (r >= 0)
                r = -pthread_create(&c->thread, NULL, copy_thread, c);
        if (r < 0) {
                free(c->data);
                free(c);
                return r;
        }
        m->totals_copy = c;
        return 0;
}

/* While something runs: nobody waits for the disk, and an idle service writes nothing. */
static void store_now_and_then(Manager *m, uint64_t now) {
        if (!m->totals_are_stored || now < m->totals_store_at)
                return;
        m->totals_store_at = now + STORE_NS;
        if (m->totals_copy && !atomic_load(&m->totals_copy->done))
                return;
        copy_end(m);
        int r = copy_begin(m);
        if (r < 0)
                note_copy(m, r);
}

static void save_entities(Device *d, uint64_t now) {
        PolicyUsage u;
        Entity *e;

        DL_FOREACH2(d->entities, e, device_next)
                entity_usage(e, now, &u);
}

void device_save_totals(Device *d, uint64_t now) {
        if (now < d->saved_at + (d->n_ready > 0 ? SAVE_BUSY_NS : SAVE_IDLE_NS))
                return;
        d->saved_at = now;
        save_entities(d, now);
        store_now_and_then(d->manager, now);
}

void totals_close(Manager *m) {
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp)
                save_entities(d, now_ns());
        copy_end(m);
        if (m->totals_are_stored && copy_begin(m) >= 0)
                copy_end(m);
}
