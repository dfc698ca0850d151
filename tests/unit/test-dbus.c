/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A D-Bus connection to a peer that sends what no correct bus sends. The bus suite tests correct buses.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "shim/dbus/dbus.h"
#include "tests/lib/deadline.h"
#include "tests/lib/threads.h"
#include "tests/lib/unit.h"

static char folder[] = "/tmp/test-dbus.XXXXXX";
static char address[128];
static int listener;

/* The other side of the connection. */
typedef struct Peer {
        Dbus *bus;
        int fd;
        unsigned n_replies;
        char last_error[64], owner[64];
} Peer;

static int listen_at(const char *path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void) snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *) &a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 8), 0);
        return fd;
}

static void say(const Peer *p, const void *data, size_t n) {
        assert_int_equal(send(p->fd, data, n, MSG_NOSIGNAL), n);
}

/* Reads the bytes that are there now. */
static size_t heard(const Peer *p, uint8_t *buf, size_t size) {
        ssize_t n = recv(p->fd, buf, size, MSG_DONTWAIT);
        return n < 0 ? 0 : (size_t) n;
}

static int process(Peer *p) {
        int r;

        do
                r = dbus_process(p->bus);
        while (r > 0);
        return r;
}

static void peer_begin(Peer *p, bool is_bus) {
        *p = (Peer){};
        assert_int_equal(dbus_open(address, is_bus, &p->bus), 0);
        p->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(p->fd >= 0);
}

#define ACCEPTED "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n"

static void peer_accept(Peer *p) {
        say(p, ACCEPTED, strlen(ACCEPTED));
        assert_int_equal(process(p), 0);
}

static void peer_end(Peer *p) {
        p->bus = dbus_close(p->bus);
        safe_close(p->fd);
}

static void on_reply(const DbusMessage *m, void *userdata) {
        Peer *p = userdata;

        p->n_replies++;
        (void) snprintf(p->last_error, sizeof(p->last_error), "%s", m->error);
}

static int call(Peer *p, uint64_t timeout_ns) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        dbus_call_begin(&w, "a.b", "/a", "a.b", "C", "s");
        dbus_write_string(&w, "x");
        return dbus_call(p->bus, &w, on_reply, p, timeout_ns);
}

static void say_message(const Peer *p, const DbusHeader *h, const char *const *strings) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        dbus_writer_begin(&w, h);
        for (; strings && *strings; strings++)
                dbus_write_string(&w, *strings);
        assert_int_equal(dbus_writer_seal(&w, 77), 0);
        say(p, w.data, w.size);
}

/* --- addresses --- */

static void test_addresses(void **state) {
        char text[512];
        Dbus *d;

        assert_int_equal(dbus_open("unix:path=/nonexistent/x", false, &d), -ENOENT);
        assert_int_equal(dbus_open("", false, &d), -EINVAL);
        assert_int_equal(dbus_open("tcp:host=localhost,port=1", false, &d), -EINVAL);
        assert_int_equal(dbus_open("unix:runtime=yes", false, &d), -EINVAL);
        assert_int_equal(dbus_open("unix:path=/a%2", false, &d), -EINVAL);
        assert_int_equal(dbus_open("unix:path=/a%00b", false, &d), -EINVAL);
        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        memcpy(text, "unix:path=", 10);
        assert_int_equal(dbus_open(text, false, &d), -ENAMETOOLONG);

        /* An address list: the first server that exists is used. Then an escaped path, and addresses in other forms. */
        (void) snprintf(text, sizeof(text), "tcp:host=a;unix:path=/nonexistent;unix:guid=0123,path=/tmp%%2f%s",
                        folder + 5);
        (void) snprintf(text + strlen(text), sizeof(text) - strlen(text), "/bus,x=y;unix:path=/never");
        assert_int_equal(dbus_open(text, false, &d), 0);
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(fd >= 0);
        assert_true(fcntl(dbus_fd(d), F_GETFD) & FD_CLOEXEC);
        (void) dbus_close(d);
        safe_close(fd);
}

