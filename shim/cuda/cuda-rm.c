/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records the driver's objects of this process, and which of them are stopped: see cuda-rm.h
 */

#include "shim/cuda/cuda-rm.h"
#include "cuda-stop.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/macro.h"
#include "common/signal-mask.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "shim/cuda/cuda-object.h"
#include "shim/cuda/cuda-reach.h"
#include "shim/cuda/cuda-slice.h"
#include "shim/cuda/cuda-version.h"

#define REPAIRS_MAX   4U
#define TRIES_MAX     20U
#define UNDO_FIRST_NS (5 * NSEC_PER_MSEC)
#define UNDO_LAST_NS  NSEC_PER_SEC
#define UNDO_STACK    (64UL * 1024)

static pthread_mutex_t rm_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool rm_locked __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t rm_signals __attribute__((tls_model("initial-exec")));
static _Atomic pid_t owner;
static _Atomic bool any_stopped;
static bool undo_runs, stepped_back;

bool cuda_rm_lock(void) {
        if (rm_locked)
                return false;
        uint64_t signals = signal_mask_block();
        rm_locked = true;
        rm_signals = signals;
        (void) pthread_mutex_lock(&rm_mutex);
        return true;
}

/* Uses CLOCK_REALTIME, because pthread_mutex_clocklock() is newer than some systems that we run on. */
bool cuda_rm_lock_within(uint64_t ns) {
        struct timespec now;

        if (rm_locked)
                return false;
        uint64_t signals = signal_mask_block();
        (void) clock_gettime(CLOCK_REALTIME, &now);
        struct timespec until = ns_to_timespec(timespec_to_ns(&now) + ns);
        if (pthread_mutex_timedlock(&rm_mutex, &until) != 0) {
                signal_mask_restore(&signals);
                return false;
        }
        rm_locked = true;
        rm_signals = signals;
        return true;
}

void cuda_rm_unlock(void) {
        uint64_t signals = rm_signals;

        (void) pthread_mutex_unlock(&rm_mutex);
        rm_locked = false;
        signal_mask_restore(&signals);
}

#define RM_LOCKED()                                                                                                    \
        _cleanup_(cuda_rm_unlockp)                                                                                     \
        bool _locked = cuda_rm_lock();                                                                                 \
        if (!_locked)

/* --- whether we look at all --- */

/* The memory stays where it is: the parent may have been in the middle of a change. */
static void forget_all(void) {
        (void) pthread_mutex_init(&rm_mutex, NULL);
        rm_locked = false;
        cuda_objects_forget();
        cuda_reach_forget();
        undo_runs = stepped_back = false;
        atomic_store(&any_stopped, false);
        cuda_stop_forget();
        atomic_store(&owner, getpid());
}

/* Whether the records are this process's own: a bare clone() or vfork() shares or copies the memory. */
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

/* --- what is to be stopped, and what is --- */

/* Whether the object has channels, all of them of copy engines. */
static bool only_copies(const CudaObject *o) {
        return o->engine >= NVRM_ENGINE_COPY_FIRST && o->engine <= NVRM_ENGINE_COPY_LAST;
}

static bool shall_be_stopped(const CudaObject *holder) {
        return holder->gpu && holder->gpu->stopped && !only_copies(holder);
}

/* Whether the channel is stopped although it should run, without a call in between. */
static bool is_owed(CudaObject *o) {
        const NvrmChannel *c = &o->channel;

        return cuda_object_is_one_channel(o) && (c->stopped || c->unsure) && !c->lost && !c->leaving &&
                        !shall_be_stopped(cuda_object_holder(o));
}

static bool anything_is_owed(void) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (is_owed(o))
                        return true;
        return false;
}

static void *undo_main(void *unused);
static void copy_take_over(CudaObject *gone);

/* Gives channels their next name when the first one is gone, for instance with a file that was closed. */
static void names_follow(void) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->same && o->same->channel.lost)
                        copy_take_over(o->same);
}

/* Called after every call that may have changed something. Channels that could not be released are tried again by a
 * thread of their own: there may be no queue left, and then the control thread does nothing. */
static void settled(void) {
        names_follow();
        bool owed = anything_is_owed(), any = owed;

        for (const CudaGpu *g = cuda_reach_gpus(); g; g = g->next)
                any |= g->stopped;
        atomic_store(&any_stopped, any);
        if (owed && !undo_runs)
                undo_runs = thread_start(undo_main, NULL, UNDO_STACK) >= 0;
}

