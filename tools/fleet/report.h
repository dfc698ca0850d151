/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Report: the results of each discipline, for people and as JSON, and checks of what has to be true of them
 */

#include "tools/fleet/fleet.h"

/* Whether all jobs ran and no work was lost or done twice. Says on stderr what is not so. */
bool report_check(const FleetConfig *config, const FleetResult *r, const Trace *t);

/* Whether there were requests beside training, and none waited for it longer than fleet_bound() without a break, or
 * than fleet_bound_behind() in all. Says on stderr what is not so. */
bool report_check_behind(const FleetConfig *config, const FleetResult *r, const Trace *t);

void report_text(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran);
int report_json(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran,
                const double *took_s);
