/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Following clients
 */

#include <inttypes.h>

#include "arbiter.h"
#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-list.h"
#include "cgroup/cgroup-watch.h"
#include "follow.h"
#include "log.h"

struct Follow {
        Manager *manager;
        CgroupWatch *watch;
        bool active, degraded;
};

/* Processes whose clients are to be looked at. */
typedef struct Pids {
        pid_t *pids; /* sorted; NULL: all there are */
        size_t n;
} Pids;

static int compare_pids(const void *a, const void *b) {
        pid_t x = *(const pid_t *) a, y = *(const pid_t *) b;
        return (x > y) - (x < y);
}

static bool pids_have(const Pids *p, pid_t pid) {
        return !p->pids || bsearch(&pid, p->pids, p->n, sizeof(pid_t), compare_pids);
}

/* The end of a process is not seen here: that is its pidfd's business. */
static void look(Client *c) {
        if (peer_refresh_cgroup(&c->peer) <= 0)
                return;
        int r = client_moved(c);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.client = c->id, .error = r),
                                "Client %" PRIu64 " cannot follow its process to %s: %m", c->id,
                                c->peer.cgroup);
}

static void look_at(Manager *m, const Pids *p, const char *cgroup) {
        Client *c, *tmp;

        HASH_ITER(hh, m->clients, c, tmp)
                if (pids_have(p, c->peer.pid) && !streq_ptr(c->peer.cgroup, cgroup))
                        look(c);
        arbiter_flush(m);
}

static void update_degraded(Follow *f) {
        bool degraded = !cgroup_watch_is_complete(f->watch);

        if (degraded == f->degraded)
                return;
        f->degraded = degraded;
        (void) manager_set_degraded(f->manager, "cgroups",
                        degraded ? "not all could be watched (fs.inotify.max_user_watches): a process that is moved may keep its former settings"
                                 : NULL);
}

static void on_entered(const char *cgroup, void *userdata) {
        Follow *f = userdata;
        Pids p = {0};

        update_degraded(f);
        if (cgroup) {
                int r = cgroup_list_processes(cgroup, &p.pids, &p.n);
                if (r == -ENOENT || (r >= 0 && p.n == 0))
                        return;
                if (r >= 0)
                        qsort(p.pids, p.n, sizeof(pid_t), compare_pids);
        }
        look_at(f->manager, &p, cgroup);
        free(p.pids);
}

Follow *follow_free(Follow *f) {
        if (!f)
                return NULL;
        cgroup_watch_free(f->watch);
        free(f);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Follow *, follow_free);

static int follow_new(Manager *m, Follow **ret) {
        _cleanup_free_ char *root = NULL;
        _cleanup_(follow_freep)
        Follow *f = NULL;

        int r = cgroup_directory("", &root);
        if (r < 0)
                return r;
        f = calloc(1, sizeof(*f));
        if (!f)
                return -ENOMEM;
        f->manager = m;
        r = cgroup_watch_new(m->event, root, on_entered, f, &f->watch);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f);
        return 0;
}

static int follow_begin(Manager *m) {
        if (!m->follow) {
                int r = follow_new(m, &m->follow);
                if (r < 0)
                        return r;
        }
        if (m->follow->active)
                return 0;
        m->follow->active = true;
        return cgroup_watch_start(m->follow->watch);
}

static void follow_end(Follow *f) {
        if (!f || !f->active)
                return;
        f->active = false;
        cgroup_watch_stop(f->watch);
        update_degraded(f);
}

void follow_clients_changed(Manager *m) {
        if (!m->clients)
                follow_end(m->follow);
        else if (!m->stopping) {
                int r = follow_begin(m);
                if (r < 0 && r != -ENOENT)
                        log_warning_errno(r, "Processes that change their cgroup cannot be followed: %m");
        }
}
