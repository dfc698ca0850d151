/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sub-uids: which user each is given to, by /etc/subuid
 *
 * Who runs containers without being root has some 65536 uids of his own, subuid(5). What is divided, budgeted or voted
 * on by user counts them as the one user that they are. What somebody may do is decided by the uid itself: a process of
 * a container is a stranger to the user's other processes, as it is for the kernel.
 *
 * Where ranges overlap, the first line has what it names. Root's ranges are for containers that root starts: each 65536
 * uids of one are a user of its own, which goes by the first of them, and has no rights of root's. Uids below
 * SUBUID_MIN are users', whatever the file says.
 *
 * Pure.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"

#define SUBUID_MIN       65536U
#define SUBUID_BLOCK     65536U
#define SUBUID_LINES_MAX 65536U
#define SUBUID_NAME_MAX  256U
#define SUBUID_NOBODY    ((uid_t) -1)

typedef struct Subuids Subuids;

typedef struct SubuidReader {
        /* Whose name it is: 0 and the uid, or a negative errno: the line is ignored, and with -ENOENT that is a
         * problem. */
        int (*resolve)(const char *name, uid_t *ret, void *userdata);
        void (*problem)(unsigned line, const char *what, void *userdata);
        void *userdata;
} SubuidReader;

/* Takes what makes sense of `text`. -ENOMEM. */
int subuids_parse(const char *text, const SubuidReader *reader, Subuids **ret);
Subuids *subuids_free(Subuids *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Subuids *, subuids_free);

/* As which user a uid counts: mostly as itself. */
uid_t subuids_user(const Subuids *s, uid_t uid);
