/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Following clients
 */

#include <inttypes.h>
#include <stdio.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-list.h"
#include "cgroup/cgroup-watch.h"
#include "client.h"
#include "follow.h"
#include "manager-degraded.h"
#include "observer.h"
#include "service/base/log.h"
#include "user.h"

struct Follow {
        Manager *manager;
        CgroupWatch *watch;
        bool active;
};

/* Processes whose clients may have moved to another cgroup. */
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

/* Moves the client if its process is in another cgroup. A process that has ended is left to its pidfd. */
static void look(Client *c) {
        if (peer_refresh_cgroup(&c->peer) <= 0)
                return;
        int r = client_moved(c);
        if (r < 0)
                log_event(LOG_WARNING, NULL, LOG_FIELDS(.client = c->id, .error = r),
                                "Client %" PRIu64 " cannot follow its process to %s: %m", c->id, c->peer.cgroup);
}

static void look_at(Manager *m, const Pids *p, const char *cgroup) {
        Client *c, *tmp;

        HASH_ITER(hh, m->clients, c, tmp)
                if (pids_have(p, c->peer.pid) && !streq_ptr(c->peer.cgroup, cgroup))
                        look(c);
}

static void on_problem(uid_t user, bool is, void *userdata) {
        static const char *const texts[] = {
                        "not all could be watched (fs.inotify.max_user_watches): "
                        "a process that is moved may keep its former settings",
                        "a user's share of them is watched: "
                        "a process that is moved to one of the others keeps its former settings",
        };
        const Follow *f = userdata;
        char key[64] = "cgroups";

        if (user != CGROUP_WATCH_NOBODY)
                (void) snprintf(key, sizeof(key), "cgroups of user %u", (unsigned) user);
        if (manager_set_degraded(f->manager, key, is ? texts[user != CGROUP_WATCH_NOBODY] : NULL) < 0)
                log_oom();
}

static uid_t on_user_of(uid_t uid, void *userdata) {
        const Follow *f = userdata;
        return user_of(f->manager, uid);
}

static void on_entered(const char *cgroup, void *userdata) {
        Follow *f = userdata;
        Pids p = {0};

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

/* The kernel limits a user's watches: leaves some for attributes of groups and for frozen cgroups. */
static size_t watches_max(void) {
        unsigned long max = CGROUP_WATCH_MAX;
        FILE *f = fopen("/proc/sys/fs/inotify/max_user_watches", "re");

        if (f) {
                if (fscanf(f, "%lu", &max) != 1)
                        max = CGROUP_WATCH_MAX;
                (void) fclose(f);
        }
        return MIN(max / 8 * 7, (size_t) CGROUP_WATCH_MAX);
}

static int follow_new(Manager *m, Follow **ret) {
        static const CgroupWatchOps ops = {.entered = on_entered, .user_of = on_user_of, .problem = on_problem};
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
        r = cgroup_watch_new(m->event, root, watches_max(), &ops, f, &f->watch);
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
}

/* What could not begin is tried again whenever a client comes or goes. */
static void follow_try(Manager *m) {
        int r = follow_begin(m);
        if (r < 0 && r != -ENOENT)
                log_warning_errno(r, "Processes that change their cgroup cannot be followed: %m");
}

static void on_client_added(Client *c, void *userdata) {
        follow_try(userdata);
}

static void on_client_removed(Client *c, void *userdata) {
        Manager *m = userdata;

        if (HASH_COUNT(m->clients) == 1) /* the last one: it is still in the table */
                follow_end(m->follow);
        else if (!m->stopping)
                follow_try(m);
}

int follow_attach(Manager *m) {
        static const ObserverOps ops = {.client_added = on_client_added, .client_removed = on_client_removed};

        return observer_add(m, &ops, m);
}
