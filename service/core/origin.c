/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Origins
 */

#include <ctype.h>
#include <stdio.h>
#include <utlist.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-path.h"
#include "common/conf-parser.h"
#include "common/conf-types.h"
#include "gone-watch.h"
#include "gone.h"
#include "group-match.h"
#include "manager-config.h"
#include "observer.h"
#include "origin-labels.h"
#include "origin.h"
#include "resolve.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/settings/xsched-conf.h"
#include "turn.h"
#include "user.h"

#define SECTION "X-XSched"

/* Prefix of attributes like "user.xsched.lower.priority", which only lower, even on directories of root. */
#define ATTRIBUTE_LOWER "lower."

/* --- [X-XSched] --- */

typedef struct Section {
        Settings settings;
        char class[CLASS_NAME_MAX];
        uint64_t given;
} Section;

static const ConfItem section_items[] = {[SETTINGS_CLASS] = CONF_ITEM("Class", conf_type_string, Section, class, 0, 0),
                CLASS_SETTINGS_ITEMS(Section)};

static int section_open(const char *argument, void *userdata, ConfTarget *ret) {
        static const Section defaults = {.settings = CLASS_SETTINGS_DEFAULT};
        Section *s = userdata;

        *ret = (ConfTarget){.data = s, .defaults = &defaults, .set = &s->given};
        return 0;
}

static const ConfSection sections[] = {
                {.name = SECTION, .items = section_items, .n_items = ELEMENTSOF(section_items), .open = section_open},
};

/* Adds the file's settings to those of the files before. Returns whether it had any. */
static bool read_section(const char *path, Section *section) {
        const ConfContext context = {
                        .sections = sections,
                        .n_sections = ELEMENTSOF(sections),
                        .userdata = section,
                        .report = config_log_problem,
        };
        _cleanup_free_ char *data = NULL;
        size_t size;

        int r = unit_file_read_section(path, SECTION, &data, &size);
        if (r == -ENOENT)
                return false;
        if (r >= 0 && memmem(data, size, "[" SECTION "]", strlen("[" SECTION "]")))
                r = conf_parse_buffer(&context, path, data, size);
        else if (r >= 0)
                return false;
        if (r < 0)
                log_event(LOG_WARNING, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.error = r),
                                "%s: its [" SECTION "] could not be read: %m", path);
        return r >= 0;
}

void origin_take_files(Origin *o, char **files) {
        Section section = {0};

        for (char **f = files; f && *f; f++) {
                if (!read_section(*f, &section))
                        continue;
                free(o->file_detail);
                o->file_detail = strdup(*f);
        }
        o->file = section.settings;
        o->file.mask = (unsigned) section.given & ~(1U << SETTINGS_CLASS);
        if (!isempty(section.class) && settings_set_class(&o->file, section.class) < 0)
                log_event(LOG_WARNING, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.error = -EINVAL),
                                "%s: '%s' is no name for a class, ignored", strempty(o->file_detail), section.class);
}

/* --- XSCHED_CLASS=, ... --- */

void origin_take_assignment(const Origin *o, const char *assignment, Settings *ret) {
        const char *equals = strchr(assignment, '='), *name = assignment + strlen("XSCHED_");
        char key[16];
        size_t n = (size_t) (equals - name);

        if (n == 0 || n >= sizeof(key))
                return;
        for (size_t i = 0; i < n; i++)
                key[i] = (char) (i == 0 ? name[i] : tolower((unsigned char) name[i]));
        key[n] = '\0';
        int r = settings_set_string(ret, key, equals + 1);
        if (r == -ENOENT)
                return; /* XSCHED_DEBUG and the like are the shim's */
        if (r < 0)
                log_event(LOG_WARNING, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.group = o->path, .error = r),
                                "%s: %s is ignored, it has to be %s", o->unit, assignment,
                                settings_key_range((SettingsKey) settings_key_from_string(key)));
}

/* The unit's log fields come first, and its processes' environment second, because log fields are written for xsched
 * only. */
static void read_properties(Origin *o, const UnitFacts *facts) {
        o->environment = SETTINGS_NULL;
        for (char **s = facts->environment; s && *s; s++)
                origin_take_assignment(o, *s, &o->environment);
        o->property = o->environment;
        for (char **s = facts->log_fields; s && *s; s++)
                origin_take_assignment(o, *s, &o->property);
}

/* --- user.xsched.* --- */

void origin_take_attribute(const char *key, const char *value, void *userdata) {
        Origin *o = userdata;
        const char *lower = startswith(key, ATTRIBUTE_LOWER);
        char name[16] = "";

        if (origin_take_label(o, key, value))
                return;
        /* "priority" in the attribute's name, "Priority" everywhere else. */
        (void) snprintf(name, sizeof(name), "%s", lower ?: key);
        name[0] = (char) toupper((unsigned char) name[0]);
        int r = settings_set_string(lower ? &o->lowered : &o->attr, name, value);
        if (r == -ENOENT)
                log_event(LOG_WARNING, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.group = o->path, .error = r),
                                "%s: unknown attribute user.xsched.%.32s, ignored", o->path, key);
        else if (r < 0)
                log_event(LOG_WARNING, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.group = o->path, .error = r),
                                "%s: user.xsched.%s=%s is ignored, it has to be %s", o->path, key, value,
                                settings_key_range((SettingsKey) settings_key_from_string(name)));
}

