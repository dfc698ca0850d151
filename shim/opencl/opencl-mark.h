/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * In force here, for who looks at the process from outside
 *
 * That the library is loaded does not say that anybody calls it: a loader may load a layer and refuse it then. So
 * there is a page with a name of its own in /proc/PID/maps while calls come by here (as in why.h). A child has what
 * its parent has: the page, too.
 */

void opencl_mark_set(void);
void opencl_mark_clear(void);
