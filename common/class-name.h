/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Names of classes: of XSCHED_CLASS, Class=, and the files /etc/xsched/NAME.class
 *
 * The service refuses a process that asks for a class by another name, so libxsched does not ask.
 */

#include <stdbool.h>
#include <string.h>

#define CLASS_NAME_MAX 64U /* with the terminating zero */

/* Whether the name is [a-zA-Z0-9._-]+, shorter than CLASS_NAME_MAX, and does not start with a dot. */
static inline bool class_name_is_valid(const char *name) {
        static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
        size_t n = name ? strlen(name) : 0;

        return n > 0 && n < CLASS_NAME_MAX && name[0] != '.' && strspn(name, ok) == n;
}
