/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A libxsched for tests: the same functions, with a service of its own behind them that does the worst that a service
 * may do
 *
 * It is found in place of the real one (LD_LIBRARY_PATH). XSCHED_FAKE says what it does, words separated by commas:
 *
 *   track      watches every queue from the start
 *   open       has an open gate that a layer may pass without a call
 *   limit=N    bounds launches in flight to N while watched
 *   hold       holds and releases all queues at random times
 *   flip       starts and stops watching at random times, draining each time
 *   seed=N     for the random times
 *
 * and it writes what it has seen to the file XSCHED_FAKE_REPORT names when the process exits, one "name value" a line:
 * The reader of the file checks that the numbers add up: no completion without a launch, nothing outstanding at the
 * end, one end for each drain.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/page.h"
#include "common/signal-mask.h"
#include "common/time-util.h"
#include "xsched/words.h"

#define QUEUES_MAX 8192U
#define SPELL_NS   (2 * NSEC_PER_MSEC) /* longest spell of one verdict */
#define EXIT_GRACE (5 * NSEC_PER_SEC)  /* for completions that are still being called back */

struct XschedQueue {
        atomic_int refs;
        atomic_int outstanding;
        atomic_int waiting; /* of these, for room */
        atomic_bool untracked, look_wanted;
        void (*drain)(XschedQueue *q, void *userdata), (*look)(XschedQueue *q, void *userdata);
        void (*destroy)(void *userdata);
        void *userdata;
        int32_t hint;
        char device[128];
};

static struct {
        bool hold, flip;
        uint32_t limit;
        unsigned seed;
} fake;

static struct {
        atomic_ulong queues, launches, tracked, waited, nowait, joined, completed, device_ns, drains, drained, boosts;
        atomic_ulong excess,  /* completions of nothing */
                        most; /* most in flight on one queue */
} seen;

static pthread_once_t once = PTHREAD_ONCE_INIT, look_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER, arrived = PTHREAD_COND_INITIALIZER;
static bool held, ending;
static atomic_bool watched, serves;
static XschedQueue *queues[QUEUES_MAX];
static size_t n_queues;
static atomic_int n_alive;

/* What layers read without a call. Unless the gate is said to be open, each launch calls. */
static PageSlot slot = {.watch = PAGE_WATCH_READY, .outstanding = PAGE_OUTSTANDING_UNTRACKED};
static void *const slot_at = &slot, *const local_gate;

/* Under the lock. */
static void set_held(bool now) {
        held = now;
        atomic_store(&slot.verdict, now ? PAGE_VERDICT_HOLD : 0);
}

static XschedQueue *try_ref(XschedQueue *q) {
        int refs = atomic_load(&q->refs);
        do {
                if (refs == 0)
                        return NULL;
        } while (!atomic_compare_exchange_weak(&q->refs, &refs, refs + 1));
        return q;
}

static void drain_all(void) {
        for (size_t i = 0;; i++) {
                (void) pthread_mutex_lock(&lock);
                bool end = i >= n_queues;
                XschedQueue *q = end ? NULL : try_ref(queues[i]);
                (void) pthread_mutex_unlock(&lock);
                if (end)
                        return;
                if (q && q->drain && atomic_exchange(&q->untracked, false)) {
                        atomic_fetch_add(&seen.drains, 1);
                        atomic_fetch_add(&q->outstanding, 1);
                        q->drain(q, q->userdata);
                }
                xsched_queue_unref(q);
        }
}

