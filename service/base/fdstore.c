/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What outlives the service
 *
 * systemd neither keeps the order of stored fds nor promises that all of them come back (it may have reached its
 * limit), so every fd has a name of its own, and a set counts only when it is whole.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "common/array.h"
#include "common/parse-util.h"
#include "common/process.h"
#include "fdstore.h"
#include "log.h"
#include "messages.h"
#include "notify.h"

#define STATE_NAME "manager-state"

static const char *const fd_role_table[_FD_ROLE_MAX] = {
                [FD_PAGE] = "page",
                [FD_LIFELINE] = "lifeline",
                [FD_WAKE] = "wake",
                [FD_PIDFD] = "pidfd",
                [FD_META] = "meta",
};
DEFINE_STRING_TABLE_LOOKUP(fd_role, FdRole);

static void make_name(char *buf, size_t size, uint64_t id, FdRole role) {
        (void) snprintf(buf, size, "c%" PRIu64 "-%s", id, fd_role_to_string(role));
}

/* -EINVAL: not a name that make_name() makes. */
static int parse_name(const char *name, uint64_t *ret_id, FdRole *ret_role) {
        char id[24];
        const char *dash = strchr(name, '-');

        if (name[0] != 'c' || !dash || (size_t) (dash - name) > sizeof(id))
                return -EINVAL;
        size_t n = (size_t) (dash - name) - 1;
        memcpy(id, name + 1, n);
        id[n] = '\0';

        uint64_t v;
        int role = fd_role_from_string(dash + 1);
        if (role < 0 || parse_uint64(id, 1, UINT64_MAX, &v) < 0)
                return -EINVAL;
        *ret_id = v;
        *ret_role = (FdRole) role;
        return 0;
}

size_t fdstore_names_size(uint64_t client_id) {
        char name[64];
        size_t n = 0;

        for (FdRole role = 0; role < _FD_ROLE_MAX; role++) {
                make_name(name, sizeof(name), client_id, role);
                n += strlen(name) + strlen(":");
        }
        return n;
}

int fdstore_push(const StoredClient *c) {
        char name[64];

        for (FdRole role = 0; role < _FD_ROLE_MAX; role++) {
                make_name(name, sizeof(name), c->id, role);
                int r = notify_store_fd(name, c->fds[role]);
                if (r < 0)
                        (void) fdstore_remove(c->id);
                if (r <= 0)
                        return r;
        }
        return 1;
}

int fdstore_remove(uint64_t client_id) {
        char name[64];
        int result = 0;

        for (FdRole role = 0; role < _FD_ROLE_MAX; role++) {
                make_name(name, sizeof(name), client_id, role);
                int r = notify_drop_fd(name);
                if (result >= 0 && r != 0) /* the first error, or else whether a manager listens */
                        result = r;
        }
        return result;
}

/* systemd keeps several fds of one name, so the old ones have to go first. */
int fdstore_push_state(int fd) {
        int r = notify_drop_fd(STATE_NAME);
        return r < 0 ? r : notify_store_fd(STATE_NAME, fd);
}

static bool is_anon_inode(int fd, const char *kind) {
        char path[64], link[64];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%i", fd);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        if (n < 0)
                return false;
        link[n] = '\0';
        return streq(link, kind);
}

static bool kind_is(FdRole role, int fd) {
        switch (role) {
        case FD_PAGE:
        case FD_META:
                return fcntl(fd, F_GET_SEALS) >= 0;
        case FD_LIFELINE:
                return sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 0) > 0;
        case FD_WAKE:
                return is_anon_inode(fd, "anon_inode:[eventfd]");
        case FD_PIDFD:
                return fd_is_pidfd(fd);
        default:
                return false;
        }
}

static const StoredClient stored_client_null = {
                .fds = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF},
};
_Static_assert(_FD_ROLE_MAX == 5, "stored_client_null names every role");

static void close_set(StoredClient *c) {
        for (FdRole role = 0; role < _FD_ROLE_MAX; role++)
                c->fds[role] = safe_close(c->fds[role]);
}

