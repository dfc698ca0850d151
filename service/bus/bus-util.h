/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Bus util: arguments, errors and getters that the -dbus.c files share
 */

#include <systemd/sd-bus.h>

#include "gate.h"
#include "service/base/auth.h"
#include "service/core/client.h"
#include "service/core/manager.h"
#include "settings-message.h"

/* Limits of strings that a caller gives the service to keep. */
#define BUS_STRING_MAX 256U

/* Refuses undefined flags. */
int bus_check_flags(uint64_t flags, sd_bus_error *error);
int bus_check_known_flags(uint64_t flags, uint64_t known, sd_bus_error *error);
int bus_check_string(const char *name, const char *s, sd_bus_error *error);

/* Sets the error for a caller whose process could not be read. */
int bus_peer_error(int r, sd_bus_error *error);

/* Writes the words of pages that are due now, before the end of the turn: called before a caller is told that a change
 * is done, because it may look at its page. The functions below call it. */
void bus_settle(Manager *m);

/* Answers a call that has changed something, as sd_bus_reply_method_return() does. */
int bus_answer(Manager *m, sd_bus_message *call, const char *types, ...);

/* The same for a setter, whose call sd-bus answers: returns its result `r`. */
int bus_set(Manager *m, int r);

/* Reads and checks the flags, the last argument of many methods. */
int bus_read_flags(sd_bus_message *message, sd_bus_error *error);

/* A caller names a process by "ut", not by a descriptor: to close a stranger's descriptor can block (strangers.h). */
typedef struct ProcessName {
        uint32_t pid;        /* 0: the caller */
        uint64_t start_time; /* as in Peer; 0: the process that has the pid now */
} ProcessName;

int bus_read_process(sd_bus_message *message, ProcessName *ret);

/* Reads "Unset" (as) of a call that sets: calls `take` with each key to unset; it returns < 0 for an unknown key. */
int bus_read_unset(sd_bus_message *message, const char *signature, int (*take)(void *userdata, const char *key),
                void *userdata, sd_bus_error *error);

/* Reads the arguments of Set(): flags, of which only `known` ones are allowed, and settings. */
int bus_read_set(Manager *m, sd_bus_message *message, uint64_t known, uint64_t *ret_flags, Settings *ret,
                sd_bus_error *error);

/* Reads an a{sv} of settings. Refuses with InvalidSetting, naming the key; with NoSuchClass for an unknown class. */
int bus_read_settings(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error);

int bus_check_class(Manager *m, const Settings *s, sd_bus_error *error);

/* Reads the value of one setting, inside its variant. */
int bus_read_setting(Manager *m, sd_bus_message *message, const char *key, Settings *s, sd_bus_error *error);

/* bus_read_settings() for a client or a queue: refuses settings that only groups have. */
int bus_read_set_of_member(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error);

/* Walks an a{sv}: calls `take` with the key and the message inside the variant, which it has to read completely. */
typedef int (*bus_property_t)(
                sd_bus_message *message, const char *key, const char *signature, void *userdata, sd_bus_error *error);
int bus_read_properties(sd_bus_message *message, bus_property_t take, void *userdata, sd_bus_error *error);

/* Appends Container, Pod, PodQOS or SlurmJob, parsed from the path of a cgroup. */
int bus_append_container(sd_bus_message *reply, const char *property, const char *cgroup);

/* Turns a negative errno of core into an error of the service's interface, if there is one. */
int bus_error_from_errno(int r, sd_bus_error *error);

/* The authorisation that a change needs: the owner may make it if `changed` asks for no more than `now`. */
AuthRequest bus_settings_request(
                const SettingsResolved *now, const SettingsResolved *changed, uid_t owner, const char *target);

/* The authorisation that Set() needs. An owner may set settings that ask for no more than the object has without its
 * lowering layers. */
AuthRequest group_set_request(const Group *g, const Settings *s);
AuthRequest client_set_request(const Client *c, const Settings *s, const char *target);
AuthRequest queue_set_request(const Queue *q, const Settings *s, const char *target);

/* Takes allowed settings. An owner's settings (`lowers`) are applied last and only lower, so that they never raise
 * anything, whatever other settings end later. Those of others go into the override, and remove the owner's settings of
 * the same keys. */
void bus_take_settings(Manager *m, const Settings *s, bool lowers, Settings *override, Settings *lowering);

/* The authorisation that Reset() needs: an owner may reset what the owner has set; only the administrator may reset all
 * settings. */
AuthRequest bus_reset_request(const Settings *lowering, uid_t owner, const char *target);

/* Getters by offset, as SD_BUS_PROPERTY takes them. */
int bus_get_bool(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error);
int bus_get_usec(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error); /* uint64_t ns */
int bus_get_source(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error); /* SettingsSource */
#define BUS_GETTER(name)                                                                                               \
        static int name(sd_bus *bus, const char *path, const char *interface, const char *property,                    \
                        sd_bus_message *reply, void *userdata, sd_bus_error *error)
#define BUS_METHOD(name) static int name(sd_bus_message *message, void *userdata, sd_bus_error *error)

/* Defines a function that makes a change. Its body runs only with an authorisation of this very message, see gate.h.
 * `object` declares what the call is about: BUS_CHANGE(method_reset, Client *c, c->manager). */