static void test_abstract(void **state) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        char text[160];
        Dbus *d;

        int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "test-dbus-%d", (int) getpid());
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
        assert_int_equal(bind(fd, (struct sockaddr *) &a, size), 0);
        assert_int_equal(listen(fd, 1), 0);
        (void) snprintf(text, sizeof(text), "unix:abstract=%s", a.sun_path + 1);
        assert_int_equal(dbus_open(text, false, &d), 0);
        (void) dbus_close(d);
        safe_close(fd);
}

/* Opens connections until one is accepted. */
static void *open_again(void *userdata) {
        Dbus *d = NULL;

        (void) pthread_setname_np(pthread_self(), "opener");
        while (dbus_open(userdata, false, &d) == -EAGAIN)
                ;
        return d;
}

/* A connection to a crowded server waits for the crowd's end, but not for ever. */
static void test_crowd(void **state) {
        char path[64], text[96];
        int crowd[4];
        size_t n = 0;
        void *d = NULL;
        pthread_t opener;

        (void) snprintf(path, sizeof(path), "%s/crowd", folder);
        (void) snprintf(text, sizeof(text), "unix:path=%s", path);
        int fd = listen_at(path);
        assert_int_equal(listen(fd, 0), 0);
        for (struct sockaddr_un a = {.sun_family = AF_UNIX};; n++) {
                assert_in_range(n, 0, ELEMENTSOF(crowd) - 1);
                crowd[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                memcpy(a.sun_path, path, strlen(path) + 1);
                if (connect(crowd[n], (struct sockaddr *) &a, sizeof(a)) < 0)
                        break;
        }
        assert_int_equal(dbus_open(text, false, (Dbus **) &d), -EAGAIN);

        assert_int_equal(pthread_create(&opener, NULL, open_again, text), 0);
        assert_true(poll_until(threads_asleep("opener") == 1));
        safe_close(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
        assert_int_equal(pthread_join(opener, &d), 0);
        assert_non_null(d);
        assert_true(fcntl(dbus_fd(d), F_GETFL) & O_NONBLOCK);

        (void) dbus_close(d);
        do
                safe_close(crowd[n]);
        while (n-- > 0);
        safe_close(fd);
        assert_int_equal(unlink(path), 0);
}

/* --- the begin --- */

/* Calls are sent right behind the authentication. The other side's acceptance may arrive in any pieces. */
static void test_acceptance(void **state) {
        static const char first[] = "\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
        uint8_t buf[512];
        Peer p;

        peer_begin(&p, true);
        assert_int_equal(call(&p, NSEC_PER_SEC), 0);
        assert_int_equal(process(&p), 0);
        size_t n = heard(&p, buf, sizeof(buf));
        assert_true(n > sizeof(first) - 1);
        assert_memory_equal(buf, first, sizeof(first) - 1);
        assert_non_null(memmem(buf, n, "Hello", 6));
        assert_non_null(memmem(buf, n, "a.b", 4));
        for (const char *s = ACCEPTED; *s; s++) {
                assert_int_equal(process(&p), 0);
                assert_false(dbus_is_accepted(p.bus));
                assert_int_equal(heard(&p, buf, sizeof(buf)), 0);
                assert_false(dbus_events(p.bus) & POLLOUT);
                say(&p, s, 1);
        }
        assert_int_equal(process(&p), 0);
        assert_true(dbus_is_accepted(p.bus));
        peer_end(&p);
}

static void test_no_acceptance(void **state) {
        static const char *const words[] = {
                        "REJECTED EXTERNAL\r\n",
                        "DATA\r\nREJECTED\r\n",
                        "DATA\r\nOK 0123\r\nERROR\r\n",
                        "DATA\r\nOKAY\r\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                Peer p;

                peer_begin(&p, false);
                say(&p, words[i], strlen(words[i]));
                assert_int_equal(process(&p), -EPROTO);
                assert_int_equal(call(&p, NSEC_PER_SEC), -ENOTCONN);
                peer_end(&p);
        }
}

/* A line without an end is not kept for ever. */
static void test_endless_line(void **state) {
        Peer p;

        peer_begin(&p, false);
        for (unsigned i = 0; i < 200 && process(&p) == 0; i++)
                (void) send(p.fd, "DATA DATA ", 10, MSG_NOSIGNAL);
        assert_int_equal(process(&p), -EPROTO);
        peer_end(&p);
}

/* --- what comes --- */

static void test_reply(void **state) {
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        assert_int_equal(call(&p, NSEC_PER_SEC), 0);
        /* A reply to a call that was never made; then the reply to this call, twice. */
        say_message(&p, &(DbusHeader){.type = DBUS_METHOD_RETURN, .reply_serial = 9}, NULL);
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 0);
        for (unsigned i = 0; i < 2; i++)
                say_message(&p,
                                &(DbusHeader){.type = DBUS_ERROR,
                                                .reply_serial = 1,
                                                .error = "a.b.Error",
                                                .signature = "s"},
                                (const char *const[]){"because", NULL});
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 1);
        assert_string_equal(p.last_error, "a.b.Error");
        assert_true(dbus_next_ns(p.bus) == NSEC_INFINITY);
        peer_end(&p);
}

