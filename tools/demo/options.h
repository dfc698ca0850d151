/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The command line
 */

#include "tools/demo/phase.h"

#define OPTIONS_SETTINGS_MAX 16U

typedef struct Options {
        /* the phases; 0: it depends on the kind of device, see options_complete() */
        uint64_t duration_ns, kernel_ns, period_ns, deadline_ns;
        uint32_t n_low, n_kernels, n_batch_kernels;
        const char *device;
        unsigned phases; /* a bit for each PhaseKind */

        /* xsched */
        bool system;
        const char *policy;
        int high_priority, low_priority;
        const char *settings[OPTIONS_SETTINGS_MAX]; /* "Name=value" for xsched.conf */
        size_t n_settings;

        /* the results */
        const char *plot; /* NULL: none */
        bool json;
        const char *json_file; /* NULL with json: standard output */
        bool quiet;
        bool list_devices;
} Options;

/* Returns 1 to go on, 0 when everything has been done (--help), or a negative errno after saying why. */
int options_parse(int argc, char *argv[], Options *ret);

/* Fills in what depends on the device. */
void options_complete(Options *o, const Calibration *c);

static inline bool options_has_phase(const Options *o, PhaseKind k) {
        return o->phases & (1U << k);
}
