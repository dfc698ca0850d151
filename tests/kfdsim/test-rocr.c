/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Debian's own ROCr on a simulated GPU: an application of libhsa-runtime64, whose packets are executed
 *
 * "test-rocr GPUS" expects that many GPU agents, and uses a queue on each: barrier packets that wait for a signal of
 * the host, kernel dispatches that prove their execution, completion by waiting blocked (for ever: a wait that nobody
 * ends is a failure) and active. TAP.
 */

#include <hsa/hsa.h>
#include <stdio.h>

#include "aql.h"
#include "common/macro.h"
#include "common/time-util.h"

#define AGENTS_MAX   8U
#define N_DISPATCHES 1000U /* several times round the ring */
#define N_WAITS      100U
#define LONG_NS      (500 * NSEC_PER_USEC) /* the runtime looks for 200 us before it sleeps */
#define PATIENCE     (10 * NSEC_PER_SEC)

typedef struct Agents {
        hsa_agent_t agents[AGENTS_MAX];
        unsigned n;
} Agents;

static unsigned n_tests, n_failed;

static void check(bool ok, const char *what, unsigned agent) {
        n_failed += !ok;
        printf("%sok %u - GPU %u: %s\n", ok ? "" : "not ", ++n_tests, agent, what);
        (void) fflush(stdout);
}

static hsa_status_t collect(hsa_agent_t agent, void *userdata) {
        Agents *a = userdata;
        hsa_device_type_t type;

        if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) == HSA_STATUS_SUCCESS &&
                        type == HSA_DEVICE_TYPE_GPU && a->n < AGENTS_MAX)
                a->agents[a->n++] = agent;
        return HSA_STATUS_SUCCESS;
}

static bool wait_for_zero(hsa_signal_t s, hsa_wait_state_t how) {
        return hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, how) <= 0;
}

static AqlPacket *packet_begin(hsa_queue_t *q, uint64_t *ret_index) {
        uint64_t index = hsa_queue_add_write_index_screlease(q, 1), end = now_ns() + PATIENCE;

        while (index - hsa_queue_load_read_index_scacquire(q) >= q->size)
                if (now_ns() > end)
                        return NULL;
        AqlPacket *p = (AqlPacket *) q->base_address + index % q->size;
        memset((uint8_t *) p + sizeof(p->header), 0, sizeof(*p) - sizeof(p->header));
        *ret_index = index;
        return p;
}

static void packet_commit(hsa_queue_t *q, AqlPacket *p, uint64_t index, uint16_t type) {
        __atomic_store_n(&p->header, (uint16_t) (type | 1U << 8 | 2U << 9 | 2U << 11), __ATOMIC_RELEASE);
        hsa_signal_store_screlease(q->doorbell_signal, (hsa_signal_value_t) index);
}

static bool barrier(hsa_queue_t *q, hsa_signal_t dependency, hsa_signal_t done) {
        uint64_t index;
        AqlPacket *p = packet_begin(q, &index);

        if (!p)
                return false;
        p->barrier.dependency[0] = dependency.handle;
        p->completion_signal = done.handle;
        packet_commit(q, p, index, AQL_BARRIER_AND);
        return true;
}

static bool dispatch(hsa_queue_t *q, const AqlKernel *k, AqlProof *proof, uint64_t number, hsa_signal_t done) {
        uint64_t index;
        AqlPacket *p = packet_begin(q, &index);

        if (!p)
                return false;
        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uint64_t) (uintptr_t) k;
        p->dispatch.kernarg = (uint64_t) (uintptr_t) proof;
        p->dispatch.reserved2 = number;
        p->completion_signal = done.handle;
        packet_commit(q, p, index, AQL_DISPATCH);
        return true;
}

