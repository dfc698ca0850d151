/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Expositions: a snapshot as text, in Prometheus' classic format or as OpenMetrics
 */

#include "tools/exporter/selection.h"

typedef enum Format {
        FORMAT_TEXT,        /* text/plain; version=0.0.4 */
        FORMAT_OPENMETRICS, /* application/openmetrics-text */
        _FORMAT_MAX,
} Format;

/* 0 and a text of *ret_size bytes, NUL-terminated, for the caller to free; -ENOMEM. */
int render(const Snapshot *s, const Selection *selection, Format format, char **ret, size_t *ret_size);
