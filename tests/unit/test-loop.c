/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The manager's loop: what it asks the kernel while edges come quickly, and how late other events are then
 */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define EDGE_NS (100 * NSEC_PER_USEC)

/* What the loop asked for since they were set to 0. A sleep takes no time here: it ends at once, and the clock goes on
 * by the timeout where there is no edge. */
static struct {
        unsigned n_sleeps, n_polls, n_looks, n_alarms, n_timeouts;
        uint64_t longest_ns; /* timeout; NSEC_INFINITY: none */
} asked;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_epoll_pwait2(
                int epoll, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *s);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *s);
int __wrap_peer_refresh_cgroup(Peer *p);
int __real_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *s);

/* The alarm rings at this time: there is no other timer. */
static uint64_t alarm_at = NSEC_INFINITY;
static int alarm_fd;

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);

/* sd-event's timers are absolute. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old) {
        const struct itimerspec off = {};

        if (flags & TFD_TIMER_ABSTIME)
                return __real_timerfd_settime(fd, flags, value, old);
        asked.n_alarms++;
        alarm_fd = fd;
        alarm_at = now_ns() + timespec_to_ns(&value->it_value);
        return __real_timerfd_settime(fd, 0, &off, NULL);
}

/* The clock has come to the alarm's time. */
static void ring(void) {
        const struct itimerspec soon = {.it_value.tv_nsec = 1};
        struct pollfd fd = {.fd = alarm_fd, .events = POLLIN};

        if (now_ns() < alarm_at)
                return;
        alarm_at = NSEC_INFINITY;
        assert_int_equal(__real_timerfd_settime(alarm_fd, 0, &soon, NULL), 0);
        assert_int_equal(poll(&fd, 1, -1), 1);
}

static void pass_without_event(int r, const struct timespec *timeout) {
        uint64_t ns = timeout ? timespec_to_ns(timeout) : NSEC_INFINITY, rings = ns_sub(alarm_at, now_ns());

        asked.n_timeouts += timeout && ns > 0;
        ns = MIN(ns, rings);
        if (timeout || alarm_at != NSEC_INFINITY)
                asked.longest_ns = MAX(asked.longest_ns, ns);
        if (r > 0)
                return;
        assert_true(ns < NSEC_INFINITY); /* nobody would end it */
        own_clock_pass(ns);
        ring();
}

int __wrap_epoll_pwait2(
                int epoll, struct epoll_event *events, int n, const struct timespec *timeout, const sigset_t *s) {
        ring();
        int r = __real_epoll_wait(epoll, events, n, 0);

        asked.n_sleeps++;
        pass_without_event(r, timeout);
        return r;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms) {
        asked.n_looks++;
        return __real_epoll_wait(epoll, events, n, timeout_ms);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *s) {
        const struct timespec now = {};

        ring();
        int r = __real_ppoll(fds, n, &now, s);

        asked.n_polls++;
        pass_without_event(r, timeout);
        return r;
}
/* The cgroups are made up. */
int __wrap_peer_refresh_cgroup(Peer *p) {
        return 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Two clients on a device. One is always ready; the other one makes edges. And an event of sd-event. */
typedef struct World {
        Manager *m;
        Process quick, ready;
        Queue *q, *other;
        int fd;
        sd_event_source *source;
        uint64_t handled_at;
} World;

static int on_event(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        World *w = userdata;
        eventfd_t n;

        assert_int_equal(eventfd_read(fd, &n), 0);
        w->handled_at = now_ns();
        return 0;
}

static void world_make_with(World *w, int priority) {
        struct timespec up;

        /* sd-event has the kernel's clock: no timer of it is ever due. */
        assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &up), 0);
        own_clock_pass(timespec_to_ns(&up));
        alarm_at = NSEC_INFINITY;
        *w = (World){.m = manager_make(), .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        w->quick = join(w->m, "/quick", priority);
        w->ready = join(w->m, "/ready", 10);
        w->q = queue(&w->quick, "d", 0);
        w->other = queue(&w->ready, "d", 0);
        begin(w->other);
        assert_int_equal(sd_event_add_io(w->m->event, &w->source, w->fd, EPOLLIN, on_event, w), 0);
        while (manager_turn(w->m, 0) > 0)
                ;
}

/* The edges are of lower priority, and change nothing: so nothing else is due. */
static void world_make(World *w) {
        world_make_with(w, 0);
}

static void world_done(World *w) {
        sd_event_source_disable_unref(w->source);
        (void) close(w->fd);
        leave(&w->quick);
        leave(&w->ready);
        manager_free(w->m);
}

