/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Freezing
 */

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <utlist.h>

#include "cgroup/peer.h"
#include "freeze.h"
#include "overdue.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/base/state-file.h"
#include "service/base/systemd.h"
#include "service/core/client.h"
#include "service/core/manager-degraded.h"
#include "service/core/observer.h"
#include "service/core/queue.h"
#include "service/core/suspended.h"
#include "service/settings/xsched-conf.h"

#define DEGRADED_KEY "freeze"
#define RECORD_NAME  "frozen"
#define UNIT_MAX     256U /* systemd's own limit */
#define RETRY_USEC   (UINT64_C(2) * 1000000)

typedef enum FreezerState {
        FREEZER_THAWED,
        FREEZER_FREEZING,
        FREEZER_FROZEN, /* or perhaps frozen: it has to be thawed */
        FREEZER_THAWING,
        _FREEZER_STATE_MAX,
} FreezerState;

static const char *const freezer_state_table[_FREEZER_STATE_MAX] = {
                [FREEZER_THAWED] = "thawed",
                [FREEZER_FREEZING] = "freezing",
                [FREEZER_FROZEN] = "frozen",
                [FREEZER_THAWING] = "thawing",
};

struct Freezer {
        Manager *manager;
        char *unit; /* key */
        bool wanted;
        bool refused; /* is not asked for again until something changes */
        FreezerState state;
        UnitCall *call;
        sd_event_source *retry;
        UT_hash_handle hh;
};

static void freezer_step(Freezer *f);

/* --- the record --- */

static int record_path(char path[static PATH_MAX + sizeof(RECORD_NAME)]) {
        char directory[PATH_MAX];

        if (!state_directory("RUNTIME_DIRECTORY", directory))
                return -ENOENT;
        (void) snprintf(path, PATH_MAX + sizeof(RECORD_NAME), "%s/" RECORD_NAME, directory);
        return 0;
}

/* Replaces the record as a whole; without text there is no file. The file is in memory, as frozen units are, so no disk
 * is waited for. */
static int record_replace(const char *text) {
        char directory[PATH_MAX], path[PATH_MAX + sizeof(RECORD_NAME)];

        if (!isempty(text))
                return state_directory("RUNTIME_DIRECTORY", directory)
                                ? state_file_write(directory, RECORD_NAME, text, strlen(text))
                                : -ENOENT;
        int r = record_path(path);
        return r >= 0 && unlink(path) < 0 && errno != ENOENT ? negative_errno() : r;
}

static int record_write(Manager *m) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        Freezer *f, *tmp;

        FILE *out = open_memstream(&text, &size);
        if (!out)
                return -ENOMEM;
        HASH_ITER(hh, m->freezers, f, tmp)
                if (f->state != FREEZER_THAWED)
                        (void) fprintf(out, "%s\n", f->unit);
        if (fclose(out) != 0)
                return -ENOMEM;
        return record_replace(text);
}

static bool unit_is_valid(const char *unit) {
        size_t n = strlen(unit);

        return n > 0 && n < UNIT_MAX && !strchr(unit, '/');
}

typedef int (*record_line_t)(const char *unit, void *userdata);

/* Skips lines that are no unit's name. */
static int record_read(record_line_t line, void *userdata) {
        char path[PATH_MAX + sizeof(RECORD_NAME)], text[UNIT_MAX + 2];

        int r = record_path(path);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        FILE *in = fopen(path, "re");
        if (!in)
                return errno == ENOENT ? 0 : negative_errno();
        r = 0;
        while (r >= 0 && fgets(text, sizeof(text), in)) {
                text[strcspn(text, "\n")] = '\0';
                if (unit_is_valid(text))
                        r = line(text, userdata);
        }
        (void) fclose(in);
        return r;
}

/* --- what is said --- */

static void tell_groups(const Freezer *f, unsigned changes) {
        Manager *m = f->manager;
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                if (g->kind == GROUP_CGROUP && g->origin && streq_ptr(g->origin->unit, f->unit))
                        observers_group_changed(g, changes);
}

