/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Clients
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <utlist.h>

#include "claim.h"
#include "crowd.h"
#include "gone.h"
#include "job.h"
#include "ladder.h"
#include "numbers.h"
#include "observer.h"
#include "party.h"
#include "remnant.h"
#include "resolve.h"
#include "service/base/closer.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/settings/xsched-conf.h"
#include "suspended.h"
#include "suspension.h"
#include "turn.h"
#include "user.h"
#include "wakes.h"
#include "walk.h"

void client_wish(Client *c, const Settings *s) {
        settings_merge(&c->wish, s);
        (void) client_forget_wish(c, origin_environment(c->group->origin));
}

static void client_gone(Client *c, const char *why) {
        log_event(LOG_DEBUG, MESSAGE_CLIENT_GONE,
                        LOG_FIELDS(.client = c->id, .pid = c->peer.pid, .group = c->group->name),
                        "Client %" PRIu64 " (%s, pid %d): %s", c->id, c->peer.command, (int) c->peer.pid, why);
        client_free(c);
}

static int on_lifeline(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        client_gone(userdata, "hung up");
        return 0;
}

static int on_pidfd(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        client_gone(userdata, "process ended");
        return 0;
}

static int add_source(Client *c, sd_event_source **ret, int fd, uint32_t events, sd_event_io_handler_t handler,
                const char *description) {
        int r = sd_event_add_io(c->manager->event, ret, fd, events, handler, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(*ret, description);
        return sd_event_source_set_priority(*ret, PRIORITY_EDGES);
}

/* Our lifeline's receiving half is shut, and the other end's close is the hang-up. A client of an earlier version has
 * both halves open. */
static uint32_t lifeline_events(const Client *c) {
        struct pollfd p = {.fd = c->lifeline, .events = POLLRDHUP};

        return poll(&p, 1, 0) > 0 && p.revents & POLLRDHUP ? 0 : EPOLLRDHUP;
}

static int client_watch(Client *c) {
        int r = add_source(c, &c->lifeline_source, c->lifeline, lifeline_events(c), on_lifeline, "lifeline");
        if (r < 0)
                return r;
        r = add_source(c, &c->pidfd_source, c->peer.pidfd, EPOLLIN, on_pidfd, "pidfd");
        if (r < 0)
                return r;
        return wakes_add(c);
}

/* --- life --- */

void client_fds_done(ClientFds *f) {
        f->page = safe_close(f->page);
        f->lifeline = safe_close(f->lifeline);
        f->wake = safe_close(f->wake);
}

static int client_join(Client *c, Group *g) {
        int r = group_attach(g);
        if (r < 0) {
                group_left(g);
                return r;
        }
        c->group = g;
        group_set_owner(g, party_join(g->owner, g->n_clients, c->user->uid));
        DL_APPEND2(g->clients, c, group_prev, group_next);
        if (g->n_clients == 0 && !settings_is_empty(&g->override))
                gone_note(g); /* its group may have been made before its cgroup */
        if (++g->n_clients == 1 && g->origin)
                origin_revisit(g->origin);
        group_members_changed(g, g->n_clients == 1 && g->n_children > 0);
        groups_note_owners(g);
        observers_group_changed(g, GROUP_JOINED);
        return 0;
}

/* Frees the group if this client was all that kept it. */
static void client_leave(Client *c) {
        Group *g = TAKE_PTR(c->group);

        DL_DELETE2(g->clients, c, group_prev, group_next);
        g->n_clients--;
        if (!c->manager->stopping && (g->n_clients > 0 || g->n_children > 0))
                group_members_changed(g, g->n_clients == 0);
        groups_note_owners(g);
        observers_group_changed(g, GROUP_LEFT);
        group_left(g);
}

/* Frees the client. It may be incomplete, when client_new() has failed. */
Client *client_free(Client *c) {
        if (!c)
                return NULL;

        Manager *m = c->manager;
        if (c->hh.tbl && m->client_hook)
                m->client_hook(c, CLIENT_REMOVED, m->client_hook_userdata);
        ledger_done(&c->meta);
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue) {
                        queue_free(c->slots[i].queue);
                        turn_look(m);
                }
        if (c->hh.tbl)
                observers_client_removed(c);
        claims_leave(c);
        ladder_forget(c);
        crowd_forget(c);
        wakes_forget(c);
        turn_look(m);
        if (c->hh.tbl) {
                walks_forget(m, WALK_CLIENTS, c);
                HASH_DEL(m->clients, c);
                client_lost(m, c);
        }
        if (c->user) {
                uid_t user = c->user->uid; /* the User is freed with the last object that counts in it */

                (void) user_resize(m, user, USER_PLACES, &c->place_cost, 0, 0);
                user_give(m, user, USER_CLIENTS);
        }

        sd_event_source_disable_unref(c->lifeline_source);
        sd_event_source_disable_unref(c->pidfd_source);
        closer_take(TAKE_FD(c->page.fd));
        page_done(&c->page);
        closer_take(c->lifeline);
        closer_take(c->wake);
        closer_take(TAKE_FD(c->peer.pidfd));

        turn_look(m);
        if (c->group) {
                remnants_forget_client(c);
                client_leave(c);
        }
        turn_look(m);
        peer_done(&c->peer);
        free(c->sender);
        free(c->shim_version);
        free(c->backend);
        free(c->advised_detail);
        free(c->bound_detail);
        user_units_done(&c->units);
        free(c->slots);
        free(c);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Client *, client_free);

