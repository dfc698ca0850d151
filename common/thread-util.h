/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Threads in somebody else's process
 */

#include <stddef.h>

/* A detached thread that no signal is delivered to: handlers are the application's, and run on its threads. The stack
 * is of `stack_size`, or larger where the application's thread-local variables alone take more. Returns 0 or a negative
 * errno. */
int thread_start(void *(*main)(void *userdata), void *userdata, size_t stack_size);

/* As pthread_atfork(). Where libc is not glibc, nothing of ours runs, and nothing is done: -ENOSYS. */
int thread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
