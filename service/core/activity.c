/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Activity
 */

#include <utlist.h>

#include "activity.h"
#include "device.h"
#include "service/base/log.h"
#include "service/base/seats.h"

static void on_sessions_changed(void *userdata) {
        Manager *m = userdata;
        Device *d, *tmp;
        Entity *e;

        HASH_ITER(hh, m->devices, d, tmp)
                if (d->ops == &policy_awf_ops)
                        DL_FOREACH2(d->entities, e, device_next)
                                entity_party_changed(e);
}

void activity_follow(Manager *m, const PolicyOps *ops) {
        if (ops != &policy_awf_ops || m->seats)
                return;
        int r = seats_new(m->event, on_sessions_changed, m, &m->seats);
        if (r < 0)
                log_debug_errno(r, "Sessions are not followed, because logind is not there: %m");
}
