/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Peers
 */

#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cgroup/cgroup-path.h"
#include "cgroup/peer.h"
#include "common/time-util.h"

void peer_done(Peer *p) {
        p->pidfd = safe_close(p->pidfd);
        free(p->command);
        free(p->executable);
        free(p->cgroup);
        free(p->unit);
        free(p->slice);
        *p = PEER_NULL;
}

/* On hosts with the old hierarchies the line that counts comes after a dozen others, each as long as a path can be in
 * practice. */
#define PROC_SIZE    16384U
#define COMMAND_SIZE 128U /* a kernel thread's name may be longer than TASK_COMM_LEN */

/* The bus takes UTF-8 only, and a cgroup may have any name. */
static int escape(const char *s, char **ret) {
        static const char hex[] = "0123456789abcdef";
        char *out = malloc(strlen(s) * 4 + 1), *p = out;

        if (!out)
                return -ENOMEM;
        for (; *s; s++) {
                unsigned char c = (unsigned char) *s;
                if (c >= ' ' && c < 0x7f) {
                        *p++ = (char) c;
                        continue;
                }
                *p++ = '\\';
                *p++ = 'x';
                *p++ = hex[c >> 4];
                *p++ = hex[c & 15];
        }
        *p = '\0';
        *ret = out;
        return 0;
}

static int read_cgroup(pid_t pid, char **ret) {
        char buf[PROC_SIZE];
        int r = process_read(pid, "cgroup", buf, sizeof(buf));
        if (r < 0)
                return r;

        size_t n;
        const char *path = cgroup_text_path(buf, &n);
        if (path)
                buf[path - buf + (ptrdiff_t) n] = '\0';

        /* A cgroup outside of our namespace is above all that we can see. */
        return escape(path && cgroup_path_is_normal(path) ? path : "/", ret);
}

static int read_command(pid_t pid, char **ret) {
        char buf[COMMAND_SIZE];
        int r = process_read(pid, "comm", buf, sizeof(buf));
        if (r < 0)
                return r;
        buf[strcspn(buf, "\n")] = '\0';
        return escape(buf, ret);
}

/* Only a process that may trace it can read the link. Every process can read its arguments, which it chooses itself. */
static int read_executable(pid_t pid, const char *command, char **ret) {
        char path[64], buf[PROC_SIZE] = "";

        (void) snprintf(path, sizeof(path), "/proc/%d/exe", (int) pid);
        ssize_t n = readlink(path, buf, sizeof(buf) - 1);
        if (n > 0) {
                static const char deleted[] = " (deleted)";
                size_t k = (size_t) n, l = strlen(deleted);

                buf[k] = '\0';
                if (k > l && streq(buf + k - l, deleted))
                        buf[k - l] = '\0';
        } else if (process_read(pid, "cmdline", buf, sizeof(buf)) <= 0 || buf[0] == '\0')
                return escape(command, ret);
        return escape(buf, ret);
}

static int read_uid(pid_t pid, uid_t *ret) {
        char path[32];
        struct stat st;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        if (stat(path, &st) < 0)
                return errno == ENOENT ? -ESRCH : negative_errno();
        *ret = st.st_uid;
        return 0;
}

typedef struct Place {
        char *cgroup, *unit, *slice;
} Place;

static void place_done(Place *p) {
        free(p->cgroup);
        free(p->unit);
        free(p->slice);
}

static int read_place(pid_t pid, Place *ret) {
        _cleanup_(place_done)
        Place p = {0};

        int r = read_cgroup(pid, &p.cgroup);
        if (r >= 0)
                r = cgroup_path_unit(p.cgroup, &p.unit);
        if (r >= 0)
                r = cgroup_path_slice(p.cgroup, &p.slice);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(p, (Place){0});
        return 0;
}

static void peer_set_place(Peer *p, Place *place) {
        const Place old = {p->cgroup, p->unit, p->slice};

        p->cgroup = place->cgroup;
        p->unit = place->unit;
        p->slice = place->slice;
        *place = old;
}

int peer_refresh_cgroup(Peer *p) {
        _cleanup_(place_done)
        Place place = {0};

        int r = read_place(p->pid, &place);
        if (r < 0)
                return r;
        r = pidfd_is_alive(p->pidfd);
        if (r <= 0)
                return r < 0 ? r : -ESRCH;
        if (streq(place.cgroup, p->cgroup))
                return 0;
        peer_set_place(p, &place);
        return 1;
}

