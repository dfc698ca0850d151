/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 *  /etc/subuid as it is now
 *
 * It is read at the start, and again when it changes. Names are looked up in the local file of users first. A name that
 * is not there may be in a directory on the network, which can take minutes to answer; so a thread asks, and its answer
 * counts from then on. Objects that were counted before stay counted for the user that they had.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#define SUBUID_PATH "/etc/subuid"
#define PASSWD_PATH "/etc/passwd"

typedef struct SubuidFile SubuidFile;

/* Without a file there are no sub-uids, until there is one. */
int subuid_file_new(sd_event *event, const char *path, const char *passwd, SubuidFile **ret);
SubuidFile *subuid_file_free(SubuidFile *f);

/* Reads it again, in the background. */
void subuid_file_reread(SubuidFile *f);

/* As subuids_user(); NULL has no sub-uids. By the thread of the event loop. */
uid_t subuid_file_user(const SubuidFile *f, uid_t uid);

/* The same by any thread. */
uid_t subuid_file_user_anywhere(SubuidFile *f, uid_t uid);
