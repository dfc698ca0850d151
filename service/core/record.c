/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The record
 *
 * Additions are summed up by device and group in a table. The groups that a frame names are chosen when it ends,
 * because only then the largest are known.
 */

#include <limits.h>

#include "record.h"

#define PENDING_DEVICES_MAX (4 * RECORD_DEVICES_MAX)

/* Memory of one user's names and pending groups. */
typedef struct RecordUser {
        uint64_t user;
        unsigned n_names, n_pending;
        UT_hash_handle hh;
} RecordUser;

typedef struct PendingGroup {
        uint64_t user;
        uint64_t us[_RECORD_TIME_MAX];
        unsigned device; /* its place among the pending ones */
        unsigned rank;   /* among the user's own */
        const char *group;
        UT_hash_handle hh;
        size_t key_size;
        char key[]; /* DEVICE NUL GROUP */
} PendingGroup;

typedef struct PendingDevice {
        uint64_t user;
        uint64_t us[_RECORD_USE_MAX], others[_RECORD_TIME_MAX];
        unsigned rank;
        bool has_others, taken;
        RecordName *name;
        char *id;
} PendingDevice;

struct Record {
        RecordFrame *frames[RECORD_FRAMES_MAX]; /* a ring */
        size_t first, n;
        RecordName *names; /* uthash, by text */
        RecordUser *users; /* uthash */
        uint64_t begin_us;

        PendingGroup *pending; /* uthash, by key */
        PendingDevice devices[PENDING_DEVICES_MAX];
        unsigned n_devices;
};

/* --- users and names --- */

static RecordUser *record_user_get(Record *r, uint64_t user) {
        RecordUser *u;

        HASH_FIND(hh, r->users, &user, sizeof(user), u);
        if (u)
                return u;
        u = calloc(1, sizeof(*u));
        if (!u)
                return NULL;
        u->user = user;
        HASH_ADD(hh, r->users, user, sizeof(u->user), u);
        return u;
}

static void record_user_gc(Record *r, RecordUser *u) {
        if (u->n_names > 0 || u->n_pending > 0)
                return;
        HASH_DEL(r->users, u);
        free(u);
}

static void name_unref(Record *r, RecordName *n) {
        RecordUser *u;

        if (!n || --n->n_refs > 0)
                return;
        HASH_FIND(hh, r->users, &n->user, sizeof(n->user), u);
        if (u) {
                u->n_names--;
                record_user_gc(r, u);
        }
        HASH_DEL(r->names, n);
        free(n);
}

/* Returns NULL when there are too many names. */
static RecordName *record_name_get(Record *r, const char *text, uint64_t user) {
        size_t length = strlen(text);
        RecordUser *u;
        RecordName *n;

        HASH_FIND(hh, r->names, text, length, n);
        if (n) {
                n->n_refs++;
                return n;
        }
        u = record_user_get(r, user);
        if (!u || u->n_names >= RECORD_USER_NAMES_MAX || HASH_COUNT(r->names) >= RECORD_NAMES_MAX)
                return NULL;
        n = malloc(sizeof(*n) + length + 1);
        if (!n) {
                record_user_gc(r, u);
                return NULL;
        }
        *n = (RecordName){.user = user, .n_refs = 1};
        memcpy(n->text, text, length + 1);
        HASH_ADD_KEYPTR(hh, r->names, n->text, length, n);
        u->n_names++;
        return n;
}

/* --- what is added --- */

static unsigned record_device_get(Record *r, const char *id, uint64_t user) {
        for (unsigned i = 0; i < r->n_devices; i++)
                if (streq(r->devices[i].id, id))
                        return i;
        char *copy = r->n_devices < PENDING_DEVICES_MAX && strlen(id) <= RECORD_NAME_LEN_MAX ? strdup(id) : NULL;
        if (!copy)
                return UINT_MAX;
        r->devices[r->n_devices] = (PendingDevice){.id = copy, .user = user};
        return r->n_devices++;
}

static void add_times(uint64_t *sum, const uint64_t *us, size_t n) {
        for (size_t i = 0; i < n; i++)
                sum[i] += us[i];
}

static void add_others(PendingDevice *d, const uint64_t *us) {
        d->has_others = true;
        add_times(d->others, us, _RECORD_TIME_MAX);
}

/* Returns NULL when the group counts among "others". */
static PendingGroup *pending_get(Record *r, unsigned device, const char *id, const char *group, uint64_t user) {
        size_t head = strlen(id) + 1, size = head + strlen(group);
        char key[2 * (RECORD_NAME_LEN_MAX + 1)];
        PendingGroup *p;
        RecordUser *u;

        if (size > head + RECORD_NAME_LEN_MAX || isempty(group))
                return NULL;
        memcpy(key, id, head);
        memcpy(key + head, group, size - head + 1);
        HASH_FIND(hh, r->pending, key, size, p);
        if (p || HASH_COUNT(r->pending) >= RECORD_PENDING_MAX)
                return p;
        u = record_user_get(r, user);
        if (!u || u->n_pending >= RECORD_USER_GROUPS_MAX)
                return NULL;
        p = malloc(sizeof(*p) + size + 1);
        if (!p) {
                record_user_gc(r, u);
                return NULL;
        }
        *p = (PendingGroup){.user = user, .device = device, .key_size = size};
        memcpy(p->key, key, size + 1);
        p->group = p->key + head;
        HASH_ADD_KEYPTR(hh, r->pending, p->key, size, p);
        u->n_pending++;
        return p;
}

