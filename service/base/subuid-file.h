/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * /etc/subuid as it is now
 *
 * It is read at the start, and again when it changes. Whose names these are is first looked for in the local file of
 * users; what is not there may take a directory on the network minutes to tell, so that a thread asks, and what it
 * finds counts from then on. A user that somebody became before is not changed.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#define SUBUID_PATH "/etc/subuid"
#define PASSWD_PATH "/etc/passwd"

typedef struct SubuidFile SubuidFile;

/* Without a file nobody has sub-uids, until there is one. */
int subuid_file_new(sd_event *event, const char *path, const char *passwd, SubuidFile **ret);
SubuidFile *subuid_file_free(SubuidFile *f);

/* Reads it again, in the background. */
void subuid_file_reread(SubuidFile *f);

/* As subuids_user(); NULL has no sub-uids. By the thread of the event loop. */
uid_t subuid_file_user(const SubuidFile *f, uid_t uid);

/* The same by any thread. */
uid_t subuid_file_user_anywhere(SubuidFile *f, uid_t uid);
