/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Request: settings that a user asks for with srun, sbatch and salloc: --gpu-priority=, --gpu-weight=, --gpu-max=,
 * --gpu-min=
 *
 * Ranges are those of the settings (setting-rows.h). Pure: no Slurm, no files.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum RequestKey {
        REQUEST_PRIORITY,
        REQUEST_WEIGHT,
        REQUEST_MAX,
        REQUEST_MIN,
        _REQUEST_KEY_MAX,
} RequestKey;

typedef struct Request {
        unsigned given; /* mask of keys */
        int64_t value[_REQUEST_KEY_MAX];
} Request;

/* "priority", ... */
const char *request_key_to_string(RequestKey k);

/* The valid values of a key, for error messages: "an integer, -255..255". */
const char *request_key_range(RequestKey k);

static inline bool request_has(const Request *r, RequestKey k) {
        return r->given & (1U << k);
}

/* -EINVAL, -ERANGE: nothing is changed. No limit is no request. */
int request_set(Request *r, RequestKey k, const char *text);

/* Formats the value for an attribute. Returns buf. */
#define REQUEST_VALUE_MAX 24U
const char *request_format(const Request *r, RequestKey k, char buf[static REQUEST_VALUE_MAX]);
