/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Objects that programs use on a CUDA device beside kernels: graphs with nodes of several kinds, memory and events of
 * two processes
 *
 * cuda-objects graph|conditional|ipc|values|pool|elsewhere: says "ready", works in rounds until its standard input
 * ends, and compares the results with those of the CPU: prints "N right", or fails. "left out: WHY" where the driver
 * has no such thing.
 *
 * graph        what is captured: a copy to the device, a kernel, a host function, a kernel, a copy back
 * conditional  a graph whose body is done where its condition says so, which is by default
 * ipc          a kernel of this process and one of a child take turns on the same memory, by events of both
 * values       kernels of two streams take turns: each stream waits for a value in memory that the other one writes
 * pool         memory that is allocated and freed in the order of a stream
 * elsewhere    launches by the handle of a stream, while another context is current, or none
 */

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tools/demo/cuda-driver.h"

#define N 4096U

#define EVENT_FLAGS             (2U | 4U) /* without times, for several processes */
#define NODE_CONDITIONAL        13
#define CONDITION_IF            0
#define CONDITION_DEFAULT       1U /* the value that was given counts at each launch */
#define CAPTURE_RELAXED         2
#define IPC_LAZY                1U
#define STREAM_NON_BLOCKING     1U
#define WAIT_AT_LEAST           0U
#define OP_WRITE_VALUE_32       2
#define STATUS_NOT_SUPPORTED    801
#define STATUS_NO_SUCH_FUNCTION 500

typedef struct Handle {
        char bytes[64];
} Handle;

/* CUgraphNodeParams, of a conditional node */
typedef struct NodeParams {
        int type, reserved[3];
        uint64_t condition;
        int kind;
        unsigned size;
        void **bodies;
        void *context;
        char rest[256 - 48];
} NodeParams;

_Static_assert(sizeof(NodeParams) == 256, "CUgraphNodeParams");

/* Functions that are looked up where they are used, with their types. */
#define CALL(name, TYPES, ...)                                                                                         \
        ({                                                                                                             \
                CudaStatus(*_f) TYPES;                                                                                 \
                *(void **) &_f = cuda_find(#name);                                                                     \
                _f ? _f(__VA_ARGS__) : STATUS_NO_SUCH_FUNCTION;                                                        \
        })
#define DO(...) CUDA_CHECK(CALL(__VA_ARGS__))

/* `otherwise`: what the driver lacks, if it says so. */
static void need(CudaStatus r, const char *otherwise) {
        if (r == STATUS_NO_SUCH_FUNCTION || r == STATUS_NOT_SUPPORTED) {
                printf("left out: %s\n", otherwise);
                exit(EXIT_SUCCESS);
        }
        CUDA_CHECK(r);
}

static void begin(void) {
        puts("ready");
        fflush(stdout);
}

static bool goes_on(void) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

        return poll(&p, 1, 0) == 0;
}

/* All N numbers are the same. */
static void end(const uint32_t *have, uint32_t want, unsigned rounds) {
        for (unsigned i = 0; i < N; i++)
                if (have[i] != want)
                        cuda_die("number %u is %x, and not %x", i, have[i], want);
        printf("%u right\n", rounds);
}

static uint32_t *host_memory(void) {
        void *p;

        DO(cuMemAllocHost_v2, (void **, size_t), &p, N * sizeof(uint32_t));
        memset(p, 0, N * sizeof(uint32_t));
        return p;
}

static void *graph_end(void) {
        void *graph;

        DO(cuStreamEndCapture, (void *, void **), cuda_stream, &graph);
        return graph;
}

static void *graph_ready(void *graph) {
        void *exec;

        DO(cuGraphInstantiateWithFlags, (void **, void *, uint64_t), &exec, graph, 0);
        return exec;
}

static void graph_launch(void *exec) {
        DO(cuGraphLaunch, (void *, void *), exec, cuda_stream);
}

/* --- graphs --- */

static uint32_t *in, *out;
static unsigned n_called;

/* Between two kernels of the graph, on a thread of the driver's. */
static void add(_unused_ void *unused) {
        n_called++;
        for (unsigned i = 0; i < N; i++)
                in[i] = n_called;
}

