/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who moves
 *
 * Directories wait in a list until their watch is made; a watched one is in the table by its watch descriptor until the kernel
 * says that it is gone. First watched, then read: what appears in between is seen twice, never missed.
 */

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <uthash.h>

#include "cgroup/backlog.h"
#include "cgroup/cgroup-watch.h"

/* Directories that one turn of the loop takes, when there is no hurry: somebody else may wait for a verdict. */
#define WALK_STEP 8U

/* Events are read so often at most. */
#define RATE_INTERVAL_USEC (UINT64_C(50) * 1000)
#define RATE_BURST         20U

typedef struct Directory {
        BacklogItem news;
        int wd;
        char *cgroup;
        UT_hash_handle hh;
} Directory;

struct CgroupWatch {
        char *root;
        cgroup_watch_entered_t entered;
        void *userdata;
        int fd;
        sd_event_source *source, *walk;
        Backlog *backlog;
        BacklogItem lost; /* events were: everything is news */

        Directory *directories; /* uthash, by wd */
        char **waiting;         /* cgroups that are to be watched */
        size_t n_waiting, size;
        bool incomplete, again;
};

/* --- what waits --- */

static void give_up(CgroupWatch *w) {
        w->incomplete = true;
}

static void add_waiting(CgroupWatch *w, const char *cgroup, const char *name) {
        char *path;

        if (w->n_waiting + HASH_COUNT(w->directories) >= CGROUP_WATCH_MAX) {
                give_up(w);
                return;
        }
        if (w->n_waiting == w->size) {
                size_t size = MAX(w->size * 2, (size_t) 64);
                char **grown = reallocarray(w->waiting, size, sizeof(char *));
                if (!grown) {
                        give_up(w);
                        return;
                }
                w->waiting = grown;
                w->size = size;
        }
        if (asprintf(&path, "%s/%s", streq(cgroup, "/") ? "" : cgroup, name) < 0) {
                give_up(w);
                return;
        }
        w->waiting[w->n_waiting++] = path;
}

static void add_children(CgroupWatch *w, const char *directory, const char *cgroup) {
        struct stat st;
        struct dirent *e;

        /* cgroupfs counts the directories within: most have none, and seventy files that nobody wants to read the names of. */
        if (stat(directory, &st) < 0 || st.st_nlink == 2)
                return;
        DIR *d = opendir(directory);
        if (!d)
                return; /* gone again */
        while ((e = readdir(d)))
                if (e->d_type == DT_DIR && e->d_name[0] != '.')
                        add_waiting(w, cgroup, e->d_name);
        (void) closedir(d);
}

/* Takes the cgroup's name. */
static void remember(CgroupWatch *w, int wd, char *cgroup) {
        Directory *d;

        HASH_FIND_INT(w->directories, &wd, d);
        if (d) {
                free(d->cgroup); /* after an overflow: it may be another's name by now */
                d->cgroup = cgroup;
                return;
        }
        d = calloc(1, sizeof(*d));
        if (!d) {
                free(cgroup);
                give_up(w);
                return;
        }
        *d = (Directory){.wd = wd, .cgroup = cgroup};
        HASH_ADD_INT(w->directories, wd, d);
}

/* Watches the last that waits, and lets what is in it wait. `look`: processes may be in it already. */
static void watch_next(CgroupWatch *w, bool look) {
        char path[PATH_MAX];
        char *cgroup = w->waiting[--w->n_waiting];

        int n = snprintf(path, sizeof(path), "%s%s", w->root, cgroup);
        if (n < 0 || (size_t) n >= sizeof(path)) {
                free(cgroup);
                give_up(w);
                return;
        }
        int wd = inotify_add_watch(w->fd, path, IN_CREATE | IN_MODIFY | IN_ONLYDIR);
        if (wd < 0) {
                if (errno != ENOENT && errno != ENOTDIR)
                        give_up(w);
                free(cgroup);
                return;
        }
        add_children(w, path, cgroup);
        if (look)
                w->entered(cgroup, w->userdata);
        remember(w, wd, cgroup);
}

static int on_walk(sd_event_source *s, void *userdata) {
        CgroupWatch *w = userdata;
        uint64_t began = backlog_begin();

        for (unsigned i = 0; i < WALK_STEP && w->n_waiting > 0; i++)
                watch_next(w, false);
        if (w->n_waiting == 0) {
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
                w->entered(NULL, w->userdata);
        }
        if (w->again)
                backlog_end(w->backlog, began);
        return 0;
}

