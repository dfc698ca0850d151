/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The assignments of [X-XSched] in a unit file, one by one
 *
 * This only finds the assignments. The service, which gets them, checks their values. Pure.
 */

#include <stdbool.h>

#include "common/conf-lines.h"

typedef struct UnitSection {
        ConfLines lines;
        bool inside;
} UnitSection;

/* Parsing cuts up `text`, which the caller owns and keeps until the last unit_section_next(). */
void unit_section_init(UnitSection *s, char *text);

/* Returns the next "Key=Value" without white space around key and value, or NULL at the end. Skips assignments with
 * other than printable ASCII characters, which no valid key or value has. */
const char *unit_section_next(UnitSection *s);
