/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the service tells its manager (systemd, or xsched-session): sd_notify(3)
 *
 * None of it can fail in a way that matters: without $NOTIFY_SOCKET nobody listens.
 *
 * The socket has room for few messages, and a service manager that is busy reads none. While the service serves
 * (notify_begin() to notify_end()), nobody waits for that: what finds no room is sent later, in order. Before and
 * after, it is waited for.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

int notify_begin(sd_event *event);
/* Waits until what is left has been sent, but not forever. */
void notify_end(void);

void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_status(const char *format, ...) _printf_(1, 2);

/* To be kept in the file-descriptor store, and not any more. > 0 when it was sent, or will be; 0 when nobody listens. A
 * name is stored at most once. Takes nothing. */
int notify_store_fd(const char *name, int fd);
int notify_drop_fd(const char *name);
