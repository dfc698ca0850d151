/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of the driver's objects: see cuda-rm.h
 */

#include "shim/cuda/cuda-rm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "shim/cuda/cuda-version.h"

#define DEPTH_MAX 8U /* a client, a device, a group and a channel are four */

typedef struct Object {
        uint32_t client, id, parent, class;
        int fd;           /* of a client */
        uint32_t engine;  /* of a group: NVRM_ENGINE_* */
        bool leaving;     /* is being freed */
        bool scheduled;   /* of a group or channel: the driver was told to */
        CudaGpu *gpu;     /* of what has channels; NULL: not known yet */
        NvrmHalQueue hal; /* of what has channels: a group, or a channel that is in none */
        NvrmChannel channel;
        struct Object *same; /* of a copy: the first of its names */
        struct Object *next;
} Object;

static pthread_mutex_t rm_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool rm_locked __attribute__((tls_model("initial-exec")));
static _Atomic pid_t owner;
static _Atomic bool any_stopped;
static Object *objects;
static CudaGpu *gpus;
static HalQueue **batch; /* has room for all objects */
static size_t n_objects, batch_size;

bool cuda_rm_lock(void) {
        if (rm_locked)
                return false;
        rm_locked = true;
        (void) pthread_mutex_lock(&rm_mutex);
        return true;
}

void cuda_rm_unlock(void) {
        (void) pthread_mutex_unlock(&rm_mutex);
        rm_locked = false;
}

#define RM_LOCKED()                                                                                         \
        _cleanup_(cuda_rm_unlockp)                                                                          \
        bool _locked = cuda_rm_lock();                                                                      \
        if (!_locked)

/* --- whether we look at all --- */

/* The memory stays where it is: the parent may have been in the middle of a change. */
static void forget_all(void) {
        (void) pthread_mutex_init(&rm_mutex, NULL);
        rm_locked = false;
        objects = NULL;
        gpus = NULL;
        batch = NULL;
        n_objects = batch_size = 0;
        atomic_store(&any_stopped, false);
        cuda_stop_forget();
        atomic_store(&owner, getpid());
}

/* The records are this process's, and not those of whom a bare clone() or vfork() has left us the memory of. */
static bool is_owner(void) {
        return atomic_load_explicit(&owner, memory_order_relaxed) == getpid();
}

static void begin_once(void) {
        pid_t nobody = 0;

        if (atomic_compare_exchange_strong(&owner, &nobody, getpid()))
                (void) thread_atfork(NULL, NULL, forget_all);
}

bool cuda_rm_is_on(int fd) {
        if (!cuda_version_is_asked()) {
                begin_once();
                RM_LOCKED() return false;
                if (!cuda_version_is_asked())
                        cuda_version_ask(fd);
        }
        return cuda_rm_looks();
}

bool cuda_rm_looks(void) {
        return cuda_version_is_on() && is_owner();
}

bool cuda_rm_any_stopped(void) {
        return atomic_load(&any_stopped);
}

static void note_stopped(void) {
        bool any = false;

        for (const CudaGpu *g = gpus; g; g = g->next)
                any |= g->stopped;
        atomic_store(&any_stopped, any);
}

/* --- objects --- */

static bool is_client(uint32_t class) {
        return class == NVRM_CLASS_ROOT || class == NVRM_CLASS_ROOT_NON_PRIVILEGED ||
                        class == NVRM_CLASS_ROOT_CLIENT;
}

static bool is_channel(uint32_t class) {
        return (class & 0xff) == 0x6f && class >= 0xa06f;
}

static bool is_recorded(uint32_t class) {
        return is_client(class) || is_channel(class) || class == NVRM_CLASS_DEVICE ||
                        class == NVRM_CLASS_SUBDEVICE || class == NVRM_CLASS_CHANNEL_GROUP;
}

/* A client's own name is that of its object, too. */
static Object *object_find(uint32_t client, uint32_t id) {
        for (Object *o = objects; o; o = o->next)
                if (o->client == client && o->id == id)
                        return o;
        return NULL;
}

static Object *object_above(const Object *o, bool (*is)(uint32_t class)) {
        for (unsigned depth = 0; o && depth < DEPTH_MAX; depth++) {
                if (is(o->class))
                        return (Object *) o;
                o = is_client(o->class) ? NULL : object_find(o->client, o->parent);
        }
        return NULL;
}

static bool is_device(uint32_t class) {
        return class == NVRM_CLASS_DEVICE;
}

