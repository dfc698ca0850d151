/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HTTP: who may connect, how many at once, and for how long
 *
 * Anybody on the machine may connect to a loopback port. So there are HTTP_CONNECTIONS_MAX connections at most, with
 * HTTP_MEMORY_MAX each, for HTTP_LIFE_NS each, whatever happens on them, and for one request each. Where all are taken
 * a new one takes the place of the oldest that has not asked for a moment, or else that has not read its answer for a
 * while: who asks at once and reads what it is told is not kept out by those who do not. The moment is for who has been
 * let in before its request came, as on a busy machine.
 */

#include <systemd/sd-event.h>

#include "common/time-util.h"
#include "tools/exporter/collect.h"

#define HTTP_CONNECTIONS_MAX 32U
#define HTTP_MEMORY_MAX      (16U << 10) /* of a request, its headers */
#define HTTP_LIFE_NS         (15 * NSEC_PER_SEC)
#define HTTP_ASKING_NS       (250 * NSEC_PER_MSEC)
#define HTTP_READING_NS      (2 * NSEC_PER_SEC)

typedef struct Http Http;

/* Serves on sockets that listen, which it closes in the end. */
int http_new(sd_event *event, Collector *collector, const int *sockets, size_t n_sockets, Http **ret);
Http *http_free(Http *h);
DEFINE_TRIVIAL_CLEANUP_FUNC(Http *, http_free);

/* There is a new snapshot: those who wait for it are answered. */
void http_answer(Http *h);

/* Nobody is connected, since then. 0: somebody is. */
uint64_t http_idle_since(const Http *h);
