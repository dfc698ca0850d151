/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Types of settings that several programs' files have
 */

#include "conf-parser.h"

/* The types. The comment names the C type of the member. */
extern const ConfType conf_type_bool;   /* bool */
extern const ConfType conf_type_int;    /* int */
extern const ConfType conf_type_uint;   /* uint32_t */
extern const ConfType conf_type_nsec;   /* uint64_t, nanoseconds, from a time span */
extern const ConfType conf_type_usec;   /* uint32_t, microseconds, from a time span that is a whole number of them */
extern const ConfType conf_type_string; /* char[], printable UTF-8 */
