/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is held by privilege, written down: a file for each process that is, or may be, held
 *
 * A pause of CRIU_OP outlives everybody but the kernel. So it is written down before it is made, and struck out after
 * it was undone: who comes later finds whatever is still in force, and perhaps something that is not, which is harmless
 * to undo. The directory is below /run: a pause does not survive the kernel either, and a synced write costs nothing
 * there. The boot id guards against a directory that stays.
 *
 * A file is written aside, synced and renamed, and the directory is synced: it is there whole or not at all. What
 * cannot be read nevertheless is set aside under a name that ends in ".bad", for people to look at.
 *
 * Who deals with a process holds its lock, a byte of the directory's lock file, which the kernel drops with its holder.
 */

#include <sys/types.h>

#include "common/process.h"
#include "hal/kfd-privileged.h"

typedef struct HoldRecord {
        char boot_id[BOOT_ID_SIZE];
        pid_t pid;
        uint64_t start_time;
        KfdPrivilegedMode mode;
} HoldRecord;

/* Makes the directory, too, when its parent is there. Returns its fd. */
int hold_record_dir_open(const char *path);

/* For this boot. */
int hold_record_make(pid_t pid, uint64_t start_time, KfdPrivilegedMode mode, HoldRecord *ret);

#define HOLD_RECORD_NAME_SIZE 64U
void hold_record_name(pid_t pid, uint64_t start_time, char ret[static HOLD_RECORD_NAME_SIZE]);

int hold_record_write(int dir, const HoldRecord *r);
int hold_record_remove(int dir, pid_t pid, uint64_t start_time); /* 0, too, when there is none */

/* -ENOENT; -EBADMSG when it is not one of ours, or cut off. */
int hold_record_read(int dir, const char *name, HoldRecord *ret);
int hold_record_find(int dir, pid_t pid, uint64_t start_time, HoldRecord *ret);

/* Calls for the name of every record that is there; ends with the first that returns < 0. */
typedef int (*hold_record_each_t)(const char *name, void *userdata);
int hold_record_each(int dir, hold_record_each_t each, void *userdata);

int hold_record_set_aside(int dir, const char *name);

/* Whether nothing is to be done about it: its process, or its kernel, has ended. */
bool hold_record_is_over(const HoldRecord *r);

/* Returns an fd that keeps the lock; -EAGAIN: somebody has it. With `wait` it waits for that one. */
int hold_record_lock(int dir, pid_t pid, bool wait);
