/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Shows from outside that the layer is active in this process
 *
 * A loaded library may be unused: a loader may load a layer and then refuse it. So while calls come through this layer,
 * /proc/PID/maps has a page with a name of its own (as in why.h). A child inherits the layer and the page.
 */

void opencl_mark_set(void);
void opencl_mark_clear(void);
