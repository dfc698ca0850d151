/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The begin of a D-Bus connection: addresses and authentication
 */

#include <stdbool.h>
#include <stddef.h>

/* Connects a socket to one of the addresses, as dbus_open(). When the listener's backlog is full, waits for
 * DBUS_CONNECT_WAIT_US at most, and then returns -EAGAIN. The caller closes *ret_fd. */
#define DBUS_CONNECT_WAIT_US 10000
int dbus_connect(const char *addresses, int *ret_fd);

/* The client's part of the authentication. The kernel tells the other side our uid, so that no number has to match
 * inside and outside of a user namespace. The first byte is 0, so the length is DBUS_AUTH_SIZE. */
extern const char dbus_auth[];
#define DBUS_AUTH_SIZE ((size_t) 48)

/* Checks what the other side has sent so far. Returns 1: it has accepted us; 0: more is to come; -EPROTO: it has
 * not. */
int dbus_auth_verify(const char *said, size_t size);
