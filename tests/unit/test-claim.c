/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Priority claims: which claim counts for a client, in whatever order claims and clients come and go, and whose quota
 * it takes
 */

#include <fcntl.h>

#include "service/core/claim.h"
#include "service/core/user.h"
#include "service/core/walk.h"
#include "tests/unit/arbiter-harness.h"

#define HOLDS    12U
#define CLIENTS  6U
#define ROUNDS   3000U
#define SOMEBODY 12345U

/* A claim, or what is left of one: its beginning may not be through. */
typedef struct Held {
        Claim *claim;
        ClaimBegin begin;
        bool begins;
        int fd;
        uint64_t age;
        pid_t pid;
        uid_t uid;
        ClaimKind kind;
        bool descendants;
        char class[16];
} Held;

typedef struct World {
        Manager *m;
        Held held[HOLDS];
        Process processes[CLIENTS];
        bool is_there[CLIENTS];
        uint64_t age;
        pid_t parent;
        uint64_t parent_start, start;
        unsigned seed;
} World;

static unsigned any(World *w, unsigned n) {
        return (unsigned) rand_r(&w->seed) % n;
}

static void take(World *w, Held *h, bool of_parent, uid_t uid, ClaimKind kind, bool descendants) {
        char command[] = "test";
        const Peer peer = {
                        .pid = of_parent ? w->parent : getpid(),
                        .start_time = of_parent ? w->parent_start : w->start,
                        .uid = uid,
                        .pidfd = -EBADF,
                        .command = command,
        };
        ClaimParameters p = {.lowers = kind == CLAIM_LOWERS, .descendants = descendants};

        *h = (Held){.pid = peer.pid, .uid = uid, .kind = kind, .descendants = descendants, .age = ++w->age};
        (void) snprintf(h->class, sizeof(h->class), "class%u", (unsigned) (w->age % 1000));
        assert_int_equal(settings_set_class(&p.settings, h->class), 0);
        assert_int_equal(claim_new(w->m, &peer, &p, &h->claim, &h->fd), 0);
        claim_begin(&h->begin, h->claim);
        h->begins = true;
}

static void begin_all(Held *h) {
        if (!h->begins)
                return;
        while (claim_begin_step(&h->begin))
                ;
        claim_begin_done(&h->begin);
        h->begins = false;
}

static void drop(Held *h) {
        begin_all(h);
        safe_close(h->fd);
        *h = (Held){};
}

static void turn(World *w) {
        while (manager_turn(w->m, 0) > 0)
                ;
}

static World *world_make(void) {
        World *w = calloc(1, sizeof(*w));
        pid_t grandparent;

        assert_non_null(w);
        w->m = manager_make();
        w->seed = 4711;
        w->parent = getppid();
        assert_int_equal(process_parent(getpid(), &w->parent, &w->start), 0);
        assert_int_equal(process_parent(w->parent, &grandparent, &w->parent_start), 0);
        return w;
}

static void world_free(World *w) {
        for (unsigned i = 0; i < HOLDS; i++)
                if (w->held[i].claim)
                        drop(w->held + i);
        for (unsigned i = 0; i < CLIENTS; i++)
                if (w->is_there[i])
                        leave(w->processes + i);
        turn(w);
        assert_null(w->m->claims.all);
        assert_null(w->m->claims.ended);
        assert_null(w->m->claims.processes);
        assert_int_equal(w->m->claims.n_for_descendants, 0);
        manager_free(w->m);
        free(w);
}

/* What is said of claims, read from all of them. */
static const char *expected(const World *w, const Client *c, ClaimKind kind) {
        const Held *best = NULL;

        for (unsigned i = 0; i < HOLDS; i++) {
                const Held *h = w->held + i;
                bool is_for = h->claim && h->kind == kind &&
                                (h->pid == c->peer.pid || (h->descendants && (h->uid == 0 || h->uid == c->peer.uid)));
                if (is_for && (!best || best->age < h->age))
                        best = h;
        }
        return best ? best->class : "";
}

