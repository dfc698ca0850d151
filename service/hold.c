/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Priority holds
 */

#include <fcntl.h>
#include <utlist.h>

#include "arbiter.h"
#include "config.h"
#include "hold.h"
#include "user.h"

void hold_find(Manager *m, const Peer *peer, Settings *ret) {
        const Hold *h;

        *ret = SETTINGS_NULL;
        DL_FOREACH(m->holds, h)
                if (h->pid == peer->pid && h->start_time == peer->start_time) {
                        *ret = h->settings;
                        return;
                }
}

/* The process's clients have more or less of a claim now. */
static void hold_apply(Manager *m, pid_t pid, uint64_t start_time) {
        Client *c, *tmp;

        HASH_ITER(hh, m->clients, c, tmp) {
                if (c->peer.pid != pid || c->peer.start_time != start_time)
                        continue;
                hold_find(m, &c->peer, &c->hold);
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
                user_give(h->manager, h->uid, USER_JOBS);
        }
        free(h->reason);
        free(h);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Hold *, hold_free);

static int on_hold_end(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Hold *h = userdata;
        Manager *m = h->manager;
        pid_t pid = h->pid;
        uint64_t start_time = h->start_time;

        hold_free(h);
        hold_apply(m, pid, start_time);
        return 0;
}

int hold_new(Manager *m, const Peer *peer, const Settings *settings, const char *reason, int *ret_fd) {
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
                        .settings = *settings,
                        .reason = strdup(strempty(reason)),
                        .fd = -EBADF,
        };
        if (!h->reason)
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
        r = user_take(m, h->uid, USER_JOBS, m->config->limits.jobs_per_user);
        if (r < 0)
                return r;
        DL_PREPEND(m->holds, h);
        TAKE_PTR(h);
        hold_apply(m, peer->pid, peer->start_time);
        *ret_fd = TAKE_FD(theirs);
        return 0;
}