/* Reads everything about the process behind p->pidfd, whose pid is p->pid. */
static int peer_read(Peer *p) {
        _cleanup_(place_done)
        Place place = {0};

        int r = process_stat(p->pid, NULL, &p->start_time);
        if (r < 0)
                return r;
        r = read_uid(p->pid, &p->uid);
        if (r < 0)
                return r;
        r = read_command(p->pid, &p->command);
        if (r < 0)
                return r;
        r = read_place(p->pid, &place);
        if (r < 0)
                return r;
        peer_set_place(p, &place);

        /* The process is still alive, so the pid was its own all the time, and the data read is about it. */
        r = pidfd_is_alive(p->pidfd);
        if (r < 0)
                return r;
        return r == 0 ? -ESRCH : 0;
}

int peer_read_executable(Peer *p) {
        _cleanup_free_ char *executable = NULL;

        if (p->executable)
                return 0;
        int r = read_executable(p->pid, p->command, &executable);
        if (r < 0)
                return r;
        r = pidfd_is_alive(p->pidfd);
        if (r <= 0)
                return r < 0 ? r : -ESRCH;
        p->executable = TAKE_PTR(executable);
        return 0;
}

int peer_from_pid(pid_t pid, Peer *ret) {
        _cleanup_(peer_done)
        Peer p = PEER_NULL;

        if (pid <= 0)
                return -ESRCH;
        p.pid = pid;
        p.pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
        if (p.pidfd < 0)
                return negative_errno();
        int r = peer_read(&p);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(p, PEER_NULL);
        return 0;
}

/* Returns whether the process was certainly started after that time, in ns of CLOCK_BOOTTIME. Its start is known in
 * whole ticks, rounded down. */
static bool started_after(const Peer *p, uint64_t ns) {
        uint64_t tick_ns = NSEC_PER_SEC / (uint64_t) sysconf(_SC_CLK_TCK);

        return p->start_time * tick_ns > ns;
}

/* Makes the peer from the bus's own pidfd, which it takes over. */
static int read_by_pidfd(Credentials *k, Peer *p) {
        p->pidfd = TAKE_FD(k->pidfd);
        int r = pidfd_get_pid(p->pidfd, &p->pid);
        if (r < 0)
                return r;
        if (p->pid != k->pid)
                return -ESTALE;
        return peer_read(p);
}

/* Makes the peer from a pid that was right when the connection was made. */
static int read_by_number(const Connections *connections, const char *sender, const Credentials *k, Peer *p) {
        if (connections_have_pidfds(connections))
                return -ESTALE;
        int r = peer_from_pid(k->pid, p);
        if (r < 0)
                return r;
        return started_after(p, connections_made_by(connections, sender)) ? -ESTALE : 0;
}

int peer_from_sender(const Connections *connections, sd_bus_message *m, Peer *ret) {
        _cleanup_(peer_done)
        Peer p = PEER_NULL;
        _cleanup_(credentials_done)
        Credentials k = CREDENTIALS_NULL;
        const char *sender = sd_bus_message_get_sender(m);

        int r = connections_credentials(connections, m, &k);
        if (r < 0)
                return r;
        r = k.pidfd >= 0 ? read_by_pidfd(&k, &p) : read_by_number(connections, sender, &k, &p);
        if (r < 0)
                return r;
        if (p.uid != k.uid || (k.made_by > 0 && started_after(&p, k.made_by)))
                return -ESTALE;
        *ret = TAKE_GENERIC(p, PEER_NULL);
        return 0;
}

int peer_from_pidfd(int pidfd, pid_t pid, uint64_t start_time, Peer *ret) {
        _cleanup_(peer_done)
        Peer p = PEER_NULL;
        pid_t now;

        int r = pidfd_get_pid(pidfd, &now);
        if (r < 0)
                return r;
        if (now != pid)
                return -ESRCH;

        p.pid = pid;
        p.pidfd = pidfd;
        r = peer_read(&p);
        if (r >= 0 && p.start_time != start_time)
                r = -ESRCH;
        if (r < 0) {
                p.pidfd = -EBADF; /* the caller keeps it */
                return r;
        }
        *ret = TAKE_GENERIC(p, PEER_NULL);
        return 0;
}

int pidfd_get_pid(int pidfd, pid_t *ret) {
        char path[64], line[256];

        if (pidfd < 0)
                return -EBADF;
        (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
        FILE *f = fopen(path, "re");
        if (!f)
                return errno == ENOENT ? -EBADF : negative_errno();

        int r = -EBADF;
        while (fgets(line, sizeof(line), f)) {
                const char *v = startswith(line, "Pid:");
                if (!v)
                        continue;
                long pid = strtol(v, NULL, 10);
                if (pid > 0) {
                        *ret = (pid_t) pid;
                        r = 0;
                } else
                        r = -ESRCH;
                break;
        }
        (void) fclose(f);
        return r;
}