/* --- reaching them --- */

static void objects_remove(CudaObject *top);
static int channel_follow(CudaObject *holder, NvrmChannel *c);

static void holder_find_gpu(CudaObject *holder) {
        if (holder->gpu || !cuda_reach_find(holder))
                return;
        for (NvrmChannel *c = holder->hal.channels; c; c = c->next)
                (void) channel_follow(holder, c);
}

static void find_gpus(void) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_object_has_channels(o))
                        holder_find_gpu(o);
}

/* Repairs the channels of a GPU, or (NULL) of all. Records may be freed. Returns whether something is left to try
 * again. */
static bool repair(const CudaGpu *g) {
        uint64_t before = UINT64_MAX;
        bool any = false;

        for (CudaObject *o = cuda_objects(); o;) {
                if (o->serial >= before || !cuda_object_has_channels(o) || (g && o->gpu != g)) {
                        o = o->next;
                        continue;
                }
                before = o->serial;
                if (cuda_reach_repair(o, objects_remove)) {
                        for (NvrmChannel *c = o->hal.channels; c; c = c->next)
                                (void) channel_follow(o, c);
                        any = true;
                }
                o = cuda_objects();
        }
        return any;
}

/* A channel that cannot be stopped now is stopped when the driver is told to let it run. */
static int channel_follow(CudaObject *holder, NvrmChannel *c) {
        if (!holder->gpu)
                return 0;
        holder->hal.hal.held = shall_be_stopped(holder);
        return holder->hal.hal.held ? nvrm_hal_follow(&holder->hal, c) : nvrm_hal_let_go_one(&holder->hal, c);
}

/* --- stopping --- */

CudaGpu *cuda_rm_gpus(void) {
        return cuda_reach_gpus();
}

/* Whether the layer has seen the creation of the group's channels: their class is then known. */
static bool was_seen(const CudaObject *o) {
        return !cuda_class_is_channel(o->class) || o->class == NVRM_CLASS_CHANNEL_HOPPER;
}

CudaGpu *cuda_rm_gpu(const char *id) {
        if (!cuda_rm_looks() || stepped_back)
                return NULL;
        find_gpus();
        for (const CudaObject *o = cuda_objects(); o; o = o->next)
                if (!cuda_version_any_is_wanted() && !was_seen(o))
                        return NULL;
        for (const CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_object_has_channels(o) && !only_copies(o) && o->gpu && streq(o->gpu->id, id) &&
                                o->gpu->hal.level > LEVEL_GATE)
                        return o->gpu;
        return NULL;
}

static size_t batch_fill(const CudaGpu *g) {
        size_t n = 0;

        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_object_has_channels(o) && o->gpu == g && !only_copies(o))
                        cuda_objects_batch()[n++] = &o->hal.hal;
        return n;
}

/* A channel that the driver does not release must not keep the others. */
static int let_go_all(const CudaGpu *g) {
        int result = 0;

        for (CudaObject *o = cuda_objects(); o; o = o->next) {
                int r = cuda_object_has_channels(o) && o->gpu == g ? nvrm_hal_let_go(&o->hal) : 0;
                if (r < 0)
                        result = r;
        }
        return result;
}

static int batch_call(CudaGpu *g, bool stop) {
        int r = -ESTALE;

        for (unsigned i = 0; i < REPAIRS_MAX && r == -ESTALE; i++) {
                if (i > 0 && !repair(g))
                        return 0; /* nothing is left of it */
                find_gpus();
                size_t n = batch_fill(g);
                r = (stop ? hal_nvrm_ops.hold : hal_nvrm_ops.release)(cuda_objects_batch(), n);
        }
        return r;
}

int cuda_rm_stop(CudaGpu *g, bool stop) {
        if (!is_owner())
                return -ECHILD;
        if (stop && (g->hal.degraded || stepped_back))
                return -EOPNOTSUPP;
        g->stopped = stop;
        int r = batch_call(g, stop);
        if (r < 0) {
                g->stopped = false;
                int left = let_go_all(g);
                r = stop ? r : left;
        }
        settled();
        if (g->hal.degraded)
                cuda_stop_lower(g);
        return r;
}