static bool is_group(uint32_t class) {
        return class == NVRM_CLASS_CHANNEL_GROUP;
}

/* What a channel is held with. */
static Object *holder_of(Object *channel) {
        return object_above(channel, is_group) ?: channel;
}

static bool has_channels(const Object *o) {
        return o->hal.channels != NULL;
}

/* What has channels, and only copies. */
static bool only_copies(const Object *o) {
        return o->engine >= NVRM_ENGINE_COPY_FIRST && o->engine <= NVRM_ENGINE_COPY_LAST;
}

static bool shall_be_stopped(const Object *holder) {
        return holder->gpu && holder->gpu->stopped && !only_copies(holder);
}

/* --- GPUs --- */

static CudaGpu *gpu_get(const char *id) {
        for (CudaGpu *g = gpus; g; g = g->next)
                if (streq(g->id, id))
                        return g;

        CudaGpu *g = calloc(1, sizeof(CudaGpu));
        if (!g)
                return NULL;
        (void) snprintf(g->id, sizeof(g->id), "%s", id);
        g->hal.level = LEVEL_INTERRUPT;
        g->next = gpus;
        gpus = g;
        return g;
}

/* Both calls only tell. */
static CudaGpu *gpu_ask(int fd, uint32_t client, uint32_t subdevice) {
        NvrmGpuId id = {};
        char text[32];

        if (nvrm_control(cuda_next_ioctl, fd, client, subdevice, NVRM_CMD_GPU_GET_ID, &id, sizeof(id)) < 0)
                return NULL;
        NvrmPciInfo pci = {.gpu_id = id.gpu_id};
        if (nvrm_control(cuda_next_ioctl, fd, client, client, NVRM_CMD_GPU_GET_PCI_INFO, &pci, sizeof(pci)) <
                        0)
                return NULL;
        (void) snprintf(text, sizeof(text), "pci:%04x:%02x:%02x.0", pci.domain, pci.bus, pci.slot);
        return gpu_get(text);
}

/* By what subdevice its channels are stopped, and what GPU that is. */
static void holder_find_gpu(Object *holder) {
        const Object *device = object_above(holder, is_device), *root = NULL;
        if (holder->gpu || !device)
                return;

        for (const Object *o = objects; o; o = o->next)
                if (o->client == holder->client && is_client(o->class))
                        root = o;
        for (const Object *o = objects; root && o && !holder->gpu; o = o->next)
                if (o->class == NVRM_CLASS_SUBDEVICE && o->client == device->client &&
                                o->parent == device->id && !o->leaving) {
                        holder->gpu = gpu_ask(root->fd, o->client, o->id);
                        holder->hal.fd = root->fd;
                        holder->hal.client = o->client;
                        holder->hal.subdevice = o->id;
                }
        if (!holder->gpu)
                return;
        holder->hal.device = &holder->gpu->hal;
        holder->hal.hal.held = shall_be_stopped(holder);
        for (NvrmChannel *c = holder->hal.channels; c; c = c->next)
                (void) nvrm_hal_follow(&holder->hal, c);
}

static void find_gpus(void) {
        for (Object *o = objects; o; o = o->next)
                if (has_channels(o))
                        holder_find_gpu(o);
}

CudaGpu *cuda_rm_gpus(void) {
        return gpus;
}

/* By the generation of its channels. */
static bool was_seen(const Object *o) {
        return !is_channel(o->class) || o->class == NVRM_CLASS_CHANNEL_HOPPER;
}

CudaGpu *cuda_rm_gpu(const char *id) {
        if (!cuda_rm_looks())
                return NULL;
        find_gpus();
        for (const Object *o = objects; o; o = o->next)
                if (!cuda_version_any_is_wanted() && !was_seen(o))
                        return NULL;
        for (const Object *o = objects; o; o = o->next)
                if (has_channels(o) && !only_copies(o) && o->gpu && streq(o->gpu->id, id) &&
                                o->gpu->hal.level > LEVEL_GATE)
                        return o->gpu;
        return NULL;
}

/* --- stopping --- */

/* Room for all of them, so that none is needed when time matters. */
static bool make_room(void) {
        if (n_objects < batch_size)
                return true;
        size_t size = batch_size ? batch_size * 2 : 64;
        HalQueue **p = realloc(batch, size * sizeof(*p));
        if (!p)
                return false;
        batch = p;
        batch_size = size;
        return true;
}

static size_t batch_fill(const CudaGpu *g) {
        size_t n = 0;

        for (Object *o = objects; o; o = o->next)
                if (has_channels(o) && o->gpu == g && !only_copies(o))
                        batch[n++] = &o->hal.hal;
        return n;
}