static void turn(World *w) {
        assert_true(manager_turn(w->m, NSEC_INFINITY) >= 0);
}

/* One edge, and the turn that hears it. */
static void edge(World *w, uint64_t after_ns) {
        uint64_t edges = w->m->n_edges;

        own_clock_pass(after_ns);
        if (w->q->ready) {
                atomic_store(&w->q->page_slot->drained_ns, now_ns());
                assert_true(page_slot_end(w->q->page_slot, 1));
        } else {
                atomic_store(&w->q->page_slot->ready_since_ns, now_ns());
                assert_true(page_slot_begin(w->q->page_slot) & PAGE_BEGIN_EDGE);
        }
        page_mark_dirty(w->quick.client->page.header, w->q->slot);
        assert_int_equal(eventfd_write(w->quick.fds.wake, 1), 0);
        while (w->m->n_edges == edges)
                turn(w);
}

static void edges(World *w, unsigned n, uint64_t after_ns) {
        while (n-- > 0)
                edge(w, after_ns);
}

static void test_one_call_an_edge(void **state) {
        World w;

        world_make(&w);
        edges(&w, 100, EDGE_NS);
        memset(&asked, 0, sizeof(asked));
        edges(&w, 1000, EDGE_NS);
        assert_int_equal(asked.n_sleeps, 1000);
        assert_int_equal(asked.n_polls + asked.n_looks, 0);
        assert_in_range(asked.n_timeouts, 0, 1000 / 20);
        assert_in_range(asked.n_alarms, 1, 1000 / 10);
        world_done(&w);
}

/* While edges come, another event waits for LOOP_STALE_NS and a turn. */
static void test_other_events(void **state) {
        World w;

        world_make(&w);
        for (unsigned i = 0; i < 50; i++) {
                edges(&w, 7 * i, EDGE_NS);
                uint64_t at = now_ns();
                assert_int_equal(eventfd_write(w.fd, 1), 0);
                w.handled_at = 0;
                while (w.handled_at == 0)
                        edge(&w, EDGE_NS);
                assert_in_range(w.handled_at, at, at + LOOP_STALE_NS + 2 * EDGE_NS);
        }
        world_done(&w);
}

/* How late an event is that comes when edges stop all at once. */
static uint64_t lateness(World *w) {
        uint64_t at = now_ns();

        assert_int_equal(eventfd_write(w->fd, 1), 0);
        for (w->handled_at = 0; w->handled_at == 0;)
                turn(w);
        return w->handled_at - at;
}

static void test_edges_stop(void **state) {
        World w;

        world_make(&w);
        edges(&w, 10000, EDGE_NS);
        memset(&asked, 0, sizeof(asked));
        edges(&w, 50, EDGE_NS);
        assert_in_range(asked.longest_ns, 2 * LOOP_STALE_NS, LOOP_STALE_MAX_NS);
        /* Of events from then on one is that late. */
        uint64_t late = lateness(&w) + lateness(&w);
        assert_in_range(late, 0, LOOP_STALE_MAX_NS + LOOP_STALE_NS + 2 * EDGE_NS);
        assert_in_range(lateness(&w), 0, LOOP_STALE_NS + EDGE_NS);
        world_done(&w);
}

/* Who makes edges in bursts does not make other events later than LOOP_STALE_NS. */
static void test_bursts(void **state) {
        World w;

        world_make(&w);
        for (unsigned i = 0; i < 30; i++) {
                edges(&w, i, EDGE_NS / 10);
                assert_in_range(lateness(&w), 0, LOOP_STALE_NS + EDGE_NS);
                own_clock_pass(i % 5 * NSEC_PER_MSEC);
        }
        world_done(&w);
}

typedef struct Alarm {
        Due due;
        uint64_t came_at;
} Alarm;

static void on_due(Due *d) {
        container_of(d, Alarm, due)->came_at = now_ns();
}

/* Due times are as exact as ever. */
static void test_due(void **state) {
        Alarm a = {};
        World w;

        world_make(&w);
        due_init(&a.due, &w.m->dues, on_due);
        for (unsigned i = 1; i < 50; i++) {
                edges(&w, 50, EDGE_NS);
                uint64_t at = now_ns() + i * EDGE_NS / 3;
                due_set(&a.due, at);
                for (a.came_at = 0; a.came_at == 0;)
                        turn(&w);
                assert_in_range(a.came_at, at, at + EDGE_NS / 10);
        }
        due_done(&a.due);
        world_done(&w);
}

