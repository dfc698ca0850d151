/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * HTTP, by libmicrohttpd in our own event loop
 *
 * We accept, and hand the socket over: so we know when there are too many, and can shut any of them down, which the
 * library takes for an end by the other side.
 */

#include "tools/exporter/http.h"
#include "accept.h"

#include <errno.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <utlist.h>

typedef enum Phase {
        PHASE_ASKING,    /* nothing or only a part of a request was read */
        PHASE_WAITING,   /* for a snapshot */
        PHASE_ANSWERING, /* it has its answer to read */
} Phase;

typedef struct Connection {
        Http *http;
        struct MHD_Connection *connection;
        int fd; /* the library's */
        Phase phase;
        uint64_t began_at, answered_at;
        bool shut;
        Format format;
        struct Connection *prev, *next; /* the oldest first */
} Connection;

struct Http {
        sd_event *event;
        Collector *collector;
        struct MHD_Daemon *daemon;
        sd_event_source **listening;
        size_t n_listening;
        int *sockets;
        size_t n_sockets;
        sd_event_source *ready, *timer, *turn;

        Connection *connections;
        unsigned n_connections;
        bool full;         /* full, and no connection could be closed for a new one */
        uint64_t retry_at; /* no connection could be accepted, and none is until then; 0: it could */
        uint64_t idle_since;
};

/* --- connections --- */

static void shut(Connection *c) {
        if (!c->shut)
                (void) shutdown(c->fd, SHUT_RDWR);
        c->shut = true;
}

static void listen_on(Http *h, bool on) {
        h->full = !on;
        h->retry_at = 0;
        for (size_t i = 0; i < h->n_listening; i++)
                (void) sd_event_source_set_enabled(h->listening[i], on ? SD_EVENT_ON : SD_EVENT_OFF);
}

/* The time from which it may be closed for another connection. */
static uint64_t is_victim_at(const Connection *c) {
        if (c->shut || c->phase == PHASE_WAITING)
                return NSEC_INFINITY;
        return c->phase == PHASE_ASKING ? c->began_at + HTTP_ASKING_NS : c->answered_at + HTTP_READING_NS;
}

/* NULL: none. */
static Connection *find_victim(Http *h, uint64_t now) {
        Connection *c, *reading = NULL;

        DL_FOREACH(h->connections, c) {
                if (is_victim_at(c) >= now)
                        continue;
                if (c->phase == PHASE_ASKING)
                        return c;
                if (!reading)
                        reading = c;
        }
        return reading;
}

static void on_connection(void *userdata, struct MHD_Connection *connection, void **context,
                enum MHD_ConnectionNotificationCode code) {
        Connection *c = *context;
        Http *h = userdata;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                c = calloc(1, sizeof(*c));
                if (!c)
                        return; /* it is closed with its next request */
                const union MHD_ConnectionInfo *i =
                                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
                *c = (Connection){.http = h, .connection = connection, .fd = i->connect_fd, .began_at = now_ns()};
                DL_APPEND(h->connections, c);
                h->n_connections++;
                *context = c;
        } else if (c) {
                DL_DELETE(h->connections, c);
                h->n_connections--;
                h->idle_since = now_ns();
                free(c);
                *context = NULL;
                listen_on(h, true);
        }
}

static Connection *connection_of(struct MHD_Connection *connection) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return i ? i->socket_context : NULL;
}

/* --- answers --- */

static enum MHD_Result respond(
                struct MHD_Connection *connection, unsigned status, const char *type, const char *text, size_t size) {
        struct MHD_Response *r =
                        MHD_create_response_from_buffer(size, (void *) (uintptr_t) text, MHD_RESPMEM_MUST_COPY);
        if (!r)
                return MHD_NO;
        (void) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        (void) MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
        (void) MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
                (void) MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        enum MHD_Result q = MHD_queue_response(connection, status, r);
        MHD_destroy_response(r);
        return q;
}

