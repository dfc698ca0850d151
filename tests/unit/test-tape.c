/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tapes: malformed and impossible records are refused, and a difference is reported at its place. test-policy-random.c
 * tests for every policy that recordings play back equal.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tape/feed.h"
#include "tape/player.h"

#define MS NSEC_PER_MSEC

/* One device, two entities below a node, and their recorder. */
typedef struct World {
        Policy *policy;
        PolicyNode *node;
        PolicyEntity *entity[2];
        TapeFeed feed;
        TapeText text;
        size_t n;
} World;

/* Copies the recorder's text to a string; it has no terminator. */
static char *text_copy(const char *data, size_t n) {
        char *text = calloc(n + 1, 1);

        assert_non_null(text);
        return memcpy(text, data, n);
}

static void on_record(const TapeRecord *r, void *userdata) {
        World *w = userdata;

        tape_write(&w->text, r);
        w->n++;
}

static void on_label(void *owner, TapeRecord *r) {
        r->group = owner;
        r->queue = 7;
}

static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
}

static const TapeFeedOps feed_ops = {.record = on_record, .label = on_label};
static const PolicyCallbacks callbacks = {.grant = on_grant};

/* Records two entities that want one place for 60 ms, in turns; the second ends while it has the place. */
static void record(World *w) {
        const TapeRecord begin = {.kind = TAPE_BEGIN, .version = TAPE_VERSION, .at_ns = MS};
        const TapeRecord device = {.kind = TAPE_DEVICE, .device = 1, .name = (char *) "pci:0"};
        const TapeRecord end = {.kind = TAPE_END, .at_ns = 200 * MS};
        PolicyNodeSettings node = POLICY_NODE_SETTINGS_DEFAULT;
        const PolicyOps *ops = &policy_tree_ops;

        *w = (World){0};
        on_record(&begin, w);
        on_record(&device, w);
        assert_int_equal(ops->new (&POLICY_CONFIG_DEFAULT, &callbacks, &w->policy), 0);
        tape_feed_init(&w->feed, 1, &feed_ops, w);
        tape_feed_begin(&w->feed, w->policy, ops, &POLICY_CONFIG_DEFAULT, MS);
        node.name = "games";
        assert_int_equal(ops->node_new(w->policy, NULL, &node, MS, &w->node), 0);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(ops->entity_new(w->policy, i == 0 ? w->node : NULL, (void *) (i == 0 ? "/a" : "/b"),
                                                 &POLICY_SETTINGS_DEFAULT, MS, w->entity + i),
                                0);
                ops->entity_ready(w->entity[i], 2 * MS);
        }
        uint64_t at = 2 * MS;
        while (at < 60 * MS) {
                (void) ops->dispatch(w->policy, at);
                for (size_t i = 0; i < 2; i++)
                        ops->entity_drained(w->entity[i], at);
                at = ops->dispatch(w->policy, at);
        }
        for (size_t i = 0; i < 2; i++)
                w->entity[i] = ops->entity_free(w->entity[i], 60 * MS);
        (void) ops->dispatch(w->policy, 60 * MS);
        w->node = ops->node_free(w->node, 61 * MS);
        on_record(&end, w);
        w->policy = ops->free(w->policy);
        tape_feed_done(&w->feed);
}

static int play_text(Player *p, const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *save = NULL;

        assert_non_null(copy);
        for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                const char *why;
                TapeRecord r;

                int result = tape_read(line, &r, &why);
                if (result < 0)
                        return result;
                result = player_play(p, &r);
                tape_record_done(&r);
                if (result != 1)
                        return result;
        }
        return 1;
}

/* The text with `to` in place of `from`, which it has once. */
static char *replaced(const World *w, const char *from, const char *to) {
        _cleanup_free_ char *text = text_copy(w->text.data, w->text.n);
        char *at, *ret;

        assert_non_null(text);
        at = strstr(text, from);
        assert_non_null(at);
        *at = '\0';
        assert_true(asprintf(&ret, "%s%s%s", text, to, at + strlen(from)) >= 0);
        return ret;
}

static void check(const World *w, const char *from, const char *to, int expected, const char *why) {
        _cleanup_free_ char *text = replaced(w, from, to);
        Player p;

        player_init(&p, NULL, NULL);
        int r = play_text(&p, text);
        if (r != expected || (why && !strstr(p.why, why))) {
                print_error("%s for %s: %d, %s\n", to, from, r, p.why);
                fail();
        }
        player_done(&p);
}

static void test_again(void **state) {
        World w;
        Player p;

        record(&w);
        assert_false(w.text.failed);
        _cleanup_free_ char *text = text_copy(w.text.data, w.text.n);
        player_init(&p, NULL, NULL);
        assert_int_equal(play_text(&p, text), 1);
        assert_int_equal(p.n_records, w.n);
        assert_true(p.n_grants >= 4);
        assert_true(p.ended);
        player_done(&p);
        tape_text_done(&w.text);
}

static void test_differs(void **state) {
        World w;

        record(&w);
        check(&w, "\"run\"", "\"hold\"", 0, "recorded is");
        check(&w, "[2,\"hold\",1]", "[2,\"hold\",2]", 0, "threshold");
        check(&w, "\"timeslice\":20000000", "\"timeslice\":10000000", 0, "asked again");
        check(&w, "\"at\":2000000,\"entity\":2}", "\"at\":2000001,\"entity\":2}", 0, NULL);
        check(&w, "\"name\":\"tree\"", "\"name\":\"mlfq\"", 0, NULL);
        check(&w, "\"preempted\":", "\"preempted\":1", 0, "lost its grant");
        tape_text_done(&w.text);
}