static void case_graph(void) {
        unsigned rounds = 0;

        in = host_memory();
        out = host_memory();
        CudaMemory m = cuda_put(NULL, N), added = cuda_put(NULL, N);
        uint32_t want = 0;

        DO(cuMemsetD8Async, (CudaMemory, unsigned char, size_t, void *), added, 0, N * sizeof(uint32_t), cuda_stream);
        CUDA_CHECK(cuda.wait(cuda_stream));
        DO(cuStreamBeginCapture_v2, (void *, int), cuda_stream, CAPTURE_RELAXED);
        CUDA_CHECK(cuda.to_device(m, in, N * sizeof(uint32_t), cuda_stream));
        cuda_scale(m, N, 3, 1);
        DO(cuLaunchHostFunc, (void *, void (*)(void *), void *), cuda_stream, add, NULL);
        cuda_scale(m, N, 5, 2);
        CUDA_CHECK(cuda.to_host(out, m, N * sizeof(uint32_t), cuda_stream));
        void *exec = graph_ready(graph_end());
        begin();
        for (; goes_on(); rounds++) {
                want = 5 * (3 * in[0] + 1) + 2; /* the graph before is done */
                graph_launch(exec);
                CUDA_CHECK(cuda.wait(cuda_stream));
                for (unsigned k = 0; k < N; k++)
                        if (out[k] != want || in[k] != rounds + 1)
                                cuda_die("round %u: %x, %x", rounds, out[k], in[k]);
        }
        if (n_called != rounds)
                cuda_die("%u of %u host functions", n_called, rounds);
        end(out, want, rounds);
}

static void case_conditional(void) {
        unsigned rounds = 0;
        void *graph, *body, *node, **bodies;
        uint64_t condition = 0;
        uint32_t *have = host_memory(), want = 1;
        CudaMemory m = cuda_put(NULL, N);

        DO(cuMemsetD8Async, (CudaMemory, unsigned char, size_t, void *), m, 0, N * sizeof(uint32_t), cuda_stream);
        cuda_scale(m, N, 1, 1);
        DO(cuGraphCreate, (void **, unsigned), &graph, 0);
        CudaStatus r = CALL(cuGraphConditionalHandleCreate, (uint64_t *, void *, void *, unsigned, unsigned),
                        &condition, graph, cuda_context, 1, CONDITION_DEFAULT);
        need(r, "the driver has no conditional nodes");
        NodeParams p = {
                        .type = NODE_CONDITIONAL,
                        .condition = condition,
                        .kind = CONDITION_IF,
                        .size = 1,
                        .context = cuda_context,
        };
        DO(cuGraphAddNode, (void **, void *, void *const *, size_t, NodeParams *), &node, graph, NULL, 0, &p);
        bodies = p.bodies;
        body = bodies[0];
        DO(cuStreamBeginCaptureToGraph, (void *, void *, const void *, const void *, size_t, int), cuda_stream, body,
                        NULL, NULL, 0, CAPTURE_RELAXED);
        cuda_scale(m, N, 3, 1);
        cuda_scale(m, N, 5, 2);
        (void) graph_end();
        void *exec = graph_ready(graph);
        begin();
        for (; goes_on(); rounds++) {
                graph_launch(exec);
                want = 5 * (3 * want + 1) + 2;
                if (rounds % 8 == 7)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        cuda_get(have, m, N);
        end(have, want, rounds);
}

/* --- two processes --- */

typedef struct Pipe {
        int in, out;
} Pipe;

static void say(const Pipe *p, const void *what, size_t size) {
        if (write(p->out, what, size) != (ssize_t) size)
                cuda_die("the other process has gone");
}

static void hear(const Pipe *p, void *ret, size_t size) {
        if (read(p->in, ret, size) != (ssize_t) size)
                cuda_die("the other process has gone");
}

/* An event of this process's, which the other one gets, and the other's. */
static void exchange_events(const Pipe *p, void **ret_ours, void **ret_theirs) {
        Handle ours, theirs;

        DO(cuEventCreate, (void **, unsigned), ret_ours, EVENT_FLAGS);
        DO(cuIpcGetEventHandle, (Handle *, void *), &ours, *ret_ours);
        say(p, &ours, sizeof(ours));
        hear(p, &theirs, sizeof(theirs));
        DO(cuIpcOpenEventHandle, (void **, Handle), ret_theirs, theirs);
}

/* A kernel of ours behind the other's: the device waits for it, and not this process. */
static void turn(const Pipe *p, bool waits, void *ours, void *theirs, CudaMemory m, unsigned a, unsigned b) {
        if (waits)
                DO(cuStreamWaitEvent, (void *, void *, unsigned), cuda_stream, theirs, 0);
        cuda_scale(m, N, a, b);
        DO(cuEventRecord, (void *, void *), ours, cuda_stream);
        say(p, "x", 1);
}

static pid_t start_child(Pipe *ret) {
        char numbers[2][16], *words[] = {(char *) "cuda-objects", (char *) "ipc-child", numbers[0], numbers[1], NULL};
        int there[2], back[2];
        pid_t pid;

        if (pipe2(there, 0) < 0 || pipe2(back, 0) < 0)
                cuda_die("no pipe");
        (void) fcntl(there[1], F_SETFD, FD_CLOEXEC);
        (void) fcntl(back[0], F_SETFD, FD_CLOEXEC);
        snprintf(numbers[0], sizeof(numbers[0]), "%d", there[0]);
        snprintf(numbers[1], sizeof(numbers[1]), "%d", back[1]);
        if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ) != 0)
                cuda_die("no child");
        (void) close(there[0]);
        (void) close(back[1]);
        *ret = (Pipe){.in = back[0], .out = there[1]};
        return pid;
}