static void test_time_is_up(void **state) {
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        assert_int_equal(call(&p, 100 * NSEC_PER_SEC), 0);
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 0);
        assert_int_equal(call(&p, 0), 0);
        assert_true(dbus_next_ns(p.bus) <= now_ns());
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 1);
        assert_string_equal(p.last_error, "org.freedesktop.DBus.Error.NoReply");
        assert_true(dbus_next_ns(p.bus) > now_ns());
        peer_end(&p);
}

static void test_wait(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        DbusMessage *m;
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        /* The replies are there before the calls. */
        say_message(&p, &(DbusHeader){.type = DBUS_METHOD_RETURN, .reply_serial = 1, .signature = "s"},
                        (const char *const[]){"yes", NULL});
        dbus_call_begin(&w, "a.b", "/a", "a.b", "C", NULL);
        assert_int_equal(dbus_call_and_wait(p.bus, &w, NSEC_PER_SEC, &m), 0);
        assert_string_equal(m->signature, "s");
        (void) dbus_message_free(m);
        say_message(&p, &(DbusHeader){.type = DBUS_ERROR, .reply_serial = 2, .error = "a.b.No"}, NULL);
        assert_int_equal(dbus_call_and_wait(p.bus, &w, NSEC_PER_SEC, &m), -EREMOTEIO);
        say_message(&p,
                        &(DbusHeader){.type = DBUS_ERROR,
                                        .reply_serial = 3,
                                        .error = "org.freedesktop.DBus.Error.InvalidArgs"},
                        NULL);
        assert_int_equal(dbus_call_and_wait(p.bus, &w, NSEC_PER_SEC, &m), -EINVAL);
        assert_int_equal(dbus_call_and_wait(p.bus, &w, NSEC_PER_MSEC, &m), -ETIMEDOUT);
        safe_close(p.fd);
        p.fd = -EBADF;
        assert_true(dbus_call_and_wait(p.bus, &w, NSEC_PER_SEC, &m) < 0);
        peer_end(&p);
}

static void on_owner(const char *owner, void *userdata) {
        Peer *p = userdata;
        (void) snprintf(p->owner, sizeof(p->owner), "%s", owner);
}

/* Signals about names are ignored from a sender that is not the bus. */
static void test_owner(void **state) {
        Peer p;

        peer_begin(&p, true);
        peer_accept(&p);
        assert_int_equal(dbus_watch_name(p.bus, "a.b", on_owner, &p), 0);
        say_message(&p,
                        &(DbusHeader){
                                        .type = DBUS_SIGNAL,
                                        .path = "/org/freedesktop/DBus",
                                        .interface = "org.freedesktop.DBus",
                                        .member = "NameOwnerChanged",
                                        .signature = "sss",
                        },
                        (const char *const[]){"a.b", "", ":1.9", NULL});
        assert_int_equal(process(&p), 0);
        assert_string_equal(p.owner, "");
        peer_end(&p);
}

