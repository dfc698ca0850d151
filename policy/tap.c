/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Taps
 */

#include "core.h"

void policy_tap(Policy *p, const PolicyTap *tap) {
        p->tap = tap;
}

uint64_t policy_entity_id(const PolicyEntity *e) {
        return e->id;
}

void tap_event(const Policy *p, const PolicyEvent *e) {
        p->tap->event(e, p->tap->userdata);
}

void tap_grant(const Policy *p, uint64_t entity, const PolicyGrant *grant) {
        const PolicyEvent e = {
                        .kind = POLICY_EVENT_GRANT,
                        .at_ns = p->now_ns,
                        .entity = entity,
                        .grant = *grant,
        };

        tap_event(p, &e);
}
