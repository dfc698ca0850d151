/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The name of the page by which a process publishes why it runs unscheduled: the shim sets it, xschedctl reads it in
 * /proc/PID/maps
 */

#define WHY_PREFIX "xsched: "
#define WHY_END    " :xsched" /* the kernel appends text of its own */

/* For a library that is older or newer than the service. */
#define WHY_OTHER_PAGE "its page is of another version, the program is to load the library anew"