/* Calls of other peers are answered with an error, so that they do not wait. The answers to a peer that does not read
 * are dropped. */
static void test_is_called(void **state) {
        uint8_t buf[65536];
        Peer p;
        size_t most = 0;

        peer_begin(&p, false);
        peer_accept(&p);
        (void) heard(&p, buf, sizeof(buf));
        const DbusHeader h = {.type = DBUS_METHOD_CALL,
                        .path = "/",
                        .interface = "org.freedesktop.DBus.Peer",
                        .member = "Ping"};
        say_message(&p, &h, NULL);
        assert_int_equal(process(&p), 0);
        assert_non_null(memmem(buf, heard(&p, buf, sizeof(buf)), "UnknownMethod", 13));
        for (unsigned i = 0; i < 20000; i++) {
                say_message(&p, &h, NULL);
                assert_int_equal(process(&p), 0);
        }
        for (size_t n; (n = heard(&p, buf, sizeof(buf))) > 0; most += n)
                assert_int_equal(process(&p), 0);
        assert_true(most < (size_t) 20000 * 100);
        peer_end(&p);
}

/* --- what is wrong --- */

static void send_fds(const Peer *p, const void *data, size_t n, unsigned n_fds) {
        union {
                struct cmsghdr header;
                uint8_t space[CMSG_SPACE(sizeof(int) * 32)];
        } control = {};
        struct iovec part = {.iov_base = (void *) (uintptr_t) data, .iov_len = n};
        struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};

        h.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        control.header = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * n_fds)};
        for (unsigned i = 0; i < n_fds; i++)
                memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &p->fd, sizeof(int));
        assert_int_equal(sendmsg(p->fd, &h, MSG_NOSIGNAL), n);
}

static unsigned count_fds(void) {
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* A message with more descriptors than its header says, or than are allowed, is skipped, because every peer may send
 * one. None of the descriptors stays open. */
static void test_fds(void **state) {
        unsigned before = count_fds();

        for (unsigned n = 1; n <= 32; n *= 2) {
                _cleanup_(dbus_writer_done)
                DbusWriter w = DBUS_WRITER_NULL;
                Peer p;

                peer_begin(&p, false);
                peer_accept(&p);
                dbus_writer_begin(&w, &(DbusHeader){.type = DBUS_METHOD_RETURN, .reply_serial = 1});
                assert_int_equal(dbus_writer_seal(&w, 1), 0);
                assert_int_equal(call(&p, NSEC_PER_SEC), 0);
                send_fds(&p, w.data, w.size, n);
                assert_int_equal(process(&p), 0);
                assert_int_equal(p.n_replies, 0);
                say(&p, w.data, w.size);
                assert_int_equal(process(&p), 0);
                assert_int_equal(p.n_replies, 1);
                peer_end(&p);
        }
        assert_int_equal(count_fds(), before);
}

/* A message longer than any for us, or with a bad header, is skipped, and the next one is read. */
static void test_passed_over(void **state) {
        uint8_t prefix[DBUS_PREFIX_SIZE] = {'l', 4, 0, 1, [6] = 0x20, [8] = 1}, zeros[4096] = {};
        size_t left = 0x200000;
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        assert_int_equal(call(&p, NSEC_PER_SEC), 0);
        say(&p, prefix, sizeof(prefix));
        for (; left > 0; left -= sizeof(zeros)) {
                say(&p, zeros, sizeof(zeros));
                assert_int_equal(process(&p), 0);
        }
        prefix[6] = 0;
        prefix[12] = 8; /* eight zeros are no field */
        say(&p, prefix, sizeof(prefix));
        say(&p, zeros, 8);
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 0);
        say_message(&p, &(DbusHeader){.type = DBUS_METHOD_RETURN, .reply_serial = 1}, NULL);
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 1);
        peer_end(&p);
}

