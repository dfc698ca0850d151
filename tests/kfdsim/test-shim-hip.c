/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer under Debian's own HIP: the queue of a stream is captured, held in the driver and at the gate, and
 * released
 *
 * To be run with libxsched-kfd.so and libkfdsim.so preloaded; the service does what the test says.
 */

#include <hip/hip_runtime_api.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kfdsim/shim-kfd.h"
#include "tests/lib/threads.h"

#define SLOTS_MAX 16U
#define COPY_SIZE ((size_t) 1 << 20)
#define CYCLES    10
#define MARKER    "marker"

#define CHECK_HIP(call) CHECK((call) == hipSuccess)

static hipStream_t stream;

static XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c;
}

static uint64_t launches(void) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < SLOTS_MAX; i++)
                n += atomic_load(&fake_slot(client->f, i)->submitted);
        return n;
}

/* A marker: a packet in the stream's queue, and a ring of its doorbell. */
static void mark(hipEvent_t e) {
        CHECK_HIP(hipEventRecord(e, stream));
}

static hipEvent_t event_new(void) {
        hipEvent_t e;

        CHECK_HIP(hipEventCreateWithFlags(&e, hipEventDefault));
        return e;
}

static unsigned n_made(void) {
        KfdsimQueue q;
        unsigned n = 0;

        for (uint32_t id = 0; id < SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q);
        return n;
}

/* HIP makes its queues when it needs them: after a marker those of kernels are there, and none of copies. Each is known
 * some time later. */
static void hip_start(void) {
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        client = s->clients;
        CHECK_HIP(hipInit(0));
        CHECK_HIP(hipSetDevice(0));
        CHECK_HIP(hipStreamCreate(&stream));
        hipEvent_t e = event_new();
        mark(e);
        CHECK_HIP(hipEventSynchronize(e));
        CHECK_HIP(hipEventDestroy(e));
        CHECK(scheduler_until(s, client->n_queues > 0 && client->n_queues == n_made() && n_registered() == n_made()));
}

static void copy_there_and_back(unsigned seed) {
        _cleanup_free_ uint32_t *host = malloc(COPY_SIZE);
        size_t n = COPY_SIZE / sizeof(*host);
        void *gpu = NULL;

        CHECK(host);
        for (size_t i = 0; i < n; i++)
                host[i] = (uint32_t) i * 2654435761U + seed;
        CHECK_HIP(hipMalloc(&gpu, COPY_SIZE));
        CHECK_HIP(hipMemcpyAsync(gpu, host, COPY_SIZE, hipMemcpyHostToDevice, stream));
        CHECK_HIP(hipStreamSynchronize(stream));
        memset(host, 0, COPY_SIZE);
        CHECK_HIP(hipMemcpyAsync(host, gpu, COPY_SIZE, hipMemcpyDeviceToHost, stream));
        CHECK_HIP(hipStreamSynchronize(stream));
        for (size_t i = 0; i < n; i++)
                CHECK(host[i] == (uint32_t) i * 2654435761U + seed);
        CHECK_HIP(hipFree(gpu));
}

static unsigned n_unmapped(void) {
        KfdsimQueue q;
        unsigned n = 0;

        for (uint32_t id = 0; id < SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q) && !q.mapped;
        return n;
}

static uint64_t n_waiting(void) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < SLOTS_MAX; i++)
                n += atomic_load(&fake_slot(client->f, i)->waiters);
        return n;
}

/* --- verdicts for all queues --- */

/* A profiler that stands in front of a new queue may make another in its place. Then the service hears of both, and
 * what stays has not the first slot. */
static bool seated_are_held(void) {
        bool held = client->seated != 0;

        for (uint32_t i = 0; i < SLOTS_MAX; i++) {
                if (!(client->seated >> i & 1))
                        continue;
                if (!(atomic_load(&fake_slot(client->f, i)->verdict) & PAGE_VERDICT_HOLD))
                        hold(i, NSEC_INFINITY);
                held = held && is_applied(i);
        }
        return held;
}

static void hold_seated(void) {
        CHECK(scheduler_until(s, seated_are_held()));
}

static void run_seated(void) {
        for (uint32_t i = 0; i < SLOTS_MAX; i++)
                if (client->seated >> i & 1)
                        fake_run(client->f, i);
        fake_client_nudge(client);
}

/* --- cases --- */

static void *mark_thread(void *e) {
        CHECK(pthread_setname_np(pthread_self(), MARKER) == 0);
        mark(e);
        return NULL;
}

static void case_captured(void) {
        hip_start();
        uint64_t before = launches();
        hipEvent_t e = event_new();
        for (int i = 0; i < 10; i++)
                mark(e);
        CHECK_HIP(hipEventSynchronize(e));
        CHECK(launches() >= before + 10);
        CHECK(counters().waited == 0);
        copy_there_and_back(1);
        CHECK_HIP(hipStreamDestroy(stream));
}

/* Unmapped in the driver, and a thread that rings waits, with HIP's lock of the stream: hipEventQuery() would wait,
 * too. Then all goes on. */
static void hold_and_release(uint32_t n) {
        pthread_t thread;

        for (int i = 0; i < CYCLES; i++) {
                hipEvent_t e = event_new();
                uint64_t waited = counters().waited;
                hold_seated();
                CHECK(n_unmapped() == n);
                CHECK(pthread_create(&thread, NULL, mark_thread, e) == 0);
                CHECK(poll_until(n_waiting() == 1 && threads_asleep(MARKER) == 1));
                run_seated();
                CHECK(pthread_join(thread, NULL) == 0);
                CHECK_HIP(hipEventSynchronize(e));
                CHECK(poll_until(n_unmapped() == 0));
                CHECK(counters().waited == waited + 1);
                CHECK_HIP(hipEventDestroy(e));
        }
}

static void case_held(void) {
        hip_start();
        hold_and_release(client->n_queues);
        copy_there_and_back(2);
}

static void wait_for(pid_t pid) {
        int status;

        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

/* A child that uses HIP, as of multiprocessing; and one that does not, of a process which does. */
static void case_forked(void) {
        pid_t pid = fork();

        if (pid == 0) {
                hip_start();
                uint32_t n = client->n_queues;
                pid = fork();
                if (pid == 0)
                        _exit(n_registered() == 0 && counters().state == XSCHED_STATE_OFF ? EXIT_SUCCESS
                                                                                          : EXIT_FAILURE);
                wait_for(pid);
                hold_and_release(n);
                _exit(EXIT_SUCCESS);
        }
        wait_for(pid);
}

/* Copies after a hold, on queues that HIP makes for them then. */
static void case_copies(void) {
        hip_start();
        copy_there_and_back(3);
        hold_seated();
        run_seated();
        copy_there_and_back(4);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(captured),
                        CASE(held),
                        CASE(copies),
                        CASE(forked),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
