/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Session: an xsched-session around the demo, or the system's xschedd
 */

#include "tools/demo/options.h"

/* A program of ours: what the environment variable names, what lies beside us or one folder up (a build tree), or what
 * PATH has. *ret is to be freed. -ENOENT after saying what was looked for. */
int find_program(const char *name, const char *variable, char **ret);

/* Starts the demo again inside of xsched-session, unless it is in one already or --system was given; does not return
 * then. Returns 0 to go on here, or a negative errno after saying why. */
int session_enter(int argc, char *argv[], const Options *o);
