/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process whose worker may be stuck at the gate while the rest of it lives on
 *
 * One thread launches and waits, for ever. The main thread says "ready" after its first kernel and then obeys, a line
 * each:
 *
 *   count    prints how many kernels have run
 *   cancel   cancels the worker, which waits at the gate, at once, and says "cancelled" when it has ended so, with what
 *            it had pushed for that
 *   signal   sends the worker a signal, and says "handled" once its handler has run
 *   fork     forks a child that exits at once, through all exit handlers, and prints its status
 *   exit     returns from main() with status 7
 *   exec     becomes a shell that exits with status 8
 *
 * With TEST_FORGET in the environment, it removes XSched's variables before it makes a queue.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cl-test.h"

#define SIGNAL (SIGRTMIN + 3) /* LLVM, which is in many runtimes, takes the usual ones for itself */

static atomic_ulong n_done;
static atomic_int n_handled, n_cleaned;

static void note_cancelled(void *unused) {
        atomic_fetch_add(&n_cleaned, 1);
}

static void work_for_ever(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int expected = 0;

        for (cl_int k = 0;; k++) {
                CHECK_CL(launch_step(q, a, k, 0, NULL, NULL));
                CHECK_CL(clFinish(q));
                expected = step(expected, k);
                if (k % 64 == 0)
                        buffer_expect(q, a, expected);
                atomic_fetch_add(&n_done, 1);
        }
}

static void *work(void *unused) {
        CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
        pthread_cleanup_push(note_cancelled, NULL);
        work_for_ever();
        pthread_cleanup_pop(0);
        return NULL;
}

static void cancel(pthread_t thread) {
        void *result;

        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && atomic_load(&n_cleaned) == 1);
        (void) puts("cancelled");
}

static void forget_environment(void) {
        static const char *const variables[] = {"XSCHED_BUS_ADDRESS", "XSCHED_PRIORITY", "XSCHED_WEIGHT"};

        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                CHECK(unsetenv(variables[i]) == 0);
}

static void handle(int signal_number) {
        atomic_fetch_add(&n_handled, 1);
}

static void nap(void) {
        const struct timespec ts = {.tv_nsec = 1000000};
        (void) nanosleep(&ts, NULL);
}

int main(void) {
        char line[32];
        pthread_t thread;
        int status = 0;

        (void) sigaction(SIGNAL, &(struct sigaction){.sa_handler = handle}, NULL);
        if (getenv("TEST_FORGET"))
                forget_environment();
        test_open();
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        while (atomic_load(&n_done) == 0)
                nap();
        (void) puts("ready");
        (void) fflush(stdout);

        while (fgets(line, sizeof(line), stdin)) {
                if (strcmp(line, "count\n") == 0)
                        printf("%lu\n", atomic_load(&n_done));
                else if (strcmp(line, "cancel\n") == 0)
                        cancel(thread);
                else if (strcmp(line, "signal\n") == 0) {
                        int before = atomic_load(&n_handled);
                        CHECK(pthread_kill(thread, SIGNAL) == 0);
                        while (atomic_load(&n_handled) == before)
                                nap();
                        (void) puts("handled");
                } else if (strcmp(line, "fork\n") == 0) {
                        pid_t pid = fork();
                        if (pid == 0)
                                exit(9);
                        CHECK(waitpid(pid, &status, 0) == pid);
                        printf("child %d\n", WEXITSTATUS(status));
                } else if (strcmp(line, "exec\n") == 0)
                        (void) execl("/bin/sh", "sh", "-c", "exit 8", NULL);
                else
                        return 7;
                (void) fflush(stdout);
        }
        return 1;
}
