/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sub-uids: which user each uid was given to by /etc/subuid
 *
 * A user who runs containers without being root has some 65536 further uids, see subuid(5). Quotas, budgets and votes
 * by user count all of them as that one user. Permissions go by the uid itself: a process in a container is a stranger
 * to the user's other processes, as it is for the kernel.
 *
 * Where ranges overlap, the first line counts. Root's ranges are for containers that root starts: each 65536 uids of
 * them are a user of their own, named by the first uid, without any rights of root. Uids below SUBUID_MIN are always
 * users of their own.
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
        /* Returns 0 and the uid of a name, or a negative errno: then the line is ignored, and -ENOENT is reported as a
         * problem. */
        int (*resolve)(const char *name, uid_t *ret, void *userdata);
        void (*problem)(unsigned line, const char *what, void *userdata);
        void *userdata;
} SubuidReader;

/* Reads the valid lines of `text`; tells the reader's `problem` of the others. 0 or -ENOMEM. */
int subuids_parse(const char *text, const SubuidReader *reader, Subuids **ret);
Subuids *subuids_free(Subuids *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Subuids *, subuids_free);

/* Returns the user that a uid counts as: mostly the uid itself. */
uid_t subuids_user(const Subuids *s, uid_t uid);