static void test_impossible(void **state) {
        World w;

        record(&w);
        check(&w, "\"version\":1", "\"version\":2", -EBADMSG, "version 2");
        check(&w, "\"name\":\"tree\"", "\"name\":\"oak\"", -EBADMSG, "oak");
        check(&w, "\"timeslice\":20000000", "\"timeslice\":0", -EBADMSG, "parameters");
        check(&w, "\"parent\":0", "\"parent\":9", -EBADMSG, "no node 9");
        check(&w, "{\"is\":\"ready\",\"device\":1,\"at\":2000000,\"entity\":1}",
                        "{\"is\":\"ready\",\"device\":1,\"at\":2000000,\"entity\":3}", -EBADMSG, "no entity 3");
        check(&w, "{\"is\":\"ready\",\"device\":1", "{\"is\":\"ready\",\"device\":2", -EBADMSG, "device 2");
        check(&w, "{\"is\":\"entity-gone\",", "{\"is\":\"node-gone\",\"node\":1,", -EBADMSG, "below node 1");
        check(&w, "\"is\":\"device\"", "\"is\":\"end\",\"at\":1", -EBADMSG, "after its end");
        check(&w, "\"is\":\"begin\"", "\"is\":\"end\"", -EBADMSG, "does not begin");
        check(&w, "\"entity\":2,\"node\":0", "\"entity\":1,\"node\":0", -EBADMSG, "already");
        check(&w, "\"at\":60000000", "\"at\":4611686018427387904", -EBADMSG, "no time");
        tape_text_done(&w.text);
}

/* After a loss the following records are ignored until their device begins anew. */
static void test_lost(void **state) {
        static const char lost[] =
                        "{\"is\":\"lost\",\"records\":3}\n{\"is\":\"idle\",\"device\":1,\"at\":1,\"entity\":99}\n";
        World w;
        Player p;

        record(&w);
        _cleanup_free_ char *text = replaced(&w, "{\"is\":\"entity-gone\"", lost);
        _cleanup_free_ char *first = strndup(text, (size_t) (strstr(text, lost) - text) + strlen(lost));
        player_init(&p, NULL, NULL);
        assert_int_equal(play_text(&p, first), 1);
        assert_true(p.lost);
        assert_int_equal(p.n_lost, 3);
        assert_null(player_device(&p, 1)->policy);
        _cleanup_free_ char *all = text_copy(w.text.data, w.text.n);
        char *again = strstr(all, "{\"is\":\"policy\"");
        assert_non_null(again);
        assert_int_equal(play_text(&p, again), 1);
        player_done(&p);
        tape_text_done(&w.text);
}

static void test_lines(void **state) {
        static const char *const bad[] = {
                        "",
                        "{",
                        "[]",
                        "null",
                        "{}",
                        "{\"is\":1}",
                        "{\"is\":\"nothing\"}",
                        "{\"is\":\"end\"}",
                        "{\"is\":\"end\",\"at\":null}",
                        "{\"is\":\"end\",\"at\":-1}",
                        "{\"is\":\"end\",\"at\":1.5}",
                        "{\"is\":\"end\",\"at\":\"1\"}",
                        "{\"is\":\"end\",\"at\":18446744073709551615}",
                        "{\"is\":\"outside\",\"device\":1,\"at\":1,\"level\":70000}",
                        "{\"is\":\"dispatch\",\"device\":1,\"at\":1,\"wake\":1,\"grants\":1}",
                        "{\"is\":\"dispatch\",\"device\":1,\"at\":1,\"wake\":1,\"grants\":[1]}",
                        "{\"is\":\"dispatch\",\"device\":1,\"at\":1,\"wake\":1,\"grants\":[[1,\"walk\",0]]}",
                        "{\"is\":\"dispatch\",\"device\":1,\"at\":1,\"wake\":1,\"grants\":[[1,\"run\"]]}",
                        "{\"is\":\"dispatch\",\"device\":1,\"at\":1,\"wake\":1,\"grants\":[[1,\"run\",-1]]}",
                        "{\"is\":\"device\",\"device\":1,\"name\":2}",
                        "{\"is\":\"device\",\"device\":1,\"name\":\"\xff\xfe\"}",
        };
        const char *why;
        TapeRecord r;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (tape_read(bad[i], &r, &why) != -EBADMSG || isempty(why)) {
                        print_error("taken: %s\n", bad[i]);
                        fail();
                }
        assert_int_equal(tape_read("{\"is\":\"end\",\"at\":5,\"more\":[]}\n", &r, &why), 0);
        assert_int_equal(r.kind, TAPE_END);
        assert_int_equal(r.at_ns, 5);
        tape_record_done(&r);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_again),
                        cmocka_unit_test(test_differs),
                        cmocka_unit_test(test_impossible),
                        cmocka_unit_test(test_lost),
                        cmocka_unit_test(test_lines),
        };

        return cmocka_run_group_tests_name("tape", tests, NULL, NULL);
}
