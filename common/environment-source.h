/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * An environment whose variables are read, and who is told about values that are ignored
 */

typedef struct EnvironmentSource {
        const char *(*get)(const char *variable, void *userdata); /* its value counts until the next call */
        void (*complain)(const char *text, void *userdata); /* one line without its newline; NULL: nobody is told */
        void *userdata;
} EnvironmentSource;

const char *environment_get(const EnvironmentSource *s, const char *variable);

/* Complains that the value is ignored: "NAME=VALUE is ignored: expected WANTED". */
void environment_complain(const EnvironmentSource *s, const char *variable, const char *value, const char *wanted);

/* A get() for the variables of this process, as secure_getenv() does. */
const char *environment_get_own(const char *variable, void *unused);
