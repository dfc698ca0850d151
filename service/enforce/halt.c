/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Halted clients
 *
 * A cgroup is in the table while it has clients. The kernel does not tell a watch on a file of a cgroup that the cgroup
 * was removed. So when a client joins a cgroup, its watch is made anew if need be.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <utlist.h>

#include "cgroup/backlog.h"
#include "cgroup/cgroup-attr.h"
#include "freeze.h"
#include "halt.h"
#include "service/core/client.h"
#include "service/core/observer.h"

/* Events are read at most at this rate. The kernel reports changes of one cgroup at most every 10 ms. */
#define RATE_INTERVAL_USEC (UINT64_C(50) * 1000)
#define RATE_BURST         20U

struct HaltCgroup {
        char *path; /* key */
        char *file;
        uint64_t id;
        int wd;
        bool frozen;
        BacklogItem news;
        Client *clients; /* list, by halt_prev/halt_next */
        UT_hash_handle hh;
        UT_hash_handle by_watch;
};

struct Halts {
        Manager *manager;
        int fd;
        sd_event_source *source;
        Backlog *backlog;
        HaltCgroup *cgroups; /* uthash, by path */
        HaltCgroup *watched; /* uthash, by wd */
};

static bool read_frozen(const char *file) {
        char text[256];

        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return false;
        text[n] = '\0';
        return strstr(text, "frozen 1\n");
}

static void client_set_halted(Client *c, bool halted) {
        if (c->halted == halted)
                return;
        c->halted = halted;
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue)
                        entity_update_queue(c->slots[i].queue);
        observers_client_changed(c, CLIENT_FROZEN);
}

static void apply(HaltCgroup *g) {
        Client *c;

        DL_FOREACH2(g->clients, c, halt_next)
                client_set_halted(c, g->frozen && !freeze_is_ours(c->group));
}

static void look(HaltCgroup *g) {
        g->frozen = g->wd >= 0 && read_frozen(g->file);
        apply(g);
}

static void unwatch(Halts *h, HaltCgroup *g) {
        if (g->wd < 0)
                return;
        HASH_DELETE(by_watch, h->watched, g);
        (void) inotify_rm_watch(h->fd, g->wd);
        g->wd = -1;
}

/* Adds the watch before it reads the file, so that no change is lost in between. */
static void watch(Halts *h, HaltCgroup *g) {
        unwatch(h, g);
        g->wd = inotify_add_watch(h->fd, g->file, IN_MODIFY);
        if (g->wd >= 0)
                HASH_ADD(by_watch, h->watched, wd, sizeof(g->wd), g);
        look(g);
}

/* --- what happens --- */

static void on_event(Halts *h, const struct inotify_event *e) {
        HaltCgroup *g, *tmp;

        if (e->mask & IN_Q_OVERFLOW) {
                HASH_ITER(hh, h->cgroups, g, tmp)
                        backlog_add(h->backlog, &g->news);
                return;
        }
        HASH_FIND(by_watch, h->watched, &e->wd, sizeof(e->wd), g);
        if (g)
                backlog_add(h->backlog, &g->news);
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _Alignas(struct inotify_event) char buf[4096];
        Halts *h = userdata;

        ssize_t n = read(fd, buf, sizeof(buf));
        for (ssize_t i = 0; i < n;) {
                const struct inotify_event *e = (const struct inotify_event *) (const void *) (buf + i);
                on_event(h, e);
                i += (ssize_t) (sizeof(*e) + e->len);
        }
        return 0;
}

static void on_news(BacklogItem *item, void *userdata) {
        look(container_of(item, HaltCgroup, news));
}

void halts_reconsider(Manager *m) {
        HaltCgroup *g, *tmp;

        if (!m->halts || m->stopping)
                return;
        HASH_ITER(hh, m->halts->cgroups, g, tmp)
                if (g->frozen)
                        look(g);
}

/* --- life --- */

static HaltCgroup *cgroup_free(Halts *h, HaltCgroup *g) {
        if (g->hh.tbl)
                HASH_DEL(h->cgroups, g);
        unwatch(h, g);
        backlog_remove(h->backlog, &g->news);
        free(g->path);
        free(g->file);
        free(g);
        return NULL;
}

Halts *halts_free(Halts *h) {
        HaltCgroup *g, *tmp;

        if (!h)
                return NULL;
        HASH_ITER(hh, h->cgroups, g, tmp)
                cgroup_free(h, g);
        backlog_free(h->backlog);
        sd_event_source_disable_unref(h->source);
        safe_close(h->fd);
        free(h);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Halts *, halts_free);

static int halts_get(Manager *m) {
        _cleanup_(halts_freep)
        Halts *h = NULL;

        if (m->halts)
                return 0;
        h = calloc(1, sizeof(*h));
        if (!h)
                return -ENOMEM;
        *h = (Halts){.manager = m, .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
        if (h->fd < 0)
                return negative_errno();
        int r = backlog_new(m->event, "cgroup-events-news", on_news, h, &h->backlog);
        if (r >= 0)
                r = sd_event_add_io(m->event, &h->source, h->fd, EPOLLIN, on_readable, h);
        if (r >= 0)
                r = sd_event_source_set_ratelimit(h->source, RATE_INTERVAL_USEC, RATE_BURST);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(h->source, "cgroup-events");
        m->halts = TAKE_PTR(h);
        return 0;
}

static int cgroup_get(Halts *h, const char *path, HaltCgroup **ret) {
        _cleanup_free_ char *directory = NULL;
        HaltCgroup *g;

        HASH_FIND_STR(h->cgroups, path, g);
        if (g) {
                *ret = g;
                return 0;
        }
        int r = cgroup_directory(path, &directory);
        if (r < 0)
                return r;
        g = calloc(1, sizeof(*g));
        if (!g)
                return -ENOMEM;
        *g = (HaltCgroup){.path = strdup(path), .wd = -1};
        if (!g->path || asprintf(&g->file, "%s/cgroup.events", directory) < 0) {
                g->file = NULL;
                cgroup_free(h, g);
                return -ENOMEM;
        }
        HASH_ADD_KEYPTR(hh, h->cgroups, g->path, strlen(g->path), g);
        *ret = g;
        return 0;
}

void halt_join(Client *c) {
        Manager *m = c->manager;
        uint64_t id = 0;
        HaltCgroup *g;

        if (c->halt && streq(c->halt->path, c->peer.cgroup))
                return;
        halt_leave(c);
        if (halts_get(m) < 0 || cgroup_get(m->halts, c->peer.cgroup, &g) < 0)
                return;
        DL_APPEND2(g->clients, c, halt_prev, halt_next);
        c->halt = g;
        (void) cgroup_id(g->path, &id);
        if (g->wd < 0 || g->id != id) {
                g->id = id;
                watch(m->halts, g);
        } else
                apply(g);
}

void halt_leave(Client *c) {
        HaltCgroup *g = TAKE_PTR(c->halt);

        if (!g)
                return;
        DL_DELETE2(g->clients, c, halt_prev, halt_next);
        client_set_halted(c, false);
        if (!g->clients)
                cgroup_free(c->manager->halts, g);
}