static enum MHD_Result respond_text(Connection *c, unsigned status, const char *text) {
        c->phase = PHASE_ANSWERING;
        c->answered_at = now_ns();
        return respond(c->connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result respond_metrics(Connection *c) {
        const char *text;
        size_t size;

        if (collector_render(c->http->collector, c->format, &text, &size) < 0)
                return respond_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "Out of memory.\n");
        c->phase = PHASE_ANSWERING;
        c->answered_at = now_ns();
        return respond(c->connection, MHD_HTTP_OK, format_content_type(c->format), text, size);
}

static enum MHD_Result want_metrics(Connection *c) {
        int r = collector_want(c->http->collector);
        if (r < 0)
                return respond_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, "Out of memory.\n");
        if (r > 0)
                return respond_metrics(c);
        c->phase = PHASE_WAITING;
        MHD_suspend_connection(c->connection);
        return MHD_YES;
}

/* Returns the path of the request. A request in the form for proxies also names a host, which is ignored, as the header
 * Host is. */
static const char *path_of(const char *url) {
        const char *host = strncasecmp(url, "http://", 7) == 0 ? url + 7 : NULL;

        if (!host)
                return url;
        return host[strcspn(host, "/")] != '\0' ? host + strcspn(host, "/") : "/";
}

/* Called with the headers first: an answer then ends the request, whatever its body is. Called again when a snapshot
 * has come. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *url,
                const char *method, const char *version, const char *upload, size_t *upload_size, void **context) {
        Connection *c = connection_of(connection);

        if (!c)
                return MHD_NO;
        if (*context)
                return c->phase == PHASE_WAITING ? respond_metrics(c) : MHD_NO;
        *context = c;
        url = path_of(url);
        if (!streq(method, MHD_HTTP_METHOD_GET) && !streq(method, MHD_HTTP_METHOD_HEAD))
                return respond_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "This can only be read.\n");
        if (streq(url, "/"))
                return respond_text(c, MHD_HTTP_OK, "xsched-exporter: the metrics are at /metrics\n");
        if (!streq(url, "/metrics"))
                return respond_text(c, MHD_HTTP_NOT_FOUND, "The metrics are at /metrics.\n");
        c->format = format_from_accept(
                        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
        return want_metrics(c);
}

/* --- the loop --- */

/* Closes connections whose time is over. Returns when the next one's is. */
static uint64_t end_old(Http *h, uint64_t now) {
        uint64_t next = NSEC_INFINITY;
        Connection *c;

        DL_FOREACH(h->connections, c) {
                uint64_t until = c->began_at + HTTP_LIFE_NS;

                if (until <= now)
                        shut(c);
                else
                        next = MIN(next, until);
        }
        return next;
}

