/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A resource manager in memory: see fake-rm.h
 */

#include "fake-rm.h"
#include "fake-rm-things.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal/nvrm-abi.h"

#define FIRST_CLIENT 0xc1d00001U
#define LAST_CLIENT  0xc1dfffffU
#define FIRST_HANDLE 0x5c000001U

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
Name *fake_rm_names;
static Thing *things;
static uint32_t next_client = FIRST_CLIENT, next_handle = FIRST_HANDLE, fail_status;
static unsigned n_files, n_calls, fail_after;
static uint64_t progress[FAKE_RM_GPUS], changed_ns, cost_ns;
static bool strict;
static char version[64] = "580.159.04";
static void (*on_change)(void);
static _Atomic(FakeRmHook) on_call;

static uint64_t now(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static void enter(void);
static void leave(void);
static void leave_in_child(void);

/* Takes care of fork(): unlike here, no child finds a lock of a real kernel driver taken by a thread of its parent. */
static void init(void) {
        pthread_condattr_t a;

        pthread_atfork(enter, leave, leave_in_child);
        pthread_condattr_init(&a);
        pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &a);
        pthread_condattr_destroy(&a);
}

static void enter(void) {
        pthread_once(&once, init);
        pthread_mutex_lock(&lock);
}

static void leave(void) {
        pthread_mutex_unlock(&lock);
}

static void change(void) {
        changed_ns = now();
        pthread_cond_broadcast(&changed);
        if (on_change)
                on_change();
}

/* --- objects --- */

/* Whether there was ever a client of that number: a search asks for a million that there never were. */
static bool clients_seen[LAST_CLIENT - FIRST_CLIENT + 1];

Name *fake_rm_find(uint32_t client, uint32_t id) {
        if (client >= FIRST_CLIENT && client <= LAST_CLIENT && !clients_seen[client - FIRST_CLIENT])
                return NULL;
        for (Name *n = fake_rm_names; n; n = n->next)
                if (n->client == client && n->id == id)
                        return n;
        return NULL;
}

static bool client_is_on(int file, uint32_t client) {
        const Name *n = fake_rm_find(client, client);
        return n && n->file == file;
}

static Name *name_add(uint32_t client, uint32_t id, uint32_t parent, Thing *t) {
        Name *n = calloc(1, sizeof(*n));

        *n = (Name){.client = client, .id = id, .parent = parent, .thing = t, .next = fake_rm_names};
        if (client >= FIRST_CLIENT && client <= LAST_CLIENT)
                clients_seen[client - FIRST_CLIENT] = true;
        fake_rm_names = n;
        t->n_names++;
        return n;
}

static void thing_end(Thing *t) {
        for (Thing **p = &things; *p; p = &(*p)->next)
                if (*p == t) {
                        *p = t->next;
                        break;
                }
        for (Thing *o = things; o; o = o->next)
                if (o->group == t)
                        o->group = NULL;
        free(t);
}

static Name *name_first_child(const Name *n) {
        for (Name *c = fake_rm_names; c; c = c->next)
                if (c != n && c->client == n->client && c->parent == n->id)
                        return c;
        return NULL;
}

static void name_end(Name *n) {
        Name *child;

        while ((child = name_first_child(n)))
                name_end(child);
        for (Name **p = &fake_rm_names; *p; p = &(*p)->next)
                if (*p == n) {
                        *p = n->next;
                        break;
                }
        if (--n->thing->n_names == 0)
                thing_end(n->thing);
        free(n);
}

/* Counts up, and begins again behind the last number. */
static uint32_t new_client(void) {
        uint32_t c;

        do {
                c = next_client;
                next_client = c == LAST_CLIENT ? FIRST_CLIENT : c + 1;
        } while (fake_rm_find(c, c));
        return c;
}

static uint32_t alloc(int file, NvrmAllocShort *a) {
        const Name *parent = fake_rm_is_root(a->class) ? NULL : fake_rm_find(a->client, a->parent);

        if (!fake_rm_is_root(a->class) && !fake_rm_find(a->client, a->client))
                return NVRM_INVALID_OBJECT_HANDLE;
        if (!fake_rm_is_root(a->class) && !client_is_on(file, a->client))
                return NVRM_INVALID_CLIENT;
        if (!fake_rm_is_root(a->class) && !parent)
                return NVRM_OBJECT_NOT_FOUND;
        if (nvrm_class_is_channel(a->class) && parent->thing->class != NVRM_CLASS_CHANNEL_GROUP &&
                        parent->thing->class != NVRM_CLASS_DEVICE)
                return NVRM_INVALID_OBJECT_PARENT;
        if (a->object != 0 && fake_rm_find(a->client, a->object))
                return NVRM_INVALID_ARGUMENT;

        Thing *t = calloc(1, sizeof(*t));
        t->class = a->class;
        t->gpu = parent ? parent->thing->gpu : 0;
        if (a->class == NVRM_CLASS_DEVICE)
                memcpy(&t->gpu, (void *) (uintptr_t) a->parameters, sizeof(t->gpu));
        if (nvrm_class_is_channel(a->class) && parent->thing->class == NVRM_CLASS_CHANNEL_GROUP)
                t->group = parent->thing;
        t->next = things;
        things = t;
        if (fake_rm_is_root(a->class)) {
                a->object = a->object ?: new_client();
                name_add(a->object, a->object, 0, t)->file = file;
        } else {
                a->object = a->object ?: next_handle++;
                name_add(a->client, a->object, a->parent, t);
        }
        return NVRM_OK;
}

