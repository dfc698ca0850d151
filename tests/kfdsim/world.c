/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The shared world: making it, finding it
 *
 * The world is a file that every process maps. A process that finds none makes it under a file lock; the magic is
 * written last. Its mutex is robust: a process that is killed with it leaves it usable.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "sim.h"

#define SIM_MAGIC    0x314d4953U
#define LOCK_LOOK_NS (20 * NSEC_PER_MSEC)

typedef struct Model {
        const char *name;
        uint32_t gfx_target_version;
        uint32_t device_id;
        uint32_t n_cus;
        bool mes;
} Model;

static const Model models[] = {
                {"gfx906", 90006, 0x66a1, 60, false},
                {"gfx908", 90008, 0x738c, 120, false},
                {"gfx90a", 90010, 0x740c, 104, false},
                {"gfx942", 90402, 0x74a1, 304, false},
                {"gfx1030", 100300, 0x73bf, 80, false},
                {"gfx1100", 110000, 0x744c, 96, true},
                {"gfx1201", 120001, 0x7550, 64, true},
};

static SimWorld *world;
static char dir[200];

const char *sim_dir(void) {
        return dir;
}

static int gpus_parse(SimWorld *w, const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *rest = copy;

        for (char *name; copy && (name = strsep(&rest, ","));) {
                const Model *m = NULL;
                if (isempty(name))
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(models); i++)
                        if (streq(models[i].name, name))
                                m = models + i;
                if (!m || w->n_gpus >= SIM_GPUS_MAX) {
                        (void) fprintf(stderr, "kfdsim: KFDSIM_GPUS: %s: %s\n", name, m ? "too many" : "no such model");
                        return -EINVAL;
                }
                SimGpu *g = w->gpus + w->n_gpus++;
                *g = (SimGpu){
                                .gfx_target_version = m->gfx_target_version,
                                .device_id = m->device_id,
                                .n_cus = m->n_cus,
                                .gpu_id = 0x4000 + w->n_gpus * 0x111,
                                .location = w->n_gpus << 8,
                                .mes = m->mes,
                };
                (void) snprintf(g->model, sizeof(g->model), "%s", m->name);
        }
        return 0;
}

static int options_parse(SimOptions *o, const char *text) {
        _cleanup_free_ char *copy = strdup(text);
        char *rest = copy;

        for (char *item; copy && (item = strsep(&rest, ","));) {
                char *value = strchr(item, '=');
                if (isempty(item))
                        continue;
                unsigned long n = 0;
                if (value) {
                        *value++ = 0;
                        n = strtoul(value, NULL, 10);
                }
                if (value && streq(item, "strict"))
                        o->strict = n;
                else if (value && streq(item, "cwsr"))
                        o->cwsr = n;
                else if (value && streq(item, "exceptions"))
                        o->exceptions = n;
                else if (value && streq(item, "reset-eacces"))
                        o->reset_eacces = n;
                else if (value && streq(item, "quantum-us"))
                        o->quantum_ns = n * NSEC_PER_USEC;
                else if (value && streq(item, "map-us"))
                        o->map_ns = n * NSEC_PER_USEC;
                else if (value && streq(item, "timeout-ms"))
                        o->timeout_ns = n * NSEC_PER_MSEC;
                else if (value && streq(item, "api-minor"))
                        o->api_minor = (uint32_t) n;
                else {
                        (void) fprintf(stderr, "kfdsim: KFDSIM_OPTS: %s: no such option, or no value\n", item);
                        return -EINVAL;
                }
        }
        return 0;
}

static int world_make(SimWorld *w) {
        pthread_mutexattr_t a;

        memset(w, 0, sizeof(*w)); /* a process may have ended on the way here */
        w->options = (SimOptions){.strict = true,
                        .cwsr = true,
                        .reset_eacces = true,
                        .api_minor = 17,
                        .quantum_ns = NSEC_PER_MSEC,
                        .map_ns = 50 * NSEC_PER_USEC,
                        .timeout_ns = 900 * NSEC_PER_MSEC};
        int r = gpus_parse(w, getenv("KFDSIM_GPUS") ?: "gfx90a");
        if (r >= 0)
                r = options_parse(&w->options, getenv("KFDSIM_OPTS") ?: "");
        if (r >= 0)
                r = sim_topology_write(w);
        if (r < 0)
                return r;

        pthread_mutexattr_init(&a);
        pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&w->lock, &a);
        pthread_mutexattr_destroy(&a);
        atomic_thread_fence(memory_order_seq_cst);
        w->magic = SIM_MAGIC;
        return 0;
}

