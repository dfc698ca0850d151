/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The contents of a cgroup by the kernel's files, compared with libcgroup, as far as that works here
 */

#include <unistd.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-list.h"
#include "cgroup/peer.h"
#include "tests/lib/unit.h"

#if HAVE_LIBCGROUP
#        include <libcgroup.h>
#endif

static bool has(const pid_t *pids, size_t n, pid_t pid) {
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

static char *own_cgroup(void) {
        _cleanup_(peer_done)
        Peer self = PEER_NULL;
        _cleanup_free_ char *directory = NULL;

        assert_int_equal(peer_from_pid(getpid(), &self), 0);
        if (cgroup_directory(self.cgroup, &directory) < 0 || access(directory, R_OK) < 0)
                skip(); /* its cgroup is not in the hierarchy that is mounted here */
        return TAKE_PTR(self.cgroup);
}

static void test_own(void **state) {
        _cleanup_free_ char *cgroup = own_cgroup();
        _cleanup_free_ pid_t *pids = NULL;
        size_t n;

        assert_int_equal(cgroup_list_processes(cgroup, &pids, &n), 0);
        assert_true(has(pids, n, getpid()));
}

static void test_gone(void **state) {
        pid_t *pids = (pid_t *) 1;
        size_t n = 7;

        free(own_cgroup()); /* skips the test where there is no hierarchy */
        assert_int_equal(cgroup_list_processes("/there-is-none.slice", &pids, &n), -ENOENT);
        assert_ptr_equal(pids, (pid_t *) 1);
        assert_int_equal(n, 7);
}

#if HAVE_LIBCGROUP
/* Uses libcgroup read-only. Where it works, it lists the same; it does not work where no controller is enabled, and
 * there ours still does. */
static void test_library(void **state) {
        _cleanup_free_ char *cgroup = own_cgroup();
        _cleanup_free_ pid_t *pids = NULL;
        char unified[] = "cgroup";
        int n = 0;

        int r = cgroup_init();
        if (r == 0)
                r = cgroup_get_procs(cgroup, unified, &pids, &n);
        if (r != 0) {
                print_message("libcgroup: %s\n", cgroup_strerror(r));
                test_own(state);
                return;
        }
        assert_true(n > 0 && has(pids, (size_t) n, getpid()));
}
#endif

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_own),
                cmocka_unit_test(test_gone),
#if HAVE_LIBCGROUP
                cmocka_unit_test(test_library),
#endif
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
