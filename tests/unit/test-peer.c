/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Peers: the identity of a process, and that it is still the same process
 */

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cgroup/cgroup-path.h"
#include "cgroup/peer.h"
#include "tests/lib/unit.h"

static pid_t spawn_sleeper(void) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                for (;;)
                        (void) pause();
        }
        return pid;
}

static void end(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_self(void **state) {
        Peer p = PEER_NULL;
        uint64_t start_time;

        assert_int_equal(peer_from_pid(getpid(), &p), 0);
        assert_int_equal(p.pid, getpid());
        assert_int_equal(p.uid, geteuid());
        assert_string_equal(p.command, "test-peer");
        assert_int_equal(p.cgroup[0], '/');
        assert_int_equal(process_stat(getpid(), NULL, &start_time), 0);
        assert_true(start_time > 0);
        assert_int_equal(p.start_time, start_time);
        assert_int_equal(pidfd_is_alive(p.pidfd), 1);
        peer_done(&p);
        assert_int_equal(p.pidfd, -EBADF);
}

/* The executable is read only when it is asked for: the process can make that take long. */
static void test_executable(void **state) {
        Peer p = PEER_NULL;

        assert_int_equal(peer_from_pid(getpid(), &p), 0);
        assert_null(p.executable);
        assert_int_equal(peer_read_executable(&p), 0);
        assert_true(endswith(p.executable, "/test-peer"));
        const char *read_once = p.executable;
        assert_int_equal(peer_read_executable(&p), 0);
        assert_ptr_equal(p.executable, read_once);
        peer_done(&p);

        pid_t pid = spawn_sleeper();
        assert_int_equal(peer_from_pid(pid, &p), 0);
        end(pid);
        assert_true(peer_read_executable(&p) < 0);
        assert_null(p.executable);
        peer_done(&p);
}

static void test_gone(void **state) {
        Peer p = PEER_NULL;
        pid_t pid = spawn_sleeper(), found;

        int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        assert_true(pidfd >= 0);
        assert_int_equal(pidfd_get_pid(pidfd, &found), 0);
        assert_int_equal(found, pid);
        end(pid);

        assert_int_equal(pidfd_is_alive(pidfd), 0);
        assert_int_equal(pidfd_get_pid(pidfd, &found), -ESRCH);
        assert_int_equal(peer_from_pid(pid, &p), -ESRCH);
        assert_int_equal(peer_from_pidfd(pidfd, pid, 1, &p), -ESRCH);
        assert_int_equal(peer_from_pid(0, &p), -ESRCH);
        assert_int_equal(peer_from_pid(-5, &p), -ESRCH);
        close(pidfd);
}

/* The pid is right but the process is another one, which its start time shows. */
static void test_other_process(void **state) {
        Peer p = PEER_NULL;
        uint64_t start_time;
        pid_t pid = spawn_sleeper();

        int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        assert_int_equal(process_stat(pid, NULL, &start_time), 0);
        assert_int_equal(peer_from_pidfd(pidfd, pid, start_time + 1, &p), -ESRCH);
        assert_int_equal(peer_from_pidfd(pidfd, getpid(), start_time, &p), -ESRCH);
        assert_int_equal(pidfd_is_alive(pidfd), 1); /* it still refers to our process */
        assert_int_equal(peer_from_pidfd(pidfd, pid, start_time, &p), 0);
        assert_int_equal(p.pidfd, pidfd);
        peer_done(&p);
        end(pid);
}

static void test_stopped(void **state) {
        pid_t pid = spawn_sleeper();
        char letter = 0;

        assert_int_equal(kill(pid, SIGSTOP), 0);
        assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
        assert_int_equal(process_stat(pid, &letter, NULL), 0);
        assert_int_equal(letter, 'T');
        end(pid);
}

static void test_no_pidfd(void **state) {
        pid_t pid = 77;
        int fds[2];

        assert_int_equal(pipe(fds), 0);
        assert_int_equal(pidfd_get_pid(fds[0], &pid), -EBADF);
        close(fds[0]);
        close(fds[1]);
        assert_int_equal(pidfd_get_pid(fds[0], &pid), -EBADF);
        assert_int_equal(pidfd_get_pid(-1, &pid), -EBADF);
        assert_int_equal(pid, 77);
}

static void test_paths(void **state) {
        static const struct {
                const char *path, *unit, *slice;
        } cases[] = {
                        {"/", "", ""},
                        {"/system.slice/train.service", "train.service", "system.slice"},
                        {"/system.slice/train.service/payload", "train.service", "system.slice"},
                        {"/user.slice/user-1000.slice/session-2.scope", "session-2.scope", "user-1000.slice"},
                        {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", "app-x.scope",
                                        "app.slice"},
                        {"/kubepods/pod1/abc", "", ""},
                        {"/.service/.slice", "", ""},
                        {"//a.slice//b.service//", "b.service", "a.slice"},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char *unit, *slice;
                assert_int_equal(cgroup_path_unit(cases[i].path, &unit), 0);
                assert_int_equal(cgroup_path_slice(cases[i].path, &slice), 0);
                assert_string_equal(unit, cases[i].unit);
                assert_string_equal(slice, cases[i].slice);
                free(unit);
                free(slice);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_self),
                        cmocka_unit_test(test_executable),
                        cmocka_unit_test(test_gone),
                        cmocka_unit_test(test_other_process),
                        cmocka_unit_test(test_stopped),
                        cmocka_unit_test(test_no_pidfd),
                        cmocka_unit_test(test_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
