/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Progress, on the standard error: one line that is written again and again on a terminal, a line now and then
 * elsewhere
 */

#include "tools/demo/phase.h"

typedef struct Progress {
        bool quiet;
        bool tty;
        unsigned n_phases;
        unsigned phase; /* counted from 1 */
        uint64_t next_line_ns;
        bool line_open; /* the cursor is behind a line that will be rewritten */
} Progress;

Progress progress_new(bool quiet, unsigned n_phases);

void progress_note(Progress *p, const char *format, ...) _printf_(2, 3);
void progress_begin(Progress *p, PhaseKind kind);

/* A phase_progress_t; userdata is the Progress. */
void progress_update(const PhaseProgress *s, void *userdata);

void progress_end(Progress *p, const PhaseResult *r);
