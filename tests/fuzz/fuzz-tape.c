/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any text as a tape, line by line into a player: accepted records are written again as they were read, and after any
 * refused record the player can be freed.
 */

#include <assert.h>

#include "tape/player.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Written, and read again. */
static void read_again(TapeText *t, const TapeRecord *r, TapeRecord *ret) {
        const char *why;

        tape_write(t, r);
        assert(!t->failed);
        char *line = strndup(t->data, t->n);
        assert(line && tape_read(line, ret, &why) >= 0);
        free(line);
}

/* Names that are no UTF-8 are others when they were written once, and the same from then on. */
static void check_same(const TapeRecord *r) {
        TapeText first = {0}, once = {0}, again = {0};
        TapeRecord copy, next;

        read_again(&first, r, &copy);
        read_again(&once, &copy, &next);
        tape_write(&again, &next);
        assert(again.n == once.n && memcmp(again.data, once.data, once.n) == 0);
        assert(r->name || r->group || (first.n == once.n && memcmp(first.data, once.data, once.n) == 0));
        tape_record_done(&copy);
        tape_record_done(&next);
        tape_text_done(&first);
        tape_text_done(&once);
        tape_text_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *text = strndup((const char *) data, size), *save = NULL;
        int r = 1;
        Player p;

        assert(text);
        player_init(&p, NULL, NULL);
        for (char *line = strtok_r(text, "\n", &save); line && r >= 0; line = strtok_r(NULL, "\n", &save)) {
                const char *why = NULL;
                TapeRecord record;

                r = tape_read(line, &record, &why);
                assert(r >= 0 || why);
                if (r < 0)
                        break;
                check_same(&record);
                r = player_play(&p, &record);
                assert(r == 1 || r == -ENOMEM || p.why[0] != '\0');
                tape_record_done(&record);
        }
        player_done(&p);
        free(text);
        return 0;
}
