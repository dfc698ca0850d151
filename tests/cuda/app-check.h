/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a program of a test does where something is not as it has to be: says so, and ends at once, whatever its threads
 * and its exit handlers would do
 */

#include <stdio.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
        do {                                                                                                           \
                if (!(x)) {                                                                                            \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                        \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (0)
