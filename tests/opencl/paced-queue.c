/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Commands for the paced device: submitted, waited for, and their results made
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "paced-opencl.h"

#include "common/macro.h"
#include "common/time-util.h"
#include "tools/demo/recurrence.h"

#define COMMANDS    8192U
#define LAUNCH_NS   3500 /* what calls cost the host of an H100, beside what they really take */
#define EVENT_NS    1600
#define ASK_NS      2500
#define EMPTY_NS    250                   /* a kernel's length without any rounds */
#define SPIN_NS     (60 * NSEC_PER_USEC)  /* a sleep may end so late */
#define CALLBACK_NS (20 * NSEC_PER_USEC)  /* from the end to the callback */
#define ROOM_NS     (200 * NSEC_PER_USEC) /* between two looks for room in the device's queue */

/* What was submitted and was not found complete. */
typedef struct Command {
        Function function;
        Argument arguments[ARGUMENTS];
        uint32_t n_items;
        cl_event event; /* or NULL */
} Command;

typedef struct Callback {
        cl_event event;
        void(CL_CALLBACK *function)(cl_event, cl_int, void *);
        void *userdata;
        struct Callback *next;
} Callback;
static struct {
        pthread_mutex_t lock;
        pthread_cond_t changed; /* for the thread that calls back */
        pthread_once_t once;
        PacedDevice *device;
        int context;
        bool calls_back; /* that thread exists */
        uint64_t n_submitted, n_over;
        Command commands[COMMANDS];
        Callback *callbacks;
        uint32_t rounds; /* of the last kernel, and all of these as one step */
        Affine all;
} paced = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .context = -1};

static void open_device(void) {
        pthread_condattr_t monotonic;

        (void) pthread_condattr_init(&monotonic);
        (void) pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&paced.changed, &monotonic);
        (void) pthread_condattr_destroy(&monotonic);
        paced.device = paced_open(getenv("PACED_DEVICE"));
        paced.context = paced.device ? paced_context_new(paced.device) : -1;
}

bool paced_has_device(void) {
        (void) pthread_once(&paced.once, open_device);
        return paced.context >= 0;
}

/* --- objects --- */

void *paced_object_new(size_t size) {
        Object *o = calloc(1, size);

        if (o)
                *o = (Object){.dispatch = &paced_dispatch, .refs = 1};
        return o;
}

cl_int paced_object_retain(Object *o) {
        atomic_fetch_add(&o->refs, 1);
        return CL_SUCCESS;
}

cl_int paced_object_release(Object *o) {
        if (atomic_fetch_sub(&o->refs, 1) == 1)
                free(o);
        return CL_SUCCESS;
}
/* --- time --- */

static void spend(uint64_t ns) {
        for (uint64_t until = now_ns() + ns; now_ns() < until;)
                ;
}

