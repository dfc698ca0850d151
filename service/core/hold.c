/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Priority holds
 */

#include <fcntl.h>
#include <utlist.h>

#include "arbiter.h"
#include "hold.h"
#include "service/settings/config.h"
#include "user.h"

#define DEPTH_MAX 256U /* of processes that start processes */

/* A parent that ended meanwhile leaves its children to another: then they are nobody's descendants. What a user starts
 * with other rights is not his. */
static bool is_descendant(const Peer *peer, const Hold *h) {
        pid_t pid = peer->pid;

        if (h->uid != 0 && peer->uid != h->uid)
                return false;
        uint64_t child = UINT64_MAX;
        for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
                uint64_t start_time;
                pid_t parent;

                if (process_parent(pid, &parent, &start_time) < 0)
                        return false;
                /* Nobody is older than his parent: the number is another's by now. */
                if (start_time > child)
                        return false;
                child = start_time;
                if (pid == h->pid && start_time == h->start_time)
                        return true;
                if (parent <= 1)
                        return false;
                pid = parent;
        }
        return false;
}

static bool hold_is_for(const Hold *h, const Peer *peer) {
        if (h->pid == peer->pid && h->start_time == peer->start_time)
                return true;
        return h->descendants && is_descendant(peer, h);
}

/* Nobody can put one that only lowers in front of another one that does not. */
void hold_find(Manager *m, const Peer *peer, Settings *ret, Settings *ret_lowers) {
        const Hold *h;

        *ret = *ret_lowers = SETTINGS_NULL;
        DL_FOREACH(m->holds, h) {
                Settings *to = h->lowers ? ret_lowers : ret;

                if (settings_is_empty(to) && hold_is_for(h, peer))
                        *to = h->settings;
        }
}

/* Those that a hold is for have more or less of a claim now. Also when it is gone: a client keeps what another one
 * gives it. */
static void holds_apply(Manager *m) {
        Client *c, *tmp;

        HASH_ITER(hh, m->clients, c, tmp) {
                Settings hold, lowers;

                hold_find(m, &c->peer, &hold, &lowers);
                if (settings_is_equal(&hold, &c->hold) && settings_is_equal(&lowers, &c->hold_lowers))
                        continue;
                c->hold = hold;
                c->hold_lowers = lowers;
                client_settings_changed(c);
        }
        arbiter_flush(m);
}

Hold *hold_free(Hold *h) {
        if (!h)
                return NULL;
        sd_event_source_disable_unref(h->source);
        safe_close(h->fd);
        if (h->prev) {
                DL_DELETE(h->manager->holds, h);
                user_give(h->manager, h->user, USER_JOBS);
        }
        free(h->command);
        free(h->reason);
        free(h);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Hold *, hold_free);

static int on_hold_end(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Hold *h = userdata;
        Manager *m = h->manager;

        hold_free(h);
        holds_apply(m);
        return 0;
}

int hold_new(Manager *m, const Peer *peer, const HoldParameters *p, int *ret_fd) {
        _cleanup_(hold_freep)
        Hold *h = calloc(1, sizeof(*h));
        _cleanup_close_ int theirs = -EBADF;
        int fds[2];

        if (!h)
                return -ENOMEM;
        *h = (Hold){
                        .manager = m,
                        .pid = peer->pid,
                        .start_time = peer->start_time,
                        .uid = peer->uid,
                        .user = user_of(m, peer->uid),
                        .command = strdup(peer->command),
                        .settings = p->settings,
                        .lowers = p->lowers,
                        .descendants = p->descendants,
                        .reason = strdup(strempty(p->reason)),
                        .fd = -EBADF,
        };
        if (!h->command || !h->reason)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        h->fd = fds[0];
        theirs = fds[1];

        /* No EPOLLIN: what somebody writes there stays there. The hang-up is always reported. */
        int r = sd_event_add_io(m->event, &h->source, h->fd, 0, on_hold_end, h);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(h->source, "hold");
        r = user_take(m, h->user, USER_JOBS, m->config->limits.jobs_per_user);
        if (r < 0)
                return r;
        DL_PREPEND(m->holds, h);
        TAKE_PTR(h);
        holds_apply(m);
        *ret_fd = TAKE_FD(theirs);
        return 0;
}