static uint32_t dup_object(int file, NvrmDup *a) {
        const Name *from = fake_rm_find(a->from_client, a->from_object);

        if (!client_is_on(file, a->client))
                return NVRM_INVALID_CLIENT;
        if (!from || fake_rm_is_root(from->thing->class))
                return NVRM_OBJECT_NOT_FOUND;
        if (!fake_rm_find(a->client, a->parent))
                return NVRM_INVALID_OBJECT_PARENT;
        a->object = a->object ?: next_handle++;
        name_add(a->client, a->object, a->parent, from->thing);
        return NVRM_OK;
}

static uint32_t free_object(int file, const NvrmFree *a) {
        Name *n = fake_rm_find(a->client, a->object);

        if (!client_is_on(file, a->client))
                return NVRM_INVALID_CLIENT;
        if (!n)
                return NVRM_OBJECT_NOT_FOUND;
        name_end(n);
        change();
        return NVRM_OK;
}

/* --- controls --- */

static void wait_until(uint64_t ns) {
        struct timespec ts = {.tv_sec = (time_t) (ns / 1000000000), .tv_nsec = (long) (ns % 1000000000)};

        pthread_cond_timedwait(&changed, &lock, &ts);
}

static uint32_t channel_able(Thing *t, bool disable, uint32_t gpu) {
        if (t->gpu != gpu)
                return NVRM_INVALID_ARGUMENT;
        if (strict && !t->scheduled && !(t->group && t->group->scheduled))
                return NVRM_INVALID_STATE;
        if (!disable && t->refusals > 0) {
                t->refusals--;
                return t->refusal;
        }
        if (disable)
                t->disabled++;
        else if (t->disabled > 0 && --t->disabled == 0)
                t->stands = false;
        return NVRM_OK;
}

/* A call that failed has disabled it, and did not count that. */
static void channel_forget(Thing *t) {
        t->stands = true;
        t->disabled--;
}

static void forget(const Name *n) {
        if (nvrm_class_is_channel(n->thing->class))
                channel_forget(n->thing);
        for (Thing *t = things; t; t = t->next)
                if (t->group == n->thing)
                        channel_forget(t);
}

/* A group stands for its channels. */
static uint32_t able(const NvrmDisableChannels *d, uint32_t i, uint32_t gpu) {
        const Name *n = fake_rm_find(d->clients[i], d->channels[i]);
        uint32_t status = NVRM_OK;

        if (fail_status && fail_after-- == 0) {
                status = fail_status;
                fail_status = 0;
                return status;
        }
        if (n && nvrm_class_is_channel(n->thing->class))
                return channel_able(n->thing, d->disable, gpu);
        if (!n || n->thing->class != NVRM_CLASS_CHANNEL_GROUP)
                return NVRM_INVALID_CHANNEL;
        for (Thing *t = things; t && status == NVRM_OK; t = t->next)
                if (t->group == n->thing)
                        status = channel_able(t, d->disable, gpu);
        return status;
}

static uint32_t disable_channels(const NvrmDisableChannels *d, uint32_t gpu) {
        uint32_t status = NVRM_OK;

        n_calls++;
        if (d->event != 0)
                return NVRM_INSUFFICIENT_PERMISSIONS;
        if (d->n == 0)
                return NVRM_INVALID_PARAM_STRUCT;
        if (d->n > NVRM_CHANNELS_MAX)
                return NVRM_INVALID_ARGUMENT;
        for (uint64_t end = now() + cost_ns; now() < end;)
                wait_until(end); /* others go on meanwhile */
        uint32_t i = 0;
        while (i < d->n && (status = able(d, i, gpu)) == NVRM_OK)
                i++;
        while (status != NVRM_OK && d->disable && i-- > 0)
                forget(fake_rm_find(d->clients[i], d->channels[i]));
        change();
        return status;
}