static void test_barriers(hsa_queue_t *q, unsigned agent) {
        hsa_signal_t go, done, none = {0};

        (void) hsa_signal_create(1, 0, NULL, &go);
        (void) hsa_signal_create(1, 0, NULL, &done);
        check(barrier(q, none, done) && wait_for_zero(done, HSA_WAIT_STATE_BLOCKED), "barrier without dependency",
                        agent);

        hsa_signal_store_screlease(done, 1);
        bool ok = barrier(q, go, done);
        check(ok &&
                                        hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 20 * NSEC_PER_MSEC,
                                                        HSA_WAIT_STATE_BLOCKED) == 1,
                        "barrier waits for its dependency", agent);
        hsa_signal_store_screlease(go, 0);
        check(wait_for_zero(done, HSA_WAIT_STATE_ACTIVE), "barrier goes on", agent);
        (void) hsa_signal_destroy(go);
        (void) hsa_signal_destroy(done);
}

static void test_dispatches(hsa_queue_t *q, unsigned agent) {
        static const AqlKernel kernel = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 20000};
        AqlProof *proof = calloc(1, sizeof(*proof) + 2 * (size_t) N_DISPATCHES);
        hsa_signal_t done, none = {0};
        bool ok = proof;

        (void) hsa_signal_create(1, 0, NULL, &done);
        if (proof)
                proof->capacity = 2 * N_DISPATCHES;
        for (uint64_t i = 1; ok && i <= N_DISPATCHES; i++)
                ok = dispatch(q, &kernel, proof, i, i == N_DISPATCHES ? done : none);
        check(ok && wait_for_zero(done, HSA_WAIT_STATE_BLOCKED), "dispatches complete", agent);
        check(ok && proof->n_executed == N_DISPATCHES && proof->highest == N_DISPATCHES && proof->n_late == 0 &&
                                        proof->n_doubled == 0,
                        "each was executed once and in order", agent);
        (void) hsa_signal_destroy(done);
        free(proof);
}

/* Each is waited for by itself, by two signals in turn: the runtime sleeps, and the driver's event is what wakes it. */
static void test_waits(hsa_queue_t *q, unsigned agent) {
        static const AqlKernel kernel = {.magic = AQL_KERNEL_MAGIC, .duration_ns = LONG_NS};
        AqlProof *proof = calloc(1, sizeof(*proof) + 2 * (size_t) N_WAITS);
        hsa_signal_t done[2];
        bool ok = proof;

        for (size_t i = 0; i < ELEMENTSOF(done); i++)
                (void) hsa_signal_create(1, 0, NULL, done + i);
        if (proof)
                proof->capacity = 2 * N_WAITS;
        for (uint64_t i = 1; ok && i <= N_WAITS; i++) {
                hsa_signal_t s = done[i % ELEMENTSOF(done)];
                hsa_signal_store_screlease(s, 1);
                ok = dispatch(q, &kernel, proof, i, s) && wait_for_zero(s, HSA_WAIT_STATE_BLOCKED) &&
                                __atomic_load_n(&proof->n_executed, __ATOMIC_ACQUIRE) == i;
        }
        check(ok, "each dispatch ends a wait", agent);
        for (size_t i = 0; i < ELEMENTSOF(done); i++)
                (void) hsa_signal_destroy(done[i]);
        free(proof);
}

static void test_agent(hsa_agent_t a, unsigned agent) {
        hsa_queue_t *q = NULL;

        check(hsa_queue_create(a, 256, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &q) ==
                                        HSA_STATUS_SUCCESS,
                        "hsa_queue_create", agent);
        if (!q)
                return;
        test_barriers(q, agent);
        test_dispatches(q, agent);
        test_waits(q, agent);
        check(hsa_queue_destroy(q) == HSA_STATUS_SUCCESS, "hsa_queue_destroy", agent);
}

int main(int argc, char *argv[]) {
        Agents a = {0};

        if (hsa_init() != HSA_STATUS_SUCCESS || hsa_iterate_agents(collect, &a) != HSA_STATUS_SUCCESS) {
                puts("Bail out! hsa_init");
                return EXIT_FAILURE;
        }
        check(argc > 1 && a.n == strtoul(argv[1], NULL, 10), "as many agents as expected", a.n);
        for (unsigned i = 0; i < a.n; i++)
                test_agent(a.agents[i], i);
        check(hsa_shut_down() == HSA_STATUS_SUCCESS, "hsa_shut_down", a.n);
        printf("1..%u\n", n_tests);
        return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