/* One by one: what the driver does not let go must not keep the others. */
static int release_each(size_t n) {
        int result = 0;

        for (size_t i = 0; i < n; i++) {
                int r = hal_nvrm_ops.release(batch + i, 1);
                if (r < 0)
                        result = r;
        }
        return result;
}

int cuda_rm_stop(CudaGpu *g, bool stop) {
        if (!is_owner())
                return -ECHILD;
        if (stop && g->hal.degraded)
                return -EOPNOTSUPP;
        find_gpus();
        size_t n = batch_fill(g);
        g->stopped = stop;
        int r = (stop ? hal_nvrm_ops.hold : hal_nvrm_ops.release)(batch, n);
        if (r < 0 && stop)
                g->stopped = false;
        else if (r < 0)
                r = release_each(n);
        note_stopped();
        if (g->hal.degraded)
                cuda_stop_lower(g);
        return r;
}

/* One that cannot be stopped as it is now is stopped when the driver is told to let it run. */
static void channel_follow(Object *holder, NvrmChannel *c, bool last_chance) {
        if (!shall_be_stopped(holder))
                return;
        holder->hal.hal.held = true;
        if (nvrm_hal_follow(&holder->hal, c) >= 0 || !last_chance)
                return;
        holder->gpu->hal.degraded = true;
        holder->gpu->hal.level = LEVEL_GATE;
        cuda_stop_lower(holder->gpu);
}

/* --- making --- */

/* `like`: by what it can be reached where its own kin cannot. */
static void channel_add(Object *o, const Object *like) {
        Object *holder = holder_of(o);

        if (holder->hal.hal.ops == NULL) {
                nvrm_hal_init(&holder->hal, NULL);
                holder->hal.ioctl = cuda_next_ioctl;
        }
        o->channel.client = o->client;
        o->channel.object = o->id;
        o->channel.next = holder->hal.channels;
        holder->hal.channels = &o->channel;
        holder_find_gpu(holder);
        if (!holder->gpu && like && like->gpu) {
                holder->gpu = like->gpu;
                holder->hal.device = like->hal.device;
                holder->hal.fd = like->hal.fd;
                holder->hal.client = like->hal.client;
                holder->hal.subdevice = like->hal.subdevice;
                holder->hal.hal.held = shall_be_stopped(holder);
        }
        channel_follow(holder, &o->channel, false);
}

static void channel_drop(Object *o) {
        Object *holder = holder_of(o);

        for (NvrmChannel **c = &holder->hal.channels; *c; c = &(*c)->next)
                if (*c == &o->channel) {
                        *c = o->channel.next;
                        break;
                }
}

/* --- unmaking --- */

static bool is_below(const Object *o, const Object *top) {
        for (unsigned depth = 0; o && depth < DEPTH_MAX; depth++) {
                if (o == top)
                        return true;
                o = is_client(o->class) ? NULL : object_find(o->client, o->parent);
        }
        return false;
}

static void mark_below(const Object *top, bool leaving) {
        for (Object *o = objects; o; o = o->next)
                if (is_below(o, top))
                        o->leaving = o->channel.leaving = leaving;
}

/* The channel lives on under its next name, in the state that it is in. */
static void copy_take_over(Object *gone) {
        Object *first = NULL;

        for (Object *o = objects; o; o = o->next) {
                if (o->same != gone || o->leaving)
                        continue;
                o->same = first;
                first = first ?: o;
        }
        if (!first)
                return;
        const Object *holder = holder_of(gone);
        first->channel.stopped = gone->channel.stopped;
        first->channel.unsure = gone->channel.unsure;
        channel_add(first, holder);
}

static void object_free(Object *o) {
        for (Object **link = &objects; *link; link = &(*link)->next)
                if (*link == o) {
                        *link = o->next;
                        n_objects--;
                        break;
                }
        free(o);
}

static void objects_remove(Object *top) {
        mark_below(top, true);
        for (Object *o = objects; o; o = o->next)
                if (is_below(o, top) && is_channel(o->class) && !o->same) {
                        copy_take_over(o);
                        channel_drop(o);
                }
        /* From the newest on, which is below all others of its kin. */
        for (Object *o = objects, *next; o; o = next) {
                next = o->next;
                if (o != top && is_below(o, top))
                        object_free(o);
        }
        object_free(top);
}

