/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds what processes have loaded
 *
 * A child process reads, and writes one record for each process to a pipe. A read of a process may block for as long as
 * that process likes, and only SIGKILL ends it. So a child that writes no record for too long is killed, and another
 * child goes on with the next process.
 */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/client-environment.h"
#include "common/process.h"
#include "common/time-util.h"
#include "host-loaded.h"
#include "tools/host/host-scan.h"

#define ENVIRONMENT_MAX 65536U

typedef struct Found {
        size_t index;
        int layers;
        bool disabled;
} Found;

typedef struct Reader {
        HostProcesses *all;
        bool (*wanted)(const HostProcess *p, void *userdata);
        void *userdata;
        uint64_t lost_ns; /* with children that were killed */
} Reader;

/* --- the child --- */

static int read_layers(pid_t pid) {
        static const struct {
                const char *name;
                unsigned layer;
        } libraries[] = {
                        {"/libxsched-opencl.so", HOST_LAYER_OPENCL},
                        {"/libxsched-cuda.so", HOST_LAYER_CUDA},
                        {"/libxsched-kfd.so", HOST_LAYER_KFD},
                        {"/libxsched-hip.so", HOST_LAYER_HIP},
                        {"/libxsched.so", HOST_LIBRARY},
        };
        unsigned layers = 0;
        char path[64], line[PATH_MAX + 128];

        (void) snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
        FILE *f = fopen(path, "re");
        if (!f)
                return negative_errno();
        while (fgets(line, sizeof(line), f))
                for (size_t i = 0; i < ELEMENTSOF(libraries) && !strstr(line, " /memfd:"); i++)
                        if (strstr(line, libraries[i].name))
                                layers |= libraries[i].layer;
        (void) fclose(f);
        return (int) layers;
}

static bool is_disabled(pid_t pid) {
        const char *name = "XSCHED_DISABLE=";
        _cleanup_free_ char *text = malloc(ENVIRONMENT_MAX);

        if (!text)
                return false;
        int n = process_read(pid, "environ", text, ENVIRONMENT_MAX);
        for (const char *p = text; n > 0 && p < text + n; p += strlen(p) + 1)
                if (environment_is_true(startswith(p, name)))
                        return true;
        return false;
}

_noreturn_ static void child_main(const Reader *r, size_t from, int to) {
        for (size_t i = from; i < r->all->n; i++) {
                const HostProcess *p = r->all->processes + i;
                Found f = {.index = i};

                if (!r->wanted(p, r->userdata))
                        continue;
                f.layers = read_layers(p->pid);
                f.disabled = f.layers > 0 && is_disabled(p->pid);
                if (write(to, &f, sizeof(f)) != sizeof(f))
                        _exit(EXIT_FAILURE);
        }
        _exit(EXIT_SUCCESS);
}

/* --- the parent --- */

/* Returns > 0: the next one; 0: the child has ended; -ETIMEDOUT: it does not answer. */
static int hear(int from, Found *ret) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        int r;

        do
                r = poll(&p, 1, (int) (HOST_READ_NS / NSEC_PER_MSEC));
        while (r < 0 && errno == EINTR);
        if (r <= 0)
                return r < 0 ? negative_errno() : -ETIMEDOUT;
        return read(from, ret, sizeof(*ret)) == sizeof(*ret);
}

/* Returns the first wanted process from `from` on; `n`: none. */
static size_t next_wanted(const Reader *r, size_t from) {
        while (from < r->all->n && !r->wanted(r->all->processes + from, r->userdata))
                from++;
        return from;
}

static int start_child(const Reader *r, size_t from, pid_t *ret) {
        int pipe_fds[2];

        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return negative_errno();
        *ret = fork();
        if (*ret == 0)
                child_main(r, from, pipe_fds[1]);
        int error = errno;
        (void) close(pipe_fds[1]);
        if (*ret > 0)
                return pipe_fds[0];
        (void) close(pipe_fds[0]);
        return -error;
}

/* Returns the end of what was read, or a negative errno. A process that the child did not report cannot be read. */
static int64_t read_some(Reader *r, size_t from) {
        Found f;
        pid_t pid = 0;

        _cleanup_close_ int fd = start_child(r, from, &pid);
        if (fd < 0)
                return fd;
        int k;
        while ((k = hear(fd, &f)) > 0) {
                if (f.index >= r->all->n)
                        break;
                r->all->processes[f.index].layers = f.layers;
                r->all->processes[f.index].disabled = f.disabled;
                from = f.index + 1;
        }
        (void) kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (k == 0)
                return (int64_t) r->all->n;
        r->lost_ns += HOST_READ_NS;
        from = next_wanted(r, from);
        if (from < r->all->n)
                r->all->processes[from].layers = k;
        return (int64_t) from + 1;
}

int host_read_loaded(HostProcesses *all, bool (*wanted)(const HostProcess *p, void *userdata), void *userdata) {
        Reader r = {.all = all, .wanted = wanted, .userdata = userdata};

        for (size_t i = next_wanted(&r, 0); i < all->n && r.lost_ns < HOST_READ_ALL_NS;) {
                int64_t k = read_some(&r, i);
                if (k < 0)
                        return (int) k;
                i = next_wanted(&r, (size_t) k);
        }
        return 0;
}
