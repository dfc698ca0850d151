/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Values of the environment that are ignored: collected when the library is loaded, told with the first queue, so that
 * programs without a GPU stay silent
 */

#include "common/environment-source.h"

/* The environment of this process, with complaints that are remembered here. Only while the library is loaded. */
extern const EnvironmentSource complaints_source;

/* Writes the complaints to standard error, once. */
void complaints_tell(void);
