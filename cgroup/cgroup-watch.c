/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Watches cgroups, and tells of processes that move
 *
 * Directories wait in a list until their watch is made; a watched one is in the table by its watch descriptor until the
 * watch above says that it is gone. A directory is watched first, and then read: a cgroup that appears in between is
 * seen twice, and never missed.
 */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <uthash.h>

#include "cgroup/backlog.h"
#include "cgroup/cgroup-watch.h"
#include "common/array.h"
#include "common/directory.h"

/* Directories that one turn of the loop takes, when there is no hurry: others may wait for a verdict. */
#define WALK_STEP 8U

/* Events are read so often at most. */
#define RATE_INTERVAL_USEC (UINT64_C(50) * 1000)
#define RATE_BURST         20U

/* A user who owns directories. There is none for root, whose directories are bounded by the limit of all. */
typedef struct Owner {
        uid_t user;
        size_t n_waiting, n_watched;
        bool is_beyond; /* some of the user's directories are not watched */
        UT_hash_handle hh;
} Owner;

typedef struct Directory {
        BacklogItem news;
        int wd;
        char *cgroup;
        Owner *owner;  /* NULL: root */
        unsigned walk; /* number of the walk that saw it last */
        UT_hash_handle hh, by_name;
} Directory;

/* A cgroup that is to be watched. */
typedef struct Waiting {
        char *cgroup;
        Owner *owner;
} Waiting;

struct CgroupWatch {
        char *root;
        CgroupWatchOps ops;
        void *userdata;
        size_t max;
        int fd;
        sd_event_source *source, *walk;
        Backlog *backlog;
        BacklogItem lost; /* events were lost: every directory has to be looked at */

        Directory *directories; /* uthash, by wd */
        Directory *names;       /* the same, by cgroup */
        Owner *owners;          /* uthash, by user */
        Waiting *waiting;
        size_t n_waiting, size;
        bool incomplete, again;
        unsigned n_walks;
};

/* --- whose they are --- */

static void give_up(CgroupWatch *w) {
        if (!w->incomplete)
                w->ops.problem(CGROUP_WATCH_NOBODY, true, w->userdata);
        w->incomplete = true;
}

static size_t share(const CgroupWatch *w) {
        return w->max / CGROUP_WATCH_USERS;
}

/* Finds or makes the record of the cgroup's owner. NULL: root, or the owner is not known. */
static Owner *owner_of(CgroupWatch *w, const char *cgroup) {
        char path[PATH_MAX];
        struct stat st;
        Owner *o;

        int n = snprintf(path, sizeof(path), "%s%s", w->root, cgroup);
        if (n < 0 || (size_t) n >= sizeof(path) || stat(path, &st) < 0 || st.st_uid == 0)
                return NULL;
        uid_t user = w->ops.user_of(st.st_uid, w->userdata);
        HASH_FIND(hh, w->owners, &user, sizeof(user), o);
        if (o)
                return o;
        o = calloc(1, sizeof(*o));
        if (!o)
                return NULL;
        o->user = user;
        HASH_ADD(hh, w->owners, user, sizeof(o->user), o);
        return o;
}

static void owner_set_beyond(const CgroupWatch *w, Owner *o, bool is) {
        if (o->is_beyond != is)
                w->ops.problem(o->user, is, w->userdata);
        o->is_beyond = is;
}

/* Looks for directories of the user that were left out, once there is room for many: it takes a walk. */
static void owner_gc(CgroupWatch *w, Owner *o) {
        if (o->is_beyond && o->n_watched + o->n_waiting <= share(w) / 2) {
                owner_set_beyond(w, o, false);
                backlog_add(w->backlog, &w->lost);
        }
        if (o->n_watched + o->n_waiting > 0)
                return;
        HASH_DEL(w->owners, o); /* NOLINT(clang-analyzer-core.NullDereference): o is one of them */
        free(o);
}

/* --- what waits --- */

