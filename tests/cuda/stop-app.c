/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program whose running kernels can be observed, and that prints what the driver knows of it
 *
 * stop-app USEC [GPU...]: on each GPU a thread launches kernels of that length. At least one is always in flight, since
 * a program that is held between two launches has nothing to stop. Answers each command on its standard input with a
 * line; before the first it prints "ready".
 */

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app-check.h"
#include "fake-cuda.h"
#include "fake-rm.h"

#define N         4U
#define WORKERS   4U
#define IN_FLIGHT 2U

typedef struct Worker {
        pthread_t thread;
        int gpu;
        struct Context *context;
        unsigned n, right;
} Worker;

static uint64_t kernel_ns;
static Worker workers[WORKERS];
static unsigned n_workers;
static _Atomic bool over;
static sem_t ready;
static void *triple;
static struct Context *other;

static void launch(FakeStream s, int *a) {
        int k = 1;
        unsigned n = N;
        void *params[] = {&a, &k, &n, &kernel_ns};

        CHECK(cuLaunchKernel(triple, 1, 1, 1, N, 1, 1, 0, s, params, NULL) == 0);
}

static void *work(void *userdata) {
        Worker *w = userdata;
        struct Event *done[IN_FLIGHT];
        FakeStream s;
        uint64_t p;
        int have[N] = {}, want = 0;

        CHECK(cuCtxSetCurrent(w->context) == 0);
        CHECK(cuStreamCreate(&s, 1) == 0);
        CHECK(cuMemAlloc_v2(&p, sizeof(have)) == 0);
        for (unsigned i = 0; i < IN_FLIGHT; i++)
                CHECK(cuEventCreate(&done[i], 0) == 0);
        (void) sem_post(&ready);
        for (; !over; w->n++) {
                if (w->n >= IN_FLIGHT)
                        CHECK(cuEventSynchronize(done[w->n % IN_FLIGHT]) == 0);
                launch(s, (int *) (uintptr_t) p);
                CHECK(cuEventRecord(done[w->n % IN_FLIGHT], s) == 0);
                want = (int) ((unsigned) want * 3 + 1);
        }
        CHECK(cuMemcpyDtoHAsync_v2(have, p, sizeof(have), s) == 0);
        CHECK(cuStreamSynchronize(s) == 0);
        for (unsigned i = 0; i < IN_FLIGHT; i++)
                CHECK(cuEventDestroy_v2(done[i]) == 0);
        for (unsigned i = 0; i < N; i++)
                w->right += have[i] == want;
        return NULL;
}

static int stop(int stop) {
        int (*f)(int) = (int (*)(int))(uintptr_t) dlsym(RTLD_DEFAULT, "xsched_cuda_stop");
        return f ? f(stop) : 1;
}

static void *make_context(void *unused) {
        CHECK(cuCtxCreate_v2(&other, 0, 0) == 0);
        return NULL;
}

static void make_and_join(void) {
        pthread_t t;

        CHECK(pthread_create(&t, NULL, make_context, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
}

static int child_stop(void) {
        int status;

        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
                _exit(-stop(1));
        CHECK(waitpid(pid, &status, 0) == pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static sem_t stuck;

__attribute__((noreturn)) static uint32_t never(unsigned nr, bool before) {
        (void) sem_post(&stuck);
        for (;;)
                pause();
}

static void *stop_for_ever(void *unused) {
        (void) stop(1);
        return NULL;
}

static void stick(void) {
        pthread_t t;

        CHECK(sem_init(&stuck, 0, 0) == 0);
        fake_rm_on_call(never);
        CHECK(pthread_create(&t, NULL, stop_for_ever, NULL) == 0);
        while (sem_wait(&stuck) < 0)
                ;
}

static void answer(const char *command) {
        unsigned after, status, gpu;

        if (strcmp(command, "disabled") == 0)
                printf("%u %u %u\n", fake_rm_disabled(0), fake_rm_disabled(1), fake_rm_disabled(2));
        else if (sscanf(command, "progress %u", &gpu) == 1)
                printf("%lu\n", fake_rm_progress(gpu));
        else if (sscanf(command, "sliced %u", &gpu) == 1)
                printf("%u\n", fake_rm_sliced(gpu));
        else if (strcmp(command, "calls") == 0)
                printf("%u\n", fake_rm_calls());
        else if (strcmp(command, "context") == 0) {
                make_and_join();
                puts("made");
        } else if (strcmp(command, "drop") == 0) {
                CHECK(cuCtxDestroy_v2(other) == 0);
                puts("dropped");
        } else if (strcmp(command, "fork") == 0)
                printf("%d\n", child_stop());
        else if (sscanf(command, "fail %u %u", &after, &status) == 2) {
                fake_rm_fail(after, status);
                puts("will fail");
        } else if (strcmp(command, "stuck") == 0) {
                stick();
                puts("stuck");
        } else if (strcmp(command, "exit") == 0)
                exit(0);
        else
                CHECK(false);
}

static void end(void) {
        over = true;
        for (unsigned i = 0; i < n_workers; i++)
                CHECK(pthread_join(workers[i].thread, NULL) == 0);
        for (unsigned i = 0; i < n_workers; i++)
                printf("%u %s\n", workers[i].n, workers[i].right == N ? "right" : "WRONG");
}

int main(int argc, char *argv[]) {
        char line[64];

        CHECK(argc >= 3 && argc <= (int) WORKERS + 2);
        kernel_ns = strtoull(argv[1], NULL, 10) * 1000;
        CHECK(sem_init(&ready, 0, 0) == 0);
        CHECK(cuInit(0) == 0);
        CHECK(cuModuleGetFunction(&triple, NULL, "triple") == 0);
        for (int i = 2; i < argc; i++) {
                Worker *w = &workers[n_workers++];
                w->gpu = atoi(argv[i]);
                CHECK(cuDevicePrimaryCtxRetain(&w->context, w->gpu) == 0);
                CHECK(pthread_create(&w->thread, NULL, work, w) == 0);
        }
        for (unsigned i = 0; i < n_workers; i++)
                while (sem_wait(&ready) < 0)
                        ;
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = '\0';
                answer(line);
                fflush(stdout);
        }
        end();
        return 0;
}
