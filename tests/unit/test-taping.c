/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Recordings of the service's own objects: the decisions for 1,000 clients with changes of policies and settings are
 * played again with the same result; a slow reader, or one that goes, delays no other.
 */

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <utlist.h>

#include "service/core/follow.h"
#include "service/core/resolve.h"
#include "service/core/taping.c" /* NOLINT(bugprone-suspicious-include): the test looks inside a Taping */
#include "tape/player.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define N_CLIENTS 1000U
#define N_DEVICES 4U

typedef struct Reader {
        int fd;
        TapeText text;
        bool ended; /* the service has closed it */
} Reader;

/* Reads the text that is there now, at most `max` bytes. */
static void reader_take(Reader *r, size_t max) {
        char buf[65536];
        size_t taken = 0;

        while (taken < max) {
                ssize_t n = recv(r->fd, buf, MIN(sizeof(buf), max - taken), MSG_DONTWAIT);

                if (n <= 0) {
                        r->ended = r->ended || n == 0;
                        return;
                }
                r->text.data = realloc(r->text.data, r->text.n + (size_t) n + 1);
                assert_non_null(r->text.data);
                memcpy(r->text.data + r->text.n, buf, (size_t) n);
                r->text.n += (size_t) n;
                r->text.data[r->text.n] = '\0';
                taken += (size_t) n;
        }
}

/* Handles everything that is due, and reads what is sent meanwhile. No process is followed into its real cgroup. */
static void turn(Manager *m, Reader *r) {
        do {
                m->follow = follow_free(m->follow);
                assert_true(manager_turn(m, 0) >= 0);
                if (r)
                        reader_take(r, SIZE_MAX);
        } while (r && m->taping && taping_kept(m->taping) > 0);
}

/* Reads until the service closes the recording, which it does when everything is sent. */
static void reader_finish(Manager *m, Reader *r) {
        assert_int_equal(shutdown(r->fd, SHUT_WR), 0);
        while (!r->ended)
                turn(m, r);
        assert_null(m->taping);
        r->fd = safe_close(r->fd);
}

static Reader reader_begin(Manager *m, char *const *devices) {
        Reader r = {.fd = -EBADF};

        assert_int_equal(taping_begin(m, devices, &r.fd), 0);
        arbiter_flush(m);
        return r;
}

/* Checks that all decisions are played back equal. */
static void reader_play(Reader *r, Player *p) {
        char *save = NULL;

        player_init(p, NULL, NULL);
        for (char *line = strtok_r(r->text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                const char *why = NULL;
                TapeRecord record;

                if (tape_read(line, &record, &why) < 0) {
                        print_error("%s: %s\n", why, line);
                        fail();
                }
                if (player_play(p, &record) != 1) {
                        print_error("record %llu: %s\n%s\n", (unsigned long long) p->n_records, p->why, line);
                        fail();
                }
                tape_record_done(&record);
        }
        tape_text_done(&r->text);
}

/* --- a thousand clients --- */

typedef struct Crowd {
        Manager *m;
        Process p[N_CLIENTS];
        Queue *q[N_CLIENTS];
        unsigned launched[N_CLIENTS];
        size_t n;
} Crowd;

static size_t how_many(void) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return MIN((size_t) N_CLIENTS, (size_t) limit.rlim_max / 16);
}

static void crowd_join(Crowd *c) {
        char group[32], device[16];
        size_t i = c->n++;

        (void) snprintf(group, sizeof(group), "/s%ld.slice/g%ld", random() % 8, random() % 60);
        (void) snprintf(device, sizeof(device), "d%ld", random() % N_DEVICES);
        c->p[i] = join(c->m, group, (int) (random() % 3));
        c->q[i] = queue(&c->p[i], device, random() % 4 == 0 ? -1 : 0);
        c->launched[i] = 0;
}

static void crowd_leave(Crowd *c, size_t i) {
        leave(c->p + i);
        c->n--;
        c->p[i] = c->p[c->n];
        c->q[i] = c->q[c->n];
        c->launched[i] = c->launched[c->n];
}

static void set_any_policy(Crowd *c) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        char id[16];
        size_t n = 0;

        while (policy_all[n])
                n++;
        s.ops = policy_all[(size_t) random() % n];
        (void) snprintf(id, sizeof(id), "d%ld", random() % N_DEVICES);
        if (device_find(c->m, id))
                assert_int_equal(device_configure(device_find(c->m, id), &s), 0);
        arbiter_flush(c->m);
}

static void set_any_weight(Crowd *c) {
        Group *g = c->p[(size_t) random() % c->n].client->group;

        assert_int_equal(settings_set_weight(&g->override, 1 + random() % 1000), 0);
        group_settings_changed(g);
        arbiter_flush(c->m);
}

