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
#include "service/base/systemd.h"
#include "service/core/observer.h"
#include "service/core/origin.h"
#include "tell.h"

/* All objects are freed: no call is answered any more. */
static void on_manager_closed(Manager *m, void *userdata) {
        sd_bus *bus = sd_bus_ref(calls_bus(m->calls));

        m->guests = guests_free(m->guests);
        m->calls = calls_free(m->calls);
        m->gate = gate_free(m->gate);
        tell_done(m);
        m->auth = auth_free(m->auth);
        m->connections = connections_free(m->connections);
        m->systemd = systemd_free(m->systemd);
        sd_bus_flush_close_unref(bus);
}

static const ObserverOps bus_ops = {.manager_closed = on_manager_closed};

/* Notes the bus's id, because unique names are valid on one bus only: another bus gives the same names to other
 * connections. */
static void note_id(Manager *m, sd_bus *bus) {
        sd_id128_t id;

        _Static_assert(sizeof(m->bus_id) == SD_ID128_STRING_MAX, "room for an id");
        if (sd_bus_get_bus_id(bus, &id) >= 0)
                (void) sd_id128_to_string(id, m->bus_id);
}

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
        note_id(m, bus);
        r = systemd_new(bus, &m->systemd);
        if (r >= 0)
                r = connections_new(bus, &m->connections);
        if (r >= 0)
                r = origin_dbus_attach(m, bus);
        if (r < 0)
                return r;
        origins_refresh(m);
        return 0;
}

int bus_request_name(Manager *m) {
        return sd_bus_request_name(calls_bus(m->calls), BUS_NAME, 0);
}
