/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether this is built with a sanitizer
 *
 * A sanitizer finds other things than how near a tenant comes to its share in the long run, and takes ten times as
 * long. So a case that lasts longer than its tolerance needs may be cut short there. The cases and the tolerances stay
 * the same.
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define SANITIZED 1
#else
#        define SANITIZED 0
#endif