static void add_waiting(CgroupWatch *w, const char *cgroup, const char *name) {
        char *path;

        Waiting *waiting = array_reserve(w->waiting, &w->size, w->n_waiting + 1, sizeof(Waiting));
        if (!waiting) {
                give_up(w);
                return;
        }
        w->waiting = waiting;
        if (asprintf(&path, "%s/%s", streq(cgroup, "/") ? "" : cgroup, name) < 0) {
                give_up(w);
                return;
        }
        Owner *o = owner_of(w, path);
        if (o ? o->n_waiting >= share(w) : w->n_waiting >= w->max) {
                o ? owner_set_beyond(w, o, true) : give_up(w);
                free(path);
                return;
        }
        if (o)
                o->n_waiting++;
        w->waiting[w->n_waiting++] = (Waiting){.cgroup = path, .owner = o};
}

/* Takes the last waiting cgroup, and its owner. */
static char *take_waiting(CgroupWatch *w, Owner **ret_owner) {
        Waiting last = w->waiting[--w->n_waiting];

        if (last.owner)
                last.owner->n_waiting--;
        *ret_owner = last.owner;
        return last.cgroup;
}

static void add_children(CgroupWatch *w, const char *directory, const char *cgroup) {
        struct stat st;
        struct dirent *e;
        int r;

        /* The number of links tells how many directories there are. Most cgroups have none, but seventy files: reading
         * their names is left out. */
        if (stat(directory, &st) < 0 || st.st_nlink == 2)
                return;
        DIR *d = opendir(directory);
        if (!d) {
                if (errno != ENOENT)
                        give_up(w);
                return;
        }
        while ((e = directory_next(d, &r)))
                if (e->d_type == DT_DIR && e->d_name[0] != '.')
                        add_waiting(w, cgroup, e->d_name);
        (void) closedir(d);
        if (r < 0)
                give_up(w);
}

static void forget(CgroupWatch *w, Directory *d) {
        backlog_remove(w->backlog, &d->news);
        if (w->directories) /* it is in both tables; the test is for the static analyzer */
                HASH_DEL(w->directories, d);
        if (w->names)
                HASH_DELETE(by_name, w->names, d);
        if (d->owner) {
                d->owner->n_watched--;
                owner_gc(w, d->owner);
        }
        free(d->cgroup);
        free(d);
}

static void unwatch(CgroupWatch *w, Directory *d) {
        (void) inotify_rm_watch(w->fd, d->wd);
        forget(w, d);
}

static Directory *find_name(const CgroupWatch *w, const char *cgroup) {
        Directory *d;

        HASH_FIND(by_name, w->names, cgroup, strlen(cgroup), d);
        return d;
}

/* Takes the name, which may have been another one's whose end was not seen. */
static void set_name(CgroupWatch *w, Directory *d, char *cgroup) {
        Directory *former = find_name(w, cgroup);

        if (former && former != d)
                unwatch(w, former);
        if (d->cgroup && w->names)
                HASH_DELETE(by_name, w->names, d);
        free(d->cgroup);
        d->cgroup = cgroup;
        HASH_ADD_KEYPTR(by_name, w->names, d->cgroup, strlen(d->cgroup), d);
}

/* Takes the cgroup's name. -EDQUOT: its owner has too many. */
static int remember(CgroupWatch *w, int wd, char *cgroup, Owner *owner) {
        Directory *d;

        HASH_FIND_INT(w->directories, &wd, d);
        if (d) {
                set_name(w, d, cgroup); /* after an overflow: it may be another's by now */
                d->walk = w->n_walks;
                return 0;
        }
        if (owner && owner->n_watched >= share(w))
                owner_set_beyond(w, owner, true);
        else if (HASH_COUNT(w->directories) >= w->max || !(d = calloc(1, sizeof(*d))))
                give_up(w);
        if (!d) {
                free(cgroup);
                return -EDQUOT;
        }
        *d = (Directory){.wd = wd, .owner = owner, .walk = w->n_walks};
        HASH_ADD_INT(w->directories, wd, d);
        set_name(w, d, cgroup);
        if (owner)
                owner->n_watched++;
        return 0;
}

static void watch(CgroupWatch *w, char *cgroup, Owner *owner, bool look) {
        char path[PATH_MAX];

        int n = snprintf(path, sizeof(path), "%s%s", w->root, cgroup);
        if (n < 0 || (size_t) n >= sizeof(path)) {
                free(cgroup);
                give_up(w);
                return;
        }
        int wd = inotify_add_watch(w->fd, path, IN_CREATE | IN_DELETE | IN_MODIFY | IN_ONLYDIR);
        if (wd < 0) {
                if (errno != ENOENT && errno != ENOTDIR)
                        give_up(w);
                free(cgroup);
                return;
        }
        add_children(w, path, cgroup);
        if (look)
                w->ops.entered(cgroup, w->userdata);
        if (remember(w, wd, cgroup, owner) < 0)
                (void) inotify_rm_watch(w->fd, wd);
}