static int freezer_set_state(Freezer *f, FreezerState state) {
        bool was_frozen = f->state == FREEZER_FROZEN, was_thawed = f->state == FREEZER_THAWED;

        log_debug("%s: %s, was %s", f->unit, freezer_state_table[state], freezer_state_table[f->state]);
        f->state = state;
        unsigned changes = (was_frozen != (state == FREEZER_FROZEN) ? GROUP_FROZEN : 0) |
                        (was_thawed != (state == FREEZER_THAWED) ? GROUP_FREEZER : 0);
        if (changes != 0)
                tell_groups(f, changes);
        return record_write(f->manager);
}

static void set_degraded(Manager *m, const char *unit, const char *what, const char *why) {
        char text[UNIT_MAX + 256];

        if (unit) {
                (void) snprintf(text, sizeof(text), "%s could not be %s: %.160s", unit, what, why);
                log_event(LOG_WARNING, MESSAGE_DEGRADED, LOG_FIELDS(.error = 0), "%s", text);
        }
        (void) manager_set_degraded(m, DEGRADED_KEY, unit ? text : NULL);
}

/* --- asking systemd --- */

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        freezer_step(userdata);
        return 0;
}

static void retry_later(Freezer *f) {
        if (sd_event_source_set_time_relative(f->retry, RETRY_USEC) >= 0)
                (void) sd_event_source_set_enabled(f->retry, SD_EVENT_ONESHOT);
}

static void on_frozen(UnitAnswer answer, const char *why, void *userdata) {
        Freezer *f = userdata;

        f->call = unit_call_free(f->call);
        if (answer == UNIT_DONE) {
                log_event(LOG_NOTICE, MESSAGE_FROZEN, LOG_FIELDS(.group = f->unit), "Froze %s", f->unit);
                set_degraded(f->manager, NULL, NULL, NULL);
        } else if (answer != UNIT_GONE)
                set_degraded(f->manager, f->unit, "frozen", why);
        if (answer == UNIT_BUSY)
                retry_later(f);
        f->refused = answer != UNIT_DONE;
        (void) freezer_set_state(f, answer == UNIT_DONE || answer == UNIT_UNCLEAR ? FREEZER_FROZEN : FREEZER_THAWED);
        freezer_step(f);
}

static void on_thawed(UnitAnswer answer, const char *why, void *userdata) {
        Freezer *f = userdata;

        f->call = unit_call_free(f->call);
        if (answer != UNIT_DONE && answer != UNIT_GONE) {
                set_degraded(f->manager, f->unit, "thawed", why);
                (void) freezer_set_state(f, FREEZER_FROZEN);
                retry_later(f);
                return;
        }
        log_event(LOG_NOTICE, MESSAGE_THAWED, LOG_FIELDS(.group = f->unit), "Thawed %s", f->unit);
        set_degraded(f->manager, NULL, NULL, NULL);
        (void) freezer_set_state(f, FREEZER_THAWED);
        freezer_step(f);
}

static Freezer *freezer_free(Freezer *f) {
        HASH_DEL(f->manager->freezers, f);
        unit_call_free(f->call);
        sd_event_source_disable_unref(f->retry);
        free(f->unit);
        free(f);
        return NULL;
}

static void freezer_freeze(Freezer *f) {
        Systemd *systemd = f->manager->systemd;

        /* The record comes before the call, so that the next service can thaw the unit whatever happens to this one. */
        int r = freezer_set_state(f, FREEZER_FREEZING);
        if (r >= 0)
                r = systemd ? systemd_freeze(systemd, f->unit, on_frozen, f, &f->call) : -ENOTCONN;
        if (r >= 0)
                return;
        f->refused = true;
        set_degraded(f->manager, f->unit, "frozen",
                        r == -ENOENT ? "there is no runtime directory to note it in" : strerror(-r));
        (void) freezer_set_state(f, FREEZER_THAWED);
}

static void freezer_thaw(Freezer *f) {
        Systemd *systemd = f->manager->systemd;

        (void) freezer_set_state(f, FREEZER_THAWING);
        int r = systemd ? systemd_thaw(systemd, f->unit, on_thawed, f, &f->call) : -ENOTCONN;
        if (r >= 0)
                return;
        set_degraded(f->manager, f->unit, "thawed", strerror(-r));
        (void) freezer_set_state(f, FREEZER_FROZEN);
        retry_later(f);
}