static bool is_anything(const uint64_t *us, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (us[i] > 0)
                        return true;
        return false;
}

void record_add(Record *r, const char *device, const char *group, uint64_t user,
                const uint64_t us[static _RECORD_TIME_MAX]) {
        if (!is_anything(us, _RECORD_TIME_MAX))
                return;
        unsigned i = record_device_get(r, device, user);
        if (i == UINT_MAX)
                return;
        PendingGroup *p = pending_get(r, i, device, group, user);
        if (p)
                add_times(p->us, us, _RECORD_TIME_MAX);
        else
                add_others(r->devices + i, us);
}

void record_add_device(Record *r, const char *device, uint64_t user, const uint64_t us[static _RECORD_USE_MAX]) {
        if (!is_anything(us, _RECORD_USE_MAX))
                return;
        unsigned i = record_device_get(r, device, user);
        if (i == UINT_MAX)
                return;
        r->devices[i].user = user;
        add_times(r->devices[i].us, us, _RECORD_USE_MAX);
}

/* --- groups that are named --- */

static int compare(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

static uint64_t pending_amount(const PendingGroup *p) {
        return p->us[RECORD_RUN] + p->us[RECORD_KEPT] + p->us[RECORD_WAIT];
}

static uint64_t device_amount(const PendingDevice *d) {
        return d->us[RECORD_BUSY] + d->us[RECORD_DEVICE_KEPT] + d->others[RECORD_RUN];
}

static int compare_by_user(const void *a, const void *b) {
        const PendingGroup *x = *(PendingGroup *const *) a, *y = *(PendingGroup *const *) b;
        int c = compare(x->user, y->user);

        return c != 0 ? c : compare(pending_amount(y), pending_amount(x));
}

static int compare_by_rank(const void *a, const void *b) {
        const PendingGroup *x = *(PendingGroup *const *) a, *y = *(PendingGroup *const *) b;
        int c = compare(x->rank, y->rank);

        return c != 0 ? c : compare(pending_amount(y), pending_amount(x));
}

static int compare_by_device(const void *a, const void *b) {
        const PendingGroup *x = *(PendingGroup *const *) a, *y = *(PendingGroup *const *) b;
        int c = compare(x->device, y->device);

        return c != 0 ? c : compare(pending_amount(y), pending_amount(x));
}

static int compare_devices_by_user(const void *a, const void *b) {
        const PendingDevice *x = *(PendingDevice *const *) a, *y = *(PendingDevice *const *) b;
        int c = compare(x->user, y->user);

        return c != 0 ? c : compare(device_amount(y), device_amount(x));
}

static int compare_devices_by_rank(const void *a, const void *b) {
        const PendingDevice *x = *(PendingDevice *const *) a, *y = *(PendingDevice *const *) b;
        int c = compare(x->rank, y->rank);

        return c != 0 ? c : compare(device_amount(y), device_amount(x));
}

/* Chooses the devices that the frame has. Returns their number. */
static unsigned choose_devices(Record *r) {
        PendingDevice *order[PENDING_DEVICES_MAX];
        unsigned n = 0;

        for (unsigned i = 0; i < r->n_devices; i++)
                order[i] = r->devices + i;
        qsort(order, r->n_devices, sizeof(*order), compare_devices_by_user);
        for (unsigned i = 0; i < r->n_devices; i++)
                order[i]->rank = i > 0 && order[i - 1]->user == order[i]->user ? order[i - 1]->rank + 1 : 0;
        qsort(order, r->n_devices, sizeof(*order), compare_devices_by_rank);
        for (unsigned i = 0; i < r->n_devices && n < RECORD_DEVICES_MAX; i++) {
                order[i]->name = record_name_get(r, order[i]->id, order[i]->user);
                order[i]->taken = order[i]->name;
                n += order[i]->taken;
        }
        return n;
}

/* Puts the groups that are named at the beginning of `order`, sorted by device, and returns how many they are. */
static unsigned choose_groups(Record *r, PendingGroup **order, RecordName **names) {
        unsigned n = 0, n_named = 0;

        for (PendingGroup *p = r->pending; p; p = p->hh.next)
                if (r->devices[p->device].taken)
                        order[n++] = p;
        qsort(order, n, sizeof(*order), compare_by_user);
        for (unsigned i = 0; i < n; i++)
                order[i]->rank = i > 0 && order[i - 1]->user == order[i]->user ? order[i - 1]->rank + 1 : 0;
        qsort(order, n, sizeof(*order), compare_by_rank);
        for (unsigned i = 0; i < n; i++) {
                PendingGroup *p = order[i];
                RecordName *name = n_named < RECORD_GROUPS_MAX ? record_name_get(r, p->group, p->user) : NULL;

                if (name)
                        order[n_named++] = p;
                else
                        add_others(r->devices + p->device, p->us);
        }
        qsort(order, n_named, sizeof(*order), compare_by_device);
        for (unsigned i = 0; i < n_named; i++)
                HASH_FIND(hh, r->names, order[i]->group, strlen(order[i]->group), names[i]);
        return n_named;
}

static void add_frame_group(RecordFrame *f, RecordDevice *d, RecordName *name, const uint64_t *us) {
        RecordGroup *g = f->groups + f->n_groups++;

        g->name = name;
        memcpy(g->us, us, sizeof(g->us));
        d->n++;
}

static RecordFrame *frame_new(Record *r, unsigned n_devices, PendingGroup *const *order, RecordName *const *names,
                unsigned n_groups) {
        size_t head = sizeof(RecordFrame) + (n_groups + n_devices) * sizeof(RecordGroup);
        RecordFrame *f = malloc(head + n_devices * sizeof(RecordDevice));
        unsigned k = 0;

        if (!f)
                return NULL;
        *f = (RecordFrame){.n_refs = 1, .begin_us = r->begin_us};
        f->devices = (RecordDevice *) (void *) ((char *) f + head);
        for (unsigned i = 0; i < r->n_devices; i++) {
                PendingDevice *p = r->devices + i;
                if (!p->taken)
                        continue;
                RecordDevice *d = f->devices + f->n_devices++;
                *d = (RecordDevice){.name = TAKE_PTR(p->name), .first = f->n_groups};
                memcpy(d->us, p->us, sizeof(d->us));
                for (; k < n_groups && order[k]->device == i; k++)
                        add_frame_group(f, d, names[k], order[k]->us);
                if (p->has_others)
                        add_frame_group(f, d, NULL, p->others);
        }
        return f;
}

static void pending_clear(Record *r) {
        PendingGroup *p, *tmp;

        HASH_ITER(hh, r->pending, p, tmp) {
                RecordUser *u;

                HASH_FIND(hh, r->users, &p->user, sizeof(p->user), u);
                if (u) {
                        u->n_pending--;
                        record_user_gc(r, u);
                }
                HASH_DEL(r->pending, p);
                free(p);
        }
        for (unsigned i = 0; i < r->n_devices; i++) {
                name_unref(r, r->devices[i].name);
                free(r->devices[i].id);
        }
        r->n_devices = 0;
}

static RecordFrame *make_frame(Record *r) {
        PendingGroup *order[RECORD_PENDING_MAX];
        RecordName *names[RECORD_PENDING_MAX];
        unsigned n_devices = choose_devices(r), n_groups = choose_groups(r, order, names);
        RecordFrame *f = frame_new(r, n_devices, order, names, n_groups);

        for (unsigned i = 0; !f && i < n_groups; i++)
                name_unref(r, names[i]);
        pending_clear(r);
        return f;
}

/* --- the ring --- */

static void drop_first(Record *r) {
        record_unref(r, r->frames[r->first]);
        r->first = (r->first + 1) % RECORD_FRAMES_MAX;
        r->n--;
}

void record_end(Record *r, uint64_t now_us) {
        if (now_us <= r->begin_us)
                return;
        RecordFrame *f = r->n_devices > 0 ? make_frame(r) : NULL;
        if (f) {
                f->end_us = now_us;
                if (r->n == RECORD_FRAMES_MAX)
                        drop_first(r);
                r->frames[(r->first + r->n++) % RECORD_FRAMES_MAX] = f;
        }
        r->begin_us = now_us;
        while (r->n > 0 && now_us - r->frames[r->first]->end_us > RECORD_SPAN_US)
                drop_first(r);
}

uint64_t record_begin_us(const Record *r) {
        return r->begin_us;
}

int record_get(const Record *r, uint64_t since_us, RecordFrame ***ret, size_t *ret_n) {
        RecordFrame **frames = malloc(MAX(r->n, (size_t) 1) * sizeof(*frames));
        size_t n = 0;

        if (!frames)
                return -ENOMEM;
        for (size_t i = 0; i < r->n; i++) {
                RecordFrame *f = r->frames[(r->first + i) % RECORD_FRAMES_MAX];
                if (f->end_us <= since_us)
                        continue;
                f->n_refs++;
                frames[n++] = f;
        }
        *ret = frames;
        *ret_n = n;
        return 0;
}

RecordFrame *record_unref(Record *r, RecordFrame *f) {
        if (!f || --f->n_refs > 0)
                return NULL;
        for (unsigned i = 0; i < f->n_groups; i++)
                name_unref(r, f->groups[i].name);
        for (unsigned i = 0; i < f->n_devices; i++)
                name_unref(r, f->devices[i].name);
        free(f);
        return NULL;
}

/* --- life --- */

Record *record_new(uint64_t now_us) {
        Record *r = calloc(1, sizeof(*r));

        if (r)
                r->begin_us = now_us;
        return r;
}

Record *record_free(Record *r) {
        if (!r)
                return NULL;
        while (r->n > 0)
                drop_first(r);
        pending_clear(r);
        free(r);
        return NULL;
}