static void compare(World *w) {
        for (unsigned i = 0; i < HOLDS; i++)
                begin_all(w->held + i);
        turn(w);
        for (unsigned i = 0; i < CLIENTS; i++) {
                if (!w->is_there[i])
                        continue;
                const Client *c = w->processes[i].client;
                assert_string_equal(c->claim.class, expected(w, c, CLAIM_DECIDES));
                assert_string_equal(c->claim_lowers.class, expected(w, c, CLAIM_LOWERS));
        }
}

static void client_comes_or_goes(World *w, unsigned i) {
        w->is_there[i] = !w->is_there[i];
        if (w->is_there[i])
                w->processes[i] = join_as(w->m, "/a", 0, any(w, 2) ? SOMEBODY : getuid());
        else
                leave(w->processes + i);
}

/* Claims of others begin and end while one is on its way, and clients come and go. */
static void test_random(void **state) {
        World *w = world_make();

        for (unsigned round = 0; round < ROUNDS; round++) {
                Held *h = w->held + any(w, HOLDS);

                switch (any(w, 6)) {
                case 0:
                case 1:
                        if (h->claim)
                                drop(h);
                        else
                                take(w, h, any(w, 2), any(w, 2) ? SOMEBODY : 0,
                                                any(w, 2) ? CLAIM_LOWERS : CLAIM_DECIDES, any(w, 2));
                        break;
                case 2:
                        if (h->begins && !claim_begin_step(&h->begin)) {
                                claim_begin_done(&h->begin);
                                h->begins = false;
                        }
                        break;
                case 3:
                        client_comes_or_goes(w, any(w, CLIENTS));
                        break;
                case 4:
                        (void) manager_turn(w->m, 0);
                        break;
                default:
                        compare(w);
                }
        }
        world_free(w);
}

/* A launch that has ended neither holds a group in its quota nor takes time from others. */
static void test_ends_are_paid_for(void **state) {
        World *w = world_make();
        uint64_t before;

        w->processes[0] = join_as(w->m, "/a", 0, SOMEBODY);
        w->is_there[0] = true;
        take(w, w->held, false, SOMEBODY, CLAIM_DECIDES, false);
        begin_all(w->held);
        assert_string_not_equal(w->processes[0].client->claim.class, "");
        const Bucket *b = user_budget(w->m, SOMEBODY, USER_CHANGES);
        assert_non_null(b);
        before = b->empty_at;
        drop(w->held);
        turn(w);
        assert_string_equal(w->processes[0].client->claim.class, "");
        assert_int_equal(user_count(w->m, SOMEBODY, USER_JOBS), 0);
        assert_true(b->empty_at > before);

        take(w, w->held, false, 0, CLAIM_DECIDES, false);
        assert_null(user_budget(w->m, 0, USER_CHANGES));
        world_free(w);
}

/* A list of claims is made in steps: between two of them claims end, the next one too, and others begin. */
static void test_walk(void **state) {
        static const unsigned expected[] = {7, 6, 3, 2, 1};
        World *w = world_make();
        const Claim *met[HOLDS];
        size_t n = 0;
        Walk walk;

        for (unsigned i = 0; i < 8; i++)
                take(w, w->held + i, false, SOMEBODY, CLAIM_LOWERS, false);
        walk_begin(&walk, w->m, WALK_CLAIMS);
        for (const Claim *h; (h = walk_next(&walk));) {
                met[n++] = h;
                if (n == 2) { /* the newest first: the next two, and the last */
                        drop(w->held + 5);
                        drop(w->held + 4);
                        drop(w->held + 0);
                        turn(w);
                        take(w, w->held + 8, false, SOMEBODY, CLAIM_LOWERS, false);
                }
        }
        walk_end(&walk);
        assert_int_equal(n, ELEMENTSOF(expected));
        for (size_t i = 0; i < n; i++)
                assert_ptr_equal(met[i], w->held[expected[i]].claim);
        world_free(w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_walk),
                        cmocka_unit_test(test_random),
                        cmocka_unit_test(test_ends_are_paid_for),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