/* For how many of 1000 edges a timeout was set, if something is due by then after each. */
static unsigned timeouts(World *w, Alarm *a, uint64_t after_ns, uint64_t by_ns) {
        memset(&asked, 0, sizeof(asked));
        for (unsigned i = 0; i < 1000; i++) {
                due_set_by(&a->due, now_ns() + after_ns, now_ns() + by_ns);
                edge(w, EDGE_NS);
        }
        return asked.n_timeouts;
}

/* What may be done later sets no timer while edges come quickly. */
static void test_timers(void **state) {
        Alarm a = {};
        World w;

        world_make(&w);
        due_init(&a.due, &w.m->dues, on_due);
        edges(&w, 100, EDGE_NS);
        assert_in_range(timeouts(&w, &a, 2 * EDGE_NS, 2 * EDGE_NS), 1000 / 2, 1000 * 2);
        assert_in_range(timeouts(&w, &a, 2 * EDGE_NS, 10 * NSEC_PER_MSEC), 0, 1000 / 20);
        due_done(&a.due);
        world_done(&w);
}

/* It is done with the first edge from when it is due, or by its latest time. While edges come slowly it is done when it
 * is due. */
static void test_due_by(void **state) {
        Alarm a = {};
        World w;

        world_make(&w);
        due_init(&a.due, &w.m->dues, on_due);
        edges(&w, 100, EDGE_NS);
        for (unsigned i = 1; i < 50; i++) {
                uint64_t at = now_ns() + i * EDGE_NS / 3, by = at + 10 * NSEC_PER_MSEC;
                due_set_by(&a.due, at, by);
                for (a.came_at = 0; a.came_at == 0;)
                        edge(&w, EDGE_NS);
                assert_in_range(a.came_at, at, at + EDGE_NS + EDGE_NS / 10);

                at = now_ns() + i * EDGE_NS / 3;
                by = at + i * EDGE_NS / 20;
                due_set_by(&a.due, at, by);
                for (a.came_at = 0; a.came_at == 0;)
                        turn(&w);
                assert_in_range(a.came_at, at, by + EDGE_NS / 10);
                edges(&w, 10, EDGE_NS);
        }
        own_clock_pass(NSEC_PER_SEC);
        edges(&w, 10, NSEC_PER_MSEC);
        uint64_t at = now_ns() + EDGE_NS;
        due_set_by(&a.due, at, at + 10 * NSEC_PER_MSEC);
        for (a.came_at = 0; a.came_at == 0;)
                turn(&w);
        assert_in_range(a.came_at, at, at + EDGE_NS / 10);
        due_done(&a.due);
        world_done(&w);
}

/* Edges of higher priority stop all at once. Returns how much later the other client is let go than the device is kept
 * for their queue. */
static uint64_t kept_too_long(World *w) {
        if (w->q->ready)
                edge(w, EDGE_NS);
        uint64_t until = w->q->device->dispatch_at;

        assert_true(held(w->other));
        while (held(w->other))
                turn(w);
        assert_true(now_ns() >= until);
        return now_ns() - until;
}

/* While edges of higher priority come quickly, and the device is kept between them, no timer is set for the end of
 * that. So it comes late where they stop: by a hundredth of the time for which they were right to be waited for, and by
 * no more than other events. */
static void test_device_is_kept(void **state) {
        World w;

        world_make_with(&w, 20);
        edges(&w, 400, EDGE_NS);
        assert_in_range(kept_too_long(&w), 0, 200 * EDGE_NS / 100 + EDGE_NS / 10);
        edges(&w, 20, EDGE_NS);
        assert_in_range(kept_too_long(&w), 0, EDGE_NS / 5);
        edges(&w, 20000, EDGE_NS);
        memset(&asked, 0, sizeof(asked));
        edges(&w, 1000, EDGE_NS);
        assert_int_equal(asked.n_polls + asked.n_looks, 0);
        assert_in_range(asked.n_timeouts, 0, 1000 / 50);
        assert_in_range(kept_too_long(&w), 0, LOOP_STALE_MAX_NS + EDGE_NS);
        edges(&w, 20, EDGE_NS);
        assert_in_range(kept_too_long(&w), 0, EDGE_NS / 5);
        world_done(&w);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_one_call_an_edge),
                        cmocka_unit_test(test_other_events),
                        cmocka_unit_test(test_edges_stop),
                        cmocka_unit_test(test_bursts),
                        cmocka_unit_test(test_due),
                        cmocka_unit_test(test_timers),
                        cmocka_unit_test(test_due_by),
                        cmocka_unit_test(test_device_is_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
