/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Connections of the bus
 */

#include <fcntl.h>
#include <uthash.h>

#include "cgroup/connections.h"
#include "common/bus-names.h"
#include "common/time-util.h"

/* More connections than any bus accepts. */
#define CONNECTIONS_MAX 65536U

typedef struct Connection {
        uint64_t made_by;
        UT_hash_handle hh;
        char name[]; /* key */
} Connection;

struct Connections {
        bool have_pidfds;
        uint64_t since;          /* processes that are not in the table connected before this */
        Connection *connections; /* uthash, by name: those that were made while we listened */
        sd_bus_slot *slot;
        const sd_bus_message *message; /* only compared, */
        const Credentials *known;      /* and its sender's */
};

static uint64_t boot_time_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_BOOTTIME, &ts);
        return timespec_to_ns(&ts);
}

/* --- credentials --- */

void credentials_done(Credentials *c) {
        c->pidfd = safe_close(c->pidfd);
}

static int take_credential(sd_bus_message *reply, Credentials *c) {
        const char *key;
        uint32_t number;
        int fd;

        int r = sd_bus_message_read(reply, "s", &key);
        if (r < 0)
                return r;
        if (streq(key, "ProcessID")) {
                r = sd_bus_message_read(reply, "v", "u", &number);
                c->pid = r >= 0 ? (pid_t) number : 0;
        } else if (streq(key, "UnixUserID")) {
                r = sd_bus_message_read(reply, "v", "u", &number);
                c->uid = r >= 0 ? (uid_t) number : UID_NONE;
        } else if (streq(key, "ProcessFD")) {
                r = sd_bus_message_read(reply, "v", "h", &fd);
                if (r >= 0) {
                        safe_close(c->pidfd);
                        c->pidfd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
                        r = c->pidfd < 0 ? negative_errno() : r;
                }
        } else
                r = sd_bus_message_skip(reply, "v");
        return r;
}

static int take_credentials(sd_bus_message *reply, Credentials *c) {
        int r = sd_bus_message_enter_container(reply, 'a', "{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
                r = take_credential(reply, c);
                if (r >= 0)
                        r = sd_bus_message_exit_container(reply);
                if (r < 0)
                        return r;
        }
        return r;
}

int credentials_read(sd_bus_message *answer, Credentials *ret) {
        _cleanup_(credentials_done)
        Credentials c = {.uid = UID_NONE, .pidfd = -EBADF};

        if (sd_bus_message_is_method_error(answer, NULL))
                return -ESRCH;
        int r = take_credentials(answer, &c);
        if (r < 0)
                return r;
        if (c.uid == UID_NONE)
                return -ESRCH;
        *ret = TAKE_GENERIC(c, CREDENTIALS_NULL);
        return 0;
}

int credentials_ask(sd_bus *bus, const char *name, Credentials *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(credentials_done)
        Credentials c = CREDENTIALS_NULL;

        int r = sd_bus_call_method(bus, DRIVER_NAME, DRIVER_PATH, DRIVER_INTERFACE, "GetConnectionCredentials", &error,
                        &reply, "s", name);
        if (sd_bus_error_has_name(&error, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
                return -ESRCH;
        if (r >= 0)
                r = credentials_read(reply, &c);
        if (r < 0)
                return r;
        if (c.pid <= 0)
                return -ESRCH; /* the process is not visible from here */
        *ret = TAKE_GENERIC(c, CREDENTIALS_NULL);
        return 0;
}

void connections_lend(Connections *c, const sd_bus_message *m, const Credentials *known) {
        c->message = m;
        c->known = known;
}

pid_t connections_pid(const Connections *c, const sd_bus_message *m) {
        return c && c->message == m && c->known && c->known->pid > 0 ? c->known->pid : 0;
}

int connections_credentials(const Connections *c, sd_bus_message *m, Credentials *ret) {
        const char *sender = sd_bus_message_get_sender(m);

        if (!c || c->message != m || !c->known)
                return sender ? credentials_ask(sd_bus_message_get_bus(m), sender, ret) : -ESRCH;
        if (c->known->pid <= 0)
                return -ESRCH;
        int pidfd = c->known->pidfd < 0 ? -EBADF : fcntl(c->known->pidfd, F_DUPFD_CLOEXEC, 3);
        if (c->known->pidfd >= 0 && pidfd < 0)
                return negative_errno();
        *ret = *c->known;
        ret->pidfd = pidfd;
        return 0;
}

const char *connections_sender(const Connections *c, sd_bus_message *m) {
        bool is_lent = c && c->message == m && c->known && c->known->name;

        return is_lent ? c->known->name : sd_bus_message_get_sender(m);
}

/* --- listening --- */

static Connection *find(const Connections *c, const char *name) {
        Connection *x;

        HASH_FIND_STR(c->connections, name, x);
        return x;
}

static void forget(Connections *c, Connection *x) {
        HASH_DEL(c->connections, x);
        free(x);
}

/* A connection that cannot be stored makes `since` now: unknown connections then count as made by then. */
static void remember(Connections *c, const char *name) {
        size_t n = strlen(name) + 1;
        Connection *x = HASH_COUNT(c->connections) < CONNECTIONS_MAX ? malloc(sizeof(*x) + n) : NULL;
        uint64_t now = boot_time_ns();

        if (!x) {
                c->since = now;
                return;
        }
        x->made_by = now;
        memcpy(x->name, name, n);
        HASH_ADD_STR(c->connections, name, x);
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *name, *former, *owner;
        Connections *c = userdata;

        if (sd_bus_message_read(m, "sss", &name, &former, &owner) < 0 || name[0] != ':')
                return 0;
        Connection *x = find(c, name);
        if (isempty(owner) && x)
                forget(c, x);
        else if (!isempty(owner) && !x)
                remember(c, name);
        return 0;
}

bool connections_have_pidfds(const Connections *c) {
        return c->have_pidfds;
}

uint64_t connections_made_by(const Connections *c, const char *name) {
        const Connection *x = find(c, name);

        return x ? x->made_by : c->since;
}

/* --- life --- */

Connections *connections_free(Connections *c) {
        Connection *x, *tmp;

        if (!c)
                return NULL;
        sd_bus_slot_unref(c->slot);
        HASH_ITER(hh, c->connections, x, tmp)
                forget(c, x);
        free(c);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Connections *, connections_free);

int connections_new(sd_bus *bus, Connections **ret) {
        _cleanup_(connections_freep)
        Connections *c = calloc(1, sizeof(*c));
        _cleanup_(credentials_done)
        Credentials own = CREDENTIALS_NULL;
        const char *name;

        if (!c)
                return -ENOMEM;
        int r = sd_bus_get_unique_name(bus, &name);
        if (r >= 0)
                r = credentials_ask(bus, name, &own);
        if (r < 0)
                return r;
        c->have_pidfds = own.pidfd >= 0;
        if (!c->have_pidfds) {
                r = sd_bus_match_signal(bus, &c->slot, DRIVER_NAME, DRIVER_PATH, DRIVER_INTERFACE, "NameOwnerChanged",
                                on_owner_changed, c);
                if (r < 0)
                        return r;
        }
        c->since = boot_time_ns();
        *ret = TAKE_PTR(c);
        return 0;
}
