/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes, by /proc
 */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "common/macro.h"
#include "common/process.h"

#define STAT_SIZE   1024U
#define STATUS_SIZE 4096U
#define FDINFO_SIZE 512U

static int read_file(const char *path, char *buf, size_t size) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        ssize_t n = read(fd, buf, size - 1);
        if (n < 0)
                return negative_errno();
        buf[n] = '\0';
        return (int) n;
}

int process_read(pid_t pid, const char *name, char *buf, size_t size) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        int r = read_file(path, buf, size);
        return r == -ENOENT ? -ESRCH : r;
}

/* State, parent and start time: fields 3, 4 and 22. */
static int read_stat(pid_t pid, char *ret_state, pid_t *ret_parent, uint64_t *ret_start_time) {
        char buf[STAT_SIZE] = "";
        int r = process_read(pid, "stat", buf, sizeof(buf));
        if (r < 0)
                return r;

        /* The command may contain spaces and parentheses: parse behind the last one. */
        char *p = strrchr(buf, ')');
        if (!p || p[1] != ' ')
                return -EPROTO;
        p += 2;
        *ret_state = *p;
        for (int field = 3; field < 22; field++) {
                p = strchr(p, ' ');
                if (!p)
                        return -EPROTO;
                p++;
                if (field == 3)
                        *ret_parent = (pid_t) strtol(p, NULL, 10);
        }
        *ret_start_time = strtoull(p, NULL, 10);
        return 0;
}

int process_stat(pid_t pid, char *ret_state, uint64_t *ret_start_time) {
        uint64_t start_time = 0;
        pid_t parent = 0;
        char state = 0;

        int r = read_stat(pid, &state, &parent, &start_time);
        if (r < 0)
                return r;
        if (ret_state)
                *ret_state = state;
        if (ret_start_time)
                *ret_start_time = start_time;
        return 0;
}

int process_id_of(pid_t pid, ProcessId *ret) {
        ProcessId p = {.pid = pid};

        int r = process_stat(pid, NULL, &p.start_time);
        if (r < 0)
                return r;
        *ret = p;
        return 0;
}

bool process_id_is_alive(const ProcessId *p) {
        uint64_t start_time = 0;
        char state = 0;

        return process_stat(p->pid, &state, &start_time) >= 0 && start_time == p->start_time && state != 'Z' &&
                        state != 'X';
}

int process_parent(pid_t pid, pid_t *ret_parent, uint64_t *ret_start_time) {
        uint64_t start_time = 0;
        pid_t parent = 0;
        char state;

        int r = read_stat(pid, &state, &parent, &start_time);
        if (r < 0)
                return r;
        *ret_parent = parent;
        *ret_start_time = start_time;
        return 0;
}

static int status_number(pid_t pid, const char *key, int *ret) {
        char buf[STATUS_SIZE] = "";

        int r = process_read(pid, "status", buf, sizeof(buf));
        if (r < 0)
                return r;
        const char *s = strstr(buf, key);
        if (!s)
                return -EPROTO;
        *ret = (int) strtol(s + strlen(key), NULL, 10);
        return 0;
}

int process_tracer(pid_t pid, pid_t *ret) {
        return status_number(pid, "\nTracerPid:", ret);
}

int process_fd_size(pid_t pid, int *ret) {
        return status_number(pid, "\nFDSize:", ret);
}

/* Lines "pos:\t0", "flags:\t0100002", "mnt_id:\t24" and "ino:\t9", and others that depend on the file. */
int process_fd(pid_t pid, int fd, ProcessFd *ret) {
        char path[64], buf[FDINFO_SIZE] = "";
        unsigned long inode;
        int mount;
        unsigned flags;

        (void) snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int) pid, fd);
        int r = read_file(path, buf, sizeof(buf));
        if (r < 0)
                return r;
        const char *p = strstr(buf, "flags:");
        if (!p || sscanf(p, "flags: %o mnt_id: %d ino: %lu", &flags, &mount, &inode) != 3)
                return -ENODATA;
        *ret = (ProcessFd){.flags = (int) flags, .mount = mount, .inode = inode};
        return 0;
}

int pidfd_is_alive(int pidfd) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        int r = poll(&p, 1, 0);
        if (r < 0)
                return negative_errno();
        if (p.revents & POLLNVAL)
                return -EBADF;
        return r == 0;
}

bool fd_is_pidfd(int fd) {
        char path[64], link[32];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        if (n < 0)
                return false;
        link[n] = '\0';
        return streq(link, "anon_inode:[pidfd]") || startswith(link, "pidfd:[");
}

int process_open(pid_t pid, uint64_t *ret_start_time) {
        uint64_t start;

        if (pid <= 0)
                return -ESRCH;
        _cleanup_close_ int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
                return negative_errno();
        int r = process_stat(pid, NULL, &start);
        if (r < 0)
                return r;
        r = pidfd_is_alive(pidfd);
        if (r <= 0)
                return r < 0 ? r : -ESRCH;
        *ret_start_time = start;
        return TAKE_FD(pidfd);
}

int boot_id_read(char ret[static BOOT_ID_SIZE]) {
        char buf[BOOT_ID_SIZE + 1];

        int r = read_file("/proc/sys/kernel/random/boot_id", buf, sizeof(buf));
        if (r < 0)
                return r;
        buf[strcspn(buf, "\n")] = '\0';
        if (strlen(buf) != BOOT_ID_SIZE - 1)
                return -EPROTO;
        memcpy(ret, buf, BOOT_ID_SIZE);
        return 0;
}