static uint32_t schedule(const Name *n) {
        n->thing->scheduled = true;
        for (Thing *t = things; t; t = t->next)
                if (t->group == n->thing)
                        t->scheduled = true;
        change();
        return NVRM_OK;
}

static uint32_t control(int file, const NvrmControl *c) {
        const Name *n = fake_rm_find(c->client, c->object);
        void *p = (void *) (uintptr_t) c->parameters;

        if (c->command == NVRM_CMD_DISABLE_CHANNELS && c->parameters_size != sizeof(NvrmDisableChannels))
                return NVRM_INVALID_ARGUMENT;
        if (!client_is_on(file, c->client))
                return NVRM_INVALID_CLIENT;
        if (!n)
                return NVRM_OBJECT_NOT_FOUND;
        uint32_t class = n->thing->class;
        if (c->command == NVRM_CMD_DISABLE_CHANNELS && class == NVRM_CLASS_SUBDEVICE)
                return disable_channels(p, n->thing->gpu);
        if (fake_rm_is_root(class) && c->parameters_size == fake_rm_question_size(c->command))
                return fake_rm_question(n, c->command, p);
        if (c->command == NVRM_CMD_GPU_GET_ID && class == NVRM_CLASS_SUBDEVICE &&
                        c->parameters_size == sizeof(NvrmGpuId)) {
                *(NvrmGpuId *) p = (NvrmGpuId){.gpu_id = (n->thing->gpu + 1) << 8};
                return NVRM_OK;
        }
        if (c->command == NVRM_CMD_GROUP_SET_SLICE && class == NVRM_CLASS_CHANNEL_GROUP &&
                        c->parameters_size == sizeof(NvrmSlice)) {
                n->thing->slice_usec = ((NvrmSlice *) p)->usec;
                return NVRM_OK;
        }
        if ((c->command == NVRM_CMD_GROUP_SCHEDULE && class == NVRM_CLASS_CHANNEL_GROUP) ||
                        (c->command == NVRM_CMD_CHANNEL_SCHEDULE && nvrm_class_is_channel(class)))
                return schedule(n);
        return NVRM_NOT_SUPPORTED;
}

/* --- calls --- */

int fake_rm_open(void) {
        enter();
        int file = (int) ++n_files;
        leave();
        return file;
}

void fake_rm_close(int file) {
        enter();
        for (Name *n = fake_rm_names, *next; n; n = next) {
                next = n->next;
                if (fake_rm_is_root(n->thing->class) && n->file == file) {
                        name_end(n);
                        next = fake_rm_names;
                }
        }
        change();
        leave();
}

static int call_locked(int file, unsigned nr, size_t size, void *argument) {
        NvrmAlloc *l = argument;
        NvrmVersion *v = argument;

        if (nr == NVRM_NR_ALLOC && size == sizeof(NvrmAllocShort)) {
                NvrmAllocShort *a = argument;
                a->status = alloc(file, a);
        } else if (nr == NVRM_NR_ALLOC && size == sizeof(NvrmAlloc)) {
                NvrmAllocShort a = {};
                memcpy(&a, l, offsetof(NvrmAllocShort, parameters_size));
                l->status = alloc(file, &a);
                l->object = a.object;
        } else if (nr == NVRM_NR_FREE && size == sizeof(NvrmFree))
                ((NvrmFree *) argument)->status = free_object(file, argument);
        else if (nr == NVRM_NR_CONTROL && size == sizeof(NvrmControl))
                ((NvrmControl *) argument)->status = control(file, argument);
        else if (nr == NVRM_NR_DUP && size == sizeof(NvrmDup))
                ((NvrmDup *) argument)->status = dup_object(file, argument);
        else if (nr == NVRM_NR_VERSION && size == sizeof(*v)) {
                v->reply = 1;
                memcpy(v->text, version, sizeof(version));
        } else if (nr == NVRM_NR_LARGE && size == sizeof(NvrmLarge)) {
                const NvrmLarge *x = argument;
                return call_locked(file, x->nr, x->size, (void *) (uintptr_t) x->argument);
        } else
                return -EINVAL;
        return 0;
}

static uint32_t *hooked_status(unsigned nr, size_t size, void *argument) {
        NvrmControl *c = argument;

        if (nr == NVRM_NR_FREE && size == sizeof(NvrmFree))
                return &((NvrmFree *) argument)->status;
        return nr == NVRM_NR_CONTROL && size == sizeof(*c) && c->command == NVRM_CMD_DISABLE_CHANNELS ? &c->status
                                                                                                      : NULL;
}

