/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A message bus for one test, ended with it
 */

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "private-bus.h"

static const char config[] = /* with its address */
                "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
                "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">"
                "<busconfig><type>session</type><listen>%s</listen><auth>EXTERNAL</auth>"
                "<policy context=\"default\"><allow send_destination=\"*\"/><allow "
                "receive_sender=\"*\"/><allow own=\"*\"/></policy>"
                "</busconfig>";

static _noreturn_ void exec_daemon(int config_fd, int address_fd) {
        char config_arg[64], address_arg[64];

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) !freopen("/dev/null", "w", stderr); /* it complains about limits */
        (void) snprintf(config_arg, sizeof(config_arg), "--config-file=/proc/self/fd/%d", config_fd);
        (void) snprintf(address_arg, sizeof(address_arg), "--print-address=%d", address_fd);
        (void) execlp("dbus-daemon", "dbus-daemon", "--nofork", "--nopidfile", config_arg, address_arg, (char *) NULL);
        _exit(127);
}

static int start(const char *address, PrivateBus *ret) {
        _cleanup_close_ int config_fd = memfd_create("bus.conf", 0);
        int pipefd[2];

        if (config_fd < 0 || dprintf(config_fd, config, address) < 0)
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
        /* Leaves out the guid: a bus that is started again has another one. */
        ret->address[strcspn(ret->address, ",\n")] = '\0';
        return 0;
}

int private_bus_start(PrivateBus *ret) {
        return start("unix:tmpdir=/tmp", ret);
}

int private_bus_start_again(const char *address, PrivateBus *ret) {
        return start(address, ret);
}

bool private_bus_listens(const char *address) {
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        const char *path = strstr(address, "path=") + strlen("path=");
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
        return connect(fd, (const struct sockaddr *) &sa, sizeof(sa)) >= 0;
}

void private_bus_stop(PrivateBus *b) {
        if (b->pid > 0) {
                (void) kill(b->pid, SIGKILL);
                (void) waitpid(b->pid, NULL, 0);
        }
        b->pid = 0;
}
