/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the -dbus.c files share
 */

#include <inttypes.h>
#include <utlist.h>

#include "bus-util.h"
#include "cgroup/container.h"
#include "service/core/arbiter.h"
#include "service/core/group-match.h"
#include "service/core/job.h"
#include "service/core/layers.h"
#include "service/core/manager-config.h"
#include "service/core/turn.h"

int bus_check_known_flags(uint64_t flags, uint64_t known, sd_bus_error *error) {
        flags &= ~known;
        if (flags == 0)
                return 0;
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "Unknown flags 0x%" PRIx64, flags);
}

int bus_check_flags(uint64_t flags, sd_bus_error *error) {
        return bus_check_known_flags(flags, 0, error);
}

void bus_settle(Manager *m) {
        if (turn_is_due(m))
                arbiter_flush(m);
}

int bus_answer(Manager *m, sd_bus_message *call, const char *types, ...) {
        va_list arguments;

        bus_settle(m);
        va_start(arguments, types);
        int r = sd_bus_reply_method_returnv(call, types, arguments);
        va_end(arguments);
        return r;
}

int bus_set(Manager *m, int r) {
        if (r >= 0)
                bus_settle(m);
        return r;
}

int bus_peer_error(int r, sd_bus_error *error) {
        if (r == -ESRCH)
                return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED,
                                "The calling process is gone, or cannot be seen from here");
        if (r == -ESTALE)
                return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED,
                                "The process that made this connection is gone, or another user's by now");
        return r;
}

int bus_read_flags(sd_bus_message *message, sd_bus_error *error) {
        uint64_t flags;

        int r = sd_bus_message_read(message, "t", &flags);
        return r < 0 ? r : bus_check_flags(flags, error);
}

int bus_check_string(const char *name, const char *s, sd_bus_error *error) {
        if (strlen(s) <= BUS_STRING_MAX)
                return 0;
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s is longer than %u bytes", name, BUS_STRING_MAX);
}

int bus_check_class(Manager *m, const Settings *s, sd_bus_error *error) {
        if (settings_has(s, SETTINGS_CLASS) && !manager_lookup_class(s->class, m))
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchClass"), "There is no class '%s'", s->class);
        return 0;
}

int bus_read_process(sd_bus_message *message, ProcessName *ret) {
        ProcessName p = {};

        int r = sd_bus_message_read(message, "ut", &p.pid, &p.start_time);
        if (r < 0)
                return r;
        *ret = p;
        return 0;
}