/* A peer may send a message right behind its acceptance. */
static void test_early_message(void **state) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        static const char accepted[] = ACCEPTED;
        const size_t n = sizeof(accepted) - 1;
        uint8_t both[256];
        Peer p;

        peer_begin(&p, false);
        assert_int_equal(call(&p, NSEC_PER_SEC), 0);
        dbus_writer_begin(&w, &(DbusHeader){.type = DBUS_METHOD_RETURN, .reply_serial = 1});
        assert_int_equal(dbus_writer_seal(&w, 1), 0);
        memcpy(both, accepted, n);
        memcpy(both + n, w.data, w.size);
        say(&p, both, n + w.size);
        assert_int_equal(process(&p), 0);
        assert_int_equal(p.n_replies, 1);
        peer_end(&p);
}

/* Messages to a peer that does not read are not kept for ever. */
static void test_does_not_read(void **state) {
        Peer p;
        int r = 0;

        peer_begin(&p, false);
        for (unsigned i = 0; i < 100000 && r == 0; i++)
                r = call(&p, NSEC_PER_SEC);
        assert_int_equal(r, -ENOTCONN);
        assert_int_equal(process(&p), -ENOBUFS);
        peer_end(&p);
}

/* An application may have closed its standard output. */
static void test_above_standard_output(void **state) {
        int saved = dup(STDIN_FILENO);
        Peer p;

        assert_int_equal(close(STDIN_FILENO), 0);
        peer_begin(&p, false);
        assert_true(dbus_fd(p.bus) > STDERR_FILENO);
        peer_end(&p);
        assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
        safe_close(saved);
}

static void test_too_much(void **state) {
        const uint8_t prefix[DBUS_PREFIX_SIZE] = {'l', 2, 0, 1, [7] = 0x10, [8] = 1};
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        say(&p, prefix, sizeof(prefix));
        assert_int_equal(process(&p), -EMSGSIZE);
        assert_int_equal(process(&p), -EMSGSIZE);
        peer_end(&p);
}

static void test_end(void **state) {
        Peer p;

        peer_begin(&p, false);
        peer_accept(&p);
        assert_int_equal(call(&p, NSEC_PER_SEC), 0);
        safe_close(p.fd);
        p.fd = -EBADF;
        assert_int_equal(process(&p), -ECONNRESET);
        assert_int_equal(p.n_replies, 0);
        assert_int_equal(call(&p, NSEC_PER_SEC), -ENOTCONN);
        peer_end(&p);
}

static int set_up(void **state) {
        char path[64];

        if (!mkdtemp(folder))
                return -1;
        (void) snprintf(path, sizeof(path), "%s/bus", folder);
        (void) snprintf(address, sizeof(address), "unix:path=%s", path);
        listener = listen_at(path);
        return 0;
}

static int tear_down(void **state) {
        char path[64];

        (void) snprintf(path, sizeof(path), "%s/bus", folder);
        safe_close(listener);
        return unlink(path) < 0 || rmdir(folder) < 0 ? -1 : 0;
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_addresses),
                        cmocka_unit_test(test_abstract),
                        cmocka_unit_test(test_crowd),
                        cmocka_unit_test(test_acceptance),
                        cmocka_unit_test(test_no_acceptance),
                        cmocka_unit_test(test_endless_line),
                        cmocka_unit_test(test_reply),
                        cmocka_unit_test(test_time_is_up),
                        cmocka_unit_test(test_wait),
                        cmocka_unit_test(test_owner),
                        cmocka_unit_test(test_is_called),
                        cmocka_unit_test(test_fds),
                        cmocka_unit_test(test_passed_over),
                        cmocka_unit_test(test_early_message),
                        cmocka_unit_test(test_does_not_read),
                        cmocka_unit_test(test_above_standard_output),
                        cmocka_unit_test(test_too_much),
                        cmocka_unit_test(test_end),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
