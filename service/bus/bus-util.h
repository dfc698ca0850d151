/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the -dbus.c files share: arguments, errors, getters
 */

#include "gate.h"
#include "service/base/auth.h"
#include "service/core/client.h"
#include "service/core/manager.h"
#include "settings-message.h"

/* Strings that a caller gives us to keep. */
#define BUS_STRING_MAX 256U

/* Refuses bits that nobody has defined. */
int bus_check_flags(uint64_t flags, sd_bus_error *error);
int bus_check_known_flags(uint64_t flags, uint64_t known, sd_bus_error *error);
int bus_check_string(const char *name, const char *s, sd_bus_error *error);

/* What is said when the caller's process could not be looked at. */
int bus_peer_error(int r, sd_bus_error *error);

/* Reads the last argument of many a method, and checks it. */
int bus_read_flags(sd_bus_message *message, sd_bus_error *error);

/* The arguments of Set(): flags, of which those in `known` may be given, and settings. */
/* "Unset" (as) of a call that sets: the names of what it takes away, given to `take`, which returns < 0 for one that is
 * none. */
int bus_read_unset(sd_bus_message *message, const char *signature,
                int (*take)(void *userdata, const char *key), void *userdata, sd_bus_error *error);

int bus_read_set(Manager *m, sd_bus_message *message, uint64_t known, uint64_t *ret_flags, Settings *ret,
                sd_bus_error *error);

/* An a{sv} of settings. Refuses with InvalidSetting, naming the key; with NoSuchClass when it names one that is not
 * there. */
int bus_read_settings(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error);

int bus_check_class(Manager *m, const Settings *s, sd_bus_error *error);

/* The value of one setting, inside its variant. */
int bus_read_setting(Manager *m, sd_bus_message *message, const char *key, Settings *s, sd_bus_error *error);

/* The same, of a client or a queue: refuses what only groups have. */
int bus_read_set_of_member(Manager *m, sd_bus_message *message, Settings *ret, sd_bus_error *error);

/* Walks an a{sv}: calls `take` with the key and the message inside the variant; it has to read all of it. */
typedef int (*bus_property_t)(sd_bus_message *message, const char *key, const char *signature,
                void *userdata, sd_bus_error *error);
int bus_read_properties(sd_bus_message *message, bus_property_t take, void *userdata, sd_bus_error *error);

/* Container, Pod, PodQOS and SlurmJob: what the path of a cgroup says. */
int bus_append_container(sd_bus_message *reply, const char *property, const char *cgroup);

/* Turns a negative errno of the x.c files into an error of ours where there is one. */
int bus_error_from_errno(int r, sd_bus_error *error);

/* `changed` asks for no more than `now`: then the owner may do it himself. */
AuthRequest bus_settings_request(const SettingsResolved *now, const SettingsResolved *changed, uid_t owner,
                const char *target);

/* What Set() takes. Who asks for no more than there is without anything that only lowers may do so with what is his
 * own. */
AuthRequest group_set_request(const Group *g, const Settings *s);
AuthRequest client_set_request(const Client *c, const Settings *s, const char *target);
AuthRequest queue_set_request(const Queue *q, const Settings *s, const char *target);

/* Where settings go that were allowed by the request: what an owner has set stands below everything else and only
 * lowers, so that nothing is above what it would be without, whatever ends or is taken back later. Everybody else
 * decides, and has what the owner says of the same keys forgotten. */
void bus_take_settings(Manager *m, const Settings *s, bool lowers, Settings *override, Settings *lowering);

/* What Reset() takes: an owner takes back what he has set himself, and all that is set is for the administrator to take
 * back. */
AuthRequest bus_reset_request(const Settings *lowering, uid_t owner, const char *target);

/* Getters by offset, as SD_BUS_PROPERTY takes them. */
int bus_get_bool(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error);
int bus_get_usec(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error); /* uint64_t ns */
int bus_get_source(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error); /* SettingsSource */
#define BUS_GETTER(name)                                                                                    \
        static int name(sd_bus *bus, const char *path, const char *interface, const char *property,         \
                        sd_bus_message *reply, void *userdata, sd_bus_error *error)
#define BUS_METHOD(name) static int name(sd_bus_message *message, void *userdata, sd_bus_error *error)