int bus_read_properties(sd_bus_message *message, bus_property_t take, void *userdata, sd_bus_error *error) {
        int r = sd_bus_message_enter_container(message, 'a', "{sv}");
        if (r < 0)
                return r;

        while ((r = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
                const char *key, *contents;

                r = sd_bus_message_read(message, "s", &key);
                if (r < 0)
                        return r;
                r = sd_bus_message_peek_type(message, NULL, &contents);
                if (r < 0)
                        return r;
                r = sd_bus_message_enter_container(message, 'v', contents);
                if (r < 0)
                        return r;
                r = take(message, key, contents, userdata, error);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(message);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(message);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        return sd_bus_message_exit_container(message);
}

static int take_setting_property(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        return bus_take_setting(message, key, signature, userdata, error);
}

static int read_settings(Manager *m, sd_bus_message *message, bus_property_t take, Settings *ret, sd_bus_error *error) {
        Settings s = SETTINGS_NULL;

        int r = bus_read_properties(message, take, &s, error);
        if (r < 0)
                return r;
        r = bus_check_class(m, &s, error);
        if (r < 0)
                return r;
        *ret = s;
        return 0;
}

int bus_read_settings(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error) {
        return read_settings(m, message, take_setting_property, ret, error);
}

int bus_read_unset(sd_bus_message *message, const char *signature, int (*take)(void *userdata, const char *key),
                void *userdata, sd_bus_error *error) {
        const char *key;

        if (!streq(signature, "as"))
                return sd_bus_error_setf(
                                error, BUS_ERROR("InvalidSetting"), "Unset must be of type 'as', not '%s'", signature);
        int r = sd_bus_message_enter_container(message, 'a', "s");
        while (r >= 0 && (r = sd_bus_message_read(message, "s", &key)) > 0)
                if (take(userdata, key) < 0)
                        return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "Unknown setting '%s'", key);
        return r < 0 ? r : sd_bus_message_exit_container(message);
}

static int take_unset_key(void *userdata, const char *key) {
        return settings_unset(userdata, key);
}

/* Takes one setting of a Set call, which can also remove settings. */
static int take_change(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error) {
        if (streq(key, "Unset"))
                return bus_read_unset(message, signature, take_unset_key, userdata, error);
        return bus_take_setting(message, key, signature, userdata, error);
}

int bus_read_set(Manager *m, sd_bus_message *message, uint64_t known, uint64_t *ret_flags, Settings *ret,
                sd_bus_error *error) {
        uint64_t flags;

        int r = sd_bus_message_read(message, "t", &flags);
        if (r < 0)
                return r;
        r = bus_check_known_flags(flags, known, error);
        if (r < 0)
                return r;
        r = read_settings(m, message, take_change, ret, error);
        if (r < 0)
                return r;
        *ret_flags = flags;
        return 0;
}

int bus_read_set_of_member(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error) {
        uint64_t flags;
        Settings s;

        int r = bus_read_set(m, message, 0, &flags, &s, error);
        if (r < 0)
                return r;
        for (SettingsKey k = 0; k < _SETTINGS_KEY_MAX; k++)
                if (settings_has(&s, k) && settings_key_is_of_groups(k))
                        return sd_bus_error_setf(error, BUS_ERROR("InvalidSetting"), "%s is a setting of groups",
                                        settings_key_to_string(k));
        *ret = s;
        return 0;
}

int bus_read_setting(Manager *m, sd_bus_message *message, const char *key, Settings *s, sd_bus_error *error) {
        char type;
        const char *contents;

        int r = sd_bus_message_peek_type(message, &type, &contents);
        if (r < 0)
                return r;
        r = bus_take_setting(message, key, (const char[]){type, '\0'}, s, error);
        if (r < 0)
                return r;
        return bus_check_class(m, s, error);
}

int bus_error_from_errno(int r, sd_bus_error *error) {
        switch (r) {
        case -EDQUOT:
                return sd_bus_error_set(error, BUS_ERROR("QuotaExceeded"), "The quota is used up");
        case -ENOSPC:
                return sd_bus_error_set(error, BUS_ERROR("QuotaExceeded"), "The page has no free slot");
        case -ENOMEM:
                return sd_bus_error_set(error, SD_BUS_ERROR_NO_MEMORY, "Out of memory");
        default:
                return r;
        }
}

/* --- authorisation --- */

AuthRequest bus_settings_request(
                const SettingsResolved *now, const SettingsResolved *changed, uid_t owner, const char *target) {
        bool lowers = settings_is_lower_or_equal(changed, now);

        return (AuthRequest){
                        .action = lowers ? AUTH_MANAGE_OWN : AUTH_MANAGE,
                        .verb = "set",
                        .target = target,
                        .owner = owner,
        };
}

/* An owner may remove settings of the owner's own. */
static AuthRequest set_request(Manager *m, const SettingsLayer *layers, size_t n, const Settings *s,
                const Settings *lowering, uid_t owner, const char *target) {
        SettingsResolved there_is;

        settings_resolve(layers, n, manager_lookup_class, m, &there_is);
        bool lowers = !(s->unset & ~lowering->mask) && settings_ask_for_no_more(s, &there_is, manager_lookup_class, m);
        return (AuthRequest){
                        .action = lowers ? AUTH_MANAGE_OWN : AUTH_MANAGE,
                        .verb = "set",
                        .target = target,
                        .owner = owner,
        };
}

AuthRequest group_set_request(const Group *g, const Settings *s) {
        SettingsLayer layers[GROUP_LAYERS_MAX];

        size_t n = group_layers(g, layers);
        return set_request(g->manager, layers, n, s, &g->lowering, group_tree_owner(g), g->name);
}

AuthRequest client_set_request(const Client *c, const Settings *s, const char *target) {
        SettingsLayer layers[CLIENT_LAYERS_MAX];

        size_t n = client_layers(c, layers);
        return set_request(c->manager, layers, n, s, &c->lowering, c->peer.uid, target);
}

AuthRequest queue_set_request(const Queue *q, const Settings *s, const char *target) {
        SettingsLayer layers[QUEUE_LAYERS_MAX];

        size_t n = queue_layers(q, layers);
        return set_request(q->manager, layers, n, s, &q->lowering, q->client->peer.uid, target);
}

void bus_take_settings(Manager *m, const Settings *s, bool lowers, Settings *override, Settings *lowering) {
        settings_give_way(lowering, s, manager_lookup_class, m);
        lowering->mask &= ~s->unset;
        settings_merge(lowers ? lowering : override, s);
}

AuthRequest bus_reset_request(const Settings *lowering, uid_t owner, const char *target) {
        return (AuthRequest){
                        .action = settings_is_empty(lowering) ? AUTH_MANAGE : AUTH_MANAGE_OWN,
                        .verb = "reset",
                        .target = target,
                        .owner = owner,
        };
}

/* --- getters --- */

int bus_get_bool(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error) {
        const bool *b = userdata;
        return sd_bus_message_append(reply, "b", (int) *b);
}

int bus_get_usec(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error) {
        const uint64_t *ns = userdata;
        return sd_bus_message_append(reply, "t", *ns / NSEC_PER_USEC);
}

int bus_get_source(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error) {
        const SettingsSource *s = userdata;
        return sd_bus_message_append(reply, "s", settings_source_to_string(*s));
}

/* --- objects --- */

int bus_path_to_id(const char *path, const char *prefix, uint64_t *ret) {
        const char *s = startswith(path, prefix);

        if (!s || s[0] != '/' || s[1] < '1' || s[1] > '9' || strlen(s + 1) > 19)
                return 0;
        s++;
        if (strspn(s, "0123456789") != strlen(s))
                return 0;
        *ret = strtoull(s, NULL, 10);
        return 1;
}

int bus_check_reset(Manager *m, sd_bus_message *message, const AuthRequest *request, sd_bus_error *error) {
        int r = bus_read_flags(message, error);
        return r < 0 ? r : auth_check(m->auth, message, request, error);
}

int bus_check_suspend(Manager *m, sd_bus_message *message, bool suspended, const char *target, sd_bus_error *error) {
        const AuthRequest request = {
                        .action = AUTH_SUSPEND,
                        .verb = suspended ? "suspend" : "resume",
                        .target = target,
        };
        return auth_check(m->auth, message, &request, error);
}

int bus_append_container(sd_bus_message *reply, const char *property, const char *cgroup) {
        ContainerNames n;

        container_names(cgroup, &n);
        return sd_bus_message_append(reply, "s",
                        streq(property, "Container")                ? n.container
                                        : streq(property, "Pod")    ? n.pod
                                        : streq(property, "PodQOS") ? n.pod_qos
                                                                    : n.slurm_job);
}

AuthRequest bus_own_request(Manager *m, const Settings *s, uid_t uid, const char *target) {
        const SettingsLayer layers[] = {
                        {SETTINGS_FROM_JOB, NULL, s},
                        {SETTINGS_FROM_DEFAULT, NULL, &m->default_layer},
        };
        SettingsResolved wanted, usual;

        settings_resolve(layers, 2, manager_lookup_class, m, &wanted);
        settings_resolve(layers + 1, 1, manager_lookup_class, m, &usual);
        return bus_settings_request(&usual, &wanted, uid, target);
}

bool bus_only_lowers(const AuthRequest *request, uid_t sender) {
        return sender != 0 && request->action == AUTH_MANAGE_OWN && request->owner == sender;
}
