/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Watches cgroups for their end, and removes what ends with them
 */

#include "gone.h"

/* Called when the directory of the origin was removed. */
void gone_cgroup(Origin *o);

/* Called when settings were stored for `name`, or forgotten: watches its cgroup while there are some. */
void gone_watch(Manager *m, const char *name);

/* Forgets stored settings of cgroups that ended while the service was away, and watches the others. */
void gone_start(Manager *m);
void gone_free(Manager *m);
