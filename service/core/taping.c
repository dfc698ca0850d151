/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Recordings
 */

#include <sys/epoll.h>
#include <sys/socket.h>
#include <utlist.h>

#include "client.h"
#include "observer.h"
#include "tape/feed.h"
#include "taping.h"
#include "usage.h"

/* Number of bytes that are sent at a time; edges are looked at in between. */
#define SEND_MAX ((size_t) 64 << 10)

/* Sending comes after verdicts and answers. */
#define PRIORITY_TAPING (PRIORITY_CALLS + 10)

struct Taping {
        Manager *manager;
        char **devices; /* NULL-terminated; NULL: all */
        uint64_t n_devices;
        int fd;
        sd_event_source *io;
        bool armed;    /* something is to be sent */
        bool ending;   /* the last record is in `text` */
        TapeText text; /* of which so much is sent: */
        size_t n_sent;
        uint64_t lost; /* since the last that was kept; 0: everything is */
        uint64_t anew_at;
};

/* Of one device. */
struct Taped {
        Taping *taping;
        TapeFeed feed;
        bool told; /* the reader knows its number */
};

/* --- the stream --- */

static size_t taping_kept(const Taping *t) {
        return t->text.n - t->n_sent;
}

static void taping_arm(Taping *t, bool armed) {
        uint32_t events = (armed ? EPOLLOUT : 0) | (t->ending ? 0 : EPOLLRDHUP);

        t->armed = armed;
        (void) sd_event_source_set_io_events(t->io, events);
}

/* Writes a record to the text even when there is no room left: for records about the recording itself. */
static void taping_write(Taping *t, const TapeRecord *r) {
        tape_write(&t->text, r);
        if (!t->armed)
                taping_arm(t, true);
}

static void taping_lose(Taping *t, uint64_t n, uint64_t at_ns) {
        if (t->lost == 0)
                t->anew_at = MAX(t->anew_at, at_ns);
        t->lost += n;
        if (!t->armed && at_ns >= t->anew_at)
                taping_arm(t, true);
}

/* Without memory the text becomes empty, and its records count as lost. */
static void on_record(const TapeRecord *r, void *userdata) {
        struct Taped *d = userdata;
        Taping *t = d->taping;

        if (r->kind == TAPE_LOST)
                taping_lose(t, r->lost, t->anew_at);
        else if (t->lost > 0 || taping_kept(t) > TAPING_KEPT_MAX || t->text.failed)
                taping_lose(t, 1, r->at_ns);
        else
                taping_write(t, r);
}

static void on_label(void *owner, TapeRecord *r) {
        const Entity *e = owner;

        r->group = e->group->name;
        if (e->client)
                r->pid = (uint64_t) e->client->peer.pid;
        if (e->kind == ENTITY_QUEUE && e->queues)
                r->queue = e->queues->id;
}

static const TapeFeedOps feed_ops = {.record = on_record, .label = on_label};

/* --- devices --- */

static bool taping_wants(const Taping *t, const Device *d) {
        if (!t->devices)
                return true;
        for (char **id = t->devices; *id; id++)
                if (streq(*id, d->id))
                        return true;
        return false;
}

static void taped_tell(struct Taped *taped, const Device *d) {
        const TapeRecord r = {.kind = TAPE_DEVICE, .device = taped->feed.device, .name = d->id};
        Taping *t = taped->taping;

        if (taped->told || t->lost > 0 || taping_kept(t) > TAPING_KEPT_MAX)
                return;
        taping_write(t, &r);
        taped->told = true;
}

static int taped_new(Taping *t, Device *d) {
        struct Taped *taped = calloc(1, sizeof(*taped));

        if (!taped)
                return -ENOMEM;
        taped->taping = t;
        tape_feed_init(&taped->feed, ++t->n_devices, &feed_ops, taped);
        d->taped = taped;
        d->feed = &taped->feed;
        taped_tell(taped, d);
        return 0;
}

static void taped_free(Device *d) {
        if (!d->taped)
                return;
        policy_tap(d->policy, NULL);
        d->feed = NULL;
        tape_feed_done(&d->taped->feed);
        free(d->taped);
        d->taped = NULL;
}

static void on_device_added(Device *d, void *userdata) {
        Taping *t = d->manager->taping;

        if (!t || t->ending || !taping_wants(t, d))
                return;
        if (taped_new(t, d) < 0)
                taping_end(d->manager);
        else
                tape_feed_begin(d->feed, d->policy, d->ops, &d->config, now_ns());
}

static void on_device_removed(Device *d, void *userdata) {
        taped_free(d);
}

static void on_closing(Manager *m, void *userdata) {
        taping_end(m);
}

static const ObserverOps observer_ops = {
                .device_added = on_device_added,
                .device_removed = on_device_removed,
                .manager_closing = on_closing,
};

/* Begins the recording of the devices, as if each had just been made. */
static int taping_begin_devices(Taping *t) {
        Device *d, *tmp;
        int r = 0;

        HASH_ITER(hh, t->manager->devices, d, tmp) {
                if (!d->taped)
                        continue;
                taped_tell(d->taped, d);
                int k = device_begin_anew(d);
                if (k < 0)
                        r = k;
        }
        return r;
}

/* --- the end --- */

static void device_tell_usage(Device *d, uint64_t now) {
        TapeRecord r = {.kind = TAPE_USED, .device = d->feed->device, .at_ns = now};
        Entity *e;

        DL_FOREACH2(d->entities, e, device_next) {
                if (!e->policy)
                        continue;
                r.entity = policy_entity_id(e->policy);
                d->ops->entity_usage(e->policy, now, &r.usage);
                taping_write(d->taped->taping, &r);
        }
        r.kind = TAPE_DEVICE_USED;
        d->ops->device_usage(d->policy, now, &r.device_usage);
        taping_write(d->taped->taping, &r);
}