static void *service(void *unused) {
        unsigned seed = fake.seed;
        (void) pthread_mutex_lock(&lock);
        /* The first hold lasts until it has held a launch, however the threads are scheduled. */
        while (held && seen.waited == 0 && !ending)
                (void) pthread_cond_wait(&arrived, &lock);
        while (!ending) {
                (void) pthread_mutex_unlock(&lock);
                struct timespec ts = ns_to_timespec((uint64_t) rand_r(&seed) % SPELL_NS);
                (void) nanosleep(&ts, NULL);
                if (fake.flip && rand_r(&seed) % 4 == 0) {
                        bool on = !atomic_load(&watched);
                        atomic_store(&watched, on);
                        if (on)
                                drain_all();
                }
                (void) pthread_mutex_lock(&lock);
                set_held(fake.hold && !held && atomic_load(&watched) && !ending);
                if (!held)
                        (void) pthread_cond_broadcast(&released);
        }
        set_held(false);
        (void) pthread_cond_broadcast(&released);
        (void) pthread_mutex_unlock(&lock);
        atomic_store(&serves, false);
        return NULL;
}

static bool configured(const char *word, const char **ret_value) {
        size_t n = strlen(word);
        for (const char *p = getenv("XSCHED_FAKE"); p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
                if (strncmp(p, word, n) == 0 && (p[n] == '\0' || p[n] == ',' || p[n] == '=')) {
                        if (ret_value && p[n] == '=')
                                *ret_value = p + n + 1;
                        return true;
                }
        return false;
}

static void fork_child(void) {
        lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        released = (pthread_cond_t) PTHREAD_COND_INITIALIZER;
        arrived = (pthread_cond_t) PTHREAD_COND_INITIALIZER;
        set_held(false);
        atomic_store(&serves, false);
        memset(&seen, 0, sizeof(seen));
        n_queues = 0;
        n_alive = 0;
        once = look_once = (pthread_once_t) PTHREAD_ONCE_INIT;
        (void) unsetenv("XSCHED_FAKE_REPORT"); /* the parent's */
}

static void start(void) {
        static bool registered;
        const char *value = "0";
        pthread_t thread;

        fake.hold = configured("hold", NULL);
        fake.flip = configured("flip", NULL);
        if (configured("limit", &value))
                fake.limit = (uint32_t) strtoul(value, NULL, 10);
        value = "1";
        (void) configured("seed", &value);
        fake.seed = (unsigned) strtoul(value, NULL, 10);
        atomic_store(&watched, configured("track", NULL));
        if (configured("open", NULL))
                atomic_store(&slot.watch, 0);
        set_held(fake.hold && atomic_load(&watched));
        if (!registered)
                (void) pthread_atfork(NULL, NULL, fork_child);
        registered = true;
        atomic_store(&serves, fake.hold || fake.flip);
        if (atomic_load(&serves) && pthread_create(&thread, NULL, service, NULL) == 0)
                (void) pthread_detach(thread);
        else {
                set_held(false);
                atomic_store(&serves, false);
        }
}

static long outstanding_sum(void) {
        long sum = 0;
        for (size_t i = 0; i < n_queues; i++)
                sum += atomic_load(&queues[i]->outstanding);
        return sum;
}

__attribute__((destructor)) static void report(void) {
        const char *path = getenv("XSCHED_FAKE_REPORT");
        (void) pthread_mutex_lock(&lock);
        ending = true;
        (void) pthread_cond_broadcast(&arrived);
        (void) pthread_mutex_unlock(&lock);
        if (!path)
                return;

        /* Poll: the callbacks that end these come from threads that this library cannot join. Our own thread may be in
         * the middle of its drains. */
        uint64_t until = now_ns() + EXIT_GRACE;
        while ((atomic_load(&serves) || outstanding_sum() != 0 ||
                               atomic_load(&seen.drains) != atomic_load(&seen.drained)) &&
                        now_ns() < until) {
                struct timespec ts = {.tv_nsec = 1000000};
                (void) nanosleep(&ts, NULL);
        }

        FILE *f = fopen(path, "we");
        if (!f)
                return;
        fprintf(f, "queues %lu\nlaunches %lu\ntracked %lu\nwaited %lu\nnowait %lu\njoined %lu\n", seen.queues,
                        seen.launches, seen.tracked, seen.waited, seen.nowait, seen.joined);
        fprintf(f, "completed %lu\npassed %lu\n", seen.completed, atomic_load(&slot.submitted));
        fprintf(f,
                        "device_ns %lu\ndrains %lu\ndrained %lu\nboosts %lu\nexcess %lu\nmost %lu\n"
                        "outstanding %ld\nalive %d\n",
                        seen.device_ns, seen.drains, seen.drained, seen.boosts, seen.excess, seen.most,
                        outstanding_sum(), n_alive);
        for (size_t i = 0; i < n_queues; i++)
                fprintf(f, "queue %s %d\n", queues[i]->device, queues[i]->hint);
        (void) fclose(f);
}

_public_
int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret) {
        (void) pthread_once(&once, start);
        XschedQueue *q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        q->refs = 1;
        q->drain = info->drain;
        q->look = info->look;
        q->destroy = info->destroy;
        q->userdata = info->userdata;
        q->hint = info->priority_hint;
        (void) snprintf(q->device, sizeof(q->device), "%s", info->device);

        (void) pthread_mutex_lock(&lock);
        bool room = n_queues < QUEUES_MAX;
        if (room)
                queues[n_queues++] = q;
        (void) pthread_mutex_unlock(&lock);
        if (!room) {
                free(q);
                return -ENOMEM;
        }
        atomic_fetch_add(&seen.queues, 1);
        atomic_fetch_add(&n_alive, 1);
        *ret = q;
        return 0;
}