/* Functions that change something. What is written after them runs only with an authorisation of this very message, see
 * gate.h. `object` declares what the call is about: BUS_CHANGE(method_reset, Client *c, c->manager). */
#define BUS_CHANGE(name, object, manager)                                                                   \
        static int name##_granted(sd_bus_message *message, object, sd_bus_error *error);                    \
        static int name(sd_bus_message *message, void *userdata, sd_bus_error *error) {                     \
                object = userdata;                                                                          \
                int r = auth_take((manager)->auth, message, error);                                         \
                return r < 0 ? r : name##_granted(message, userdata, error);                                \
        }                                                                                                   \
        static int name##_granted(sd_bus_message *message, object, sd_bus_error *error)

/* The same, of the manager, for vtables in other files. */
#define BUS_MANAGER_CHANGE(name)                                                                            \
        static int name##_granted(sd_bus_message *message, Manager *m, sd_bus_error *error);                \
        int name(sd_bus_message *message, void *userdata, sd_bus_error *error) {                            \
                Manager *m = userdata;                                                                      \
                int r = auth_take(m->auth, message, error);                                                 \
                return r < 0 ? r : name##_granted(message, m, error);                                       \
        }                                                                                                   \
        static int name##_granted(sd_bus_message *message, Manager *m, sd_bus_error *error)

#define BUS_SETTER(name, object, manager)                                                                   \
        static int name##_granted(                                                                          \
                        const char *property, sd_bus_message *value, object, sd_bus_error *error);          \
        static int name(sd_bus *bus, const char *path, const char *interface, const char *property,         \
                        sd_bus_message *value, void *userdata, sd_bus_error *error) {                       \
                object = userdata;                                                                          \
                int r = auth_take((manager)->auth, value, error);                                           \
                return r < 0 ? r : name##_granted(property, value, userdata, error);                        \
        }                                                                                                   \
        static int name##_granted(const char *property, sd_bus_message *value, object, sd_bus_error *error)

/* And what says who may: a check of the gate. */
#define BUS_CHECK(name)                                                                                     \
        static int name(sd_bus_message *message, void *userdata, const char *member, sd_bus_error *error)

#define BUS_FIND(name)                                                                                      \
        static int name(sd_bus *bus, const char *path, const char *interface, void *userdata, void **found, \
                        sd_bus_error *error)

/* What is written has to be read at offset 0, too: sd-bus adds a property's offset for its setter as well. */
#define BUS_SETTINGS_GETTER(Type)                                                                           \
        BUS_GETTER(get_setting) {                                                                           \
                const Type *_x = userdata;                                                                  \
                return bus_append_resolved(reply, &_x->resolved, property);                                 \
        }

/* In a vtable: one, and those of groups and clients. */
#define BUS_SETTING_PROPERTY(name, type)                                                                    \
        SD_BUS_WRITABLE_PROPERTY(name, type, get_setting, set_setting, 0, BUS_CHANGES | BUS_ANY_USER)
#define BUS_SETTING_OF_GROUP(arg, KEY, Name, name, field, TYPE, ...)                                        \
        BUS_SETTING_PROPERTY(#Name, SETTING_SIGNATURE_##TYPE),
#define BUS_SETTING_OF_CLIENT(                                                                              \
                arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, ...)           \
        SETTING_IF_##WHOSE(BUS_SETTING_PROPERTY(#Name, SETTING_SIGNATURE_##TYPE), )

#define BUS_CONST    SD_BUS_VTABLE_PROPERTY_CONST
#define BUS_CHANGES  SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define BUS_ANY_USER SD_BUS_VTABLE_UNPRIVILEGED

/* --- objects --- */

/* PREFIX/NUMBER: > 0 and the number, or 0 when the path is something else. */
int bus_path_to_id(const char *path, const char *prefix, uint64_t *ret);

/* The whole authorisation of Reset(), Suspend() and Resume(); as auth_check(). */
int bus_check_reset(Manager *m, sd_bus_message *message, const AuthRequest *request, sd_bus_error *error);
int bus_check_suspend(Manager *m, sd_bus_message *message, bool suspended, const char *target,
                sd_bus_error *error);