void cuda_rm_step_back(void) {
        if (!cuda_rm_looks())
                return;
        RM_LOCKED() return;
        stepped_back = true;
        for (CudaGpu *g = cuda_reach_gpus(); g; g = g->next) {
                (void) cuda_rm_stop(g, false);
                g->hal.degraded = true;
                g->hal.level = LEVEL_GATE;
                cuda_stop_lower(g);
        }
}

static bool undo(void) {
        RM_LOCKED() return true;
        find_gpus();
        for (CudaGpu *g = cuda_reach_gpus(); g; g = g->next)
                if (!g->stopped && let_go_all(g) == -ESTALE)
                        (void) repair(g);
        if (anything_is_owed())
                (void) repair(NULL);
        undo_runs = anything_is_owed();
        bool more = undo_runs;
        settled();
        return more;
}

static void *undo_main(void *unused) {
        uint64_t wait = UNDO_FIRST_NS;

        do {
                struct timespec ts = ns_to_timespec(wait);
                (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
                wait = MIN(wait * 2, UNDO_LAST_NS);
        } while (undo());
        return NULL;
}

/* The driver was told to let it run: a channel that cannot be stopped now is never stopped. */
static void channel_follow_finally(CudaObject *holder, NvrmChannel *c) {
        int r = channel_follow(holder, c);

        if (r >= 0 || !shall_be_stopped(holder) || r == -ESTALE)
                return;
        holder->gpu->hal.degraded = true;
        holder->gpu->hal.level = LEVEL_GATE;
        cuda_stop_lower(holder->gpu);
}

/* --- making --- */

/* `like`: the object by which it can be reached where its own parents cannot. */
static void channel_add(CudaObject *o, const CudaObject *like) {
        CudaObject *holder = cuda_object_holder(o);

        if (holder->hal.hal.ops == NULL)
                nvrm_hal_init(&holder->hal, NULL);
        o->channel.client = o->client;
        o->channel.object = o->id;
        o->channel.next = holder->hal.channels;
        holder->hal.channels = &o->channel;
        if (like && !holder->last_gpu)
                holder->last_gpu = like->last_gpu;
        holder_find_gpu(holder);
        (void) channel_follow(holder, &o->channel);
}

static void channel_drop(CudaObject *o) {
        CudaObject *holder = cuda_object_holder(o);

        for (NvrmChannel **c = &holder->hal.channels; *c; c = &(*c)->next)
                if (*c == &o->channel) {
                        *c = o->channel.next;
                        break;
                }
}

/* --- unmaking --- */

/* The channel lives on under its next name, in its current state. It prefers a name that is not about to be freed. */
static void copy_take_over(CudaObject *gone) {
        CudaObject *first = NULL;

        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->same == gone && !o->going && (!first || (first->leaving > 0 && o->leaving == 0)))
                        first = o;
        if (!first)
                return;
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->same == gone)
                        o->same = o == first ? NULL : first;
        const CudaObject *holder = cuda_object_holder(gone);
        first->channel.stopped = gone->channel.stopped;
        first->channel.unsure = gone->channel.unsure;
        channel_add(first, holder);
}

static void objects_remove(CudaObject *top) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                o->going |= cuda_object_is_below(o, top);
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->going && cuda_object_is_below(o, top) && cuda_object_is_one_channel(o)) {
                        copy_take_over(o);
                        channel_drop(o);
                }
        /* Goes from the newest on, which comes below its parents. */
        for (CudaObject *o = cuda_objects(), *next; o; o = next) {
                next = o->next;
                if (o != top && cuda_object_is_below(o, top))
                        cuda_object_free(o);
        }
        cuda_object_free(top);
}

/* The subdevice by which channels outside of `top` are stopped is about to be freed: they take another one, or run. */
static void leave_others_reachable(const CudaObject *top) {
        for (CudaObject *o = cuda_objects(); o; o = o->next) {
                const CudaObject *subdevice = cuda_object_has_channels(o) && o->gpu
                                ? cuda_object_find(o->hal.client, o->hal.subdevice)
                                : NULL;
                if (!subdevice || subdevice->leaving == 0 || cuda_object_is_below(o, top))
                        continue;
                CudaGpu *gpu = o->gpu;
                o->gpu = NULL;
                if (cuda_reach_find(o))
                        continue;
                o->gpu = gpu;
                for (unsigned i = 0; i < TRIES_MAX && nvrm_hal_let_go(&o->hal) == -EAGAIN; i++)
                        ;
                o->gpu = NULL;
        }
}