_public_
XschedQueue *xsched_queue_ref(XschedQueue *q) {
        atomic_fetch_add(&q->refs, 1);
        return q;
}

_public_
XschedQueue *xsched_queue_unref(XschedQueue *q) {
        if (q && atomic_fetch_sub(&q->refs, 1) == 1)
                atomic_fetch_sub(&n_alive, 1); /* stays in the list, for the report */
        return NULL;
}

/* No point of cancellation, as the real one. */
static int begin(XschedQueue *q, bool wait, void (*wait_for_room)(void *userdata), void *userdata) {
        CANCELS_BLOCKED;

        atomic_fetch_add(&seen.launches, 1);
        if (!atomic_load(&watched)) {
                atomic_store(&q->untracked, true);
                return XSCHED_UNTRACKED;
        }
        atomic_fetch_add(&seen.tracked, 1);
        atomic_fetch_add(&q->outstanding, 1);
        if (wait_for_room) {
                atomic_fetch_add(&q->waiting, 1);
                wait_for_room(userdata);
                atomic_fetch_sub(&q->waiting, 1);
        }
        unsigned long n = (unsigned long) (atomic_load(&q->outstanding) - atomic_load(&q->waiting));
        unsigned long most = atomic_load(&seen.most);
        while (n > most && !atomic_compare_exchange_weak(&seen.most, &most, n))
                ;
        if (!wait) {
                atomic_fetch_add(&seen.nowait, 1);
                return XSCHED_TRACKED;
        }

        (void) pthread_mutex_lock(&lock);
        if (held) {
                atomic_fetch_add(&seen.waited, 1);
                (void) pthread_cond_broadcast(&arrived);
        }
        while (held)
                (void) pthread_cond_wait(&released, &lock);
        (void) pthread_mutex_unlock(&lock);
        return XSCHED_TRACKED;
}

_public_
int xsched_queue_begin(XschedQueue *q) {
        return begin(q, true, NULL, NULL);
}

_public_
int xsched_queue_begin_nowait(XschedQueue *q) {
        return begin(q, false, NULL, NULL);
}

_public_
int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata) {
        return begin(q, true, wait, userdata);
}

