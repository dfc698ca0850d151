/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Options of `run` that need more than one argument
 */

#include "tools/shared/ctl.h"

/* Return exit statuses. NAME without a value is passed on from our own environment, if it is set there. A setting is
 * KEY=VALUE, as `set` takes it, from the option --KEY=VALUE; the later one of a key counts. */
int run_options_add_variable(RunOptions *o, const char *text);
int run_options_add_setting(RunOptions *o, const char *key, const char *value);

void run_options_done(RunOptions *o);
