/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Pause record: a file for each process that is, or may be, paused by privilege
 *
 * A pause of CRIU_OP outlives the service and its pausers. So it is recorded before it is made, and the record is
 * removed after it was undone: A later process finds a record of every pause in force, and perhaps of one that was
 * never made, which is harmless to undo. The directory is below /run, because a pause does not survive the kernel
 * either, and a synced write is cheap there. The boot id guards against a directory that survives a boot.
 *
 * A file is written aside, synced and renamed, and the directory is synced: the file is complete or absent. An
 * unreadable file is set aside under a name that ends in ".bad", for the administrator.
 *
 * Names of files begin with "hold-", and texts with "xsched-hold", as every version has written them: so a service
 * finds records from before an upgrade.
 *
 * A process that handles a record has its lock, a byte of the directory's lock file, which the kernel releases when
 * that process ends.
 */

#include <sys/types.h>

#include "common/process.h"
#include "hal/privileged-mode.h"

typedef struct PauseRecord {
        char boot_id[BOOT_ID_SIZE];
        pid_t pid;
        uint64_t start_time;
        PrivilegedMode mode;
} PauseRecord;

/* Opens the directory, and makes it if its parent exists. Returns its fd, which the caller closes. */
int pause_record_dir_open(const char *path);

/* Makes a record with this boot's id. */
int pause_record_make(pid_t pid, uint64_t start_time, PrivilegedMode mode, PauseRecord *ret);

#define PAUSE_RECORD_NAME_SIZE 64U
void pause_record_name(pid_t pid, uint64_t start_time, char ret[static PAUSE_RECORD_NAME_SIZE]);

int pause_record_write(int dir, const PauseRecord *r);
int pause_record_remove(int dir, pid_t pid, uint64_t start_time); /* 0 also when there is none */

/* -ENOENT; -EBADMSG: the file is no record, or is truncated. */
int pause_record_read(int dir, const char *name, PauseRecord *ret);
int pause_record_find(int dir, pid_t pid, uint64_t start_time, PauseRecord *ret);

/* Calls `each` with the name of every record; ends with the first call that returns < 0. */
typedef int (*pause_record_each_t)(const char *name, void *userdata);
int pause_record_each(int dir, pause_record_each_t each, void *userdata);

int pause_record_set_aside(int dir, const char *name);

/* Whether the record is obsolete: its process has ended, or it is from an earlier boot. */
bool pause_record_is_over(const PauseRecord *r);

/* Returns an fd that keeps the lock; -EAGAIN: another process has it. `wait`: waits for the lock instead. */
int pause_record_lock(int dir, pid_t pid, bool wait);