_public_
int xsched_queue_join(XschedQueue *q, uint32_t n) {
        unsigned long all = (unsigned long) (atomic_fetch_add(&q->outstanding, (int) n) + (int) n);
        unsigned long most = atomic_load(&seen.most);

        while (all > most && !atomic_compare_exchange_weak(&seen.most, &most, all))
                ;
        atomic_fetch_add(&seen.launches, n);
        atomic_fetch_add(&seen.tracked, n);
        atomic_fetch_add(&seen.joined, n);
        return XSCHED_TRACKED;
}

_public_
void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns) {
        if (atomic_fetch_sub(&q->outstanding, (int) n) < (int) n)
                atomic_fetch_add(&seen.excess, 1);
        atomic_fetch_add(&seen.completed, n);
        atomic_fetch_add(&seen.device_ns, device_ns);
}

_public_
void xsched_queue_drained(XschedQueue *q) {
        int n = atomic_load(&q->outstanding);

        /* As the library does, it ignores an end of nothing. */
        atomic_fetch_add(&seen.drained, 1);
        while (n > 0 && !atomic_compare_exchange_weak(&q->outstanding, &n, n - 1))
                ;
}

_public_
uint32_t xsched_queue_limit(XschedQueue *q) {
        return atomic_load(&watched) ? fake.limit : 0;
}

_public_
uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns) {
        return xsched_queue_limit(q);
}

_public_
uint64_t xsched_queue_lead(XschedQueue *q) {
        return 0;
}

/* Calls look() too late, and on a thread of its own. */
static void *look_for_ever(void *unused) {
        for (;;) {
                const struct timespec ts = {.tv_nsec = SPELL_NS};
                (void) nanosleep(&ts, NULL);
                for (size_t i = 0;; i++) {
                        (void) pthread_mutex_lock(&lock);
                        bool end = i >= n_queues;
                        XschedQueue *q = end ? NULL : try_ref(queues[i]);
                        (void) pthread_mutex_unlock(&lock);
                        if (end)
                                break;
                        if (q && atomic_exchange(&q->look_wanted, false))
                                q->look(q, q->userdata);
                        xsched_queue_unref(q);
                }
        }
        return NULL;
}

static void start_looking(void) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, look_for_ever, NULL) == 0)
                (void) pthread_detach(thread);
}

_public_
void xsched_queue_look(XschedQueue *q) {
        atomic_store(&q->look_wanted, true);
        (void) pthread_once(&look_once, start_looking);
}

_public_
void xsched_queue_look_in(XschedQueue *q, uint64_t ns) {
        xsched_queue_look(q);
}

/* Functions of the other layer; they are used only if all of them are there. */
_public_
int xsched_queue_get_state(XschedQueue *q) {
        (void) pthread_mutex_lock(&lock);
        int state = (held ? XSCHED_QUEUE_HELD : 0) | (atomic_load(&watched) ? XSCHED_QUEUE_WATCHED : 0);
        (void) pthread_mutex_unlock(&lock);
        return state;
}

_public_
void xsched_queue_lower_level(XschedQueue *q, uint32_t level) {
}

_public_
void xsched_queue_set_flying(XschedQueue *q, uint64_t ns, uint64_t since_ns) {
}

_public_
void xsched_queue_started(XschedQueue *q, uint64_t since_ns) {
}

_public_
void xsched_queue_set_hooked(XschedQueue *q, uint32_t hooked) {
}

_public_
void xsched_queue_boost(XschedQueue *q) {
        atomic_fetch_add(&seen.boosts, 1);
}

_public_
int xsched_queue_words(XschedQueue *q, XschedWords *ret) {
        *ret = (XschedWords){.size = ret->size, .slot = &slot_at, .local_gate = &local_gate};
        return 0;
}

_public_
int xsched_get_counters(XschedCounters *ret) {
        *ret = (XschedCounters){
                        .size = ret->size,
                        .queues = (uint64_t) n_alive,
                        .launches = seen.launches,
                        .tracked = seen.tracked,
                        .waited = seen.waited,
        };
        return 0;
}

_public_
int xsched_hint(const char *name, int64_t value) {
        return 0;
}
