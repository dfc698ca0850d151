/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Totals
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "totals.h"

#define MAGIC       UINT64_C(0x314c544f54445358) /* "XSDTOTL1", little endian */
#define COUNTER_MAX (UINT64_C(1) << 60)          /* 36 years of nanoseconds: sums of sums do not overflow */

struct TotalsEntry {
        TotalsSlot *slot;
        TotalsEntry *next; /* of the free ones */
        UT_hash_handle hh;
};

typedef struct TotalsHeader {
        uint64_t magic;
        uint32_t slot_size, n_slots;
        uint64_t check; /* of the slots; 0 in a table that is in use */
} TotalsHeader;

#define MAP_SIZE (sizeof(TotalsHeader) + TOTALS_MAX * sizeof(TotalsSlot))

static uint64_t check_of(const void *data, size_t size) {
        const uint8_t *p = data;
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < size; i++)
                h = (h ^ p[i]) * UINT64_C(0x100000001b3);
        return h ?: 1;
}

void totals_done(Totals *t) {
        HASH_CLEAR(hh, t->by_name);
        free(t->nodes);
        if (t->map)
                (void) munmap(t->map, MAP_SIZE);
        *t = TOTALS_NULL;
}

/* Maps the table with all entries in no list. */
static int totals_map(int fd, Totals *ret) {
        _cleanup_(totals_done)
        Totals t = {.nodes = calloc(TOTALS_MAX, sizeof(*t.nodes))};

        if (!t.nodes)
                return -ENOMEM;
        /* Allocates the whole file: writing to a page of the map that has no room on the device would end the
         * process. */
        if (fd >= 0) {
                errno = posix_fallocate(fd, 0, (off_t) MAP_SIZE);
                if (errno != 0)
                        return negative_errno();
        }
        void *map = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd,
                        0);
        if (map == MAP_FAILED)
                return negative_errno();
        t.map = map;
        t.slots = (TotalsSlot *) ((uint8_t *) map + sizeof(TotalsHeader));
        for (size_t i = 0; i < TOTALS_MAX; i++)
                t.nodes[i].slot = t.slots + i;
        *ret = TAKE_GENERIC(t, TOTALS_NULL);
        return 0;
}

int totals_new(int fd, Totals *ret) {
        Totals t = TOTALS_NULL;

        int r = totals_map(fd, &t);
        if (r < 0)
                return r;
        *(TotalsHeader *) t.map =
                        (TotalsHeader){.magic = MAGIC, .slot_size = sizeof(TotalsSlot), .n_slots = TOTALS_MAX};
        for (size_t i = TOTALS_MAX; i > 0; i--)
                LL_PREPEND(t.free, t.nodes + i - 1);
        *ret = t;
        return 0;
}

/* --- entries --- */

static TotalsEntry *find(const Totals *t, const char *name) {
        TotalsEntry *e;

        HASH_FIND_STR(t->by_name, name, e);
        return e;
}

static void release(Totals *t, TotalsEntry *e) {
        HASH_DEL(t->by_name, e);
        t->n_lasting -= e->slot->lasts;
        memset(e->slot, 0, sizeof(*e->slot));
        LL_PREPEND(t->free, e);
}

/* O(n), when there are TOTALS_LASTING_MAX units. */
static bool make_room(Totals *t) {
        TotalsEntry *e, *tmp, *oldest = NULL;

        if (t->n_lasting < TOTALS_LASTING_MAX)
                return true;
        HASH_ITER(hh, t->by_name, e, tmp)
                if (e->slot->lasts && (!oldest || e->slot->used_s < oldest->slot->used_s))
                        oldest = e;
        if (!oldest || oldest->slot->used_s == TOTALS_IN_USE)
                return false;
        release(t, oldest);
        return true;
}

static TotalsEntry *add(Totals *t, const char *name, bool lasts) {
        if (strlen(name) >= TOTALS_NAME_MAX)
                return NULL;
        /* Lasting entries and other entries have separate limits. */
        if (lasts ? !make_room(t) : HASH_COUNT(t->by_name) - t->n_lasting >= TOTALS_MAX - TOTALS_LASTING_MAX)
                return NULL;
        TotalsEntry *e = t->free;
        LL_DELETE(t->free, e);
        memcpy(e->slot->name, name, strlen(name) + 1);
        e->slot->lasts = lasts;
        t->n_lasting += lasts;
        HASH_ADD_KEYPTR(hh, t->by_name, e->slot->name, strlen(e->slot->name), e);
        return e;
}

TotalsSlot *totals_get(Totals *t, const char *name, bool lasts) {
        TotalsEntry *e = t->map ? find(t, name) : NULL;

        if (!t->map)
                return NULL;
        e = e ?: add(t, name, lasts);
        if (!e)
                return NULL;
        /* A group uses the entry now, so it is the last to be dropped. */
        e->slot->used_s = TOTALS_IN_USE;
        return e->slot;
}

void totals_leave(Totals *t, TotalsSlot *s, uint64_t now_s) {
        TotalsEntry *e = t->nodes + (s - t->slots);

        if (s->lasts)
                s->used_s = now_s;
        else
                release(t, e);
}

void totals_gc(Totals *t, bool (*is_used)(const char *name, void *userdata), void *userdata) {
        TotalsEntry *e, *tmp;

        HASH_ITER(hh, t->by_name, e, tmp)
                if (!e->slot->lasts && !is_used(e->slot->name, userdata))
                        release(t, e);
}

