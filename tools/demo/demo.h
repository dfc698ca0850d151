/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xsched-demo: shows what xsched does for a job that must be quick, beside jobs that never stop
 *
 * One binary, three kinds of process. The *parent* (main.c, phase.c) never touches the device: it starts tenants, tells
 * them when to begin and when to stop, and draws conclusions. A *tenant* (tenant.c) is an ordinary OpenCL program with
 * a context of its own. It knows nothing of xsched, except that it reports what the layer counted, if the layer is
 * loaded. A *calibrator* (calibrate.c) finds out once how much work a kernel of the wanted length is, so that all
 * tenants of all phases run the very same kernel.
 *
 * They talk in lines over two pipes, a child's standard input and output. That makes the pipes survive a program
 * between parent and tenant (`xschedctl run`), and a closed standard input is the order to end at once: no child
 * outlives its parent.
 *
 *   to a tenant    go START END PERIOD   begin: CLOCK_MONOTONIC ns; END and PERIOD concern the latency job only
 *                  stop                  finish the task at hand, report, end
 *   from a tenant  ready                 device open, one task computed and checked
 *                  task START END        one task, computed (and checked: a wrong result ends in `error`)
 *                  skipped N             N periods began while the task before was still running
 *                  done TASKS LAUNCHES SEEN TRACKED WAITED WAITED_NS EXPIRED
 *                  error TEXT
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/macro.h"
#include "common/time-util.h"

typedef enum Role {
        ROLE_LATENCY, /* a task each period, for which a person waits */
        ROLE_BATCH,   /* one task after the other */
        _ROLE_MAX,
} Role;

const char *role_to_string(Role v);
int role_from_string(const char *s);

/* Prints one line to standard error. */
void demo_complain(const char *format, ...) _printf_(1, 2);

/* The same, as the value r: a negative errno, of which the user sees the text alone. */
#define demo_error(r, ...)                                                                                             \
        ({                                                                                                             \
                int _demo_error = (r);                                                                                 \
                demo_complain(__VA_ARGS__);                                                                            \
                _demo_error < 0 ? _demo_error : -EIO;                                                                  \
        })

/* /proc/self/exe resolved, for starting ourselves again. */
const char *demo_self(void);
