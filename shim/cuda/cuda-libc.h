/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A function of a libc that is not glibc
 */

/* By the table of symbols of the library whose file name begins with `library`, as it is loaded; NULL: there is none.
 * For dlsym() itself, which this layer stands in front of, where no dlvsym() tells libc's from ours. */
void *cuda_libc_function(const char *library, const char *name);
