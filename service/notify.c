/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the service tells its manager
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "common/time-util.h"
#include "notify.h"

void notify_ready(const char *status) {
        (void) sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

/* With the time, systemd can tell the READY=1 that ends this reload from one of before. */
void notify_reloading(void) {
        (void) sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reading the configuration",
                        now_ns() / NSEC_PER_USEC);
}

void notify_stopping(void) {
        (void) sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
}

void notify_status(const char *format, ...) {
        char status[512];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(status, sizeof(status), format, ap);
        va_end(ap);
        (void) sd_notifyf(0, "STATUS=%s", status);
}
