/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reload: reads the configuration, at the start, on SIGHUP and on org.xsched.Scheduler.Reload
 */

#include <systemd/sd-bus.h>

#include "service/core/manager.h"
#include "service/settings/options.h"
#include "service/settings/xsched-conf.h"

/* Reads the configuration from the options and the installed files. `last_good` NULL: at the start. Problems are
 * logged. */
int reload_read(const Options *o, const Config *last_good, Config **ret);

/* Applies log level and target: options override the configuration. */
void reload_apply_log(const Options *o, const Config *c);

/* Sets or clears the Degraded reason for problems of the configuration. `error`: it was not applied at all. */
void reload_report(Manager *m, unsigned n_problems, int error);

/* Reads again and applies. `by`: the call that asked for it; NULL: a signal. On failure everything stays as it was; the
 * reason is logged and among the Degraded ones. Takes m->options. */
int manager_reload(Manager *m, sd_bus_message *by);
