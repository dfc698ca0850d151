/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Group totals: usage of a group that outlives it and the service
 *
 * A group finds the counters of its entry in the table (totals.h) when it is made, and keeps the entry up to date.
 * Units of the system's manager are found by name: their counters go on when the unit is started again, even after a
 * reboot (systemd resets CPUUsageNSec then). All other entries end with their group, and outlive only the service. The
 * journal gets one record of what a group used in its life.
 */

#include "group.h"

#define TOTALS_BUSY_NS   (1 * NSEC_PER_SEC)
#define TOTALS_IDLE_NS   (100 * NSEC_PER_MSEC)
#define TOTALS_ENTITY_NS (1 * NSEC_PER_MSEC)

/* Called when the former service's clients were adopted: forgets groups that are no longer there. */
void totals_settle(Manager *m);

/* Saves usage of all entities, for the end of the service. */
void totals_save(Manager *m);

void group_totals_join(Group *g);
void group_totals_leave(Group *g);

/* Save usage of a device's entities, when that is due; and of one entity before it is displayed, so that a later
 * service never shows less. Observers hear of the former (totals_saved). */
void device_save_totals(Device *d, uint64_t now);
void entity_save_totals(Entity *e, const PolicyUsage *u);

/* When usage of the device's entities is to be saved again. All of them are looked at: where they are many, that is as
 * rare on an idle device as on a busy one, because an idle one may hear edges in a stream as well, of launches that are
 * over before it hears of them. */
static inline uint64_t totals_due(const Device *d) {
        bool busy = d->n_ready > 0 || d->state == DEVICE_CONTENDED;
        uint64_t idle_ns = TOTALS_IDLE_NS + d->n_entities * TOTALS_ENTITY_NS;

        return d->saved_at + (busy ? TOTALS_BUSY_NS : MIN(idle_ns, TOTALS_BUSY_NS));
}

/* Called in each turn of the device: saves what is due, or has it saved later. A contended device gets another turn
 * when it comes to rest. */
static inline void device_turn_totals(Device *d, uint64_t now) {
        uint64_t due = totals_due(d);

        d->save_at = d->state == DEVICE_QUIET && now < due ? due : NSEC_INFINITY;
        if (now >= due)
                device_save_totals(d, now);
}