static void crowd_do(Crowd *c) {
        size_t i = (size_t) random() % c->n;
        long what = random() % 1000;

        if (what < 3)
                set_any_policy(c);
        else if (what < 10)
                set_any_weight(c);
        else if (what < 20 && c->n > 2)
                crowd_leave(c, i);
        else if (what < 30 && c->n < N_CLIENTS)
                crowd_join(c);
        else if (what < 100)
                drain(c->q[i]);
        else if (c->launched[i] == 0 || (what < 500 && c->launched[i] < 3)) {
                if (queue_holds(c->q[i]))
                        return;
                begin(c->q[i]);
                c->launched[i]++;
        } else {
                finish(c->q[i]);
                c->launched[i]--;
        }
}

static void test_crowd(void **state) {
        Crowd c = {.m = manager_make()};
        Player p;

        srandom(7);
        for (size_t n = how_many() - 50; c.n < n;)
                crowd_join(&c);
        for (unsigned i = 0; i < 500; i++)
                crowd_do(&c);
        /* The recording begins in the middle of the work. */
        Reader r = reader_begin(c.m, NULL);
        check(c.m);
        for (unsigned i = 0; i < 6000; i++) {
                own_clock_pass((uint64_t) random() % (2 * NSEC_PER_MSEC));
                crowd_do(&c);
                if (i % 16 == 0)
                        turn(c.m, &r);
        }
        reader_finish(c.m, &r);
        reader_play(&r, &p);
        assert_true(p.ended);
        assert_false(p.lost);
        assert_true(p.n_records > 5000);
        assert_true(p.n_grants > 1000);
        print_message("%llu records, %llu decisions, %llu grants of %zu clients\n", (unsigned long long) p.n_records,
                        (unsigned long long) p.n_dispatches, (unsigned long long) p.n_grants, c.n);
        player_done(&p);
        while (c.n > 0)
                crowd_leave(&c, c.n - 1);
        manager_free(c.m);
}

/* --- who reads --- */

/* Nothing waits for a slow reader. It is told how much it has lost, and the text after that is complete again. */
static void test_slow(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 0);
        Queue *qa = queue(&a, "d", 0), *qb = queue(&b, "d", 0);
        Reader r = reader_begin(m, NULL);
        Player p;

        do {
                begin(qa);
                begin(qb);
                finish(qa);
                finish(qb);
                own_clock_pass(NSEC_PER_MSEC);
                turn(m, NULL);
                assert_non_null(m->taping);
                assert_true(taping_kept(m->taping) <= TAPING_KEPT_MAX + 65536);
        } while (m->taping->lost < 1000);
        own_clock_pass(2 * TAPING_ANEW_NS);
        begin(qa);
        for (;;) {
                turn(m, &r);
                assert_non_null(m->taping);
                if (taping_kept(m->taping) == 0 && strstr(r.text.data + r.text.n - 4096, "\"is\":\"policy\""))
                        break;
                finish(qa);
                begin(qa);
        }
        begin(qb);
        finish(qa);
        finish(qb);
        reader_finish(m, &r);
        reader_play(&r, &p);
        assert_true(p.ended);
        assert_true(p.lost);
        assert_true(p.n_lost >= 1000);
        assert_non_null(player_device(&p, 1)->policy);
        player_done(&p);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* A recording of some devices only; of a device that is added later; and of one device at a time. */
static void test_devices(void **state) {
        char *const only[] = {(char *) "d2", NULL};
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        Queue *q1 = queue(&a, "d1", 0);
        Queue *q2 = queue(&a, "d2", 0);
        Reader r = reader_begin(m, only);
        int fd;

        assert_int_equal(taping_begin(m, NULL, &fd), -EBUSY);
        begin(q1);
        begin(q2);
        (void) queue(&a, "d3", 0);
        reader_finish(m, &r);
        assert_null(strstr(r.text.data, "\"d1\""));
        assert_non_null(strstr(r.text.data, "\"d2\""));
        assert_null(strstr(r.text.data, "\"d3\""));
        tape_text_done(&r.text);

        r = reader_begin(m, NULL);
        (void) queue(&a, "d4", 0);
        turn(m, &r);
        assert_non_null(strstr(r.text.data, "\"d1\""));
        assert_non_null(strstr(r.text.data, "\"d4\""));
        tape_text_done(&r.text);

        /* A recording ends when its reader closes it. */
        r.fd = safe_close(r.fd);
        turn(m, NULL);
        assert_null(m->taping);
        finish(q1);
        finish(q2);
        r = reader_begin(m, NULL);
        leave(&a);
        manager_free(m);
        reader_take(&r, SIZE_MAX);
        assert_true(r.ended); /* ended with the service, and its rest is cut off */
        assert_true(!r.text.data || !strstr(r.text.data, "\"end\""));
        tape_text_done(&r.text);
        safe_close(r.fd);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_devices),
                        cmocka_unit_test(test_slow),
                        cmocka_unit_test(test_crowd),
        };

        /* Sets the test's clock ahead of the event loop's, so that no timer fires by itself. */
        own_clock_pass(UINT64_C(1) << 56);
        return cmocka_run_group_tests_name("taping", tests, NULL, NULL);
}
