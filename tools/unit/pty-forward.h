/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A pseudo terminal for somebody else, shown on the terminal that we run on
 *
 * What is typed goes to the other side byte by byte (the terminal is raw: Ctrl-C is for the program there), what is
 * printed there comes out here, and the size follows. The other end is kept open until pty_forward_finish(): before,
 * while nobody has opened it and after everybody has closed it, reading would fail, and neither is the end. The
 * terminal is as it was on every way out that can be seen to.
 */

#include <systemd/sd-event.h>
#include <termios.h>

#include "common/macro.h"

typedef struct PtyForward PtyForward;

/* The person wants to leave: ^] three times within a second. What runs there loses its terminal, and may take that for
 * a reason to end. */
typedef void (*pty_forward_left_t)(void *userdata);

/* Both return 0 or a negative errno. SIGWINCH has to be blocked. */
int pty_forward_new(sd_event *event, pty_forward_left_t left, void *userdata, PtyForward **ret);
int pty_forward_start(PtyForward *f);

/* "/dev/pts/7" */
const char *pty_forward_path(const PtyForward *f);

/* Nobody prints any more: what was printed comes out, and the terminal is as it was. */
void pty_forward_finish(PtyForward *f);

PtyForward *pty_forward_free(PtyForward *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(PtyForward *, pty_forward_free);