/* Logs attributes that would raise, and therefore have no effect; once for each change. */
static void log_refused(const Origin *o, uid_t owner) {
        const SettingsLayer layer = {SETTINGS_FROM_ATTRIBUTE, NULL, &o->lowered};
        const SettingsResolved usual = {.policy = POLICY_SETTINGS_DEFAULT};
        SettingsResolved r;

        settings_resolve(&layer, 1, manager_lookup_class, o->manager, &r);
        if (!settings_is_lower_or_equal(&r, &usual) && user_may_log(o->manager, owner))
                log_event(LOG_NOTICE, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.group = o->path, .error = -EPERM),
                                "%s: attributes user.xsched.* of a directory that is not root's only lower, "
                                "what raises is ignored",
                                o->path);
}

/* Returns whether anything has changed. */
static bool read_attrs(Origin *o) {
        const Settings attr = o->attr, lowered = o->lowered;
        const OriginOwner former = o->owner;
        OriginLabel *labels = TAKE_PTR(o->labels);
        _cleanup_free_ char *directory = NULL;
        uid_t owner = 0;

        o->attr = o->lowered = SETTINGS_NULL;
        int r = cgroup_directory(o->path, &directory);
        if (r >= 0)
                r = cgroup_attr_read(directory, origin_take_attribute, o, &owner);
        o->owner = r < 0 ? ORIGIN_OWNER_UNKNOWN : owner == 0 ? ORIGIN_OWNER_ROOT : ORIGIN_OWNER_OTHER;
        if (o->owner == ORIGIN_OWNER_OTHER) {
                settings_merge(&o->lowered, &o->attr);
                o->attr = SETTINGS_NULL;
        }
        bool relabelled = !origin_labels_are_equal(labels, o->labels);
        origin_labels_free(labels);
        if (!settings_is_equal(&lowered, &o->lowered)) {
                if (o->owner == ORIGIN_OWNER_OTHER)
                        log_refused(o, owner);
                return true;
        }
        return relabelled || o->owner != former || !settings_is_equal(&attr, &o->attr);
}

static void origin_changed(Origin *o);

static bool watch_attrs(Origin *o);

static void on_directory_gone(void *watched) {
        Origin *o = watched;

        o->attr_watch = 0;
        o->n_refs++;
        gone_cgroup(o);
        /* The cgroup was removed; a new one of the same name may exist already. */
        if (o->n_refs > 1 && !o->manager->stopping) {
                if (watch_attrs(o) && read_attrs(o))
                        origin_changed(o);
        }
        origin_unref(o);
}

/* Called when a directory below was removed: the kernel does not tell the watch of that directory itself. */
static void on_removed(void *watched, const char *name) {
        const Origin *o = watched;
        _cleanup_free_ char *path = NULL;
        Origin *below;

        if (asprintf(&path, "%s/%s", streq(o->path, "/") ? "" : o->path, name) < 0) {
                path = NULL;
                return;
        }
        HASH_FIND_STR(o->manager->origins, path, below);
        if (!below)
                return;
        attr_watch_remove(below->manager->attr_watch, below->attr_watch);
        on_directory_gone(below);
}

/* Called when the attributes changed, or when events were lost. The removal of the directory is another event. */
static void on_attrs(void *watched) {
        Origin *o = watched;
        uint64_t id;

        if (o->attr_watch > 0 && cgroup_id(o->path, &id) == -ENOENT) {
                attr_watch_remove(o->manager->attr_watch, o->attr_watch);
                on_directory_gone(o);
        } else if (read_attrs(o))
                origin_changed(o);
}

static int add_attr_watch(Origin *o) {
        _cleanup_free_ char *directory = NULL;
        Manager *m = o->manager;

        int r = cgroup_directory(o->path, &directory);
        if (r >= 0 && !m->attr_watch)
                r = attr_watch_new(m->event, on_attrs, on_removed, on_directory_gone, &m->attr_watch);
        return r < 0 ? r : attr_watch_add(m->attr_watch, directory, o);
}

/* Adds the watch before the attributes are read, so that no change is lost in between. Returns whether the directory is
 * another one than before, which not every kernel tells. */
static bool watch_attrs(Origin *o) {
        int r = add_attr_watch(o), former = o->attr_watch;

        if (r < 0 && r != -ENOENT)
                log_warning_errno(r, "Failed to watch the attributes of %s: %m", o->path);
        if (r < 0 || r == former)
                return false;
        if (former > 0)
                attr_watch_remove(o->manager->attr_watch, former);
        o->attr_watch = r;
        return true;
}

/* --- reading --- */

