/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Notifications to the service manager
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <utlist.h>

#include "closer.h"
#include "common/time-util.h"
#include "log.h"
#include "notify.h"

/* How long the end of the service waits for a manager that does not read. */
#define END_NS (5 * NSEC_PER_SEC)

/* Messages that are sent in one turn; then the loop looks at all other events. */
#define TURN_MESSAGES 64U

typedef enum NotificationKind {
        NOTIFICATION_OTHER,
        NOTIFICATION_STATUS,   /* only the last one counts */
        NOTIFICATION_WATCHDOG, /* one in the list is enough */
        NOTIFICATION_STORE,
        NOTIFICATION_DROP,
} NotificationKind;

typedef struct Notification {
        NotificationKind kind;
        int fd; /* a copy, or -EBADF */
        struct Notification *prev, *next;
        char text[];
} Notification;

static struct {
        int socket;            /* connected, does not block; -EBADF: the sender waits */
        Notification *waiting; /* list, the first is the next */
        sd_event_source *writable, *watchdog;
        uint64_t watchdog_ns;
} notify = {.socket = -EBADF};

/* --- sending --- */

/* Connects to the socket at a path, or with an abstract name. For other kinds libsystemd sends, and waits. */
static int open_socket(void) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *path = getenv("NOTIFY_SOCKET");
        size_t n = path ? strlen(path) : 0;

        if (n < 2 || n >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
                return -EAFNOSUPPORT;
        memcpy(address.sun_path, path, n);
        if (path[0] == '@')
                address.sun_path[0] = '\0';
        socklen_t length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'));

        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *) &address, length) < 0)
                return negative_errno();
        return TAKE_FD(fd);
}

/* Returns -EAGAIN when there is no room. */
static int transmit(const char *text, int fd) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec iov = {.iov_base = (void *) text, .iov_len = strlen(text)};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

        if (fd >= 0) {
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
                m.msg_control = &control;
                m.msg_controllen = sizeof(control.space);
        }
        return sendmsg(notify.socket, &m, MSG_NOSIGNAL) < 0 ? negative_errno() : 1;
}

/* A service manager that was started anew listens on another socket of the same name. */
static int transmit_or_reconnect(const char *text, int fd) {
        int r = transmit(text, fd);
        if (r != -ECONNREFUSED && r != -ENOTCONN && r != -ECONNRESET)
                return r;
        int again = open_socket();
        if (again < 0)
                return again;
        /* The fd keeps its number; the event source has to watch the new socket. */
        (void) sd_event_source_set_enabled(notify.writable, SD_EVENT_OFF);
        r = dup3(again, notify.socket, O_CLOEXEC) < 0 ? negative_errno() : 0;
        safe_close(again);
        if (notify.waiting)
                (void) sd_event_source_set_enabled(notify.writable, SD_EVENT_ON);
        if (r < 0)
                return r;
        return transmit(text, fd);
}

/* --- what waits --- */

static void notification_free(Notification *n) {
        DL_DELETE(notify.waiting, n);
        closer_take(n->fd); /* a client's fd, which may take long to close */
        free(n);
}

static int notification_new(NotificationKind kind, const char *text, int fd) {
        Notification *n = calloc(1, sizeof(*n) + strlen(text) + 1);
        if (!n)
                return -ENOMEM;
        n->kind = kind;
        n->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -EBADF;
        if (fd >= 0 && n->fd < 0) {
                int r = negative_errno();
                free(n);
                return r;
        }
        memcpy(n->text, text, strlen(text) + 1);
        DL_APPEND(notify.waiting, n);
        (void) sd_event_source_set_enabled(notify.writable, SD_EVENT_ON);
        return 1;
}

/* text NULL: any. */
static Notification *find_waiting(NotificationKind kind, const char *text) {
        Notification *n;

        DL_FOREACH(notify.waiting, n)
                if (n->kind == kind && (!text || streq(n->text, text)))
                        return n;
        return NULL;
}

static void send_first(void) {
        Notification *n = notify.waiting;

        int r = transmit_or_reconnect(n->text, n->fd);
        if (r == -EAGAIN)
                return;
        if (r < 0)
                log_warning_errno(r, "Failed to tell the service manager \"%.*s\", ignoring: %m",
                                (int) strcspn(n->text, "\n"), n->text);
        notification_free(n);
}

static int on_writable(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        for (unsigned i = 0; i < TURN_MESSAGES && notify.waiting; i++) {
                const Notification *n = notify.waiting;
                send_first();
                if (notify.waiting == n)
                        return 0;
        }
        if (!notify.waiting)
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
        return 0;
}

