/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer in processes that multiply and end
 */

#include <sys/wait.h>

#include "common/macro.h"
#include "shim-kfd.h"

static void case_fork(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        pid_t pid = fork();
        if (pid == 0) {
                Raw r = raw_open();
                KfdCreateQueue a;
                /* Nothing is held here, and nothing of the parent's is touched. */
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

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(fork),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
