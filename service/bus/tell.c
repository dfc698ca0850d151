/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Telling
 */

#include <utlist.h>

#include "calls.h"
#include "paths.h"
#include "service/base/log.h"
#include "service/core/turn.h"
#include "tell.h"

/* Time of one turn. */
#define TURN_NS (50 * NSEC_PER_USEC)

static const char *const settings[] = {SETTING_ROWS(SETTING_OF_CLIENT, ) "PolicySource", NULL};

static int on_turn(sd_event_source *s, void *userdata) {
        Manager *m = userdata;
        uint64_t until = now_ns() + TURN_NS;

        do {
                Queue *q = m->untold;
                if (!q)
                        break;
                tell_forget(q);
                _cleanup_free_ char *path = queue_path(q);
                (void) sd_bus_emit_properties_changed_strv(
                                calls_bus(m->calls), path, BUS_INTERFACE ".Queue", (char **) settings);
                turn_look(m);
        } while (now_ns() < until);
        return sd_event_source_set_enabled(s, m->untold ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int arm(Manager *m) {
        if (m->tell_source)
                return sd_event_source_set_enabled(m->tell_source, SD_EVENT_ON);
        int r = sd_event_add_defer(m->event, &m->tell_source, on_turn, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->tell_source, "tell");
        r = sd_event_source_set_priority(m->tell_source, PRIORITY_CALLS);
        return r < 0 ? r : sd_event_source_set_enabled(m->tell_source, SD_EVENT_ON);
}

void tell_settings(Queue *q) {
        Manager *m = q->manager;

        if (q->untold || !q->announced || !calls_bus(m->calls))
                return;
        int r = arm(m);
        if (r < 0) {
                log_warning_errno(r, "Failed to tell that settings have changed, ignoring: %m");
                return;
        }
        DL_APPEND2(m->untold, q, untold_prev, untold_next);
        q->untold = true;
}

void tell_forget(Queue *q) {
        if (!q->untold)
                return;
        DL_DELETE2(q->manager->untold, q, untold_prev, untold_next);
        q->untold = false;
}

void tell_done(Manager *m) {
        m->tell_source = sd_event_source_disable_unref(m->tell_source);
}