static int tell(NotificationKind kind, const char *text, int fd) {
        if (notify.socket < 0)
                return fd < 0 ? sd_notify(0, text) : sd_pid_notify_with_fds(0, 0, text, &fd, 1);
        int r = notify.waiting ? -EAGAIN : transmit_or_reconnect(text, fd);
        return r == -EAGAIN ? notification_new(kind, text, fd) : r;
}

/* --- what is said --- */

void notify_ready(const char *status) {
        char text[1024];

        (void) snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
        (void) tell(NOTIFICATION_OTHER, text, -EBADF);
}

/* Sends the time, by which systemd tells the READY=1 that ends this reload from that of an earlier one. */
void notify_reloading(void) {
        char text[128];

        (void) snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reading the configuration",
                        now_ns() / NSEC_PER_USEC);
        (void) tell(NOTIFICATION_OTHER, text, -EBADF);
}

void notify_stopping(void) {
        (void) tell(NOTIFICATION_OTHER, "STOPPING=1\nSTATUS=Stopping", -EBADF);
}

void notify_status(const char *format, ...) {
        static const char key[] = "STATUS=";
        char text[512] = "STATUS=";
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text + strlen(key), sizeof(text) - strlen(key), format, ap);
        va_end(ap);
        Notification *former = find_waiting(NOTIFICATION_STATUS, NULL);
        if (former)
                notification_free(former);
        (void) tell(NOTIFICATION_STATUS, text, -EBADF);
}

/* FDPOLL=0, because systemd would drop a lifeline that hung up while no service ran, and the set would not be whole. */
static void store_text(const char *name, char *buf, size_t size) {
        (void) snprintf(buf, size, "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
}

int notify_store_fd(const char *name, int fd) {
        char text[128];

        if (fd < 0)
                return -EBADF;
        store_text(name, text, sizeof(text));
        return tell(NOTIFICATION_STORE, text, fd);
}

/* A fd that was not sent yet is taken off the list and needs no message. So there are never more messages waiting than
 * fds in the store and fds to be stored. */
int notify_drop_fd(const char *name) {
        char text[128];

        store_text(name, text, sizeof(text));
        Notification *n = find_waiting(NOTIFICATION_STORE, text);
        if (n) {
                notification_free(n);
                return 1;
        }
        (void) snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
        return tell(NOTIFICATION_DROP, text, -EBADF);
}

/* --- the watchdog --- */

/* sd-event's own watchdog message would block when there is no room. */
static int on_watchdog(sd_event_source *s, uint64_t usec, void *userdata) {
        if (!find_waiting(NOTIFICATION_WATCHDOG, NULL))
                (void) tell(NOTIFICATION_WATCHDOG, "WATCHDOG=1", -EBADF);
        int r = sd_event_source_set_time(s, (now_ns() + notify.watchdog_ns / 2) / NSEC_PER_USEC);
        return r < 0 ? r : sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int add_watchdog(sd_event *event) {
        uint64_t usec;

        int r = sd_watchdog_enabled(0, &usec);
        if (r <= 0)
                return r;
        notify.watchdog_ns = usec * NSEC_PER_USEC;
        r = sd_event_add_time(event, &notify.watchdog, CLOCK_MONOTONIC, 0, usec / 4, on_watchdog, NULL);
        if (r >= 0)
                r = sd_event_source_set_priority(notify.watchdog, SD_EVENT_PRIORITY_IMPORTANT);
        if (r >= 0)
                (void) sd_event_source_set_description(notify.watchdog, "watchdog");
        return r;
}

/* --- life --- */

int notify_begin(sd_event *event) {
        int r = add_watchdog(event);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = open_socket();
        if (fd < 0)
                return 0;
        r = sd_event_add_io(event, &notify.writable, fd, EPOLLOUT, on_writable, NULL);
        if (r >= 0)
                r = sd_event_source_set_enabled(notify.writable, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(notify.writable, "notify");
        notify.socket = TAKE_FD(fd);
        return 0;
}

void notify_end(void) {
        uint64_t until = now_ns() + END_NS;

        while (notify.waiting) {
                struct pollfd p = {.fd = notify.socket, .events = POLLOUT};
                struct timespec left = ns_to_timespec(ns_sub(until, now_ns()));
                int r = ppoll(&p, 1, &left, NULL);
                if (r == 0 || (r < 0 && errno != EINTR))
                        break;
                if (r > 0)
                        send_first();
        }
        if (notify.waiting)
                log_warning("The service manager does not listen: it is not told everything, ignoring");
        while (notify.waiting)
                notification_free(notify.waiting);
        notify.writable = sd_event_source_disable_unref(notify.writable);
        notify.watchdog = sd_event_source_disable_unref(notify.watchdog);
        notify.socket = safe_close(notify.socket);
}
