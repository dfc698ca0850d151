/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waker: a timer that interrupts a thread's close()
 *
 * A close() may block (SO_LINGER). Each thread that closes has its own timer, by which the kernel sends it a signal
 * meanwhile: an interruptible wait ends with that signal.
 */

#include <stdbool.h>
#include <time.h>

typedef struct Waker {
        timer_t timer;
        bool is_there; /* false: no timer could be made, and the thread is not woken */
        bool is_aside; /* the thread has a table of descriptors of its own (aside.h) */
} Waker;

/* Of the calling thread. */
void waker_init(Waker *w, bool is_aside);

void waker_close(const Waker *w, int fd);
