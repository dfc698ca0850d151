/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Notify: sends messages to the service manager (systemd, or xsched-session) as sd_notify(3) does
 *
 * Failures are ignored: without $NOTIFY_SOCKET there is no receiver.
 *
 * The socket has room for few messages, and a service manager that is busy reads none. While the service serves
 * (notify_begin() to notify_end()), it does not wait for room: messages that find none are sent later, in order. Before
 * and after, it waits.
 */

#include <systemd/sd-event.h>

#include "common/macro.h"

int notify_begin(sd_event *event);
/* Waits until the remaining messages are sent, for some seconds at most. */
void notify_end(void);

void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
void notify_status(const char *format, ...) _printf_(1, 2);

/* Add an fd to the file-descriptor store, and remove it. Return > 0 when the message was or will be sent; 0 without a
 * receiver. A name is stored at most once. The fd stays the caller's. */
int notify_store_fd(const char *name, int fd);
int notify_drop_fd(const char *name);
