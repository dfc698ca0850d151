/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The begin of a connection of D-Bus: addresses, and who we are
 */

#include <stdbool.h>
#include <stddef.h>

/* A socket that is connected to one of the addresses. See dbus_open(). Where others wait to be let in, waits behind
 * them for DBUS_CONNECT_WAIT_US at most: -EAGAIN. */
#define DBUS_CONNECT_WAIT_US 10000
int dbus_connect(const char *addresses, int *ret_fd);

/* The client's part of the authentication: who we are the kernel tells, so that no number has to be right within and
 * without a user namespace. Its first byte is 0: its length is DBUS_AUTH_SIZE. */
extern const char dbus_auth[];
#define DBUS_AUTH_SIZE ((size_t) 48)

/* What the other side has said so far. Returns 1 when it has accepted us, 0 when there is more to come, -EPROTO when it
 * has not. */
int dbus_auth_verify(const char *said, size_t size);
