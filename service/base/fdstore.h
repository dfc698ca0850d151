/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What outlives the service: fds that systemd keeps for it
 *
 * Each client's page, lifeline, wake eventfd, pidfd and meta memfd lie in the unit's file-descriptor store from
 * registration to the client's end, named "c12-page" and so on; one more, "manager-state", is the manager's own. After
 * a restart systemd hands them back, and the clients notice nothing. This file knows names and numbers only; what the
 * fds mean is client.c's business.
 *
 * Without systemd (no $NOTIFY_SOCKET) pushing does nothing and says so by returning 0.
 */

#include <stddef.h>
#include <stdint.h>

#include "common/macro.h"

typedef enum FdRole {
        FD_PAGE,
        FD_LIFELINE,
        FD_WAKE,
        FD_PIDFD,
        FD_META, /* a memfd of the service's own, with what it needs to know; its content may change at any time */
        _FD_ROLE_MAX,
} FdRole;

const char *fd_role_to_string(FdRole v);
int fd_role_from_string(const char *s);

/* One client's fds; all valid, or all -EBADF. */
typedef struct StoredClient {
        uint64_t id;
        int fds[_FD_ROLE_MAX];
} StoredClient;

typedef struct StoredFds {
        StoredClient *clients; /* sorted by id */
        size_t n_clients;
        int state;          /* "manager-state", or -EBADF */
        uint64_t next_id;   /* beyond every client's that was kept, whole or not; 0 when there was none */
        size_t n_discarded; /* fds that were closed: unknown names, incomplete or inconsistent sets */
} StoredFds;

#define STORED_FDS_NULL ((StoredFds){.state = -EBADF})

/* The names of all stored fds are one variable of the environment, and the kernel takes at most 128 KiB for one
 * (MAX_ARG_STRLEN); with more the service manager could not start the service any more. Some of it is for the
 * variable's own name and that of the state. */
#define FDSTORE_NAMES_MAX ((size_t) 128 * 1024 - 128)
#define FDSTORE_STATE_FDS 2U /* there are two for a moment, when one takes the other's place */

/* What a client's names take of that. */
size_t fdstore_names_size(uint64_t client_id);

/* Puts all fds of a client into the store. > 0 when they were sent, 0 when there is no store. After a failure none is
 * kept. */
int fdstore_push(const StoredClient *c);

/* Takes all fds of a client out of it. */
int fdstore_remove(uint64_t client_id);

int fdstore_push_state(int fd);

/* Takes what systemd handed to this process, once, at the start. Sets that are incomplete, or in which something is not
 * the kind of fd that it should be, are closed, logged and removed from the store: they are no reason not to start. The
 * caller takes the fds it uses with TAKE_FD(); stored_fds_done() closes the others. */
int fdstore_collect(StoredFds *ret);
void stored_fds_done(StoredFds *s);
