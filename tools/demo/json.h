/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Results for machines: one JSON object; times in microseconds, rates per second
 */

#include "report.h"

/* 0 or a negative errno; the caller says why. */
int report_json(const Outcome *o, FILE *f);
