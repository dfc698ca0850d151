/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whose attributes change
 */

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <uthash.h>

#include "cgroup/attr-watch.h"

typedef struct Entry {
        int number; /* the kernel's, never used again for another directory */
        void *watched;
        UT_hash_handle hh;
} Entry;

struct AttrWatch {
        int fd;
        sd_event_source *source;
        attr_watch_changed_t changed, gone;
        attr_watch_removed_t removed;
        Entry *entries; /* uthash, by number */
};

static void entry_free(AttrWatch *w, Entry *e) {
        HASH_DEL(w->entries, e);
        free(e);
}

/* Events were lost: each may have changed, and those that are told may remove others. */
static void all_changed(AttrWatch *w) {
        size_t n = 0, size = HASH_COUNT(w->entries);
        _cleanup_free_ int *numbers = reallocarray(NULL, size + 1, sizeof(int));
        Entry *e, *tmp;

        if (!numbers)
                return;
        HASH_ITER(hh, w->entries, e, tmp)
                numbers[n++] = e->number;
        for (size_t i = 0; i < n; i++) {
                HASH_FIND_INT(w->entries, numbers + i, e);
                if (e)
                        w->changed(e->watched);
        }
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
                w->changed(e->watched);
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
        int r = sd_event_add_io(event, &w->source, w->fd, EPOLLIN, on_readable, w);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(w->source, "cgroup-attributes");
        *ret = TAKE_PTR(w);
        return 0;
}