static void case_ipc(void) {
        unsigned rounds = 0;
        CudaMemory m = cuda_put(NULL, N);
        void *ours, *theirs;
        uint32_t *have = host_memory(), want = 0;
        Handle h;
        Pipe p;
        int status;

        DO(cuMemsetD8Async, (CudaMemory, unsigned char, size_t, void *), m, 0, N * sizeof(uint32_t), cuda_stream);
        CudaStatus r = CALL(cuIpcGetMemHandle, (Handle *, CudaMemory), &h, m);
        need(r, "the driver shares no memory here");
        CUDA_CHECK(cuda.wait(cuda_stream));
        pid_t pid = start_child(&p);
        say(&p, &h, sizeof(h));
        exchange_events(&p, &ours, &theirs);
        begin();
        for (; goes_on(); rounds++) {
                turn(&p, rounds > 0, ours, theirs, m, 3, 1);
                hear(&p, &(char){0}, 1);
                want = 5 * (3 * want + 1) + 2;
        }
        DO(cuStreamWaitEvent, (void *, void *, unsigned), cuda_stream, theirs, 0);
        cuda_get(have, m, N);
        say(&p, "e", 1);
        if (waitpid(pid, &status, 0) != pid || status != 0)
                cuda_die("the child has failed");
        end(have, want, rounds);
}

static void case_ipc_child(Pipe p) {
        void *ours, *theirs;
        char word;
        CudaMemory m;
        Handle h;

        hear(&p, &h, sizeof(h));
        DO(cuIpcOpenMemHandle_v2, (CudaMemory *, Handle, unsigned), &m, h, IPC_LAZY);
        exchange_events(&p, &ours, &theirs);
        for (hear(&p, &word, 1); word == 'x'; hear(&p, &word, 1))
                turn(&p, true, ours, theirs, m, 5, 2);
        CUDA_CHECK(cuda.wait(cuda_stream));
}

/* --- one process --- */

typedef struct MemoryOp {
        int op;
        CudaMemory at;
        uint64_t value;
        unsigned flags;
        uint64_t rest[2];
} MemoryOp;

_Static_assert(sizeof(MemoryOp) == 48, "CUstreamBatchMemOpParams");

static void *stream_new(void) {
        void *s;

        DO(cuStreamCreate, (void **, unsigned), &s, STREAM_NON_BLOCKING);
        return s;
}

static CudaMemory zeros(void) {
        CudaMemory m = cuda_put(NULL, N);

        DO(cuMemsetD8Async, (CudaMemory, unsigned char, size_t, void *), m, 0, N * sizeof(uint32_t), cuda_stream);
        CUDA_CHECK(cuda.wait(cuda_stream));
        return m;
}

