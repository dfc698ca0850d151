/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Short slices: for threads that have little to do, often, and at once
 *
 * A thread that writes to a socket wakes its reader on the writer's own processor, because it mostly sleeps soon. The
 * thread that decides does not sleep while a client floods it, and the one that it has woken would wait for the rest of
 * its slice: some 3 ms, as long as several registrations. A thread with a short slice runs at once, for as long as
 * that, and gets no more of the processor than before. Linux has this since 6.12; an older one ignores it.
 */

#include <stdint.h>

#define SHORT_SLICE_NS (UINT64_C(100) * 1000) /* the kernel's least */

/* Sets the slice of the calling thread, and of threads that it starts from then on. Returns 0 or a negative errno. */
int short_slice_set(void);