/* Releases channels that live on under another name, by which they may be out of reach. Those that can be reached are
 * stopped again. */
static void let_go_what_stays(const CudaObject *top) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->same && !cuda_object_is_below(o, top) && cuda_object_is_below(o->same, top)) {
                        const CudaObject *holder = cuda_object_holder(o->same);
                        for (unsigned i = 0; holder->gpu && i < TRIES_MAX; i++)
                                if (nvrm_hal_let_go_one(&holder->hal, &o->same->channel) != -EAGAIN)
                                        break;
                }
}

static void objects_return(const CudaObject *top, uint64_t epoch) {
        cuda_object_stay(top, epoch);
        find_gpus();
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_object_is_one_channel(o) && cuda_object_is_below(o, top))
                        channel_follow_finally(cuda_object_holder(o), &o->channel);
}

/* --- the application's calls --- */

static CudaObject *object_new(uint32_t client, uint32_t id, uint32_t parent, uint32_t class) {
        /* Known objects of the same name have been freed without our seeing it; with a client all of its objects
         * have. */
        for (CudaObject *o = cuda_objects(); o;)
                if (o->client == client && (o->id == id || cuda_class_is_client(class))) {
                        objects_remove(o);
                        o = cuda_objects();
                } else
                        o = o->next;
        return cuda_object_new(client, id, parent, class);
}

void cuda_rm_alloc(int fd, const NvrmAllocShort *a, uint32_t engine) {
        if (!cuda_class_is_recorded(a->class) || !cuda_rm_is_on(fd))
                return;
        RM_LOCKED() return;
        uint32_t client = cuda_class_is_client(a->class) ? a->object : a->client;

        CudaObject *o = object_new(client, a->object, a->parent, a->class);
        if (!o)
                return;
        o->engine = engine;
        if (cuda_class_is_client(a->class))
                cuda_reach_note_file(o, fd);
        if (cuda_class_is_channel(a->class))
                channel_add(o, NULL);
        else if (a->class == NVRM_CLASS_SUBDEVICE)
                find_gpus();
        settled();
}

void cuda_rm_dup(const NvrmDup *a) {
        if (!cuda_rm_looks())
                return;
        RM_LOCKED() return;
        CudaObject *from = cuda_object_find(a->from_client, a->from_object);
        if (!from || cuda_class_is_client(from->class))
                return;
        uint64_t serial = from->serial;
        uint32_t class = from->class, engine = from->engine;
        CudaObject *o = object_new(a->client, a->object, a->parent, class);
        if (!o)
                return;
        /* The former object may have had the name. */
        from = cuda_object_find(a->from_client, a->from_object);
        o->engine = engine;
        if (from && from->serial == serial)
                o->same = from->same ?: from;
        if (o->class == NVRM_CLASS_SUBDEVICE)
                find_gpus();
        settled();
}

void cuda_rm_schedule(uint32_t client, uint32_t object) {
        if (!cuda_rm_looks())
                return;
        RM_LOCKED() return;
        CudaObject *top = cuda_object_find(client, object);
        if (!top)
                return;
        top->scheduled = true;
        if (cuda_class_is_group(top->class))
                cuda_slice_group(top);
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_object_is_one_channel(o) && o->leaving == 0 && cuda_object_is_below(o, top))
                        channel_follow_finally(cuda_object_holder(o), &o->channel);
        settled();
}

uint64_t cuda_rm_free_begin(uint32_t client, uint32_t object) {
        if (!cuda_rm_looks())
                return 0;
        RM_LOCKED() return 0;
        const CudaObject *top = cuda_object_find(client, object);
        if (!top)
                return 0;
        let_go_what_stays(top);
        uint64_t epoch = cuda_object_leave(top);
        leave_others_reachable(top);
        settled();
        return epoch;
}

void cuda_rm_free_end(uint32_t client, uint32_t object, uint64_t epoch, bool done) {
        RM_LOCKED() return;
        CudaObject *top = cuda_object_find(client, object);
        /* The name may be another object's by now. */
        if (!top || top->serial > epoch)
                return;
        if (done)
                objects_remove(top);
        else
                objects_return(top, epoch);
        find_gpus();
        settled();
}
