/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Serves the resource manager of fake-rm.c to other processes: fake-server SOCKET. See fake-remote.h
 */

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/macro.h"
#include "fake-remote.h"
#include "fake-rm.h"

#define CONNECTIONS_MAX 256U

typedef struct Connection {
        uint64_t cookie; /* of a file; 0: calls come by it, or nothing has come yet */
        int file;
} Connection;

static Connection connections[CONNECTIONS_MAX];
static struct pollfd fds[CONNECTIONS_MAX]; /* the first two listen */
static nfds_t n = 2;

static int file_of(uint64_t cookie) {
        for (nfds_t i = 2; i < n; i++)
                if (connections[i].cookie == cookie)
                        return connections[i].file;
        return 0;
}

static void answer(int fd, FakeRemoteCall *c) {
        const FakeRemoteRuns *runs = (const FakeRemoteRuns *) c->argument;
        uint64_t *parameters = fake_remote_parameters(c->nr, c->argument);

        if (c->nr == FAKE_REMOTE_RUNS)
                c->result = fake_rm_runs(runs->client, runs->channel);
        else {
                if (parameters)
                        *parameters = (uintptr_t) c->data;
                c->result = fake_rm_call(file_of(c->cookie), c->nr, c->size, c->argument);
        }
        (void) send(fd, c, sizeof(*c), MSG_NOSIGNAL);
}

/* Whether the other end is still there. */
static bool serve(nfds_t i) {
        FakeRemoteCall c;

        ssize_t size = recv(fds[i].fd, &c, sizeof(c), 0);
        if (size == (ssize_t) sizeof(c.cookie)) {
                connections[i] = (Connection){.cookie = c.cookie, .file = fake_rm_open()};
                (void) send(fds[i].fd, "", 1, MSG_NOSIGNAL);
        } else if (size == (ssize_t) sizeof(c))
                answer(fds[i].fd, &c);
        return size > 0;
}

static void drop(nfds_t i) {
        if (connections[i].file != 0)
                fake_rm_close(connections[i].file);
        (void) close(fds[i].fd);
        n--;
        fds[i] = fds[n];
        connections[i] = connections[n];
        connections[n] = (Connection){};
}

static int listen_at(const char *path, const char *suffix) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", path, suffix);
        return fd >= 0 && bind(fd, (struct sockaddr *) &address, sizeof(address)) >= 0 && listen(fd, 64) >= 0 ? fd : -1;
}

static void take_connection(int at) {
        int fd = accept4(at, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0 && n < CONNECTIONS_MAX)
                fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
        else
                safe_close(fd);
}

int main(int argc, char *argv[]) {
        if (argc != 2)
                return EXIT_FAILURE;
        fds[0] = (struct pollfd){.fd = listen_at(argv[1], ""), .events = POLLIN};
        fds[1] = (struct pollfd){.fd = listen_at(argv[1], FAKE_REMOTE_CALLS), .events = POLLIN};
        if (fds[0].fd < 0 || fds[1].fd < 0)
                return EXIT_FAILURE;
        puts("ready");
        (void) fflush(stdout);
        for (;;) {
                if (poll(fds, n, -1) < 0)
                        return EXIT_FAILURE;
                for (nfds_t i = n; i-- > 2;)
                        if (fds[i].revents != 0 && !serve(i))
                                drop(i);
                for (nfds_t i = 0; i < 2; i++)
                        if (fds[i].revents != 0)
                                take_connection(fds[i].fd);
        }
}
