/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether this is built with a sanitizer
 *
 * It looks for other things than how near to a share somebody comes in the long run, and takes ten times as long:
 * there, what lasts longer than its tolerance needs may be cut short. The same cases, and the same tolerance.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define SANITIZED 1
#else
#        define SANITIZED 0
#endif
