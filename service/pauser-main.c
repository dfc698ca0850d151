/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-holder: see pauser.h
 *
 * A hold by privilege is a pause of the process. The program and the folder of its records keep names with "hold",
 * because ExecStopPost= in copies of privileged.conf has them.
 *
 *     xsched-holder pause DIR PID START MODE ALLOW-MES    started by xschedd, with a socket as fd 3
 *     xsched-holder undo DIR [PID START]                 started by xschedd, and by systemd when the service has ended
 */

#include <stdio.h>

#include "common/macro.h"
#include "hal/kfd-target-sys.h"
#include "hal/nvrm-target-sys.h"
#include "hal/privileged.h"
#include "service/base/log.h"
#include "service/enforce/pause-record.h"
#include "service/enforce/pauser.h"

static const PrivilegedSys target_sys = {.kfd = &kfd_target_sys, .nvrm = &nvrm_target_sys};

static int usage(void) {
        (void) fputs("xsched-holder belongs to xschedd, see xschedd(8); by hand, as root, to let go what "
                     "was left paused:\n"
                     "    xsched-holder undo DIR\n",
                        stderr);
        return EXIT_FAILURE;
}

static bool number(const char *s, uint64_t *ret) {
        char *end;

        *ret = strtoull(s, &end, 10);
        return s[0] >= '0' && s[0] <= '9' && *end == '\0';
}

static int run_pause(char *argv[], int dir) {
        uint64_t pid, start, allow_mes;
        int mode = privileged_mode_from_string(argv[5]);

        if (!number(argv[3], &pid) || !number(argv[4], &start) || !number(argv[6], &allow_mes) || mode <= PRIVILEGED_NO)
                return usage();
        const PauserOptions o = {
                        .pid = (pid_t) pid,
                        .start_time = start,
                        .mode = (PrivilegedMode) mode,
                        .allow_mes = allow_mes != 0,
                        .dir = dir,
                        .socket = PAUSER_SOCKET_FD,
        };
        int r = pauser_run(&o, &target_sys);
        if (r < 0)
                log_error_errno(r, "Pauser of process %d: %m", (int) o.pid);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_undo(int argc, char *argv[], int dir) {
        uint64_t pid = 0, start = 0;

        if (argc == 5 && (!number(argv[3], &pid) || !number(argv[4], &start)))
                return usage();
        int r = pauser_undo(dir, (pid_t) pid, start, &target_sys);
        return r == -EAGAIN ? PAUSER_EXIT_LIVES : r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
        bool is_pause = argc == 7 && streq(argv[1], "pause"),
             is_undo = (argc == 3 || argc == 5) && streq(argv[1], "undo");

        if (!is_pause && !is_undo)
                return usage();
        /*
         * journald finds the unit of a message of its own protocol in /proc, where a program that ends at once may be
         * gone by then: `journalctl -u xsched` would not show the message. It knows the unit of stderr.
         */
        log_set_target(is_undo ? LOG_TARGET_CONSOLE : LOG_TARGET_AUTO);
        _cleanup_close_ int dir = pause_record_dir_open(argv[2]);
        if (dir == -ENOENT && is_undo)
                return EXIT_SUCCESS;
        if (dir < 0) {
                log_error_errno(dir, "Failed to open %s: %m", argv[2]);
                return EXIT_FAILURE;
        }
        return is_pause ? run_pause(argv, dir) : run_undo(argc, argv, dir);
}
