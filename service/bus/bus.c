/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attaches the service to a bus, and detaches it
 */

#include "bus.h"
#include "announce.h"
#include "calls.h"
#include "gate.h"
#include "guests.h"
#include "manager-dbus.h"
#include "origin-dbus.h"
#include "service/core/observer.h"
#include "service/core/origin.h"
#include "tell.h"

/* All objects are freed: no call is answered any more. */
static void on_manager_closed(Manager *m, void *userdata) {
        m->guests = guests_free(m->guests);
        m->calls = calls_free(m->calls);
        m->gate = gate_free(m->gate);
        tell_done(m);
        m->auth = auth_free(m->auth);
        m->connections = connections_free(m->connections);
        m->bus = sd_bus_flush_close_unref(m->bus);
}

static const ObserverOps bus_ops = {.manager_closed = on_manager_closed};

int bus_attach(Manager *m, sd_bus *bus, bool polkit) {
        int r = observer_add(m, &bus_ops, m);
        if (r >= 0)
                r = auth_new(bus, polkit, &m->auth);
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
                r = origin_dbus_attach(m, bus);
        if (r < 0)
                return r;
        origins_refresh(m);
        return 0;
}

int bus_request_name(Manager *m) {
        return sd_bus_request_name(m->bus, BUS_NAME, 0);
}
