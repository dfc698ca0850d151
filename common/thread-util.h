/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Threads in other people's processes
 */

#include <signal.h>
#include <stddef.h>

/* Starts a detached thread that blocks all signals, because the handlers are the application's, for its own threads.
 * The stack has `stack_size` bytes, or more where the application's thread-local variables alone take more. Returns 0
 * or a negative errno. */
int thread_start(void *(*main)(void *userdata), void *userdata, size_t stack_size);

/* Blocks the signals of the calling thread that thread_start() blocks in a new one, so that no handler jumps out of
 * what follows. */
void thread_block_signals(sigset_t *ret_before);
void thread_restore_signals(const sigset_t *before);

/* As pthread_atfork(). Does nothing and returns -ENOSYS where libc is not glibc. */
int thread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
