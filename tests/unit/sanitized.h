/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether this is built with a sanitizer
 *
 * It looks for other things than how near to a share somebody comes in the long run, and takes ten times as long:
 * there, what lasts longer than its tolerance needs may be cut short. The same cases, and the same tolerance.
 * Of random scenarios, and of pairs of everything with everything, it sees a part (SEEDS, STRIDE): another one
 * walks the same lines. All of them run in the build without a sanitizer. What is compared with the oracle step by
 * step (policy-random), which leads to the most corners, it sees whole.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define SANITIZED 1
#else
#        define SANITIZED 0
#endif

#define SEEDS(n) (SANITIZED ? ((n) + 4) / 5 : (n))
#define STRIDE   (SANITIZED ? 5 : 1) /* no divisor of what is paired */