/* Called when the reader shuts down its side: writes the end of the recording. */
static void taping_finish(Taping *t) {
        uint64_t now = now_ns();
        const TapeRecord lost = {.kind = TAPE_LOST, .lost = t->lost}, end = {.kind = TAPE_END, .at_ns = now};
        Device *d, *tmp;

        HASH_ITER(hh, t->manager->devices, d, tmp) {
                if (d->taped && t->lost == 0)
                        device_tell_usage(d, now);
                taped_free(d);
        }
        if (t->lost > 0)
                taping_write(t, &lost);
        taping_write(t, &end);
        t->ending = true;
        taping_arm(t, true);
}

static void taping_free(Taping *t) {
        Device *d, *tmp;

        HASH_ITER(hh, t->manager->devices, d, tmp)
                taped_free(d);
        for (char **id = t->devices; id && *id; id++)
                free(*id);
        free(t->devices);
        tape_text_done(&t->text);
        sd_event_source_disable_unref(t->io);
        safe_close(t->fd);
        t->manager->taping = NULL;
        free(t);
}

void taping_end(Manager *m) {
        if (m->taping)
                taping_free(m->taping);
}

/* --- sending --- */

/* Called when all kept records are sent: tells the reader how many were lost, and begins the devices anew. */
static void taping_caught_up(Taping *t) {
        const TapeRecord lost = {.kind = TAPE_LOST, .lost = t->lost};

        t->text.n = t->n_sent = 0;
        if (t->lost == 0 || now_ns() < t->anew_at) {
                taping_arm(t, false);
                return;
        }
        t->text.failed = false;
        t->lost = 0;
        t->anew_at = now_ns() + TAPING_ANEW_NS;
        taping_write(t, &lost);
        (void) taping_begin_devices(t);
}

/* Sends the text as far as the socket takes it. Returns < 0 when the reader is gone. */
static int taping_send(Taping *t) {
        size_t n = MIN(taping_kept(t), SEND_MAX);
        ssize_t sent = n > 0 ? send(t->fd, t->text.data + t->n_sent, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        if (sent < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();
        t->n_sent += (size_t) sent;
        if (taping_kept(t) == 0) {
                if (t->ending)
                        return -EPIPE;
                taping_caught_up(t);
        } else if (t->n_sent > t->text.n / 2) {
                memmove(t->text.data, t->text.data + t->n_sent, taping_kept(t));
                t->text.n -= t->n_sent;
                t->n_sent = 0;
        }
        return 0;
}

static int on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Taping *t = userdata;

        if (revents & (EPOLLHUP | EPOLLERR)) {
                taping_free(t);
                return 0;
        }
        if ((revents & EPOLLRDHUP) && !t->ending)
                taping_finish(t);
        if (taping_send(t) < 0)
                taping_free(t);
        return 0;
}

/* --- the beginning --- */

static char **ids_copy(char *const *ids) {
        size_t n = 0;

        while (ids[n])
                n++;
        char **copy = calloc(n + 1, sizeof(*copy));
        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = strdup(ids[i]);
                if (copy[i])
                        continue;
                while (i > 0)
                        free(copy[--i]);
                free(copy);
                return NULL;
        }
        return copy;
}

static int taping_open(Taping *t, int *ret_fd) {
        int fds[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return negative_errno();
        t->fd = fds[0];
        *ret_fd = fds[1];
        int r = sd_event_add_io(t->manager->event, &t->io, t->fd, EPOLLRDHUP, on_io, t);
        if (r >= 0)
                r = sd_event_source_set_priority(t->io, PRIORITY_TAPING);
        if (r >= 0)
                (void) sd_event_source_set_description(t->io, "taping");
        return r;
}

static int taping_start(Taping *t) {
        struct timespec now;
        int r = 0;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        const TapeRecord begin = {
                        .kind = TAPE_BEGIN,
                        .version = TAPE_VERSION,
                        .at_ns = now_ns(),
                        .realtime_us = timespec_to_ns(&now) / NSEC_PER_USEC,
        };
        Device *d, *tmp;

        t->anew_at = begin.at_ns + TAPING_ANEW_NS;
        taping_write(t, &begin);
        HASH_ITER(hh, t->manager->devices, d, tmp)
                if (r >= 0 && taping_wants(t, d))
                        r = taped_new(t, d);
        return r < 0 ? r : taping_begin_devices(t);
}

/* Adds the observer with the first recording. It stays, and does nothing without a recording. */
static int taping_observe(Manager *m) {
        if (m->taping_observed)
                return 0;
        int r = observer_add(m, &observer_ops, m);
        m->taping_observed = r >= 0;
        return r;
}

int taping_begin(Manager *m, char *const *devices, int *ret_fd) {
        _cleanup_close_ int fd = -EBADF;

        if (m->taping)
                return -EBUSY;
        int r = taping_observe(m);
        if (r < 0)
                return r;
        Taping *t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        *t = (Taping){.manager = m, .fd = -EBADF};
        m->taping = t;
        if (devices && devices[0]) {
                t->devices = ids_copy(devices);
                r = t->devices ? 0 : -ENOMEM;
        }
        if (r >= 0)
                r = taping_open(t, &fd);
        if (r >= 0)
                r = taping_start(t);
        if (r < 0) {
                taping_free(t);
                return r;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}
