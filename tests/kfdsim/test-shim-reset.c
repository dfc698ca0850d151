/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Resets: a GPU hangs or has lost memory, and the driver takes the queues of all processes off all GPUs for good; or a
 * queue hangs, and the driver resets it alone
 *
 * Runtimes since ROCm 6.0 are told, and end the process, unless it has asked to be told in turn. What is left of a
 * process may not count as running for ever, nor be held, and the driver is not called about it any more.
 */

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "abi.h"
#include "tested-queue.h"

#define EVENT_RESET 1 /* hsa_amd_event_type_t of ROCm 6.0 and later */

static const AqlKernel endless = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 1000 * NSEC_PER_SEC},
                       hanging = {
                                       .magic = AQL_KERNEL_MAGIC,
                                       .duration_ns = 5 * NSEC_PER_MSEC,
                                       .fault = AQL_FAULT_HANG,
};

static _Atomic unsigned n_resets;

static hsa_status_t on_reset(const hsa_amd_event_t *event, void *userdata) {
        CHECK((int) event->event_type == EVENT_RESET);
        atomic_fetch_add(&n_resets, 1);
        return HSA_STATUS_SUCCESS;
}

static uint64_t n_updates(void) {
        uint64_t n = 0;
        KfdsimQueue q;

        for (uint32_t id = 0; id < TESTED_SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q) ? q.n_updates : 0;
        return n;
}

/* Nothing of it counts as running, whatever is launched, and the service's orders are followed without a call. */
static void expect_rest(Tested *t, Tested *other) {
        CHECK(poll_until(tested_is_idle(t) && tested_is_idle(other)));
        uint64_t n = n_updates();
        for (unsigned i = 0; i < 3; i++) {
                tested_verdict(t, i % 2);
                tested_verdict(other, i % 2);
        }
        tested_dispatch(t, &tested_good);
        CHECK(poll_until(tested_is_idle(t) && tested_is_idle(other)));
        CHECK(n_updates() == n);
}

/* The program goes on when its GPU was reset, by its own wish, or because its runtime does not wait for resets. */
static void reset_goes_on(bool held) {
        Tested t, other;

        tested_start(&t, &other);
        CHECK(hsa_amd_register_system_event_handler(on_reset, NULL) == HSA_STATUS_SUCCESS);
        tested_dispatch(&other, &endless);
        if (held) {
                tested_verdict(&other, true);
                tested_dispatch(&t, &hanging);
        } else {
                tested_dispatch(&t, &endless);
                kfdsim_reset(0, false);
        }
        CHECK(poll_until(tested_is_idle(&t)));
        CHECK(poll_until(atomic_load(&n_resets) == runtime_is_new()));
        if (held)
                tested_verdict(&other, false);
        expect_rest(&t, &other);
        CHECK(atomic_load(&n_resets) == runtime_is_new() && atomic_load(&other.n_errors) == 0);
        tested_end(&t);
        tested_end(&other);
}

static void case_reset(void) {
        reset_goes_on(false);
}

static void case_reset_while_held(void) {
        reset_goes_on(true);
}

_noreturn_ static void wait_for_end(void) {
        for (;;)
                (void) pause();
}

/* What a process does that did not cause the reset, and has not asked to be told. */
static void victim(int fd, bool held, bool is_told) {
        Tested t, other;

        (void) alarm(60);
        tested_start(&t, &other);
        tested_dispatch(&t, &endless);
        if (held)
                tested_verdict(&t, true);
        CHECK(write(fd, "", 1) == 1);
        CHECK(poll_until(tested_is_idle(&t)));
        if (is_told)
                wait_for_end();
        _exit(EXIT_SUCCESS);
}

