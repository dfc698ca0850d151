/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * systemd on the bus: the system's manager, or the user's
 */

#include "common/bus-names.h"
#include "tools/shared/ctl.h"

/* 0, or a negative errno where there is no systemd of that kind. Silent. */
int systemd_open(const Ctl *c, bool user, sd_bus **ret);

/* What went wrong with a unit, in one line. Returns EXIT_FAILURE. */
int systemd_failed(const char *unit, const sd_bus_error *e, int r);

/* The two ends of a (sv) whose value takes more than one call. */
int systemd_open_property(sd_bus_message *m, const char *name, const char *type);
int systemd_close_property(sd_bus_message *m);

/* (sv) of the type aay with one string. */
int systemd_append_bytes(sd_bus_message *m, const char *name, const char *value);

/* The cgroup that a unit has now; "" when it has none. 0 or a negative errno. */
int systemd_unit_cgroup(sd_bus *bus, const char *unit, sd_bus_error *e, char **ret);

/* The processes in a unit's cgroup and below. 0 or a negative errno. */
int systemd_unit_processes(sd_bus *bus, const char *unit, sd_bus_error *e, uint32_t **ret, size_t *ret_n);

/* The unit's own name, where `unit` may be an alias of it. -ENOENT when systemd has no such unit; else 0 or a negative
 * errno. */
int systemd_unit_id(sd_bus *bus, const char *unit, sd_bus_error *e, char **ret);