int cgroup_watch_start(CgroupWatch *w) {
        w->incomplete = false;
        add_waiting(w, "", "");
        return sd_event_source_set_enabled(w->walk, SD_EVENT_ON);
}

static void look(BacklogItem *item, void *userdata) {
        CgroupWatch *w = userdata;

        if (item == &w->lost) {
                w->again = true;
                (void) cgroup_watch_start(w);
        } else
                w->entered(container_of(item, Directory, news)->cgroup, w->userdata);
}

static void forget(CgroupWatch *w, Directory *d) {
        backlog_remove(w->backlog, &d->news);
        if (w->directories) /* it is in there: said for the analyzer */
                HASH_DEL(w->directories, d);
        free(d->cgroup);
        free(d);
}

/* --- what happens --- */

static void on_created(CgroupWatch *w, const Directory *d, const char *name) {
        size_t before = w->n_waiting;

        add_waiting(w, d->cgroup, name);
        while (w->n_waiting > before)
                watch_next(w, true);
}

static void on_event(CgroupWatch *w, const struct inotify_event *e) {
        Directory *d;

        if (e->mask & IN_Q_OVERFLOW) {
                backlog_add(w->backlog, &w->lost);
                return;
        }
        HASH_FIND_INT(w->directories, &e->wd, d);
        if (!d)
                return;
        if (e->mask & IN_IGNORED)
                forget(w, d);
        else if (e->mask & IN_CREATE && e->mask & IN_ISDIR)
                on_created(w, d, e->name);
        else if (e->mask & IN_MODIFY && e->len > 0 &&
                        (streq(e->name, "cgroup.procs") || streq(e->name, "cgroup.threads")))
                backlog_add(w->backlog, &d->news);
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _Alignas(struct inotify_event) char buf[16384];
        CgroupWatch *w = userdata;

        ssize_t n = read(fd, buf, sizeof(buf));
        for (ssize_t i = 0; i < n;) {
                const struct inotify_event *e = (const struct inotify_event *) (const void *) (buf + i);
                on_event(w, e);
                i += (ssize_t) (sizeof(*e) + e->len);
        }
        return 0;
}

/* --- life --- */

void cgroup_watch_stop(CgroupWatch *w) {
        Directory *d, *tmp;

        (void) sd_event_source_set_enabled(w->walk, SD_EVENT_OFF);
        HASH_ITER(hh, w->directories, d, tmp) {
                (void) inotify_rm_watch(w->fd, d->wd);
                forget(w, d);
        }
        backlog_remove(w->backlog, &w->lost);
        while (w->n_waiting > 0)
                free(w->waiting[--w->n_waiting]);
        w->incomplete = w->again = false;
}

CgroupWatch *cgroup_watch_free(CgroupWatch *w) {
        if (!w)
                return NULL;
        if (w->backlog)
                cgroup_watch_stop(w);
        backlog_free(w->backlog);
        sd_event_source_disable_unref(w->source);
        sd_event_source_disable_unref(w->walk);
        safe_close(w->fd);
        free(w->waiting);
        free(w->root);
        free(w);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(CgroupWatch *, cgroup_watch_free);

int cgroup_watch_new(sd_event *event, const char *root, cgroup_watch_entered_t entered, void *userdata,
                CgroupWatch **ret) {
        _cleanup_(cgroup_watch_freep)
        CgroupWatch *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *w = (CgroupWatch){
                        .root = strdup(root),
                        .entered = entered,
                        .userdata = userdata,
                        .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
        };
        if (w->fd < 0)
                return negative_errno();
        if (!w->root)
                return -ENOMEM;
        int r = backlog_new(event, "cgroups-news", look, w, &w->backlog);
        if (r >= 0)
                r = sd_event_add_io(event, &w->source, w->fd, EPOLLIN, on_readable, w);
        if (r >= 0)
                r = sd_event_source_set_ratelimit(w->source, RATE_INTERVAL_USEC, RATE_BURST);
        if (r >= 0)
                r = sd_event_add_defer(event, &w->walk, on_walk, w);
        if (r >= 0)
                r = sd_event_source_set_enabled(w->walk, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(w->source, "cgroups");
        (void) sd_event_source_set_description(w->walk, "cgroups-walk");
        *ret = TAKE_PTR(w);
        return 0;
}

bool cgroup_watch_is_complete(const CgroupWatch *w) {
        return !w->incomplete;
}
