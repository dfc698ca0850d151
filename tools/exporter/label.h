/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Label: a name that a user gave, in the form that an exposition may contain
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Limit of a label. A longer one is cut, and its hash is appended, which tells it from others. */
#define LABEL_MAX 200U

/* Prints the value for use between quotes: escaped, valid UTF-8 in any case, and at most LABEL_MAX bytes of it. */
void label_print(FILE *f, const char *value);

/* Whether both values are printed alike: two different values may be, when they are cut. */
bool label_looks_same(const char *a, const char *b);
