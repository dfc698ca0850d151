/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A module that is linked to the simulator, and behind it to a test: loaded with RTLD_DEEPBIND, that is the order in
 * which their libraries find functions, whatever is preloaded
 */

extern const char behind_simulator[];

const char behind_simulator[] = "behind the simulator";
