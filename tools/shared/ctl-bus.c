/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection to the service, and its errors in plain words
 */

#include <stdarg.h>
#include <stdio.h>

#include "tools/shared/ctl-bus.h"

/* A little longer than the service waits for polkit, so that the service's answer arrives. */
#define ASK_TIMEOUT_USEC (130 * UINT64_C(1000000))

const char *ctl_bus_address(const Ctl *c) {
        const char *e;

        if (c->bus_address)
                return c->bus_address;
        if (c->system_bus || c->user_bus || c->host || c->machine)
                return NULL;
        e = getenv("XSCHED_BUS_ADDRESS");
        return isempty(e) ? NULL : e;
}

const char *ctl_bus_describe(const Ctl *c, char *buf, size_t size) {
        const char *address = ctl_bus_address(c);
        bool user = c->user_bus && !c->bus_is_system_after_all;

        if (c->host || c->machine)
                snprintf(buf, size, "the %s bus of %s", user ? "user" : "system", c->host ?: c->machine);
        else if (!address)
                return user ? "the user bus" : "the system bus";
        else
                snprintf(buf, size, "the bus %s", address);
        return buf;
}

bool bus_has_owner(sd_bus *bus, const char *name) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        int owned = 0;

        int r = sd_bus_call_method(
                        bus, DRIVER_NAME, DRIVER_PATH, DRIVER_INTERFACE, "NameHasOwner", NULL, &reply, "s", name);
        if (r >= 0)
                r = sd_bus_message_read(reply, "b", &owned);
        return r >= 0 && owned;
}

int ctl_open_standard_bus(const Ctl *c, bool user, sd_bus **ret) {
        if (c->host)
                return user ? -EOPNOTSUPP : sd_bus_open_system_remote(ret, c->host);
        if (c->machine)
                return user ? sd_bus_open_user_machine(ret, c->machine) : sd_bus_open_system_machine(ret, c->machine);
        return user ? sd_bus_open_user(ret) : sd_bus_open_system(ret);
}

