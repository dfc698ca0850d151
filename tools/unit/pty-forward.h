/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A pseudo terminal for another process, shown on our own terminal
 *
 * Input goes to the other side byte by byte (the terminal is raw: Ctrl-C is for the program there), its output comes
 * out here, and the size follows. Our copy of the other end stays open until pty_forward_finish(): otherwise reading
 * fails before the first process has opened it, and after the last one has closed it, and neither is the end. The
 * terminal is restored on every exit that can be handled.
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

/* Called when nothing is printed any more: prints the rest, and restores the terminal. */
void pty_forward_finish(PtyForward *f);

PtyForward *pty_forward_free(PtyForward *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(PtyForward *, pty_forward_free);
