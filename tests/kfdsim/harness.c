/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tests on simulated GPUs: cases, children, and a child that keeps a GPU busy
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "hal/kfd-abi.h"
#include "harness.h"
#include "kfdsim.h"

#define CASE_SECONDS 60U
#define STILL_NS     (60 * NSEC_PER_MSEC)

static void case_prepare(const SimCase *c, size_t number) {
        char dir[256];

        (void) snprintf(dir, sizeof(dir), "%s/%zu", getenv("KFDSIM_DIR"), number);
        (void) setenv("KFDSIM_DIR", dir, 1);
        (void) setenv("KFDSIM_GPUS", c->gpus ?: "gfx90a", 1);
        (void) setenv("KFDSIM_OPTS", c->opts ?: "", 1);
        (void) alarm(CASE_SECONDS);
}

static bool case_run(const SimCase *c, size_t number) {
        (void) fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
                return false;
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                case_prepare(c, number);
                c->run();
                (void) fflush(stdout);
                _exit(EXIT_SUCCESS);
        }
        int status = child_wait(pid);
        if (status < 0)
                printf("# ended by signal %d\n", -status);
        return status == EXIT_SUCCESS;
}

int sim_cases_run(const SimCase *cases, size_t n, int argc, char *argv[]) {
        unsigned n_failed = 0;

        if (!kfdsim_maps || !getenv("KFDSIM_DIR")) {
                puts("1..0 # SKIP the simulator is not preloaded");
                return 77;
        }
        printf("1..%zu\n", n);
        for (size_t i = 0; i < n; i++) {
                if (argc > 1 && !streq(argv[1], cases[i].name))
                        continue;
                bool ok = case_run(cases + i, i + 1);
                n_failed += !ok;
                printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, cases[i].name);
        }
        return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

void *shared_new(size_t size) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        check(p != MAP_FAILED);
        return p;
}

pid_t child_start(void (*f)(void *), void *userdata) {
        (void) fflush(stdout);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                f(userdata);
                (void) fflush(stdout);
                _exit(EXIT_SUCCESS);
        }
        return pid;
}

int child_wait(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int child_kill(pid_t pid) {
        (void) kill(pid, SIGKILL);
        return child_wait(pid);
}

/* --- a busy child --- */

static void busy_enable_runtime(void) {
        _cleanup_close_ int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        KfdRuntimeEnable e = {.mode_mask = KFD_RUNTIME_MODE_ENABLE};

        check(fd >= 0 && ioctl(fd, KFD_IOC_RUNTIME_ENABLE, &e) == 0);
}

static void busy_run(void *userdata) {
        Busy *b = userdata;
        AqlDevice d = device_open(b->gpu);
        AqlQueue *q = queue_open(&d);

        if (b->runtime_enable)
                busy_enable_runtime();
        b->queue_id = aql_queue_id(q);
        while (!b->stop) {
                while (aql_queue_backlog(q) < 32 && aql_dispatch(q, b->duration_ns, NULL) >= 0)
                        ;
                aql_ring(q);
                (void) usleep(200);
                b->n_executed = aql_queue_executed(q);
                b->ready = b->ready || b->n_executed > 0;
        }
        queue_close_clean(q);
        b->n_executed = 0;
}

pid_t busy_start(Busy *b) {
        pid_t pid = child_start(busy_run, b);

        check(poll_until(b->ready));
        return pid;
}

void busy_stop(Busy *b, pid_t pid) {
        b->stop = true;
        check(child_wait(pid) == EXIT_SUCCESS);
}

static bool busy_stood_still(Busy *b) {
        struct timespec nap = ns_to_timespec(STILL_NS);

        uint64_t n = b->n_executed;
        (void) nanosleep(&nap, NULL);
        return b->n_executed == n;
}

/* Its last count may be on its way for as long as the machine is busy. */
bool busy_stands_still(Busy *b) {
        return poll_until(busy_stood_still(b));
}

bool busy_goes_on(Busy *b) {
        uint64_t n = b->n_executed;

        return poll_until(b->n_executed > n + 3);
}

/* --- devices and queues --- */

AqlDevice device_open(unsigned gpu) {
        AqlDevice d = {0};

        check(aql_device_open(gpu, &d) == 0);
        return d;
}

AqlQueue *queue_open(const AqlDevice *d) {
        AqlQueue *q = NULL;

        check(aql_queue_create(d, NULL, &q) == 0);
        return q;
}

void queue_close_clean(AqlQueue *q) {
        check(aql_queue_wait(q, now_ns() + TEST_DEADLINE_NS) == 0);
        AqlReport r = aql_queue_report(q);
        check(r.n_dispatched > 0 && aql_report_is_clean(&r));
        check(aql_queue_destroy(q) == 0);
}
