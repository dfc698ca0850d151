/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Taping: sends the calls and decisions of devices' policies to a reader, as a recording
 *
 * There is one recording at a time: a stream of lines (tape/record.h), which the reader reads from a socket. Each
 * device begins it with a new instance of its policy (device_begin_anew()): settings and readiness stay, and debts are
 * forgotten. So the recording can be replayed from its first line.
 *
 * The service never waits for the reader. Records that cannot be sent yet are kept, up to TAPING_KEPT_MAX bytes;
 * further ones are counted and lost. When the reader has caught up, it is told their number, and all devices begin
 * anew; at most once per TAPING_ANEW_NS, because that forgets debts.
 *
 * The recording ends when the reader shuts down its side: then the usage of all entities follows, and an end record.
 * When the reader closes the socket, or the service ends, the recording is cut.
 *
 * Without a recording, the cost is that of a tap: policy/tap.h.
 *
 * Thread safety: none; the event loop's thread only.
 */

#include "device.h"

#define TAPING_KEPT_MAX ((size_t) 16 << 20)
#define TAPING_ANEW_NS  (10 * NSEC_PER_SEC)

typedef struct Taping Taping;

/* Records the devices with these ids, or all (none named), devices to come included. `devices` is NULL-terminated, and
 * copied. The caller owns the socket in `ret_fd`. -EBUSY: there is a recording. */
int taping_begin(Manager *m, char *const *devices, int *ret_fd);

/* Cuts the recording, if there is one. */
void taping_end(Manager *m);
