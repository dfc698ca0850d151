/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A message bus for one test, ended with it
 */

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "private-bus.h"

static const char config[] =
                "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
                "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">"
                "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>"
                "<policy context=\"default\"><allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy>"
                "</busconfig>";

static _noreturn_ void exec_daemon(int config_fd, int address_fd) {
        char config_arg[64], address_arg[64];

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) !freopen("/dev/null", "w", stderr); /* it complains about limits */
        (void) snprintf(config_arg, sizeof(config_arg), "--config-file=/proc/self/fd/%d", config_fd);
        (void) snprintf(address_arg, sizeof(address_arg), "--print-address=%d", address_fd);
        (void) execlp("dbus-daemon", "dbus-daemon", "--nofork", "--nopidfile", config_arg, address_arg,
                        (char *) NULL);
        _exit(127);
}

int private_bus_start(PrivateBus *ret) {
        _cleanup_close_ int config_fd = memfd_create("bus.conf", 0);
        int pipefd[2];

        if (config_fd < 0 || write(config_fd, config, sizeof(config) - 1) != (ssize_t) sizeof(config) - 1)
                return -EIO;
        if (pipe(pipefd) < 0)
                return negative_errno();

        pid_t pid = fork();
        if (pid == 0) {
                safe_close(pipefd[0]);
                exec_daemon(config_fd, pipefd[1]);
        }
        safe_close(pipefd[1]);
        *ret = (PrivateBus){.pid = pid};
        ssize_t n = pid < 0 ? -1 : read(pipefd[0], ret->address, sizeof(ret->address) - 1);
        safe_close(pipefd[0]);
        if (n <= 0) {
                private_bus_stop(ret);
                return -ENOENT;
        }
        ret->address[strcspn(ret->address, "\n")] = '\0';
        return 0;
}

void private_bus_stop(PrivateBus *b) {
        if (b->pid > 0) {
                (void) kill(b->pid, SIGKILL);
                (void) waitpid(b->pid, NULL, 0);
        }
        b->pid = 0;
}
