/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Processes, by /proc
 *
 * A pid identifies a process only together with its start time, and only until the next boot: boot_id_read().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process's identity, which can be stored and sent to others. */
typedef struct ProcessId {
        pid_t pid;
        uint64_t start_time; /* field 22 of /proc/PID/stat */
} ProcessId;

/* The process that has the pid now. -ESRCH: no process, or none that we may see (the mount option hidepid=). */
int process_id_of(pid_t pid, ProcessId *ret);

/* Returns false for a zombie. */
bool process_id_is_alive(const ProcessId *p);

/* Reads a file of /proc/PID whole, or as much as fits, with a terminating zero. Returns its length, -ESRCH when the
 * process is gone, or another negative errno. */
int process_read(pid_t pid, const char *name, char *buf, size_t size);

/* Process state letter of /proc/PID/stat ('R', 'S', 'T', ...) and start time; either may be NULL. */
int process_stat(pid_t pid, char *ret_state, uint64_t *ret_start_time);

/* The parent, and the start time of the process itself. */
int process_parent(pid_t pid, pid_t *ret_parent, uint64_t *ret_start_time);

/* The thread that traces the process; 0: none. */
int process_tracer(pid_t pid, pid_t *ret);

/* The size of its fd table: all of its fds are lower. */
int process_fd_size(pid_t pid, int *ret);

/* What the kernel tells of an fd of a process without asking the file. */
typedef struct ProcessFd {
        int flags; /* of open(2) */
        int mount; /* the first field of a line of /proc/PID/mountinfo */
        ino_t inode;
} ProcessFd;

/* -ENOENT: there is no such fd; -EACCES: the process may not be looked at; -ENODATA: Linux before 5.14 says less. */
int process_fd(pid_t pid, int fd, ProcessFd *ret);

/* Makes a pidfd, and reads the start time of its process: it was read while the pidfd stood for the living process. */
int process_open(pid_t pid, uint64_t *ret_start_time);

/* 1, 0, or -EBADF. */
int pidfd_is_alive(int pidfd);

/* Returns whether fd is a pidfd, by the name that the kernel gives it, which no file can have. This does not access the
 * file, so no file system can delay us. */
bool fd_is_pidfd(int fd);

#define BOOT_ID_SIZE 37U /* with the terminating zero */
int boot_id_read(char ret[static BOOT_ID_SIZE]);
