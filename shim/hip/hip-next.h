/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The HIP runtime behind the layer, by the caller
 *
 * A function of HIP that is in the global scope is the one that every caller would get without the layer. Otherwise the
 * runtime came with a library that was opened for its own use, such as a Python module, and it is the one that the
 * caller's own libraries define. A process can have several such runtimes.
 */

/* One for each function. The first member is its name; the others are hip-next.c's, and 0 at first. */
typedef struct HipCell {
        const char *name;
        void *_Atomic global;
        struct HipFound *_Atomic found;
} HipCell;

/* Returns the runtime's function for the caller with this address; NULL: there is none. Any thread may call. Keeps
 * errno. */
void *hip_next(HipCell *cell, const void *caller);
