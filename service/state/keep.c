/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides which clients are kept over a restart
 */

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#include "common/parse-util.h"
#include "keep.h"
#include "service/base/fdstore.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/base/systemd.h"
#include "service/core/manager-degraded.h"
#include "service/core/user.h"

#define KEEP_SHARES      4U /* users who may fill the store together */
#define KEEP_MAX_DEFAULT 65536U

/* --- how much there is --- */

void keep_init(Manager *m) {
        const char *fdstore = getenv("FDSTORE"); /* from systemd 254 on */
        uint64_t max;

        m->keep.max_fds = KEEP_MAX_DEFAULT;
        if (!getenv("NOTIFY_SOCKET"))
                return;
        if (fdstore && parse_uint64(fdstore, 0, UINT_MAX, &max) >= 0) {
                m->keep.max_fds = (unsigned) max;
                return;
        }
        uint32_t answer;
        int r = m->systemd ? systemd_fdstore_max(m->systemd, &answer) : -ENOTCONN;
        if (r < 0)
                log_debug_errno(r, "How many fds the service manager keeps is not known: %m");
        else
                m->keep.max_fds = answer;
}

static bool has_room(const Manager *m, const Client *c) {
        const Keep *k = &m->keep;
        size_t fds = ((size_t) k->n_clients + 1) * _FD_ROLE_MAX + FDSTORE_STATE_FDS;

        return fds <= k->max_fds && k->n_bytes + fdstore_names_size(c->id) <= FDSTORE_NAMES_MAX;
}

static unsigned user_share(const Manager *m) {
        size_t by_fds = m->keep.max_fds > FDSTORE_STATE_FDS ? (m->keep.max_fds - FDSTORE_STATE_FDS) / _FD_ROLE_MAX : 0;
        size_t by_names = FDSTORE_NAMES_MAX / fdstore_names_size(m->next_client_id);

        size_t share = MIN(by_fds, by_names) / KEEP_SHARES;

        return (unsigned) MAX(share, (size_t) 1);
}

/* --- whose the places are --- */

static void note_kept(Client *c) {
        Manager *m = c->manager;

        c->kept = KEEP_KEPT;
        DL_APPEND2(c->user->kept, c, kept_prev, kept_next);
        c->user->n_kept++;
        m->keep.n_clients++;
        m->keep.n_bytes += fdstore_names_size(c->id);
}

static void forget_kept(Client *c) {
        Manager *m = c->manager;

        c->kept = KEEP_NOT;
        DL_DELETE2(c->user->kept, c, kept_prev, kept_next);
        c->user->n_kept--;
        m->keep.n_clients--;
        m->keep.n_bytes -= fdstore_names_size(c->id);
}

static void note_waiting(Client *c) {
        c->kept = KEEP_WAITS;
        DL_APPEND2(c->user->unkept, c, kept_prev, kept_next);
}

static void forget_waiting(Client *c) {
        c->kept = KEEP_NOT;
        DL_DELETE2(c->user->unkept, c, kept_prev, kept_next);
}

/* Logs once that not all clients of the user are kept, and once more when they are again. */
static void say(Manager *m, User *u) {
        char key[64], text[192];
        bool is = u->unkept;

        if (u->said_unkept == is)
                return;
        u->said_unkept = is;
        (void) snprintf(key, sizeof(key), "clients of user %u", (unsigned) u->uid);
        (void) snprintf(text, sizeof(text), "%u are kept over a restart of the service, and further ones are not: %s",
                        u->n_kept,
                        u->n_kept >= user_share(m) ? "that is a user's share of the file descriptor store"
                                                   : "the file descriptor store is full");
        if (manager_set_degraded(m, key, is ? text : NULL) < 0)
                log_oom();
}

static bool store(Client *c) {
        const StoredClient stored = {
                        .id = c->id,
                        .fds =
                                        {
                                                        [FD_PAGE] = c->page.fd,
                                                        [FD_LIFELINE] = c->lifeline,
                                                        [FD_WAKE] = c->wake,
                                                        [FD_PIDFD] = c->peer.pidfd,
                                                        [FD_META] = c->meta.fd,
                                        },
        };

        int r = fdstore_push(&stored);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.client = c->id, .error = r),
                                "Client %" PRIu64 " will not survive a restart of the service: %m", c->id);
        if (r > 0)
                note_kept(c);
        return r > 0;
}

static void unstore(Client *c) {
        int r = fdstore_remove(c->id);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.client = c->id, .error = r),
                                "What is kept of client %" PRIu64 " could not be dropped, ignoring: %m", c->id);
        forget_kept(c);
}

static User *user_with_most(Manager *m) {
        User *u, *tmp, *most = NULL;

        HASH_ITER(hh, m->users, u, tmp)
                if (u->n_kept > 0 && (!most || u->n_kept > most->n_kept))
                        most = u;
        return most;
}

/* A user with fewer clients in the store takes the place of the newest client of the user with the most, unless that
 * would only swap the two. */
static bool make_room(Client *c) {
        Manager *m = c->manager;

        while (!has_room(m, c)) {
                User *most = user_with_most(m);
                if (!most || most->n_kept <= c->user->n_kept + 1)
                        return false;
                Client *loser = most->kept->kept_prev; /* the list's last */
                log_event(LOG_NOTICE, MESSAGE_QUOTA,
                                LOG_FIELDS(.client = loser->id, .pid = loser->peer.pid, .error = 0),
                                "Client %" PRIu64 " of user %u is not kept over a restart any more: the file "
                                "descriptor store is full, and user %u has less in it",
                                loser->id, (unsigned) most->uid, (unsigned) c->user->uid);
                unstore(loser);
                note_waiting(loser);
                say(m, most);
        }
        return true;
}

/* Gives a free place to a user who has a client that waits: to the one with the fewest clients in the store. */
static void give_place(Manager *m) {
        User *u, *tmp, *next = NULL;
        unsigned share = user_share(m);

        HASH_ITER(hh, m->users, u, tmp)
                if (u->unkept && u->n_kept < share && (!next || u->n_kept < next->n_kept))
                        next = u;
        if (!next || !has_room(m, next->unkept))
                return;
        Client *c = next->unkept;
        forget_waiting(c);
        (void) store(c);
        say(m, next);
}

static void client_added(Client *c) {
        if (c->user->n_kept < user_share(c->manager) && make_room(c)) {
                (void) store(c);
                return;
        }
        note_waiting(c);
        say(c->manager, c->user);
}

static void client_removed(Client *c) {
        Manager *m = c->manager;

        if (c->kept == KEEP_KEPT) {
                unstore(c);
                give_place(m);
        } else if (c->kept == KEEP_WAITS) {
                forget_waiting(c);
                say(m, c->user);
        }
}

void keep_adopted(Client *c) {
        note_kept(c);
}

void keep_client(Client *c, ClientEvent event, void *userdata) {
        if (event == CLIENT_ADDED)
                client_added(c);
        else
                client_removed(c);
}