#define BUS_CHANGE(name, object, manager)                                                                              \
        static int name##_granted(sd_bus_message *message, object, sd_bus_error *error);                               \
        static int name(sd_bus_message *message, void *userdata, sd_bus_error *error) {                                \
                object = userdata;                                                                                     \
                int r = auth_take((manager)->auth, message, error);                                                    \
                return r < 0 ? r : name##_granted(message, userdata, error);                                           \
        }                                                                                                              \
        static int name##_granted(sd_bus_message *message, object, sd_bus_error *error)

/* BUS_CHANGE() of the manager, for vtables in other files. */
#define BUS_MANAGER_CHANGE(name)                                                                                       \
        static int name##_granted(sd_bus_message *message, Manager *m, sd_bus_error *error);                           \
        int name(sd_bus_message *message, void *userdata, sd_bus_error *error) {                                       \
                Manager *m = userdata;                                                                                 \
                int r = auth_take(m->auth, message, error);                                                            \
                return r < 0 ? r : name##_granted(message, m, error);                                                  \
        }                                                                                                              \
        static int name##_granted(sd_bus_message *message, Manager *m, sd_bus_error *error)

#define BUS_SETTER(name, object, manager)                                                                              \
        static int name##_granted(const char *property, sd_bus_message *value, object, sd_bus_error *error);           \
        static int name(sd_bus *bus, const char *path, const char *interface, const char *property,                    \
                        sd_bus_message *value, void *userdata, sd_bus_error *error) {                                  \
                object = userdata;                                                                                     \
                Manager *_m = manager;                                                                                 \
                int r = auth_take(_m->auth, value, error);                                                             \
                return r < 0 ? r : bus_set(_m, name##_granted(property, value, userdata, error));                      \
        }                                                                                                              \
        static int name##_granted(const char *property, sd_bus_message *value, object, sd_bus_error *error)

/* Defines a check of the gate, which says who may make the change. */
#define BUS_CHECK(name)                                                                                                \
        static int name(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error)

#define BUS_FIND(name)                                                                                                 \
        static int name(sd_bus *bus, const char *path, const char *interface, void *userdata, void **found,            \
                        sd_bus_error *error)

/* A property that can be written is also read at offset 0: sd-bus gives the setter the same offset as the getter. */
#define BUS_SETTINGS_GETTER(Type)                                                                                      \
        BUS_GETTER(get_setting) {                                                                                      \
                const Type *_x = userdata;                                                                             \
                return bus_append_resolved(reply, &_x->resolved, property);                                            \
        }

/* In a vtable: one, and those of groups, and of clients and queues. */
#define BUS_SETTING_PROPERTY(name, type)                                                                               \
        SD_BUS_WRITABLE_PROPERTY(name, type, get_setting, set_setting, 0, BUS_CHANGES | BUS_ANY_USER)
#define BUS_SETTING_OF_GROUP(arg, KEY, Name, name, field, TYPE, ...)                                                   \
        BUS_SETTING_PROPERTY(#Name, SETTING_SIGNATURE_##TYPE),
#define BUS_SETTING_OF_CLIENT(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, ...)        \
        SETTING_IF_##WHOSE(BUS_SETTING_PROPERTY(#Name, SETTING_SIGNATURE_##TYPE), )

#define BUS_CONST    SD_BUS_VTABLE_PROPERTY_CONST
#define BUS_CHANGES  SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define BUS_ANY_USER SD_BUS_VTABLE_UNPRIVILEGED

/* --- objects --- */

/* Parses PREFIX/NUMBER. Returns > 0 and the number, or 0 for any other path. */
int bus_path_to_id(const char *path, const char *prefix, uint64_t *ret);

/* The whole authorisation check of Reset(), Suspend() and Resume(). Return as auth_check() does. */
int bus_check_reset(Manager *m, sd_bus_message *message, const AuthRequest *request, sd_bus_error *error);
int bus_check_suspend(Manager *m, sd_bus_message *message, bool suspended, const char *target, sd_bus_error *error);

/* The request for settings of something of the caller's own that does not exist yet: they may not exceed the default
 * class. */
AuthRequest bus_own_request(Manager *m, const Settings *s, uid_t uid, const char *target);

/* Whether the sender had only the right to manage its own objects. Then its settings only lower, also below settings of
 * a unit that systemd has not told yet. */
bool bus_only_lowers(const AuthRequest *request, uid_t sender);

/* Of objects that have settings and can be suspended (groups, clients, queues): their methods' rows in the vtable, and
 * the rules of these and of the settings' setters. The functions are the file's own. */
#define BUS_SETTABLE_METHODS                                                                                           \
        SD_BUS_METHOD_WITH_ARGS("Set", SD_BUS_ARGS("t", flags, "a{sv}", settings), SD_BUS_NO_RESULT, method_set,       \
                        BUS_ANY_USER),                                                                                 \
                        SD_BUS_METHOD_WITH_ARGS("Reset", SD_BUS_ARGS("t", flags), SD_BUS_NO_RESULT, method_reset,      \
                                        BUS_ANY_USER),                                                                 \
                        SD_BUS_METHOD_WITH_ARGS(                                                                       \
                                        "Suspend", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_suspend, BUS_ANY_USER),    \
                        SD_BUS_METHOD_WITH_ARGS(                                                                       \
                                        "Resume", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT, method_resume, BUS_ANY_USER)
/* clang-format off */
#define BUS_SETTABLE_RULES                                                                                  \
        {.setter = set_setting, .check = check_setting},                                                    \
        {.method = method_set, .check = check_set},                                                         \
        {.method = method_reset, .check = check_reset},                                                     \
        {.method = method_suspend, .check = check_suspend},                                                 \
        {.method = method_resume, .check = check_suspend}
/* clang-format on */
