/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Report: what came out of each discipline, for people and as JSON, and what has to be true of it
 */

#include "tools/fleet/fleet.h"

/* Under xsched, the longest that training may have the GPU while a service has work: its longest launch and a slice. */
uint64_t report_bound(const Trace *t, const FleetConfig *config);

/* Whether all jobs ran and no work was lost or done twice; under xsched also that nothing lasted longer than
 * report_bound(). Says on stderr what is not so. */
bool report_check(const FleetConfig *config, const FleetResult *r, const Trace *t);

void report_text(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran);
int report_json(FILE *f, const Trace *t, const FleetConfig *config, const FleetResult *r, const bool *ran,
                const double *took_s);
