/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Leases: one timer for all clients that have held slots
 */

#include <inttypes.h>
#include <utlist.h>

#include "arbiter.h"
#include "lease.h"
#include "observer.h"
#include "service/base/log.h"
#include "service/base/messages.h"

#define LEASE_ACCURACY_USEC (20 * USEC_PER_MSEC)
#define USEC_PER_MSEC       UINT64_C(1000)

static void lease_renew(Client *c, uint64_t now) {
        page_set_lease(c->page.header, now + PAGE_LEASE_NS);
        if (c->privileged)
                observers_client_lease_renewed(c, now + PAGE_LEASE_NS);
}

static int lease_arm(Manager *m, uint64_t now) {
        int r = sd_event_source_set_time(m->lease_source, (now + PAGE_LEASE_RENEW_NS) / NSEC_PER_USEC);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(m->lease_source, SD_EVENT_ONESHOT);
}

static int on_lease_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        uint64_t now = now_ns();
        Client *c;

        /* Leases run for PAGE_LEASE_NS from the last renewal, and this renewal was due PAGE_LEASE_RENEW_NS after it. */
        uint64_t late = ns_sub(now, usec * NSEC_PER_USEC);
        if (late > PAGE_LEASE_NS - PAGE_LEASE_RENEW_NS)
                log_event(LOG_WARNING, MESSAGE_LEASE_EXPIRED, LOG_FIELDS(.error = 0),
                                "Leases were renewed %" PRIu64 " ms late: what was held has run meanwhile",
                                late / NSEC_PER_MSEC);

        DL_FOREACH2(m->holding, c, holding_next)
                lease_renew(c, now);
        return m->holding ? lease_arm(m, now) : 0;
}

int lease_init(Manager *m) {
        int r = sd_event_add_time(m->event, &m->lease_source, CLOCK_MONOTONIC, UINT64_MAX, LEASE_ACCURACY_USEC,
                        on_lease_timer, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->lease_source, "lease");
        /* The timer comes before all other events: a busy loop must not let a lease expire. */
        r = sd_event_source_set_priority(m->lease_source, PRIORITY_LEASES);
        if (r < 0)
                return r;
        return sd_event_source_set_enabled(m->lease_source, SD_EVENT_OFF);
}

void lease_begin(Client *c) {
        Manager *m = c->manager;

        if (c->n_holding++ > 0)
                return;
        uint64_t now = now_ns();
        lease_renew(c, now);
        if (!m->holding)
                (void) lease_arm(m, now);
        DL_APPEND2(m->holding, c, holding_prev, holding_next);
}

void lease_end(Client *c) {
        Manager *m = c->manager;

        if (--c->n_holding > 0)
                return;
        page_set_lease(c->page.header, 0);
        DL_DELETE2(m->holding, c, holding_prev, holding_next);
        if (!m->holding)
                (void) sd_event_source_set_enabled(m->lease_source, SD_EVENT_OFF);
}
