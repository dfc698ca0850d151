/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A policy under test on a tape, and played again
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tape-check.h"

static void on_record(const TapeRecord *r, void *userdata) {
        TapeCheck *c = userdata;

        tape_write(&c->text, r);
        c->n_records++;
        c->n_grants += r->n_grants;
}

static void on_label(void *owner, TapeRecord *r) {
        const Job *j = owner;

        r->group = (char *) "/a \"strange\\\" name\n\x80";
        r->pid = (uint64_t) j->settings.weight;
}

static const TapeFeedOps feed_ops = {.record = on_record, .label = on_label};

void tape_check_begin(TapeCheck *c, Harness *h) {
        const TapeRecord begin = {.kind = TAPE_BEGIN, .version = TAPE_VERSION, .at_ns = h->now_ns};
        const TapeRecord device = {.kind = TAPE_DEVICE, .device = 1, .name = (char *) "pci:0000:03:00.0"};

        *c = (TapeCheck){0};
        on_record(&begin, c);
        on_record(&device, c);
        tape_feed_init(&c->feed, 1, &feed_ops, c);
        tape_feed_begin(&c->feed, h->policy, h->ops, &h->config, h->now_ns);
}

char *tape_check_line(const TapeCheck *c, size_t n) {
        const char *line = c->text.data, *end = c->text.data + c->text.n;

        for (; n > 0 && line < end; n--)
                line = (const char *) memchr(line, '\n', (size_t) (end - line)) + 1;
        if (line >= end)
                return NULL;
        return strndup(line, (size_t) ((const char *) memchr(line, '\n', (size_t) (end - line)) + 1 - line));
}

/* Checks that the record read from the line is the one that was written. */
static void check_same(const TapeRecord *r, const char *line) {
        TapeText again = {0};

        tape_write(&again, r);
        assert_int_equal(again.n, strlen(line));
        assert_memory_equal(again.data, line, again.n);
        tape_text_done(&again);
}

static void play_line(Player *p, char *line) {
        const char *why;
        TapeRecord r;

        assert_int_equal(tape_read(line, &r, &why), 0);
        if (r.kind != TAPE_ENTITY) /* an entity's name is not UTF-8, and is read back differently */
                check_same(&r, line);
        int result = player_play(p, &r);
        if (result != 1) {
                print_error("record %llu: %s\n%s", (unsigned long long) p->n_records, p->why, line);
                fail();
        }
        tape_record_done(&r);
}

void tape_check_end(TapeCheck *c) {
        _cleanup_free_ char *copy = NULL;
        Player p;

        assert_false(c->text.failed);
        copy = strndup(c->text.data, c->text.n);
        assert_non_null(copy);
        player_init(&p, NULL, NULL);
        /* By what is left, as strict sanitizers have strchr() read all of it for each line. */
        for (char *line = copy, *end; *line; line = end) {
                char first;

                end = (char *) memchr(line, '\n', (size_t) (copy + c->text.n - line)) + 1;
                first = *end;
                *end = '\0';
                play_line(&p, line);
                *end = first;
        }
        assert_int_equal(p.n_records, c->n_records);
        assert_int_equal(p.n_grants, c->n_grants);
        player_done(&p);
        tape_text_done(&c->text);
        tape_feed_done(&c->feed);
}
