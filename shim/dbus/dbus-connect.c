/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The begin of a connection of D-Bus: see dbus-connect.h
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/macro.h"
#include "common/own-fd.h"
#include "shim/dbus/dbus-connect.h"

/* All commands at once, without waiting for answers: a refusal of any ends the connection. */
#define AUTH "\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"

const char dbus_auth[] = AUTH;
_Static_assert(sizeof(AUTH) - 1 == DBUS_AUTH_SIZE, "DBUS_AUTH_SIZE is the length of AUTH");

/* --- addresses --- */

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -EINVAL;
}

/* "%20" is a blank. */
static int unescape(const char *s, size_t n, char *buf, size_t size) {
        size_t k = 0;

        for (size_t i = 0; i < n; i++) {
                int c = (unsigned char) s[i];

                if (s[i] == '%') {
                        if (n - i < 3 || hex_digit(s[i + 1]) < 0 || hex_digit(s[i + 2]) < 0)
                                return -EINVAL;
                        c = hex_digit(s[i + 1]) << 4 | hex_digit(s[i + 2]);
                        i += 2;
                }
                if (c == '\0')
                        return -EINVAL;
                if (k + 1 >= size)
                        return -ENAMETOOLONG;
                buf[k++] = (char) c;
        }
        buf[k] = '\0';
        return (int) k;
}

/* "path=/run/dbus/system_bus_socket,guid=..." */
static int parse_unix(const char *s, size_t n, struct sockaddr_un *ret, socklen_t *ret_size) {
        while (n > 0) {
                size_t k = 0;
                while (k < n && s[k] != ',')
                        k++;
                bool is_abstract = k > 9 && memcmp(s, "abstract=", 9) == 0;
                if (is_abstract || (k > 5 && memcmp(s, "path=", 5) == 0)) {
                        size_t key = is_abstract ? 9 : 5;
                        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
                        int r = unescape(s + key, k - key, ret->sun_path + is_abstract,
                                        sizeof(ret->sun_path) - is_abstract);
                        if (r < 0)
                                return r;
                        *ret_size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + (size_t) r + 1);
                        return 0;
                }
                s += MIN(k + 1, n);
                n -= MIN(k + 1, n);
        }
        return -EINVAL;
}

/* Other connections may wait to be accepted: the kernel accepts ours after them, if that is soon. */
static int connect_behind(int fd, const struct sockaddr_un *address, socklen_t size) {
        const struct timeval wait = {.tv_usec = DBUS_CONNECT_WAIT_US}, for_ever = {0};

        if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 || fcntl(fd, F_SETFL, 0) < 0)
                return negative_errno();
        if (connect(fd, (const struct sockaddr *) address, size) < 0)
                return negative_errno();
        if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
                        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof(for_ever)) < 0)
                return negative_errno();
        return 0;
}

static int connect_one(const char *s, size_t n, int *ret_fd) {
        struct sockaddr_un address;
        socklen_t size;

        if (n < 5 || memcmp(s, "unix:", 5) != 0)
                return -EINVAL;
        int r = parse_unix(s + 5, n - 5, &address, &size);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return negative_errno();
        r = connect(fd, (struct sockaddr *) &address, size) < 0 ? negative_errno() : 0;
        if (r == -EAGAIN)
                r = connect_behind(fd, &address, size);
        if (r < 0)
                return r;
        int copy = own_fd_copy(fd);
        if (copy < 0)
                return copy;
        *ret_fd = copy;
        return 0;
}

int dbus_connect(const char *addresses, int *ret_fd) {
        int r = -EINVAL;

        for (const char *s = addresses; *s;) {
                size_t n = strcspn(s, ";");
                int one = n > 0 ? connect_one(s, n, ret_fd) : -EINVAL;
                if (one >= 0)
                        return 0;
                /* A socket that is missing is the better reason than an address of an unknown kind. */
                if (one != -EINVAL)
                        r = one;
                s += n + (s[n] == ';');
        }
        return r;
}

/* --- authentication --- */

/* Returns the next line without its end. */
static const char *next_line(const char **said, size_t *size, size_t *ret_n) {
        const char *line = *said, *end = memmem(line, *size, "\r\n", 2);

        if (!end)
                return NULL;
        *ret_n = (size_t) (end - line);
        *said = end + 2;
        *size -= *ret_n + 2;
        return line;
}

static bool line_is(const char *line, size_t n, const char *word) {
        size_t k = strlen(word);
        return n >= k && memcmp(line, word, k) == 0 && (n == k || line[k] == ' ');
}

/* Without descriptors there is no page, so a bus that does not pass them is of no use. */
int dbus_auth_verify(const char *said, size_t size) {
        static const char *const expected[] = {"DATA", "OK", "AGREE_UNIX_FD"};

        for (size_t i = 0; i < ELEMENTSOF(expected); i++) {
                size_t n;
                const char *line = next_line(&said, &size, &n);
                if (!line)
                        return 0;
                if (!line_is(line, n, expected[i]))
                        return -EPROTO;
        }
        return size == 0 ? 1 : -EPROTO;
}
