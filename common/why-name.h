/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The name of the page by which a process says why it runs unscheduled: the shim gives it, xschedctl reads it in
 * /proc/PID/maps
 */

#define WHY_PREFIX "xsched: "
#define WHY_END    " :xsched" /* the kernel puts something of its own behind it */

/* Of a library that is older or newer than the service. */
#define WHY_OTHER_PAGE "its page is of another version, the program is to load the library anew"