/* Takes the peer. */
static int client_alloc(Manager *m, uint64_t id, Peer *peer, unsigned limit, Client **ret) {
        _cleanup_(client_freep)
        Client *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        *c = (Client){
                        .manager = m,
                        .id = id,
                        .peer = TAKE_GENERIC(*peer, PEER_NULL),
                        .page = PAGE_NULL,
                        .lifeline = -EBADF,
                        .wake = -EBADF,
                        .meta = LEDGER_NULL,
        };
        uid_t user = user_of(m, c->peer.uid);
        int r = user_take(m, user, USER_CLIENTS, limit);
        if (r < 0)
                return r;
        c->user = user_find(m, user);
        r = user_resize(m, user, USER_PLACES, &c->place_cost, group_cost(c->peer.cgroup),
                        limit == UINT_MAX ? limit : CLIENT_PLACES_MAX);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

static int client_set_strings(Client *c, const char *sender, const char *shim_version, const char *backend) {
        c->sender = strdup(strempty(sender));
        c->shim_version = strdup(strempty(shim_version));
        c->backend = strdup(strempty(backend));
        return c->sender && c->shim_version && c->backend ? 0 : -ENOMEM;
}

static int client_make_fds(Client *c, ClientFds *ret) {
        _cleanup_(client_fds_done)
        ClientFds f = {-EBADF, -EBADF, -EBADF};
        int pair[2];

        int r = page_create(c->id, &c->page);
        if (r < 0)
                return r;
        f.page = fcntl(c->page.fd, F_DUPFD_CLOEXEC, 3);
        if (f.page < 0)
                return negative_errno();
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return negative_errno();
        c->lifeline = pair[0];
        f.lifeline = pair[1];
        if (shutdown(c->lifeline, SHUT_RD) < 0)
                return negative_errno();
        c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (c->wake < 0)
                return negative_errno();
        f.wake = fcntl(c->wake, F_DUPFD_CLOEXEC, 3);
        if (f.wake < 0)
                return negative_errno();
        *ret = TAKE_GENERIC(f, ((ClientFds){-EBADF, -EBADF, -EBADF}));
        return 0;
}

/* From here on the client is in the manager's tables. */
static int client_link(Client *c) {
        Manager *m = c->manager;

        int r = client_watch(c);
        if (r < 0)
                return r;
        HASH_ADD(hh, m->clients, id, sizeof(c->id), c);
        turn_look(m);
        observers_client_added(c);
        return 0;
}

static bool lifeline_is_dead(const Client *c) {
        struct pollfd p = {.fd = c->lifeline};

        return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

/* A process that registers again has often just closed its former client, whose hang-up the loop may see only later.
 * The new client is in its group before the former one is freed, so that a job with no other member lives on. */
static void clients_reap(Manager *m, const Client *except) {
        Client *c, *tmp;

        HASH_ITER(hh, m->clients, c, tmp)
                if (c != except && c->peer.pid == except->peer.pid && c->peer.start_time == except->peer.start_time &&
                                lifeline_is_dead(c))
                        client_free(c);
}

int client_new(Manager *m, Peer *peer, const ClientParameters *p, Client **ret, ClientFds *ret_fds) {
        _cleanup_(client_fds_done)
        ClientFds f = {-EBADF, -EBADF, -EBADF};
        _cleanup_(client_freep)
        Client *c = NULL;
        Group *g = p->job ? p->job->group : NULL;

        manager_reserve_ids(m);
        int r = client_alloc(m, m->next_client_id, peer, m->config->limits.clients_per_user, &c);
        if (r < 0)
                return r;
        r = client_set_strings(c, p->sender, p->shim_version, p->backend);
        if (r < 0)
                return r;
        r = client_make_fds(c, &f);
        if (r < 0)
                return r;
        turn_look(m);
        if (!g) {
                r = group_get(m, c->peer.cgroup, &g);
                if (r < 0)
                        return r;
        }
        r = client_join(c, g);
        if (r < 0)
                return r;
        c->wish = p->wish;
        if (p->units)
                c->units = TAKE_GENERIC(*p->units, (UserUnits){});
        user_units_apply(&c->units, c->peer.uid, g->origin);
        (void) client_forget_wish(c, origin_environment(g->origin));
        claims_join(c);
        client_resolve(c);
        turn_look(m);
        r = observers_client_made(c);
        if (r < 0)
                return r;
        turn_look(m);
        r = client_link(c);
        if (r < 0)
                return r;

        m->next_client_id++;
        turn_look(m);
        if (m->client_hook)
                m->client_hook(c, CLIENT_ADDED, m->client_hook_userdata);
        clients_reap(m, c);
        *ret_fds = TAKE_GENERIC(f, ((ClientFds){-EBADF, -EBADF, -EBADF}));
        *ret = TAKE_PTR(c);
        return 0;
}

void client_kept_done(ClientKept *k) {
        page_done(&k->page);
        ledger_done(&k->meta);
        k->lifeline = safe_close(k->lifeline);
        k->wake = safe_close(k->wake);
        user_units_done(&k->units);
}

int client_restore(Manager *m, Peer *peer, ClientKept *k, Client **ret) {
        _cleanup_(client_freep)
        Client *c = NULL;

        int r = client_alloc(m, k->id, peer, UINT_MAX, &c); /* no limit: it keeps what it had before the restart */
        if (r < 0)
                return r;
        c->page = TAKE_GENERIC(k->page, PAGE_NULL);
        c->meta = TAKE_GENERIC(k->meta, LEDGER_NULL);
        c->lifeline = TAKE_FD(k->lifeline);
        c->wake = TAKE_FD(k->wake);
        page_set_lease(c->page.header, 0);
        r = client_set_strings(c, k->sender, k->shim_version, k->backend);
        if (r < 0)
                return r;
        /* Before it joins its group, because joining may write the client's record again. */
        c->override = k->override;
        c->lowering = k->lowering;
        c->wish = k->wish;
        c->units = TAKE_GENERIC(k->units, (UserUnits){});
        c->suspended = k->suspended;
        r = client_join(c, k->group);
        if (r < 0)
                return r;
        user_units_apply(&c->units, c->peer.uid, c->group->origin);
        client_resolve(c);
        r = client_link(c);
        if (r < 0)
                return r;
        m->next_client_id = MAX(m->next_client_id, c->id + 1);
        *ret = TAKE_PTR(c);
        return 0;
}

/* --- moving --- */

int client_moved(Client *c) {
        Manager *m = c->manager;
        Group *g;

        int r = job_or_cgroup(c, &g);
        if (r < 0)
                return r;
        if (g != c->group) {
                r = group_attach(g); /* so that joining cannot fail */
                if (r < 0) {
                        group_left(g);
                        return r;
                }
                if (user_may_log(m, c->peer.uid))
                        log_event(LOG_INFO, MESSAGE_CLIENT_MOVED,
                                        LOG_FIELDS(.client = c->id, .pid = c->peer.pid, .group = g->name),
                                        "Client %" PRIu64 " (%s, pid %d) moved from %s to %s", c->id, c->peer.command,
                                        (int) c->peer.pid, c->group->name, g->name);
                for (uint32_t i = 0; i < c->n_slots; i++)
                        if (c->slots[i].queue)
                                entity_take_queue(NULL, c->slots[i].queue);
                remnants_forget_client(c);
                g->awaited = true;    /* the group may exist only as a parent of the former service's groups */
                m->wakes.busy = true; /* the client is in no group meanwhile */
                client_leave(c);
                g->awaited = false;
                (void) client_join(c, g);
                m->wakes.busy = false;
                (void) user_resize(m, c->user->uid, USER_PLACES, &c->place_cost, group_cost(c->peer.cgroup), UINT_MAX);
                client_settings_changed(c);
        }
        if (m->n_suspended > 0)
                client_suspension_changed(c);
        observers_client_changed(c, CLIENT_GROUP);
        return 0;
}

/* --- for showing --- */

QueueState client_state(const Client *c) {
        QueueState worst = c->suspended || client_suspended_by(c) ? QUEUE_SUSPENDED : QUEUE_IDLE;

        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue)
                        worst = MAX(worst, queue_state(c->slots[i].queue));
        return worst;
}