/* A user has a manager of the user's own, but hardly ever a scheduler: then the system's is meant. */
static int open_user_bus(Ctl *c, sd_bus **ret) {
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *user = NULL, *system = NULL;

        int r = ctl_open_standard_bus(c, true, &user);
        if (r >= 0 && bus_has_owner(user, BUS_NAME)) {
                *ret = TAKE_PTR(user);
                return 0;
        }
        if (ctl_open_standard_bus(c, false, &system) >= 0 && bus_has_owner(system, BUS_NAME)) {
                c->bus_is_system_after_all = true;
                *ret = TAKE_PTR(system);
                return 0;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(user);
        return 0;
}

int ctl_open_bus(Ctl *c) {
        _cleanup_(sd_bus_unrefp)
        sd_bus *bus = NULL;
        const char *address = ctl_bus_address(c);
        int r;

        if (c->bus)
                return 0;
        if (!address) {
                r = c->user_bus ? open_user_bus(c, &bus) : ctl_open_standard_bus(c, false, &bus);
                if (r < 0)
                        return r;
        } else {
                r = sd_bus_new(&bus);
                if (r >= 0)
                        r = sd_bus_set_address(bus, address);
                if (r >= 0)
                        r = sd_bus_set_bus_client(bus, true);
                if (r >= 0)
                        r = sd_bus_negotiate_fds(bus, true);
                if (r >= 0)
                        r = sd_bus_start(bus);
                if (r < 0)
                        return r;
        }
        c->bus = TAKE_PTR(bus);
        return 0;
}

int ctl_connect(Ctl *c) {
        char buf[256];
        int r;

        r = ctl_open_bus(c);
        if (r < 0)
                return ctl_fail("cannot reach %s: %s", ctl_bus_describe(c, buf, sizeof(buf)), strerror(-r));
        return 0;
}

static bool error_is_one_of(const sd_bus_error *e, const char *const *names) {
        for (; *names; names++)
                if (sd_bus_error_has_name(e, *names))
                        return true;
        return false;
}

/* The bus refused or closed the connection, which sd-bus reports without an error's name. */
static bool errno_is_disconnect(int r) {
        static const int codes[] = {ECONNREFUSED, ENOENT, ENOTCONN, ECONNRESET, ENOMEDIUM, EPIPE, EHOSTDOWN, ENXIO};

        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (r == -codes[i])
                        return true;
        return false;
}

static const char *const no_owner[] = {SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER, NULL};

bool error_is_not_running(const sd_bus_error *e, int r) {
        return error_is_one_of(e, no_owner) || errno_is_disconnect(r);
}

bool error_is_unreachable(const Ctl *c, const sd_bus_error *e, int r) {
        return (c->host || c->machine) && errno_is_disconnect(r) && !error_is_one_of(e, no_owner);
}

int ctl_call_failed(const Ctl *c, const sd_bus_error *e, int r, const char *what) {
        static const char *const gone[] = {SD_BUS_ERROR_UNKNOWN_OBJECT, SD_BUS_ERROR_UNKNOWN_INTERFACE, NULL};
        static const char *const denied[] = {SD_BUS_ERROR_ACCESS_DENIED,
                        SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, BUS_ERROR("NotOwner"), NULL};
        static const struct {
                const char *name;
                const char *words;
        } words[] = {
                        {"NoSuchClient", "no such client: the process has no GPU queue, or runs without the shim"},
                        {"NoSuchQueue", "no such queue"},
                        {"NoSuchDevice", "no such device"},
                        {"NoSuchGroup", "no such group: nothing that is scheduled runs there"},
        };
        const char *object = what ?: "the service", *name;
        char buf[256];

        if (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) || sd_bus_error_has_name(e, SD_BUS_ERROR_TIMEOUT) ||
                        r == -ETIMEDOUT)
                return ctl_fail("%s: xschedd does not answer", object);
        if (error_is_unreachable(c, e, r))
                return ctl_fail("cannot reach %s: %s", ctl_bus_describe(c, buf, sizeof(buf)), strerror(-r));
        if (error_is_not_running(e, r))
                return ctl_fail("xschedd is not running on %s", ctl_bus_describe(c, buf, sizeof(buf)));
        if (error_is_one_of(e, denied))
                return ctl_fail("%s: access denied: %s", object, e->message ?: "not yours to change");
        if (error_is_one_of(e, gone))
                return ctl_fail("%s: no such object", object);

        name = e->name ? startswith(e->name, BUS_ERROR("")) : NULL;
        for (size_t i = 0; name && i < ELEMENTSOF(words); i++)
                if (streq(words[i].name, name))
                        return ctl_fail("%s: %s", object, words[i].words);
        return ctl_fail("%s: %s", object, e->message ?: strerror(-r));
}

int ctl_new_call(Ctl *c, const char *path, const char *interface, const char *member, sd_bus_message **ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_call(c->bus, &m, BUS_NAME, path ?: BUS_PATH, interface ?: BUS_INTERFACE, member);
        if (r < 0)
                return r;
        r = sd_bus_message_set_auto_start(m, false);
        if (r < 0)
                return r;
        r = sd_bus_message_set_allow_interactive_authorization(m, c->interactive);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

uint64_t ctl_call_timeout(const Ctl *c) {
        return c->interactive ? ASK_TIMEOUT_USEC : 0;
}

int ctl_call(Ctl *c, sd_bus_message *m, sd_bus_error *e, sd_bus_message **ret_reply) {
        return sd_bus_call(c->bus, m, ctl_call_timeout(c), e, ret_reply);
}

int ctl_call_method(Ctl *c, const char *path, const char *interface, const char *member, sd_bus_error *e,
                sd_bus_message **ret_reply, const char *types, ...) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;
        va_list ap;
        int r;

        r = ctl_new_call(c, path, interface, member, &m);
        if (r < 0)
                return r;
        if (!isempty(types)) {
                va_start(ap, types);
                r = sd_bus_message_appendv(m, types, ap);
                va_end(ap);
                if (r < 0)
                        return r;
        }
        return ctl_call(c, m, e, ret_reply);
}
