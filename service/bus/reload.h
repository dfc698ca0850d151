/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reading the configuration, at the start and again: SIGHUP and org.xsched.Scheduler.Reload
 */

#include "service/core/manager.h"
#include "service/settings/config.h"
#include "service/settings/options.h"

/* What the options and the installed files say. `last_good` NULL: the start. Problems are logged. */
int reload_read(const Options *o, const Config *last_good, Config **ret);

/* Log level and target: an option stands above the configuration. */
void reload_apply_log(const Options *o, const Config *c);

/* Whether all of it could be applied, as one of the Degraded reasons. `error`: nothing was. */
void reload_report(Manager *m, unsigned n_problems, int error);

/* Reads again and applies. `by`: the call that asked for it; NULL: a signal. On failure everything stays as it was; the
 * reason is logged and among the Degraded ones. Takes m->options. */
int manager_reload(Manager *m, sd_bus_message *by);