static void wait_until(uint64_t ns) {
        static __thread bool exact;
        uint64_t now = now_ns();

        if (!exact) {
                (void) prctl(PR_SET_TIMERSLACK, 1UL);
                exact = true;
        }
        if (ns > now + SPIN_NS) {
                struct timespec until = ns_to_timespec(ns - SPIN_NS);
                (void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        while (now_ns() < ns)
                ;
}

/* --- results --- */

static void make_work(const Command *c, PacedSpan span, bool in_order) {
        uint32_t *state = (uint32_t *) (void *) c->arguments[0].memory->data;
        const int first = in_order ? 2 : 1; /* timed() has no number of items */
        uint32_t rounds = c->arguments[first + 2].word, launch = c->arguments[5].word;

        if (paced.rounds != rounds) {
                Affine step = {.a = c->arguments[first].word, .c = c->arguments[first + 1].word};
                paced.rounds = rounds;
                paced.all = affine_power(step, rounds);
        }
        for (uint32_t i = 0; i < c->n_items; i++)
                state[i] = affine_apply(paced.all, state[i]);
        if (!in_order)
                return;
        PacedSpan *spans = (PacedSpan *) (void *) c->arguments[6].memory->data;
        spans[launch % (c->arguments[6].memory->size / sizeof(PacedSpan))] = span;
        state[c->n_items] = recurrence_order(state[c->n_items], launch);
        state[c->n_items + 1]++;
}

static void make_result(const Command *c, PacedSpan span) {
        if (c->function == FUNCTION_TICK)
                memcpy(c->arguments[0].memory->data, &span.begin_ns, sizeof(uint64_t));
        else if (c->function != FUNCTION_NONE)
                make_work(c, span, c->function == FUNCTION_WORK);
}

/* Under the lock. Finds what is over. */
static void look(void) {
        PacedSpan span;

        while (paced.n_over < paced.n_submitted && paced_take(paced.device, paced.context, &span)) {
                Command *c = paced.commands + paced.n_over++ % COMMANDS;

                make_result(c, span);
                if (!c->event)
                        continue;
                c->event->span = span;
                atomic_store(&c->event->over, true);
                (void) paced_object_release(&c->event->object);
        }
}

/* --- callbacks --- */

/* Under the lock, which is released for the call. Returns when the next one is due. */
static uint64_t call_back(void) {
        uint64_t due = NSEC_INFINITY;

        look();
        for (Callback **at = &paced.callbacks; *at;) {
                Callback *c = *at;

                if (!c->event->over) {
                        due = MIN(due, paced_due(paced.device, paced.context, c->event->number));
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                (void) pthread_mutex_unlock(&paced.lock);
                c->function(c->event, CL_COMPLETE, c->userdata);
                (void) paced_object_release(&c->event->object);
                free(c);
                (void) pthread_mutex_lock(&paced.lock);
                at = &paced.callbacks;
                due = NSEC_INFINITY;
                look();
        }
        return due;
}

static void *calls_back(void *unused) {
        (void) prctl(PR_SET_TIMERSLACK, 1UL);
        (void) pthread_mutex_lock(&paced.lock);
        for (;;) {
                uint64_t due = call_back();

                if (due == NSEC_INFINITY) {
                        (void) pthread_cond_wait(&paced.changed, &paced.lock);
                        continue;
                }
                struct timespec until = ns_to_timespec(MAX(due, now_ns()) + CALLBACK_NS);
                (void) pthread_cond_timedwait(&paced.changed, &paced.lock, &until);
        }
        return unused;
}

cl_int paced_set_callback(cl_event e, cl_int on, void(CL_CALLBACK *function)(cl_event, cl_int, void *), void *data) {
        Callback *c = on == CL_COMPLETE ? malloc(sizeof(*c)) : NULL;
        pthread_t thread;

        if (!c)
                return CL_INVALID_VALUE;
        (void) paced_object_retain(&e->object);
        *c = (Callback){.event = e, .function = function, .userdata = data};
        (void) pthread_mutex_lock(&paced.lock);
        if (!paced.calls_back && pthread_create(&thread, NULL, calls_back, NULL) == 0) {
                paced.calls_back = true;
                (void) pthread_detach(thread);
        }
        c->next = paced.callbacks;
        paced.callbacks = c;
        (void) pthread_cond_signal(&paced.changed);
        (void) pthread_mutex_unlock(&paced.lock);
        return CL_SUCCESS;
}

/* --- commands --- */

/* Under the lock. Waits until the device takes one more launch. */
static int64_t submit(uint64_t length_ns) {
        for (;;) {
                int64_t number = paced_submit(paced.device, paced.context, length_ns);

                if (number >= 0)
                        return number;
                look();
                (void) pthread_mutex_unlock(&paced.lock);
                wait_until(now_ns() + ROOM_NS);
                (void) pthread_mutex_lock(&paced.lock);
        }
}

static cl_event event_new(cl_command_queue q, cl_command_type type) {
        cl_event e = paced_object_new(sizeof(*e));

        if (e) {
                e->queue = q;
                e->type = type;
        }
        return e;
}

static cl_int enqueue(
                cl_command_queue q, const Command *what, uint64_t length_ns, cl_command_type type, cl_event *ret) {
        cl_event e = ret ? event_new(q, type) : NULL;

        if (ret && !e)
                return CL_OUT_OF_HOST_MEMORY;
        (void) pthread_mutex_lock(&paced.lock);
        uint64_t number = (uint64_t) submit(length_ns);
        Command *c = paced.commands + number % COMMANDS;
        *c = *what;
        c->event = e;
        paced.n_submitted = number + 1;
        if (e) {
                e->number = number;
                (void) paced_object_retain(&e->object);
                *ret = e;
        }
        (void) pthread_mutex_unlock(&paced.lock);
        spend((type == CL_COMMAND_NDRANGE_KERNEL ? LAUNCH_NS : 0) + (ret ? EVENT_NS : 0));
        return CL_SUCCESS;
}

cl_int paced_launch(cl_command_queue q, cl_kernel k, cl_uint dim, const size_t *offset, const size_t *global,
                const size_t *local, cl_uint n_waits, const cl_event *waits, cl_event *ret) {
        if (dim != 1 || !global)
                return CL_INVALID_WORK_DIMENSION;
        Command c = {.function = k->function, .n_items = (uint32_t) global[0]};
        uint64_t rounds = k->function == FUNCTION_WORK  ? k->arguments[4].word
                        : k->function == FUNCTION_TIMED ? k->arguments[3].word
                                                        : 0;

        memcpy(c.arguments, k->arguments, sizeof(c.arguments));
        return enqueue(q, &c, EMPTY_NS + rounds, CL_COMMAND_NDRANGE_KERNEL, ret);
}

cl_int paced_marker(cl_command_queue q, cl_uint n_waits, const cl_event *waits, cl_event *ret) {
        return enqueue(q, &(Command){}, 0, CL_COMMAND_MARKER, ret);
}

/* Waits until `number` commands are over. */
static void wait_for(uint64_t number) {
        (void) pthread_mutex_lock(&paced.lock);
        for (look(); paced.n_over < number; look()) {
                uint64_t due = paced_due(paced.device, paced.context, number - 1);

                (void) pthread_mutex_unlock(&paced.lock);
                wait_until(due);
                (void) pthread_mutex_lock(&paced.lock);
        }
        (void) pthread_mutex_unlock(&paced.lock);
}

cl_int paced_finish(cl_command_queue q) {
        (void) pthread_mutex_lock(&paced.lock);
        uint64_t n = paced.n_submitted;
        (void) pthread_mutex_unlock(&paced.lock);
        wait_for(n);
        return CL_SUCCESS;
}

cl_int paced_wait_for_events(cl_uint n, const cl_event *events) {
        for (cl_uint i = 0; i < n; i++)
                if (!events[i]->over)
                        wait_for(events[i]->number + 1);
        return CL_SUCCESS;
}

cl_int paced_flush(cl_command_queue q) {
        return CL_SUCCESS;
}

cl_int paced_read_buffer(cl_command_queue q, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *ret,
                cl_uint n_waits, const cl_event *waits, cl_event *event) {
        if (!blocking || event || offset > memory->size || size > memory->size - offset)
                return CL_INVALID_VALUE;
        (void) paced_finish(q);
        memcpy(ret, memory->data + offset, size);
        return CL_SUCCESS;
}

bool paced_is_over(cl_event e) {
        spend(ASK_NS);
        (void) pthread_mutex_lock(&paced.lock);
        look();
        (void) pthread_mutex_unlock(&paced.lock);
        return e->over;
}
