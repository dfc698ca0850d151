/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer in processes that multiply and end
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "shim-kfd.h"
#include "sim.h"

static void case_fork(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        pid_t pid = fork();
        if (pid == 0) {
                Raw r = raw_open();
                KfdCreateQueue a;
                /* In the child nothing is held, and nothing of the parent's is touched. */
                CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
                CHECK(raw_destroy(&r, a.queue_id) == 0);
                CHECK(close(r.fd) == 0);
                _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);

        /* vfork() itself is what is tested. */
        /* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
        pid = vfork();
        if (pid == 0) {
                for (int fd = 3; fd < 300; fd++)
                        (void) close(fd);
                execl("/bin/true", "true", (char *) NULL);
                _exit(127);
        }
        /* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);

        CHECK(stands_still(q) && client->n_queues == 1);
        run_all(1);
        finish(q);
}

/* --- ends --- */

/* A process with a queue of its own, which the scheduler of the case knows as its next client. */
static pid_t tenant_start(void) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                CHECK(aql_device_open(GFX90A, &device) == 0);
                AqlQueue *q = bare_queue();
                dispatch(q, 100, 50 * SHORT_NS);
                for (;;)
                        (void) pause();
        }
        return pid;
}

static bool is_held(const FakeClient *c) {
        const PageSlot *p = c->f ? fake_slot(c->f, 0) : NULL;
        return p && atomic_load(&p->applied) == atomic_load(&p->verdict) &&
                        atomic_load(&p->verdict) & PAGE_VERDICT_HOLD;
}

/* A process that dies while it is held leaves a GPU on which others run. */
static void case_kill_held(void) {
        pid_t tenants[3];
        for (size_t i = 0; i < ELEMENTSOF(tenants); i++)
                tenants[i] = tenant_start();
        start(GFX90A);
        CHECK(scheduler_until(s,
                        s->n_clients == 3 && s->clients[0].n_queues == 1 && s->clients[1].n_queues == 1 &&
                                        s->clients[2].n_queues == 1));
        for (unsigned i = 0; i < 3; i++) {
                client = s->clients + i;
                hold(0, NSEC_INFINITY);
        }
        for (unsigned i = 0; i < 3; i++)
                CHECK(poll_until(is_held(s->clients + i)));

        client = s->clients + 3;
        AqlQueue *q = queue();
        for (size_t i = 0; i < ELEMENTSOF(tenants); i++) {
                dispatch(q, 20, SHORT_NS);
                CHECK(kill(tenants[i], SIGKILL) == 0 && waitpid(tenants[i], NULL, 0) == tenants[i]);
                finish(q);
        }
        for (unsigned i = 0; i < 3; i++)
                CHECK(poll_until(fake_client_is_gone(s->clients + i)));
        hold_all(1);
        run_all(1);
        dispatch(q, 20, SHORT_NS);
        finish(q);
}

/* A process that is killed with the lock of the simulated device leaves the lock usable, also under a sanitizer. */
_noreturn_ static void die_with_lock(void) {
        char path[256];

        (void) snprintf(path, sizeof(path), "%s/world", getenv("KFDSIM_DIR"));
        int fd = open(path, O_RDWR | O_CLOEXEC);
        SimWorld *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(w != MAP_FAILED);
        int r = pthread_mutex_lock(&w->lock); /* perhaps no process has taken it since the last one ended */
        CHECK(r == 0 || r == EOWNERDEAD);
        (void) kill(getpid(), SIGKILL);
        abort();
}

static void case_kill_with_lock(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        for (unsigned i = 0; i < 3; i++) {
                int status;
                pid_t pid = fork();
                CHECK(pid >= 0);
                if (pid == 0)
                        die_with_lock();
                CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                dispatch(q, 5, SHORT_NS);
                finish(q);
                hold_all(1);
                run_all(1);
        }
        dispatch(q, 5, SHORT_NS);
        finish(q);
}

/* A process that ends by itself while it is held, with work that will never be done, ends. */
static void case_exit_held(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 20, SHORT_NS);
        exit(0); /* runs all destructors */
}

/* Children are made all the time while queues are held and let go, and use the device themselves. */
static void case_fork_storm(void) {
        pid_t children[12];
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        for (size_t i = 0; i < ELEMENTSOF(children); i++) {
                if (i % 2)
                        run_all(2);
                else
                        hold_all(2);
                dispatch(a, 4, SHORT_NS);
                dispatch(b, 4, SHORT_NS);
                children[i] = fork();
                if (children[i] == 0) {
                        KfdCreateQueue k;
                        KfdsimQueue in_driver;
                        Raw r = raw_open();
                        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(k), &k) == 0);
                        CHECK(kfdsim_queue(k.queue_id, &in_driver) && in_driver.mapped); /* no verdict reaches it */
                        CHECK(raw_update(r.fd, &k, 100, 7) == 0 && raw_destroy(&r, k.queue_id) == 0);
                        _exit(0);
                }
                CHECK(children[i] > 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(children); i++) {
                int status;
                CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
        }
        run_all(2);
        finish(a);
        finish(b);
}

/* After exec() the process starts without records; queues that were held before it delay no other process. */
static void case_exec_held(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        if (getenv("TEST_EXECED")) {
                dispatch(q, 20, SHORT_NS);
                finish(q);
                hold_all(1);
                run_all(1);
                dispatch(q, 20, SHORT_NS);
                finish(q);
                return;
        }
        hold_all(1);
        dispatch(q, 20, SHORT_NS);
        CHECK(setenv("TEST_EXECED", "1", true) == 0);
        (void) execl("/proc/self/exe", "test-kfd-process", "exec_held", (char *) NULL);
        CHECK(false);
}

/* --- the service --- */

/* A scheduler in a process of its own, which holds all queues while it renews the lease. All queues run again a while
 * after it was stopped, and at once when it is killed. */
static pid_t holder_start(void) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        client = s->clients;
        for (;;) {
                for (uint32_t i = 0; client->f && i < client->next_id % 1000; i++) {
                        atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                        if (!(atomic_load(&fake_slot(client->f, i)->verdict) & PAGE_VERDICT_HOLD))
                                fake_hold(client->f, i, PAGE_LEASE_NS);
                        page_set_lease(client->f->page.header, now_ns() + PAGE_LEASE_NS);
                }
                if (client->f)
                        fake_client_nudge(client);
                fake_scheduler_turn(s);
        }
}

static void end_service(int signal_number) {
        AqlQueue *q[2];
        KfdsimQueue in_driver;
        pid_t holder = holder_start();

        CHECK(aql_device_open(GFX90A, &device) == 0);
        for (size_t i = 0; i < ELEMENTSOF(q); i++) {
                q[i] = bare_queue();
                dispatch(q[i], 20, SHORT_NS);
        }
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                CHECK(poll_until(kfdsim_queue(aql_queue_id(q[i]), &in_driver) && !in_driver.mapped));
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                dispatch(q[i], 20, SHORT_NS);
        /* A kernel that was under way when its queue was taken off is counted a moment later. */
        CHECK(poll_until(stands_still(q[0]) && stands_still(q[1])));
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                CHECK(aql_queue_executed(q[i]) < 40);
        CHECK(kill(holder, signal_number) == 0);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                finish(q[i]);
        CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
}

static void case_service_killed(void) {
        end_service(SIGKILL);
}

static void case_service_stopped(void) {
        end_service(SIGSTOP);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(fork),
                        CASE(kill_held),
                        CASE(kill_with_lock),
                        CASE(exit_held),
                        CASE(fork_storm),
                        CASE(exec_held),
                        CASE(service_killed),
                        CASE(service_stopped),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
