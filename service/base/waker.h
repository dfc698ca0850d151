/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Wakers: a thread closes, and a signal wakes it
 *
 * A close() may block (SO_LINGER). Each thread that closes has its own timer, by which the kernel sends it a signal
 * meanwhile: an interruptible wait ends with that signal.
 */

#include <stdbool.h>
#include <time.h>

typedef struct Waker {
        timer_t timer;
        bool is_there; /* else there was no timer to be had, and the thread is not woken */
        bool is_aside; /* the thread has a table of descriptors of its own (aside.h) */
} Waker;

/* Of the calling thread. */
void waker_init(Waker *w, bool is_aside);

void waker_close(const Waker *w, int fd);