static void arm(Http *h, uint64_t at) {
        MHD_UNSIGNED_LONG_LONG ms;

        if (MHD_get_timeout(h->daemon, &ms) == MHD_YES) {
                if (ms == 0)
                        (void) sd_event_source_set_enabled(h->turn, SD_EVENT_ONESHOT);
                at = MIN(at, now_ns() + (uint64_t) ms * NSEC_PER_MSEC);
        }
        (void) sd_event_source_set_time(h->timer, at == NSEC_INFINITY ? UINT64_MAX : DIV_ROUND_UP(at, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(h->timer, at == NSEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

/* Accepts waiting connections as soon as another one may be closed. Returns when that will be. */
static uint64_t let_in(Http *h, uint64_t now) {
        uint64_t next = NSEC_INFINITY;
        Connection *c;

        if (h->retry_at > now)
                return h->retry_at;
        if (h->retry_at > 0 || (h->full && find_victim(h, now)))
                listen_on(h, true);
        if (!h->full)
                return next;
        DL_FOREACH(h->connections, c)
                next = MIN(next, is_victim_at(c));
        return next == NSEC_INFINITY ? next : next + 1;
}

static void turn(Http *h) {
        (void) MHD_run(h->daemon);
        uint64_t now = now_ns(), next = end_old(h, now);
        arm(h, MIN(next, let_in(h, now)));
}

static int on_ready(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        turn(userdata);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        turn(userdata);
        return 0;
}

static int on_turn(sd_event_source *s, void *userdata) {
        turn(userdata);
        return 0;
}

static int on_listening(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        Http *h = userdata;

        if (h->n_connections >= HTTP_CONNECTIONS_MAX) {
                Connection *victim = find_victim(h, now_ns());

                /* The library notices the end in its turn, and then there is room. */
                if (victim)
                        shut(victim);
                else
                        listen_on(h, false);
                turn(h);
                return 0;
        }
        int accepted = accept4(fd, (struct sockaddr *) &address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted < 0) {
                /* The system or we may be out of files or memory: the connection would wake us without end. */
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                        listen_on(h, false);
                        h->retry_at = now_ns() + HTTP_RETRY_NS;
                        turn(h);
                }
                return 0;
        }
        (void) MHD_add_connection(h->daemon, accepted, (struct sockaddr *) &address, size);
        turn(h);
        return 0;
}

void http_answer(Http *h) {
        Connection *c;

        DL_FOREACH(h->connections, c)
                if (c->phase == PHASE_WAITING)
                        MHD_resume_connection(c->connection);
        (void) sd_event_source_set_enabled(h->turn, SD_EVENT_ONESHOT);
}

uint64_t http_idle_since(const Http *h) {
        return h->n_connections > 0 ? 0 : h->idle_since;
}

/* --- begin and end --- */

static int start_daemon(Http *h) {
        /* The library's limit is above ours, so that it never refuses a connection itself. */
        h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                        on_request, h, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS_MAX + 1,
                        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HTTP_MEMORY_MAX, MHD_OPTION_NOTIFY_CONNECTION,
                        on_connection, h, MHD_OPTION_END);
        if (!h->daemon)
                return -EIO;
        const union MHD_DaemonInfo *i = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        if (!i)
                return -EOPNOTSUPP;
        return sd_event_add_io(h->event, &h->ready, i->epoll_fd, EPOLLIN, on_ready, h);
}

static int start_listening(Http *h, const int *sockets, size_t n) {
        h->listening = calloc(n + 1, sizeof(*h->listening));
        h->sockets = calloc(n + 1, sizeof(*h->sockets));
        if (!h->listening || !h->sockets)
                return -ENOMEM;
        for (; h->n_sockets < n; h->n_sockets++)
                h->sockets[h->n_sockets] = sockets[h->n_sockets];
        for (; h->n_listening < n; h->n_listening++) {
                int r = sd_event_add_io(h->event, h->listening + h->n_listening, sockets[h->n_listening], EPOLLIN,
                                on_listening, h);
                if (r < 0)
                        return r;
        }
        return 0;
}

int http_new(sd_event *event, Collector *collector, const int *sockets, size_t n_sockets, Http **ret) {
        _cleanup_(http_freep)
        Http *h = calloc(1, sizeof(*h));

        if (!h)
                return -ENOMEM;
        *h = (Http){.event = sd_event_ref(event), .collector = collector, .idle_since = now_ns()};
        int r = start_daemon(h);
        if (r >= 0)
                r = sd_event_add_time(event, &h->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000, on_timer, h);
        if (r >= 0)
                r = sd_event_add_defer(event, &h->turn, on_turn, h);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->turn, SD_EVENT_OFF);
        if (r >= 0)
                r = start_listening(h, sockets, n_sockets);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

Http *http_free(Http *h) {
        if (!h)
                return NULL;
        for (size_t i = 0; i < h->n_listening; i++)
                sd_event_source_unref(h->listening[i]);
        h->n_listening = 0;
        h->ready = sd_event_source_unref(h->ready); /* its fd is the daemon's */
        if (h->daemon) {
                http_answer(h); /* no connection may be suspended then */
                MHD_stop_daemon(h->daemon);
        }
        sd_event_source_unref(h->timer);
        sd_event_source_unref(h->turn);
        for (size_t i = 0; i < h->n_sockets; i++)
                (void) safe_close(h->sockets[i]);
        free(h->listening);
        free(h->sockets);
        sd_event_unref(h->event);
        free(h);
        return NULL;
}
