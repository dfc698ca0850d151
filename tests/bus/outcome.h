/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Outcomes of calls, one after the other: "ok;" or the error's name
 */

#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

static inline void outcome_append(sd_bus_message *answer, char *outcome, size_t size) {
        const sd_bus_error *e = sd_bus_message_get_error(answer);
        size_t n = strlen(outcome);

        (void) snprintf(outcome + n, size - n, "%s;", e ? strrchr(e->name, '.') + 1 : "ok");
}
