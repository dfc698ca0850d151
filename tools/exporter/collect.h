/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Collector: asks the service once for all scrapes that come meanwhile
 *
 * However many scrapes come, the service is asked once at a time, and not again within COLLECT_FRESH_NS. Then the
 * devices that are GPUs are measured: the service starts a child for each of them, at most so many, and not again
 * within COLLECT_MEASURED_NS. All processes of the host are looked at, where that is asked for, not again within
 * COLLECT_HOST_NS. Nothing is waited for without a limit, and nothing starts the service.
 */

#include <systemd/sd-event.h>

#include "common/time-util.h"
#include "tools/exporter/render.h"

#define COLLECT_FRESH_NS    (1 * NSEC_PER_SEC)
#define COLLECT_MEASURED_NS (5 * NSEC_PER_SEC)
#define COLLECT_HOST_NS     (15 * NSEC_PER_SEC)

/* How long the service may take to answer, and then its children. A scraper waits ten seconds. */
#define COLLECT_ANSWER_NS  (4 * NSEC_PER_SEC)
#define COLLECT_MEASURE_NS (4 * NSEC_PER_SEC)

/* Devices that are measured. */
#define COLLECT_DEVICES_MAX 64U

typedef struct Collector Collector;

typedef struct CollectorOptions {
        const char *bus_address; /* NULL: the system's */
        size_t max_series;
        bool measure;
        bool host_processes;
        bool count_others; /* the sums of groups without series of their own grow: in a process that goes on */
} CollectorOptions;

/* `done` is called whenever there is a new snapshot. */
int collector_new(sd_event *event, const CollectorOptions *options, void (*done)(void *userdata), void *userdata,
                Collector **ret);
Collector *collector_free(Collector *c);
DEFINE_TRIVIAL_CLEANUP_FUNC(Collector *, collector_free);

/* > 0: there is a fresh one. 0: `done` will be called. Negative: no memory. */
int collector_want(Collector *c);

/* The last one, in a format. -ENOMEM; -ENODATA: there is none. */
int collector_render(Collector *c, Format format, const char **ret, size_t *ret_size);
bool collector_is_busy(const Collector *c);
