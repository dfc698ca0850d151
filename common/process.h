/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Processes, as /proc tells of them
 *
 * A process number names a process only together with its start time, and only for as long as the host is not started
 * anew: boot_id_read().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of /proc/PID whole, or as much as fits, with a terminating zero. Returns its length, -ESRCH when the
 * process is gone, or another negative errno. */
int process_read(pid_t pid, const char *name, char *buf, size_t size);

/* Process state letter of /proc/PID/stat ('R', 'S', 'T', ...) and start time; either may be NULL. */
int process_stat(pid_t pid, char *ret_state, uint64_t *ret_start_time);

/* The parent, and the start time of the process itself. */
int process_parent(pid_t pid, pid_t *ret_parent, uint64_t *ret_start_time);

/* The thread that traces the process; 0: none. */
int process_tracer(pid_t pid, pid_t *ret);

/* How many fds it has room for: none of its fds is that large. */
int process_fd_size(pid_t pid, int *ret);

/* Makes a pidfd, and tells whose: the start time was read while the pidfd stood for the living process. */
int process_open(pid_t pid, uint64_t *ret_start_time);

/* 1, 0, or -EBADF. */
int pidfd_is_alive(int pidfd);

/* By the name that the kernel gives it, which no file can have: the file itself is not asked, so whoever's it is holds
 * nobody up. */
bool fd_is_pidfd(int fd);

#define BOOT_ID_SIZE 37U /* with the terminating zero */
int boot_id_read(char ret[static BOOT_ID_SIZE]);