static StoredClient *find_or_add(StoredFds *s, uint64_t id) {
        for (size_t i = s->n_clients; i-- > 0;)
                if (s->clients[i].id == id)
                        return s->clients + i;

        StoredClient *grown = array_grow(s->clients, s->n_clients, sizeof(StoredClient));
        if (!grown)
                return NULL;
        s->clients = grown;
        grown[s->n_clients] = stored_client_null;
        grown[s->n_clients].id = id;
        return grown + s->n_clients++;
}

/* Takes ownership of fd, also on failure. */
static int sort_in(StoredFds *s, const char *name, int fd) {
        _cleanup_close_ int owned = fd;
        uint64_t id;
        FdRole role;

        if (streq(name, STATE_NAME) && s->state < 0 && fcntl(fd, F_GET_SEALS) >= 0) {
                s->state = TAKE_FD(owned);
                return 0;
        }
        if (parse_name(name, &id, &role) < 0) {
                s->n_discarded++;
                log_event(LOG_WARNING, MESSAGE_ADOPT_FAILED, LOG_FIELDS(.error = -EBADF),
                                "Closed an fd of unknown name \"%s\" that was passed to the service", name);
                (void) notify_drop_fd(name);
                return 0;
        }
        StoredClient *c = find_or_add(s, id);
        if (!c)
                return -ENOMEM;
        s->next_id = MAX(s->next_id, id + 1);
        if (c->fds[role] >= 0 || !kind_is(role, fd)) {
                s->n_discarded++;
                return 0; /* the first of two stays; the page's check decides whether it is right */
        }
        c->fds[role] = TAKE_FD(owned);
        return 0;
}

static int compare_clients(const void *a, const void *b) {
        uint64_t x = ((const StoredClient *) a)->id, y = ((const StoredClient *) b)->id;
        return (x > y) - (x < y);
}

static void discard_incomplete(StoredFds *s) {
        size_t kept = 0;

        for (size_t i = 0; i < s->n_clients; i++) {
                StoredClient *c = s->clients + i;
                const char *missing = NULL;

                for (FdRole role = 0; role < _FD_ROLE_MAX; role++)
                        if (c->fds[role] < 0)
                                missing = missing ?: fd_role_to_string(role);
                        else
                                s->n_discarded++;
                if (!missing) {
                        s->n_discarded -= _FD_ROLE_MAX;
                        s->clients[kept++] = *c;
                        continue;
                }
                log_event(LOG_WARNING, MESSAGE_ADOPT_FAILED, LOG_FIELDS(.client = c->id, .error = -EBADF),
                                "Client %" PRIu64 " cannot be taken over: its %s was not kept", c->id, missing);
                close_set(c);
                (void) fdstore_remove(c->id);
        }
        s->n_clients = kept;
}

int fdstore_collect(StoredFds *ret) {
        _cleanup_(stored_fds_done)
        StoredFds s = STORED_FDS_NULL;
        char **names = NULL;
        int result = 0;

        int n = sd_listen_fds_with_names(1, &names);
        if (n == -ENOMEM)
                return n;
        if (n < 0)
                log_warning_errno(n, "Ignored $LISTEN_FDS, which is invalid: %m");
        for (int i = 0; i < n; i++) {
                int r = sort_in(&s, names && names[i] ? names[i] : "", SD_LISTEN_FDS_START + i);
                if (r < 0)
                        result = r;
        }
        for (int i = 0; names && i < n; i++)
                free(names[i]);
        free(names);
        if (result < 0)
                return result;

        discard_incomplete(&s);
        if (s.n_clients > 0)
                qsort(s.clients, s.n_clients, sizeof(StoredClient), compare_clients);
        *ret = TAKE_GENERIC(s, STORED_FDS_NULL);
        return 0;
}

void stored_fds_done(StoredFds *s) {
        for (size_t i = 0; i < s->n_clients; i++)
                close_set(s->clients + i);
        free(s->clients);
        safe_close(s->state);
        *s = STORED_FDS_NULL;
}
