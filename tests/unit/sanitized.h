/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether this is built with a sanitizer
 *
 * A sanitizer makes a case ten times as long, and does not measure long-run shares. So a case that runs longer than its
 * tolerance needs may be cut short there. The cases and the tolerances stay the same. Of cases that are drawn at random
 * a sanitizer sees half: how many there are is for the numbers, and it looks at memory.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define SANITIZED 1
#else
#        define SANITIZED 0
#endif

#define DRAWN(n) (SANITIZED ? (n) / 2 : (n))
