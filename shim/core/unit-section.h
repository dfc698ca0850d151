/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The assignments of [X-XSched] in a unit file, one by one
 *
 * Only where they are: what a value means, and whether it makes sense, the service finds out, to which they are told.
 * Pure.
 */

#include <stdbool.h>

#include "common/conf-lines.h"

typedef struct UnitSection {
        ConfLines lines;
        bool inside;
} UnitSection;

/* `text` is cut up, and stays the caller's. */
void unit_section_init(UnitSection *s, char *text);

/* "Key=Value" without white space around the two; NULL at the end. Only printable ASCII: keys and values are nothing
 * else. */
const char *unit_section_next(UnitSection *s);
