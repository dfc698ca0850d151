/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Watches of cgroup directories
 */

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <uthash.h>

#include "cgroup/attr-watch.h"
#include "cgroup/backlog.h"

typedef struct Entry {
        int number; /* the kernel's watch descriptor, never reused for another directory */
        void *watched;
        BacklogItem news;
        UT_hash_handle hh;
} Entry;

/* Events are read so often at most. */
#define RATE_INTERVAL_USEC (UINT64_C(50) * 1000)
#define RATE_BURST         20U

struct AttrWatch {
        int fd;
        sd_event_source *source;
        Backlog *backlog;
        attr_watch_changed_t changed, gone;
        attr_watch_removed_t removed;
        Entry *entries; /* uthash, by number */
};

static void entry_free(AttrWatch *w, Entry *e) {
        backlog_remove(w->backlog, &e->news);
        if (w->entries) /* the entry is in the table; the test is for the static analyzer */
                HASH_DEL(w->entries, e);
        free(e);
}

/* Events were lost: each directory may have changed. */
static void all_changed(AttrWatch *w) {
        Entry *e, *tmp;

        HASH_ITER(hh, w->entries, e, tmp)
                backlog_add(w->backlog, &e->news);
}

static void look(BacklogItem *item, void *userdata) {
        const AttrWatch *w = userdata;

        w->changed(container_of(item, Entry, news)->watched);
}

static void on_event(AttrWatch *w, const struct inotify_event *event) {
        Entry *e;

        if (event->mask & IN_Q_OVERFLOW) {
                all_changed(w);
                return;
        }
        HASH_FIND_INT(w->entries, &event->wd, e);
        if (!e)
                return;
        if (event->mask & IN_IGNORED) {
                void *watched = e->watched;

                entry_free(w, e);
                w->gone(watched);
        } else if (event->mask & IN_DELETE && event->mask & IN_ISDIR && event->len > 0)
                w->removed(e->watched, event->name);
        else if (event->mask & IN_ATTRIB)
                backlog_add(w->backlog, &e->news);
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _Alignas(struct inotify_event) char buf[4096];

        ssize_t n = read(fd, buf, sizeof(buf));
        for (ssize_t i = 0; i < n;) {
                const struct inotify_event *e = (const struct inotify_event *) (const void *) (buf + i);
                on_event(userdata, e);
                i += (ssize_t) (sizeof(*e) + e->len);
        }
        return 0;
}

int attr_watch_add(AttrWatch *w, const char *directory, void *watched) {
        Entry *e;

        int number = inotify_add_watch(w->fd, directory, IN_ATTRIB | IN_DELETE | IN_ONLYDIR);
        if (number < 0)
                return negative_errno();
        HASH_FIND_INT(w->entries, &number, e);
        if (e) {
                e->watched = watched;
                return number;
        }
        e = calloc(1, sizeof(*e));
        if (!e) {
                (void) inotify_rm_watch(w->fd, number);
                return -ENOMEM;
        }
        *e = (Entry){.number = number, .watched = watched};
        HASH_ADD_INT(w->entries, number, e);
        return number;
}

void attr_watch_remove(AttrWatch *w, int number) {
        Entry *e;

        HASH_FIND_INT(w->entries, &number, e);
        if (!e)
                return;
        (void) inotify_rm_watch(w->fd, number);
        entry_free(w, e);
}

AttrWatch *attr_watch_free(AttrWatch *w) {
        Entry *e, *tmp;

        if (!w)
                return NULL;
        HASH_ITER(hh, w->entries, e, tmp)
                entry_free(w, e);
        backlog_free(w->backlog);
        sd_event_source_disable_unref(w->source);
        safe_close(w->fd);
        free(w);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(AttrWatch *, attr_watch_free);

int attr_watch_new(sd_event *event, attr_watch_changed_t changed, attr_watch_removed_t removed,
                attr_watch_changed_t gone, AttrWatch **ret) {
        _cleanup_(attr_watch_freep)
        AttrWatch *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *w = (AttrWatch){
                        .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
                        .changed = changed,
                        .removed = removed,
                        .gone = gone,
        };
        if (w->fd < 0)
                return negative_errno();
        int r = backlog_new(event, "cgroup-attributes-news", look, w, &w->backlog);
        if (r >= 0)
                r = sd_event_add_io(event, &w->source, w->fd, EPOLLIN, on_readable, w);
        if (r >= 0)
                r = sd_event_source_set_ratelimit(w->source, RATE_INTERVAL_USEC, RATE_BURST);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(w->source, "cgroup-attributes");
        *ret = TAKE_PTR(w);
        return 0;
}
