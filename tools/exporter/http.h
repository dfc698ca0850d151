/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HTTP: limits of connections, in number, size and time
 *
 * Any user of the machine may connect to a loopback port. So there are at most HTTP_CONNECTIONS_MAX connections, each
 * with HTTP_MEMORY_MAX, for at most HTTP_LIFE_NS, whatever happens on it, and for one request. When all are taken, a
 * new one takes the place of the oldest that has sent no request for HTTP_ASKING_NS, or else has not read its answer
 * for HTTP_READING_NS. So others cannot keep out clients that ask at once and read their answers. HTTP_ASKING_NS gives
 * a request time to come after its connection was accepted, as it may on a busy machine.
 */

#include <systemd/sd-event.h>

#include "common/time-util.h"
#include "tools/exporter/collect.h"

#define HTTP_CONNECTIONS_MAX 32U
#define HTTP_MEMORY_MAX      (16U << 10) /* of a request, its headers */
#define HTTP_LIFE_NS         (15 * NSEC_PER_SEC)
#define HTTP_ASKING_NS       (250 * NSEC_PER_MSEC)
#define HTTP_READING_NS      (2 * NSEC_PER_SEC)
#define HTTP_RETRY_NS        (100 * NSEC_PER_MSEC) /* until the next one is accepted, if there were no files */

typedef struct Http Http;

/* Serves on sockets that listen, which it closes in the end. */
int http_new(sd_event *event, Collector *collector, const int *sockets, size_t n_sockets, Http **ret);
Http *http_free(Http *h);
DEFINE_TRIVIAL_CLEANUP_FUNC(Http *, http_free);

/* There is a new snapshot: those who wait for it are answered. */
void http_answer(Http *h);

/* Since when there is no connection. 0: there is one. */
uint64_t http_idle_since(const Http *h);