int fake_rm_call(int file, unsigned nr, size_t size, void *argument) {
        FakeRmHook hook = on_call;
        uint32_t *status = hook ? hooked_status(nr, size, argument) : NULL;

        if (status && (*status = hook(nr, true)) != NVRM_OK)
                return 0;
        enter();
        int r = call_locked(file, nr, size, argument);
        leave();
        if (status)
                (void) hook(nr, false);
        return r;
}

/* --- work --- */

static bool thing_runs(const Thing *channel) {
        bool scheduled = channel->scheduled || (channel->group && channel->group->scheduled);

        return scheduled && channel->disabled == 0 && !channel->stands;
}

/* A thread that does a channel's work, until the next change. */
typedef struct Run {
        uint64_t before; /* changed_ns when it began */
        struct Run *next;
} Run;

static Run *at_work;
static pthread_cond_t caught_up = PTHREAD_COND_INITIALIZER;

static void run_end(const Run *run) {
        for (Run **r = &at_work; *r; r = &(*r)->next)
                if (*r == run) {
                        *r = run->next;
                        break;
                }
        pthread_cond_broadcast(&caught_up);
}

static void leave_in_child(void) {
        at_work = NULL; /* of threads that it has not */
        leave();
}

bool fake_rm_runs(uint32_t client, uint32_t channel) {
        enter();
        const Name *n = fake_rm_find(client, channel);
        bool runs = n && thing_runs(n->thing);
        leave();
        return runs;
}

void fake_rm_run(uint32_t client, uint32_t channel, uint64_t ns) {
        const Name *n;

        enter();
        while ((n = fake_rm_find(client, channel))) {
                uint32_t gpu = n->thing->gpu;
                if (!thing_runs(n->thing)) {
                        pthread_cond_wait(&changed, &lock);
                        continue;
                }
                if (ns == 0)
                        break;
                uint64_t start = now(), end = start + ns, before = changed_ns;
                Run run = {.before = before, .next = at_work};
                at_work = &run;
                wait_until(end);
                run_end(&run);
                /* The work since the change does not count. */
                uint64_t at = changed_ns != before && changed_ns > start ? changed_ns : now();
                uint64_t did = at - start < ns ? at - start : ns;
                ns -= did;
                progress[gpu] += did;
        }
        leave();
}

/* Work from before a change is counted when its thread runs again, which may take a while on a busy machine. */
static bool any_is_behind(void) {
        for (const Run *r = at_work; r; r = r->next)
                if (r->before != changed_ns)
                        return true;
        return false;
}

uint64_t fake_rm_progress(unsigned gpu) {
        enter();
        while (any_is_behind())
                pthread_cond_wait(&caught_up, &lock);
        uint64_t p = progress[gpu % FAKE_RM_GPUS];
        leave();
        return p;
}

/* --- for tests --- */

void fake_rm_fail(unsigned after, uint32_t status) {
        enter();
        fail_after = after;
        fail_status = status;
        leave();
}

void fake_rm_refuse(uint32_t client, uint32_t channel, uint32_t status, unsigned times) {
        enter();
        const Name *n = fake_rm_find(client, channel);
        if (n) {
                n->thing->refusal = status;
                n->thing->refusals = times;
        }
        leave();
}

void fake_rm_on_call(FakeRmHook f) {
        on_call = f;
}

static bool any_is_disabled(void) {
        for (const Thing *t = things; t; t = t->next)
                if (nvrm_class_is_channel(t->class) && (t->disabled > 0 || t->stands))
                        return true;
        return false;
}

void fake_rm_wait_enabled(void) {
        enter();
        while (any_is_disabled())
                pthread_cond_wait(&changed, &lock);
        leave();
}

void fake_rm_be_strict(void) {
        strict = true;
}

void fake_rm_set_version(const char *text) {
        (void) snprintf(version, sizeof(version), "%s", text);
}

void fake_rm_set_next_client(uint32_t client) {
        enter();
        next_client = client;
        leave();
}

void fake_rm_set_cost(uint64_t ns) {
        cost_ns = ns;
}

unsigned fake_rm_calls(void) {
        enter();
        unsigned n = n_calls;
        leave();
        return n;
}

unsigned fake_rm_disabled(uint32_t count) {
        unsigned n = 0;

        enter();
        for (const Thing *t = things; t; t = t->next)
                n += nvrm_class_is_channel(t->class) && t->disabled == count && !t->stands;
        leave();
        return n;
}

unsigned fake_rm_sliced(uint64_t usec) {
        unsigned n = 0;

        enter();
        for (const Thing *t = things; t; t = t->next)
                n += t->slice_usec == usec && t->class == NVRM_CLASS_CHANNEL_GROUP;
        leave();
        return n;
}

void fake_rm_on_change(void (*f)(void)) {
        on_change = f;
}
