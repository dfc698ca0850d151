/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asks systemd about units, and has it freeze and thaw them
 */

#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>

#include "common/bus-names.h"
#include "log.h"
#include "systemd.h"

#define WAIT_USEC (UINT64_C(5) * 1000000)

struct Systemd {
        sd_bus *bus;
};

struct UnitCall {
        sd_bus_slot *slot;
        unit_answered_t answered;
        void *userdata;
};

int systemd_new(sd_bus *bus, Systemd **ret) {
        Systemd *s = malloc(sizeof(*s));

        if (!s)
                return -ENOMEM;
        *s = (Systemd){.bus = sd_bus_ref(bus)};
        *ret = s;
        return 0;
}

int systemd_open(Systemd **ret) {
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *bus = NULL;

        int r = sd_bus_open_system(&bus);
        if (r < 0)
                return r;
        r = systemd_new(bus, ret);
        if (r >= 0)
                TAKE_PTR(bus);
        return r;
}

Systemd *systemd_free(Systemd *s) {
        if (!s)
                return NULL;
        sd_bus_unref(s->bus);
        free(s);
        return NULL;
}

/* --- units --- */

static UnitAnswer error_to_answer(const sd_bus_error *e) {
        if (!e)
                return UNIT_DONE;
        if (sd_bus_error_has_names(
                            e, SYSTEMD_NAME ".NoSuchUnit", SYSTEMD_NAME ".UnitInactive", SYSTEMD_NAME ".NotLoaded"))
                return UNIT_GONE;
        if (sd_bus_error_has_name(e, SYSTEMD_NAME ".UnitBusy"))
                return UNIT_BUSY;
        if (sd_bus_error_has_names(e, SD_BUS_ERROR_NO_REPLY, SD_BUS_ERROR_TIMEOUT, SD_BUS_ERROR_DISCONNECTED))
                return UNIT_UNCLEAR;
        return UNIT_REFUSED;
}

static int on_answer(sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(reply);
        UnitCall *c = userdata;

        c->answered(error_to_answer(e), e ? strempty(e->message) : NULL, c->userdata);
        return 0;
}

static int unit_message(sd_bus *bus, const char *method, const char *unit, sd_bus_message **ret) {
        int r = sd_bus_message_new_method_call(bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, method);
        return r < 0 ? r : sd_bus_message_append(*ret, "s", unit);
}

static int unit_call_new(Systemd *s, const char *method, const char *unit, const UnitCall *parameters, UnitCall **ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *message = NULL;

        UnitCall *c = malloc(sizeof(*c));
        if (!c)
                return -ENOMEM;
        *c = *parameters;
        int r = unit_message(s->bus, method, unit, &message);
        if (r >= 0)
                r = sd_bus_message_set_auto_start(message, false);
        if (r >= 0)
                r = sd_bus_call_async(s->bus, &c->slot, message, on_answer, c, 0);
        if (r < 0) {
                unit_call_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

int systemd_freeze(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret) {
        return unit_call_new(s, "FreezeUnit", unit, &(UnitCall){NULL, answered, userdata}, ret);
}

int systemd_thaw(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret) {
        return unit_call_new(s, "ThawUnit", unit, &(UnitCall){NULL, answered, userdata}, ret);
}

UnitCall *unit_call_free(UnitCall *c) {
        if (!c)
                return NULL;
        sd_bus_slot_unref(c->slot);
        free(c);
        return NULL;
}

int systemd_thaw_and_wait(Systemd *s, const char *unit) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *message = NULL;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;

        int r = unit_message(s->bus, "ThawUnit", unit, &message);
        if (r >= 0)
                r = sd_bus_call(s->bus, message, WAIT_USEC, &error, NULL);
        if (r >= 0 || error_to_answer(&error) == UNIT_GONE)
                return 0;
        log_warning("%s could not be thawed: %s", unit, error.message ?: strerror(-r));
        return r;
}

/* --- the service's own unit --- */

int systemd_fdstore_max(Systemd *s, uint32_t *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL, *reply = NULL;
        _cleanup_free_ char *unit = NULL, *path = NULL;

        int r = sd_pid_get_unit(0, &unit);
        if (r >= 0)
                r = sd_bus_path_encode(SYSTEMD_UNITS, unit, &path);
        if (r >= 0)
                r = sd_bus_message_new_method_call(s->bus, &m, SYSTEMD_NAME, path, BUS_PROPERTIES, "Get");
        if (r >= 0)
                r = sd_bus_message_append(m, "ss", SYSTEMD_SERVICE, "FileDescriptorStoreMax");
        if (r >= 0)
                r = sd_bus_call(s->bus, m, WAIT_USEC, NULL, &reply);
        return r < 0 ? r : sd_bus_message_read(reply, "v", "u", ret);
}