/* Watches the last waiting cgroup, and puts the cgroups in it on the list. `look`: processes may be in it already. */
static void watch_next(CgroupWatch *w, bool look) {
        Owner *owner;
        char *cgroup = take_waiting(w, &owner);

        if (look && owner && owner->n_watched >= share(w)) {
                owner_set_beyond(w, owner, true);
                free(cgroup);
        } else
                watch(w, cgroup, owner, look);
        if (owner)
                owner_gc(w, owner);
}

/* The end of directories that the walk did not find was among the lost events. */
static void forget_gone(CgroupWatch *w) {
        Directory *d, *tmp;

        HASH_ITER(hh, w->directories, d, tmp)
                if (d->walk != w->n_walks)
                        unwatch(w, d);
}

static int on_walk(sd_event_source *s, void *userdata) {
        CgroupWatch *w = userdata;
        uint64_t began = backlog_begin();

        for (unsigned i = 0; i < WALK_STEP && w->n_waiting > 0; i++)
                watch_next(w, false);
        if (w->n_waiting == 0) {
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
                forget_gone(w);
                w->ops.entered(NULL, w->userdata);
        }
        if (w->again)
                backlog_end(w->backlog, began);
        return 0;
}

int cgroup_watch_start(CgroupWatch *w) {
        if (w->incomplete)
                w->ops.problem(CGROUP_WATCH_NOBODY, false, w->userdata);
        w->incomplete = false;
        w->n_walks++;
        add_waiting(w, "", "");
        return sd_event_source_set_enabled(w->walk, SD_EVENT_ON);
}

static void look(BacklogItem *item, void *userdata) {
        CgroupWatch *w = userdata;

        if (item == &w->lost) {
                w->again = true;
                (void) cgroup_watch_start(w);
        } else
                w->ops.entered(container_of(item, Directory, news)->cgroup, w->userdata);
}

/* --- what happens --- */

static void on_created(CgroupWatch *w, const Directory *d, const char *name) {
        size_t before = w->n_waiting;

        add_waiting(w, d->cgroup, name);
        while (w->n_waiting > before)
                watch_next(w, true);
}

/* The kernel does not tell that a directory of cgroupfs is gone by its own watch, nor takes that away. */
static void on_deleted(CgroupWatch *w, const Directory *parent, const char *name) {
        _cleanup_free_ char *cgroup = NULL;

        if (asprintf(&cgroup, "%s/%s", streq(parent->cgroup, "/") ? "" : parent->cgroup, name) < 0) {
                cgroup = NULL;
                return;
        }
        Directory *d = find_name(w, cgroup);
        if (d)
                unwatch(w, d);
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
        else if (e->mask & IN_DELETE && e->mask & IN_ISDIR)
                on_deleted(w, d, e->name);
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
        Owner *o;

        (void) sd_event_source_set_enabled(w->walk, SD_EVENT_OFF);
        HASH_ITER(hh, w->directories, d, tmp) {
                unwatch(w, d);
        }
        while (w->n_waiting > 0) {
                free(take_waiting(w, &o));
                if (o)
                        owner_gc(w, o);
        }
        backlog_remove(w->backlog, &w->lost);
        if (w->incomplete)
                w->ops.problem(CGROUP_WATCH_NOBODY, false, w->userdata);
        w->incomplete = w->again = false;
}

static void on_nothing(uid_t user, bool is, void *userdata) {
}

CgroupWatch *cgroup_watch_free(CgroupWatch *w) {
        if (!w)
                return NULL;
        w->ops.problem = on_nothing;
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

int cgroup_watch_new(sd_event *event, const char *root, size_t max, const CgroupWatchOps *ops, void *userdata,
                CgroupWatch **ret) {
        _cleanup_(cgroup_watch_freep)
        CgroupWatch *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *w = (CgroupWatch){
                        .root = strdup(root),
                        .ops = *ops,
                        .max = max,
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
