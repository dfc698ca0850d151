/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two copies of HIP, each with an HSA runtime of its own, in one process: as when a Python wheel brings its own and MPI
 * the system's
 *
 * SYSTEM_HIP and SECOND_HIP are their paths (second-copy). The copy that was loaded last is used first: the other's
 * runtime is not initialised then, so calls that get there by mistake fail. To be run with libkfdsim.so preloaded,
 * natively, and with libxsched-kfd.so in front: then each copy's launches wait at the gate.
 */

#include <dlfcn.h>
#include <pthread.h>

#include "include/xsched/xsched.h"
#include "kfdsim.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"
#include "tests/lib/threads.h"

#define SLOTS_MAX 16U
#define CYCLES    5
#define MARKER    "marker"

typedef struct Hip {
        void *handle;
        void *stream, *event;
} Hip;

static Hip copies[2];
static bool layered;
static FakeScheduler *s;
static FakeClient *client;

#define CALL(hip, type, name, ...)                                                                                     \
        do {                                                                                                           \
                int(*_f) type = (int(*) type)(uintptr_t) dlsym((hip)->handle, #name);                                  \
                CHECK(_f &&_f(__VA_ARGS__) == 0);                                                                      \
        } while (false)

static void load(Hip *hip, const char *path, int scope) {
        *hip = (Hip){.handle = dlopen(path, RTLD_NOW | scope)};
        if (!hip->handle)
                (void) fprintf(stderr, "%s\n", dlerror());
        CHECK(hip->handle);
}

static void mark(Hip *hip) {
        CALL(hip, (void *, void *), hipEventRecord, hip->event, hip->stream);
}

static void synchronize(Hip *hip) {
        CALL(hip, (void *), hipEventSynchronize, hip->event);
}

static uint32_t n_made(void) {
        KfdsimQueue q;
        uint32_t n = 0;

        for (uint32_t id = 0; id < SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q);
        return n;
}

static uint64_t n_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c.queues;
}

static void make_stream(Hip *hip) {
        CALL(hip, (unsigned), hipInit, 0);
        CALL(hip, (int), hipSetDevice, 0);
        CALL(hip, (void **), hipStreamCreate, &hip->stream);
        CALL(hip, (void **, int), hipEventCreateWithFlags, &hip->event, 0);
        mark(hip);
        synchronize(hip);
        CHECK(!layered || scheduler_until(s, client->n_queues == n_made() && n_registered() == n_made()));
}

static void *mark_thread(void *hip) {
        CHECK(pthread_setname_np(pthread_self(), MARKER) == 0);
        mark(hip);
        return NULL;
}

static uint64_t n_waiting(void) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < SLOTS_MAX; i++)
                n += atomic_load(&fake_slot(client->f, i)->waiters);
        return n;
}

static void wait_at_gate(Hip *hip) {
        pthread_t thread;
        uint32_t n = client->n_queues;

        for (int i = 0; i < CYCLES; i++) {
                for (uint32_t k = 0; k < n; k++) {
                        atomic_store(&fake_slot(client->f, k)->level, LEVEL_GATE);
                        fake_hold(client->f, k, NSEC_INFINITY);
                }
                CHECK(pthread_create(&thread, NULL, mark_thread, hip) == 0);
                CHECK(poll_until(n_waiting() == 1 && threads_asleep(MARKER) == 1));
                for (uint32_t k = 0; k < n; k++)
                        fake_run(client->f, k);
                fake_client_nudge(client);
                CHECK(pthread_join(thread, NULL) == 0);
                synchronize(hip);
        }
}

static void use(int system_scope, int second_scope, bool system_first) {
        const char *system = getenv("SYSTEM_HIP"), *second = getenv("SECOND_HIP");

        layered = dlsym(RTLD_DEFAULT, "xsched_early_environment") != NULL;
        if (layered) {
                s = fake_scheduler_new(bus.address);
                fake_scheduler_own(s);
                client = s->clients;
        }
        CHECK(system && second);
        load(&copies[0], system_first ? system : second, system_first ? system_scope : second_scope);
        load(&copies[1], system_first ? second : system, system_first ? second_scope : system_scope);
        for (int i = 1; i >= 0; i--)
                make_stream(&copies[i]);
        for (int i = 1; i >= 0; i--) {
                if (layered)
                        wait_at_gate(&copies[i]);
                mark(&copies[i]);
                synchronize(&copies[i]);
                CALL(&copies[i], (void *), hipStreamDestroy, copies[i].stream);
        }
}

/* --- cases --- */

static void case_private(void) {
        use(RTLD_LOCAL, RTLD_LOCAL, true);
}

static void case_private_second_first(void) {
        use(RTLD_LOCAL, RTLD_LOCAL, false);
}

/* As when mpi4py is loaded after the wheel: the wheel's own calls are bound before. */
static void case_system_comes_global(void) {
        use(RTLD_GLOBAL, RTLD_LOCAL, false);
}

/* The loader binds what comes later to the global copy, all of it. */
static void case_system_is_global(void) {
        use(RTLD_GLOBAL, RTLD_LOCAL, true);
}

static void case_both_global(void) {
        use(RTLD_GLOBAL, RTLD_GLOBAL, false);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(private),
                        CASE(private_second_first),
                        CASE(system_comes_global),
                        CASE(system_is_global),
                        CASE(both_global),
        };
        const char *self[] = {argv[0], NULL};

        return bus_cases_run(cases, ELEMENTSOF(cases), self, argv[1]);
}
