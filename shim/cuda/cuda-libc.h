/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Looks up a function of a libc that is not glibc
 */

/* Returns a function from the symbol table of the loaded library whose file name begins with `library`, or NULL. For
 * dlsym() itself, which this layer intercepts, where no dlvsym() distinguishes libc's from ours. */
void *cuda_libc_function(const char *library, const char *name);
