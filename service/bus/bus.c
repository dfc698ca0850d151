/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service on a bus: attached, and let go
 */

#include "bus.h"
#include "announce.h"
#include "calls.h"
#include "gate.h"
#include "guests.h"
#include "manager-dbus.h"
#include "service/core/observer.h"
#include "service/core/origin.h"
#include "tell.h"

/* All objects are gone: nobody is answered any more. */
static void on_manager_closed(Manager *m, void *userdata) {
        m->guests = guests_free(m->guests);
        m->calls = calls_free(m->calls);
        m->gate = gate_free(m->gate);
        tell_done(m);
}

static const ObserverOps bus_ops = {.manager_closed = on_manager_closed};

int bus_attach(Manager *m, sd_bus *bus) {
        int r = observer_add(m, &bus_ops, m);
        if (r >= 0)
                r = manager_dbus_attach(m, bus);
        if (r >= 0)
                r = announce_attach(m);
        if (r >= 0)
                r = sd_bus_attach_event(bus, m->event, PRIORITY_BUS);
        if (r < 0)
                return r;
        m->bus = sd_bus_ref(bus);
        r = connections_new(bus, &m->connections);
        if (r >= 0)
                r = origins_attach(m, bus);
        if (r < 0)
                return r;
        origins_refresh(m);
        return 0;
}

int bus_request_name(Manager *m) {
        return sd_bus_request_name(m->bus, BUS_NAME, 0);
}
