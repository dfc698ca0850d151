/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Labels: names that users give, as an exposition may contain them
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Limit of a label. A longer one is cut, and its hash is appended, which tells it from others. */
#define LABEL_MAX 200U

/* Between quotes: escaped, valid UTF-8 whatever comes, and at most LABEL_MAX bytes of it. */
void label_print(FILE *f, const char *value);

/* Two values that differ may look the same once they are cut. */
bool label_looks_same(const char *a, const char *b);