/* --- reading --- */

static bool counter_is_valid(uint64_t v) {
        return v < COUNTER_MAX;
}

static bool slot_is_valid(const TotalsSlot *s) {
        return memchr(s->name, '\0', sizeof(s->name)) && string_is_printable(s->name) && s->lasts <= 1 &&
                        (!s->lasts || !strchr(s->name, '/')) && s->source < _ACCOUNT_SOURCE_MAX &&
                        counter_is_valid(s->run_ns) && counter_is_valid(s->below_ns) && counter_is_valid(s->kept_ns) &&
                        counter_is_valid(s->wait_ns) && counter_is_valid(s->drain_wait_ns) &&
                        counter_is_valid(s->service_wait_ns) && counter_is_valid(s->n_preempted);
}

#define complain(why, ...) (void) snprintf(why, TOTALS_WHY_MAX, __VA_ARGS__)

int totals_load(Totals *t, const void *data, size_t size, uint64_t now_s, char why[static TOTALS_WHY_MAX]) {
        const uint8_t *bytes = data;
        TotalsHeader h;

        why[0] = '\0';
        if (size < sizeof(h)) {
                complain(why, "it is too short");
                return -EBADMSG;
        }
        memcpy(&h, bytes, sizeof(h));
        if (h.magic != MAGIC || h.slot_size != sizeof(TotalsSlot)) {
                complain(why, "it has no totals, or those of another version");
                return -EBADMSG;
        }
        bytes += sizeof(h), size -= sizeof(h);
        if (h.n_slots > TOTALS_MAX || size != h.n_slots * sizeof(TotalsSlot) ||
                        (h.check != 0 && h.check != check_of(bytes, size))) {
                complain(why, "it is damaged");
                return -EBADMSG;
        }
        for (uint32_t i = 0; i < h.n_slots; i++) {
                TotalsSlot s;

                memcpy(&s, bytes + i * sizeof(s), sizeof(s));
                if (s.name[0] == '\0')
                        continue;
                TotalsEntry *e = slot_is_valid(&s) && !find(t, s.name) ? add(t, s.name, s.lasts) : NULL;
                if (!e) {
                        complain(why, "entry %u is invalid", (unsigned) i);
                        continue;
                }
                memcpy((uint8_t *) e->slot + sizeof(s.name), (const uint8_t *) &s + sizeof(s.name),
                                sizeof(s) - sizeof(s.name));
                if (s.used_s > now_s)
                        e->slot->used_s = now_s; /* it was in use, or the clock was wrong */
        }
        return isempty(why) ? 0 : 1;
}

static bool may_have_entry(const Totals *t, const TotalsSlot *s) {
        unsigned n_passing = HASH_COUNT(t->by_name) - t->n_lasting;

        return slot_is_valid(s) && !find(t, s->name) &&
                        (s->lasts ? t->n_lasting < TOTALS_LASTING_MAX : n_passing < TOTALS_MAX - TOTALS_LASTING_MAX);
}

/* Takes the entries over in place, so that the file never has less than before. */
int totals_adopt(int fd, uint64_t now_s, Totals *ret) {
        TotalsHeader h;
        struct stat st;
        Totals t = TOTALS_NULL;

        if (fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode) || st.st_size != (off_t) MAP_SIZE ||
                        pread(fd, &h, sizeof(h), 0) != (ssize_t) sizeof(h) || h.magic != MAGIC ||
                        h.slot_size != sizeof(TotalsSlot) || h.n_slots != TOTALS_MAX || h.check != 0)
                return -EBADMSG;
        int r = totals_map(fd, &t);
        if (r < 0)
                return r;
        for (size_t i = TOTALS_MAX; i > 0; i--) {
                TotalsEntry *e = t.nodes + i - 1;

                if (e->slot->name[0] != '\0' && may_have_entry(&t, e->slot)) {
                        e->slot->used_s = MIN(e->slot->used_s, now_s); /* it was in use, or the clock was wrong */
                        t.n_lasting += e->slot->lasts;
                        HASH_ADD_KEYPTR(hh, t.by_name, e->slot->name, strlen(e->slot->name), e);
                        continue;
                }
                memset(e->slot, 0, sizeof(*e->slot));
                LL_PREPEND(t.free, e);
        }
        *ret = t;
        return 0;
}

int totals_print(const Totals *t, uint64_t now_s, char **ret, size_t *ret_size) {
        TotalsHeader h = {.magic = MAGIC, .slot_size = sizeof(TotalsSlot), .n_slots = t->n_lasting};
        size_t size = t->n_lasting * sizeof(TotalsSlot);
        const TotalsEntry *e, *tmp;

        char *text = calloc(1, sizeof(h) + size), *p = text;
        if (!text)
                return -ENOMEM;
        p += sizeof(h);
        HASH_ITER(hh, t->by_name, e, tmp)
                if (e->slot->lasts) {
                        TotalsSlot s = *e->slot;
                        s.used_s = MIN(s.used_s, now_s);
                        memcpy(p, &s, sizeof(s));
                        p += sizeof(s);
                }
        h.check = check_of(text + sizeof(h), size);
        memcpy(text, &h, sizeof(h));
        *ret = text;
        *ret_size = sizeof(h) + size;
        return 0;
}