/* Behind the other stream's kernel: the device waits for a value, and not this thread. */
static void kernel_between(void *stream, CudaMemory wait_at, uint32_t value, CudaMemory m, unsigned a, unsigned b) {
        cuda_stream = stream;
        DO(cuStreamWaitValue32_v2, (void *, CudaMemory, uint32_t, unsigned), stream, wait_at, value, WAIT_AT_LEAST);
        cuda_scale(m, N, a, b);
}

static void case_values(void) {
        void *first = cuda_stream, *second = stream_new();
        uint32_t rounds = 0, *have = host_memory(), want = 0;
        CudaMemory m = zeros(), done = zeros();

        CudaStatus r = CALL(cuStreamWriteValue32_v2, (void *, CudaMemory, uint32_t, unsigned), first, done, 0, 0);
        need(r, "the driver's streams have no values");
        begin();
        for (; goes_on(); rounds++) {
                kernel_between(first, done + sizeof(uint32_t), rounds, m, 3, 1);
                DO(cuStreamWriteValue32_v2, (void *, CudaMemory, uint32_t, unsigned), first, done, rounds + 1, 0);
                kernel_between(second, done, rounds + 1, m, 5, 2);
                MemoryOp op = {.op = OP_WRITE_VALUE_32, .at = done + sizeof(uint32_t), .value = rounds + 1};
                DO(cuStreamBatchMemOp_v2, (void *, unsigned, MemoryOp *, unsigned), second, 1, &op, 0);
                want = 5 * (3 * want + 1) + 2;
                if (rounds % 8 == 7)
                        CUDA_CHECK(cuda.wait(second));
        }
        cuda_get(have, m, N);
        end(have, want, rounds);
}

static void case_pool(void) {
        uint32_t rounds = 0, *have = host_memory(), want = 0;
        CudaMemory m = zeros(), p;

        CudaStatus r = CALL(cuMemAllocAsync, (CudaMemory *, size_t, void *), &p, N * sizeof(uint32_t), cuda_stream);
        need(r, "the driver has no pools of memory");
        begin();
        for (; goes_on(); rounds++) {
                DO(cuMemcpyDtoDAsync_v2, (CudaMemory, CudaMemory, size_t, void *), p, m, N * sizeof(uint32_t),
                                cuda_stream);
                cuda_scale(p, N, 3, 1);
                DO(cuMemcpyDtoDAsync_v2, (CudaMemory, CudaMemory, size_t, void *), m, p, N * sizeof(uint32_t),
                                cuda_stream);
                DO(cuMemFreeAsync, (CudaMemory, void *), p, cuda_stream);
                DO(cuMemAllocAsync, (CudaMemory *, size_t, void *), &p, N * sizeof(uint32_t), cuda_stream);
                want = 3 * want + 1;
                if (rounds % 8 == 7)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        cuda_get(have, m, N);
        end(have, want, rounds);
}

static void case_elsewhere(void) {
        uint32_t rounds = 0, *have = host_memory(), want = 0;
        CudaMemory m = zeros();
        void *other;
        int device;

        CUDA_CHECK(cuda.device_get(&device, 0));
        DO(cuCtxCreate_v2, (void **, unsigned, int), &other, 0, device);
        begin();
        for (; goes_on(); rounds++) {
                CUDA_CHECK(cuda.set_current(rounds % 64 < 32 ? other : NULL));
                cuda_scale(m, N, 3, 1);
                want = 3 * want + 1;
                if (rounds % 8 == 7)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        CUDA_CHECK(cuda.set_current(cuda_context));
        cuda_get(have, m, N);
        end(have, want, rounds);
}

int main(int argc, char *argv[]) {
        const char *what = argc > 1 ? argv[1] : "";

        cuda_open();
        if (streq(what, "graph"))
                case_graph();
        else if (streq(what, "conditional"))
                case_conditional();
        else if (streq(what, "ipc"))
                case_ipc();
        else if (streq(what, "values"))
                case_values();
        else if (streq(what, "pool"))
                case_pool();
        else if (streq(what, "elsewhere"))
                case_elsewhere();
        else if (streq(what, "ipc-child") && argc > 3)
                case_ipc_child((Pipe){.in = atoi(argv[2]), .out = atoi(argv[3])});
        else
                cuda_die("usage: graph|conditional|ipc|values|pool|elsewhere");
        return EXIT_SUCCESS;
}
