/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Origins on the bus
 */

#include "origin-dbus.h"
#include "calls.h"
#include "cgroup/unit-query.h"
#include "common/bus-names.h"
#include "service/base/log.h"
#include "service/core/observer.h"

static void on_facts(const UnitFacts *facts, void *userdata) {
        origin_take_facts(userdata, facts);
}

static void on_origin_asks(Origin *o, void *userdata) {
        Manager *m = userdata;

        o->query = unit_query_free(o->query);
        int r = unit_query_new(calls_bus(m->calls), o->unit, on_facts, o, &o->query);
        if (r < 0)
                log_warning_errno(r, "Failed to ask systemd about %s: %m", o->unit);
        else
                o->asked = true;
}

static void on_origin_gone(Origin *o, void *userdata) {
        (void) userdata;
        o->query = unit_query_free(o->query);
}

static const ObserverOps origin_ops = {
                .origin_asks = on_origin_asks,
                .origin_gone = on_origin_gone,
};

static int on_reloading(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        int under_way;

        if (sd_bus_message_read(m, "b", &under_way) >= 0 && !under_way)
                origins_refresh(userdata);
        return 0;
}

/* Without a subscription systemd sends no signals; where there is no systemd, there are none to miss. */
static int on_subscribed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return 0;
}

int origin_dbus_attach(Manager *m, sd_bus *bus) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *subscribe = NULL;

        int r = observer_add(m, &origin_ops, m);
        if (r >= 0)
                r = sd_bus_match_signal_async(bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "Reloading",
                                on_reloading, NULL, m);
        if (r >= 0)
                r = sd_bus_message_new_method_call(
                                bus, &subscribe, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "Subscribe");
        if (r >= 0)
                r = sd_bus_message_set_auto_start(subscribe, false);
        if (r >= 0)
                r = sd_bus_call_async(bus, NULL, subscribe, on_subscribed, NULL, 0);
        return r;
}