static bool is_below(const Origin *o, const Origin *above) {
        for (; o; o = o->parent)
                if (o == above)
                        return true;
        return false;
}

static void origin_changed(Origin *o) {
        Manager *m = o->manager;
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                if (is_below(g->origin, o))
                        (void) group_match(g); /* groups below call group_match(), too */
        HASH_ITER(hh, m->groups, g, tmp)
                if (is_below(g->origin, o))
                        group_settings_changed(g);
}

/* Returns the nearest origin that is a unit: processes may have moved into cgroups below their unit's. */
static const Origin *origin_of_unit(const Origin *o) {
        while (o && !o->unit)
                o = o->parent;
        return o;
}

const Settings *origin_environment(const Origin *o) {
        static const Settings none = SETTINGS_NULL;

        o = origin_of_unit(o);
        return o ? &o->environment : &none;
}

/* Removes wishes of clients that come from the unit's environment, for good: a process keeps the environment that it
 * was started with, whatever the unit says later. */
static void forget_wishes(const Origin *o) {
        Group *g, *tmp;
        Client *c;

        HASH_ITER(hh, o->manager->groups, g, tmp) {
                if (!g->origin || origin_of_unit(g->origin) != o)
                        continue;
                DL_FOREACH2(g->clients, c, group_next)
                        if (client_forget_wish(c, &o->environment))
                                client_settings_changed(c);
        }
}

void origin_take_facts(Origin *o, const UnitFacts *facts) {
        const Settings file = o->file, property = o->property;

        o->asked = false;
        origin_take_files(o, facts->files);
        read_properties(o, facts);
        forget_wishes(o);
        if (!settings_is_equal(&file, &o->file) || !settings_is_equal(&property, &o->property))
                origin_changed(o);
}

static void origin_ask(Origin *o) {
        if (o->unit)
                observers_origin_asks(o);
}

void origin_revisit(Origin *o) {
        if (!o->asked)
                origin_ask(o);
        /* A removed cgroup has lost its watch, which may be a slice's or the unit's own. */
        for (; o; o = o->parent)
                if (watch_attrs(o) && read_attrs(o))
                        origin_changed(o);
}

void origin_refresh(Origin *o) {
        if (read_attrs(o))
                origin_changed(o);
        origin_ask(o);
}

void origins_refresh(Manager *m) {
        Origin *o, *tmp;

        HASH_ITER(hh, m->origins, o, tmp)
                origin_refresh(o);
}

/* --- life --- */

static Origin *origin_free(Origin *o) {
        if (!o)
                return NULL;
        if (o->hh.tbl)
                HASH_DEL(o->manager->origins, o);
        observers_origin_gone(o);
        if (o->attr_watch > 0)
                attr_watch_remove(o->manager->attr_watch, o->attr_watch);
        origin_unref(o->parent);
        origin_labels_free(o->labels);
        free(o->path);
        free(o->unit);
        free(o->file_detail);
        free(o);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Origin *, origin_free);

Origin *origin_unref(Origin *o) {
        if (o && --o->n_refs == 0)
                origin_free(o);
        return NULL;
}

static int origin_new(Manager *m, const char *cgroup, Origin *parent, Origin **ret) {
        _cleanup_(origin_freep)
        Origin *o = calloc(1, sizeof(*o));

        if (!o)
                return -ENOMEM;
        o->manager = m;
        o->n_refs = 1;
        o->path = strdup(cgroup);
        if (!o->path)
                return -ENOMEM;
        int r = cgroup_path_is_unit(cgroup, &o->unit);
        if (r < 0)
                return r;
        HASH_ADD_KEYPTR(hh, m->origins, o->path, strlen(o->path), o);
        o->parent = parent;
        (void) watch_attrs(o);
        (void) read_attrs(o);
        origin_ask(o);
        turn_look(m); /* this function runs once for each level of a path */
        *ret = TAKE_PTR(o);
        return 0;
}

static int get_parent(Manager *m, const char *cgroup, Origin **ret) {
        const char *slash = strrchr(cgroup, '/');

        *ret = NULL;
        if (!slash || streq(cgroup, "/"))
                return 0;
        _cleanup_free_ char *parent = strndup(cgroup, slash == cgroup ? 1 : (size_t) (slash - cgroup));
        return parent ? origin_get(m, parent, ret) : -ENOMEM;
}

/* Recurses as deep as the path, which is the kernel's, with fewer than PATH_MAX / 2 components. */
int origin_get(Manager *m, const char *cgroup, Origin **ret) {
        Origin *o, *parent;

        HASH_FIND_STR(m->origins, cgroup, o);
        if (o) {
                o->n_refs++;
                *ret = o;
                return 0;
        }
        int r = get_parent(m, cgroup, &parent);
        if (r < 0)
                return r;
        r = origin_new(m, cgroup, parent, ret);
        if (r < 0)
                origin_unref(parent);
        return r;
}

void origin_set_told(Origin *o, const Settings *s) {
        if (settings_is_equal(&o->told, s))
                return;
        o->told = *s;
        origin_changed(o);
}