static void reset_ends(bool held, bool ecc) {
        bool is_told = ecc || runtime_is_new();
        int fds[2], status;
        char byte;

        CHECK(pipe(fds) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
                victim(fds[1], held, is_told);
        CHECK(read(fds[0], &byte, 1) == 1);
        kfdsim_reset(0, ecc);
        CHECK(waitpid(child, &status, 0) == child);
        if (is_told)
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        else
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
        (void) close(fds[0]);
        (void) close(fds[1]);
}

/* A runtime that waits for resets ends the process. One that does not leaves it as it is, for ever: then nothing of it
 * counts as running. Processes that come later are as ever. */
static void case_reset_ends(void) {
        Tested t, other;

        for (unsigned held = 0; held < 2; held++)
                for (unsigned ecc = 0; ecc < 2; ecc++)
                        reset_ends(held, ecc);
        tested_start(&t, &other);
        tested_dispatch(&t, &tested_good);
        CHECK(poll_until(tested_is_done(&t) && tested_is_idle(&t)));
        tested_verdict(&t, true);
        CHECK(count_queues(queue_is_stopped) == 1);
        tested_verdict(&t, false);
        tested_dispatch(&t, &tested_good);
        CHECK(poll_until(tested_is_done(&t) && tested_is_idle(&t)));
        tested_end(&t);
        tested_end(&other);
}

static bool is_mapped(const KfdsimQueue *q) {
        return q->mapped;
}

/* The same without the layer: the runtime ends the process, or nobody tells it, and its queues are off the GPU. */
static void case_reset_without_layer(void) {
        Tested t;
        int fds[2], status;
        char byte;

        CHECK(pipe(fds) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
                (void) alarm(60);
                (void) setenv("XSCHED_DISABLE", "1", true);
                tested_make_alone(&t);
                tested_dispatch(&t, &endless);
                CHECK(kfdsim_events(KFD_EVENT_HW_EXCEPTION) == runtime_is_new());
                CHECK(write(fds[1], "", 1) == 1);
                CHECK(poll_until(count_queues(is_mapped) == 0));
                if (runtime_is_new())
                        wait_for_end();
                _exit(EXIT_SUCCESS);
        }
        CHECK(read(fds[0], &byte, 1) == 1);
        kfdsim_reset(0, false);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(runtime_is_new() ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
                               : WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

/* A driver that ends who does not wait for an exception still finds that the process does not. */
static void case_event_of_ours(void) {
        char path[PATH_MAX];
        Tested t, other;

        (void) snprintf(path, sizeof(path), "%s/module/parameters/send_sigterm", getenv("KFDSIM_DIR"));
        for (int sends = 1; sends >= 0; sends--) {
                int status;
                pid_t child = fork();

                CHECK(child >= 0);
                if (child == 0) {
                        FILE *f = fopen(path, "we");
                        CHECK(f && fprintf(f, "%d\n", sends) > 0 && fclose(f) == 0);
                        tested_start(&t, &other);
                        CHECK(kfdsim_events(KFD_EVENT_HW_EXCEPTION) == (unsigned) runtime_is_new() + !sends);
                        _exit(EXIT_SUCCESS);
                }
                CHECK(waitpid(child, &status, 0) == child);
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
        }
}

static uint32_t id_of_held(const Tested *t) {
        KfdsimQueue q;
        uint32_t id = 0;

        tested_verdict(t, true);
        while (id < TESTED_SLOTS_MAX && !(kfdsim_queue(id, &q) && queue_is_stopped(&q)))
                id++;
        CHECK(id < TESTED_SLOTS_MAX);
        tested_verdict(t, false);
        return id;
}

/* The driver has reset one queue, and says the same as after a reset of the GPU: the others go on, and are held. */
static void case_reset_of_queue(void) {
        Tested t, other;

        tested_start(&t, &other);
        CHECK(hsa_amd_register_system_event_handler(on_reset, NULL) == HSA_STATUS_SUCCESS);
        uint32_t id = id_of_held(&t);
        tested_dispatch(&t, &hanging);
        kfdsim_reset_queue(id);
        CHECK(poll_until(tested_is_idle(&t)));

        /* The launch by which it is found that the queue goes on is not counted. */
        tested_dispatch(&other, &tested_good);
        CHECK(poll_until(tested_is_done(&other)));
        for (unsigned i = 0; i < 2; i++) {
                (void) fake_take_edge(tested_client->f, other.slot);
                tested_dispatch(&other, &tested_good);
                CHECK(poll_until(tested_is_done(&other) && tested_is_idle(&other)));
        }
        tested_verdict(&other, true);
        CHECK(count_queues(queue_is_stopped) == 1);
        tested_verdict(&other, false);
        tested_dispatch(&other, &tested_good);
        CHECK(poll_until(tested_is_done(&other) && tested_is_idle(&other)));
        tested_dispatch(&t, &tested_good);
        CHECK(poll_until(tested_is_idle(&t)));
        tested_end(&t);
        tested_end(&other);
}

int test_main(int argc, char *argv[]);

/* argv[1] is this module. */
_public_
int test_main(int argc, char *argv[]) {
        static const BusCase cases[] = {CASE(reset), CASE(reset_while_held), CASE(reset_ends),
                        CASE(reset_without_layer), CASE(reset_of_queue), CASE(event_of_ours)};
        const char *self[] = {argv[0], argv[1], NULL};

        return bus_cases_run(cases, ELEMENTSOF(cases), self, argc > 2 ? argv[2] : NULL);
}