static int world_map(SimWorld **ret) {
        const char *name = getenv("KFDSIM_DIR");
        if (isempty(name) || strlen(name) >= sizeof(dir) - 100)
                return -ENOENT;
        (void) snprintf(dir, sizeof(dir), "%s", name);
        if (mkdir(dir, 0777) < 0 && errno != EEXIST)
                return negative_errno();

        char path[256];
        (void) snprintf(path, sizeof(path), "%s/world", dir);
        _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
                return negative_errno();
        (void) fchmod(fd, 0666); /* whatever the umask: other users' processes share the GPUs */
        if (flock(fd, LOCK_EX) < 0 || ftruncate(fd, sizeof(SimWorld)) < 0)
                return negative_errno();

        SimWorld *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (w == MAP_FAILED)
                return negative_errno();
        int r = w->magic == SIM_MAGIC ? 0 : world_make(w);
        (void) flock(fd, LOCK_UN); /* the mapping keeps the file open, and its lock with it */
        if (r < 0) {
                (void) munmap(w, sizeof(*w));
                return r;
        }
        *ret = w;
        return 0;
}

static void world_map_once(void) {
        int r = world_map(&world);
        if (r < 0)
                (void) fprintf(stderr, "kfdsim: no simulated device in KFDSIM_DIR=%s: %s\n",
                                strempty(getenv("KFDSIM_DIR")), strerror(-r));
}

SimWorld *sim_world(void) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void) pthread_once(&once, world_map_once);
        return world;
}

/* The thread sanitizer of gcc 12 does not see that a thread which waits with a timeout gets the lock of an owner that
 * has died. When the thread then releases the lock, the sanitizer would end the process, with the lock's owner dead
 * again: and so all processes, one after the other. The simulator is built without the sanitizer, but runs in processes
 * that have it, and tells it of the lock. */
#define TSAN_TRY_LOCK (1U << 4) /* sanitizer/tsan_interface.h: __tsan_mutex_try_lock */
extern void __tsan_mutex_pre_lock(void *lock, unsigned flags) __attribute__((weak));
extern void __tsan_mutex_post_lock(void *lock, unsigned flags, int recursion) __attribute__((weak));

static void note_taken(pthread_mutex_t *lock) {
        if (!__tsan_mutex_pre_lock || !__tsan_mutex_post_lock)
                return;
        __tsan_mutex_pre_lock(lock, TSAN_TRY_LOCK);
        __tsan_mutex_post_lock(lock, TSAN_TRY_LOCK, 0);
}

/* Takes the lock. If an owner is killed after it has released the lock and before it has woken the next thread, the
 * kernel wakes that one only if no process has taken the lock meanwhile. So a sleeper looks again by itself, now and
 * then. */
void sim_lock(void) {
        int r;

        do {
                struct timespec until;
                (void) clock_gettime(CLOCK_REALTIME, &until);
                until = ns_to_timespec(timespec_to_ns(&until) + LOCK_LOOK_NS);
                r = pthread_mutex_timedlock(&world->lock, &until);
        } while (r == ETIMEDOUT);
        if (r == EOWNERDEAD) {
                (void) pthread_mutex_consistent(&world->lock);
                note_taken(&world->lock);
        } else if (r != 0) {
                (void) fprintf(stderr, "kfdsim: the lock of the world: %s\n", strerror(r));
                abort();
        }
}

void sim_unlock(void) {
        (void) pthread_mutex_unlock(&world->lock);
}

SimGpu *sim_gpu_by_id(uint32_t gpu_id) {
        for (uint32_t i = 0; i < world->n_gpus; i++)
                if (world->gpus[i].gpu_id == gpu_id)
                        return world->gpus + i;
        return NULL;
}

uint32_t sim_gpu_index(const SimGpu *g) {
        return (uint32_t) (g - world->gpus);
}
