/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as the file of stored settings
 *
 * What can be understood is within the ranges, and what is written of it reads the same.
 */

#include "service/settings/stored.h"
#include "tests/fuzz/fuzz-settings.h"

static void check_entries(const Stored *s) {
        const StoredEntry *e, *tmp;

        HASH_ITER(hh, s->entries, e, tmp) {
                require(stored_name_is_valid(e->name) && !settings_is_empty(&e->settings));
                check_settings(&e->settings);
        }
}

static void check_same(const Stored *a, const Stored *b) {
        const StoredEntry *e, *tmp;

        require(HASH_COUNT(a->entries) == HASH_COUNT(b->entries));
        HASH_ITER(hh, a->entries, e, tmp) {
                const Settings *other = stored_find(b, e->name);
                require(other && settings_is_equal(other, &e->settings));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Stored first = STORED_NULL, second = STORED_NULL;
        _cleanup_free_ char *text = malloc(size + 1), *printed = NULL;
        char why[STORED_WHY_MAX], why_second[STORED_WHY_MAX];
        size_t n = 0;

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        int r = stored_parse(&first, text, size, why);
        require(r == 0 || r == 1 || r == -EBADMSG);
        require((r == 0) == isempty(why));
        check_entries(&first);
        require(stored_print(&first, &printed, &n) == 0);
        require(stored_parse(&second, printed, n, why_second) == 0);
        check_same(&first, &second);
        stored_done(&first);
        stored_done(&second);
        return 0;
}
