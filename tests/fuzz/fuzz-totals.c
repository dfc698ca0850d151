/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as a file of totals
 *
 * Accepted values are within their bounds, and are the same after they were written and read again. If the first byte
 * says so, the file's checksum is corrected, so that the code behind that check is reached.
 */

#include "service/core/totals.h"
#include "tests/fuzz/fuzz-settings.h"

#define NOW 1000

static uint64_t check_of(const uint8_t *p, size_t size) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < size; i++)
                h = (h ^ p[i]) * UINT64_C(0x100000001b3);
        return h ?: 1;
}

static void check_slots(const Totals *t) {
        size_t n = 0;

        for (size_t i = 0; i < TOTALS_MAX; i++) {
                const TotalsSlot *s = t->slots + i;
                require(memchr(s->name, '\0', sizeof(s->name)));
                require(s->run_ns < UINT64_MAX / 8 && s->below_ns < UINT64_MAX / 8 && s->source < _ACCOUNT_SOURCE_MAX);
                require(s->used_s <= NOW && s->lasts <= 1);
                n += s->lasts;
        }
        require(n == t->n_lasting && n <= TOTALS_LASTING_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Totals first, second;
        _cleanup_free_ char *printed = NULL, *again = NULL;
        char why[TOTALS_WHY_MAX];
        size_t n = 0, m = 0;

        if (size == 0)
                return 0;
        size_t length = size - 1;
        _cleanup_free_ uint8_t *bytes = malloc(length + 1);
        require(bytes);
        memcpy(bytes, data + 1, length);
        if (data[0] & 1 && length >= 24) {
                uint32_t n_slots = (uint32_t) ((length - 24) / sizeof(TotalsSlot));
                length = 24 + n_slots * sizeof(TotalsSlot);
                memcpy(bytes + 12, &n_slots, sizeof(n_slots));
                uint64_t check = check_of(bytes + 24, length - 24);
                memcpy(bytes + 16, &check, sizeof(check));
        }
        require(totals_new(-1, &first) == 0 && totals_new(-1, &second) == 0);
        int r = totals_load(&first, bytes, length, NOW, why);
        require(r == 0 || r == 1 || r == -EBADMSG);
        require((r == 0) == isempty(why));
        check_slots(&first);
        require(totals_print(&first, NOW, &printed, &n) == 0);
        require(totals_load(&second, printed, n, NOW, why) == 0);
        check_slots(&second);
        require(totals_print(&second, NOW, &again, &m) == 0);
        require(n == m && memcmp(printed, again, n) == 0);
        totals_done(&first);
        totals_done(&second);
        return 0;
}