static void objects_return(Object *top) {
        mark_below(top, false);
        for (Object *o = objects; o; o = o->next)
                if (is_below(o, top) && is_channel(o->class) && !o->same)
                        channel_follow(holder_of(o), &o->channel, true);
}

/* --- the application's calls --- */

static Object *object_new(uint32_t client, uint32_t id, uint32_t parent, uint32_t class) {
        /* An object of the same name that we know has gone in a way that we have not seen. */
        Object *old = object_find(client, id);
        if (old)
                objects_remove(old);
        Object *o = make_room() ? calloc(1, sizeof(Object)) : NULL;
        if (!o)
                return NULL;
        o->client = client;
        o->id = id;
        o->parent = parent;
        o->class = class;
        o->next = objects;
        objects = o;
        n_objects++;
        return o;
}

void cuda_rm_alloc(int fd, const NvrmAllocShort *a) {
        if (!is_recorded(a->class) || !cuda_rm_is_on(fd))
                return;
        RM_LOCKED() return;
        uint32_t client = is_client(a->class) ? a->object : a->client;

        Object *o = object_new(client, a->object, a->parent, a->class);
        if (!o)
                return;
        o->fd = fd;
        if (a->class == NVRM_CLASS_CHANNEL_GROUP && a->parameters != 0)
                o->engine = ((const NvrmGroupParameters *) (uintptr_t) a->parameters)->engine;
        if (is_channel(a->class))
                channel_add(o, NULL);
        else if (a->class == NVRM_CLASS_SUBDEVICE)
                find_gpus();
}

void cuda_rm_dup(const NvrmDup *a) {
        if (!cuda_rm_looks())
                return;
        RM_LOCKED() return;
        Object *from = object_find(a->from_client, a->from_object);
        if (!from || is_client(from->class))
                return;
        Object *o = object_new(a->client, a->object, a->parent, from->class);
        if (!o)
                return;
        o->engine = from->engine;
        o->fd = -EBADF;
        o->same = from->same ?: from;
        if (o->class == NVRM_CLASS_SUBDEVICE)
                find_gpus();
}

void cuda_rm_schedule(uint32_t client, uint32_t object) {
        if (!cuda_rm_looks())
                return;
        RM_LOCKED() return;
        Object *top = object_find(client, object);
        if (!top)
                return;
        top->scheduled = true;
        for (Object *o = objects; o; o = o->next)
                if (is_channel(o->class) && !o->same && !o->leaving && is_below(o, top))
                        channel_follow(holder_of(o), &o->channel, true);
}

bool cuda_rm_free_begin(uint32_t client, uint32_t object) {
        if (!cuda_rm_looks())
                return false;
        RM_LOCKED() return false;
        const Object *top = object_find(client, object);
        if (top)
                mark_below(top, true);
        return top != NULL;
}

void cuda_rm_free_end(uint32_t client, uint32_t object, bool done) {
        RM_LOCKED() return;
        Object *top = object_find(client, object);
        if (!top)
                return;
        if (done)
                objects_remove(top);
        else
                objects_return(top);
}

/* --- for people --- */

static const char *what_is(const Object *o) {
        return is_client(o->class)             ? "client"
                        : is_device(o->class)  ? "device"
                        : is_group(o->class)   ? "group"
                        : is_channel(o->class) ? "channel"
                                               : "subdevice";
}

size_t cuda_rm_describe(char *ret, size_t size) {
        const char *why = cuda_version_why();
        size_t n = 0;

#define SAY(...) n += (size_t) snprintf(ret + MIN(n, size), size - MIN(n, size), __VA_ARGS__)
        SAY("driver %s: %s\n", cuda_version_text(), why ?: "on");
        find_gpus();
        for (const Object *o = objects; o; o = o->next) {
                SAY("%s client=%x object=%x parent=%x class=%x", what_is(o), o->client, o->id, o->parent,
                                o->class);
                if (is_client(o->class))
                        SAY(" fd=%d", o->fd);
                if (is_group(o->class))
                        SAY(" engine=%u", o->engine);
                if (has_channels(o))
                        SAY(" gpu=%s subdevice=%x held=%d", o->gpu ? o->gpu->id : "?", o->hal.subdevice,
                                        o->hal.hal.held);
                if (is_channel(o->class) && !o->same)
                        SAY(" scheduled=%d stopped=%d unsure=%d lost=%d", o->scheduled, o->channel.stopped,
                                        o->channel.unsure, o->channel.lost);
                SAY("%s%s\n", o->same ? " copy" : "", o->leaving ? " leaving" : "");
        }
#undef SAY
        return n;
}