/* Takes the next step towards the wanted state, between two answers of systemd. May free the freezer. */
static void freezer_step(Freezer *f) {
        if (f->call)
                return;
        if (f->wanted && f->state == FREEZER_THAWED && !f->refused)
                freezer_freeze(f);
        else if (!f->wanted && f->state == FREEZER_FROZEN)
                freezer_thaw(f);
        else if (!f->wanted && f->state == FREEZER_THAWED)
                freezer_free(f);
}

static int freezer_get(Manager *m, const char *unit, Freezer **ret) {
        Freezer *f;

        HASH_FIND_STR(m->freezers, unit, f);
        if (!f) {
                f = calloc(1, sizeof(*f));
                if (!f || !(f->unit = strdup(unit))) {
                        free(f);
                        return -ENOMEM;
                }
                f->manager = m;
                HASH_ADD_KEYPTR(hh, m->freezers, f->unit, strlen(f->unit), f);
                int r = sd_event_add_time_relative(m->event, &f->retry, CLOCK_MONOTONIC, RETRY_USEC, 0, on_retry, f);
                if (r >= 0)
                        r = sd_event_source_set_enabled(f->retry, SD_EVENT_OFF);
                if (r < 0) {
                        freezer_free(f);
                        return r;
                }
        }
        *ret = f;
        return 0;
}

/* --- groups --- */

/* Units that are never frozen: a person needs them to ask for a thaw, or for anything else. */
static const char *const spared_units[] = {
                "*.slice",
                "init.scope",
                "session-*.scope",
                "user@*.service",
                "systemd-*.service",
                "dbus.service",
                "dbus-broker.service",
                "polkit.service",
                "gdm*.service",
                "sddm.service",
                "lightdm.service",
                "greetd.service",
                "xsched.service",
};

static bool unit_is_spared(const char *unit) {
        for (size_t i = 0; i < ELEMENTSOF(spared_units); i++)
                if (fnmatch(spared_units[i], unit, 0) == 0)
                        return true;
        return false;
}

/* Whether the service itself runs in the unit: its unit may have another name than the usual one. */
static bool unit_is_ours(const char *unit) {
        _cleanup_(peer_done)
        Peer self = PEER_NULL;

        return peer_from_pid(getpid(), &self) < 0 || streq_ptr(self.unit, unit);
}

/* The unit to freeze for the group; NULL: the group is not a whole unit, or is a unit that others need. */
static const char *freezable_unit(const Group *g) {
        const char *unit = g->kind == GROUP_CGROUP && g->origin ? g->origin->unit : NULL;

        return unit && unit_is_valid(unit) && !unit_is_spared(unit) ? unit : NULL;
}

static bool client_may_run(const Client *c) {
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue && !queue_holds(c->slots[i].queue) && !queue_is_suspended(c->slots[i].queue))
                        return true;
        return false;
}

/* Whether a client of the group, or of one below it, may run. Recurses as deep as the groups are nested. */
static bool anybody_may_run(const Group *g) {
        const Client *c;
        const Group *below;

        DL_FOREACH2(g->clients, c, group_next)
                if (client_may_run(c))
                        return true;
        DL_FOREACH2(g->children, below, children_next)
                if (anybody_may_run(below))
                        return true;
        return false;
}

static bool class_freezes(const Group *g) {
        const Class *class = classes_find(&g->manager->config->classes, g->resolved.class);

        return class && class->freeze;
}

static bool wants_freezing(const Group *g) {
        return g->n_clients > 0 && (group_suspended_by(g) || group_is_overdue(g)) && class_freezes(g) &&
                        !anybody_may_run(g);
}

void freeze_group_changed(Group *g, bool joined) {
        const char *unit = freezable_unit(g);
        Manager *m = g->manager;
        bool wanted;
        Freezer *f;

        if (m->stopping)
                return;
        wanted = wants_freezing(g);
        if (!unit) {
                if (wanted && !joined && group_suspended_by(g))
                        set_degraded(m, g->name, "frozen",
                                        "it is no service or scope of the system's manager, or one that others need");
                return;
        }
        HASH_FIND_STR(m->freezers, unit, f);
        if (!f && (!wanted || unit_is_ours(unit) || freezer_get(m, unit, &f) < 0))
                return;
        if (wanted != f->wanted || joined)
                f->refused = false;
        f->wanted = wanted;
        /* Frozen processes do not register: the unit was restarted, or another program has thawed it. */
        if (joined && wanted && f->state == FREEZER_FROZEN && !m->restoring)
                (void) freezer_set_state(f, FREEZER_THAWED);
        freezer_step(f);
}

/* A unit is frozen with all cgroups below it, so not while a client in one of them may run. */
void freeze_queue_turned(const Queue *q) {
        Manager *m = q->manager;

        if (m->freezers || m->config->classes.any_freeze)
                for (Group *g = q->client->group; g; g = g->parent)
                        freeze_group_changed(g, false);
}

void freeze_group_gone(Group *g) {
        const char *unit = freezable_unit(g);
        Freezer *f = NULL;

        if (g->manager->stopping)
                return;
        if (unit)
                HASH_FIND_STR(g->manager->freezers, unit, f);
        if (f) {
                f->wanted = false;
                freezer_step(f);
        }
}

bool group_is_frozen(const Group *g) {
        const char *unit = freezable_unit(g);
        Freezer *f = NULL;

        if (unit)
                HASH_FIND_STR(g->manager->freezers, unit, f);
        return f && f->state == FREEZER_FROZEN;
}

bool freeze_is_ours(const Group *g) {
        for (; g && g->manager->freezers; g = g->parent) {
                const char *unit = freezable_unit(g);
                Freezer *f = NULL;

                if (unit)
                        HASH_FIND_STR(g->manager->freezers, unit, f);
                if (f && f->state != FREEZER_THAWED)
                        return true;
        }
        return false;
}

/* --- start and end --- */

static int load_unit(const char *unit, void *userdata) {
        Manager *m = userdata;
        Freezer *f;

        int r = freezer_get(m, unit, &f);
        if (r >= 0)
                f->state = FREEZER_FROZEN;
        return r;
}

int freeze_load(Manager *m) {
        return record_read(load_unit, m);
}

void freeze_settle(Manager *m) {
        Freezer *f, *tmp;

        HASH_ITER(hh, m->freezers, f, tmp)
                freezer_step(f);
}

static int thaw_and_wait(Systemd *systemd, const char *unit) {
        int r = systemd_thaw_and_wait(systemd, unit);
        if (r >= 0)
                log_event(LOG_NOTICE, MESSAGE_THAWED, LOG_FIELDS(.group = unit), "Thawed %s", unit);
        return r;
}

void freeze_thaw_all(Manager *m) {
        Freezer *f, *tmp;

        HASH_ITER(hh, m->freezers, f, tmp) {
                f->call = unit_call_free(f->call);
                f->wanted = false;
                if (f->state != FREEZER_THAWED && m->systemd && thaw_and_wait(m->systemd, f->unit) >= 0)
                        f->state = FREEZER_THAWED;
        }
        if (m->freezers)
                (void) record_write(m);
}

void freeze_free(Manager *m) {
        Freezer *f, *tmp;

        HASH_ITER(hh, m->freezers, f, tmp)
                freezer_free(f);
}

typedef struct Recovery {
        Systemd *systemd;
        FILE *left;
} Recovery;

static int recover_unit(const char *unit, void *userdata) {
        Recovery *r = userdata;

        if (thaw_and_wait(r->systemd, unit) < 0)
                (void) fprintf(r->left, "%s\n", unit);
        return 0;
}

int freeze_recover(void) {
        _cleanup_(systemd_freep)
        Systemd *systemd = NULL;
        _cleanup_free_ char *left = NULL;
        char path[PATH_MAX + sizeof(RECORD_NAME)];
        size_t size = 0;

        int r = record_path(path);
        if (r < 0 || access(path, F_OK) < 0)
                return 0;
        r = systemd_open(&systemd);
        if (r < 0)
                return log_error_errno(r, "Failed to connect to the bus: %m");
        Recovery recovery = {.systemd = systemd, .left = open_memstream(&left, &size)};
        if (!recovery.left)
                return -ENOMEM;
        r = record_read(recover_unit, &recovery);
        if (fclose(recovery.left) != 0)
                return -ENOMEM;
        if (r >= 0)
                r = record_replace(left);
        return r < 0 ? r : isempty(left) ? 0 : -EBUSY;
}
