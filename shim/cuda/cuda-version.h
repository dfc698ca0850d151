/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether channels are stopped with this version of NVIDIA's kernel driver: by what the environment asks for, and what
 * is known of the version (nvrm_version_known())
 *
 * It is asked for once, at the first object of the driver's that is made. Thread safety: all but cuda_version_ask()
 * from any thread.
 */

#include <stdbool.h>

/* XSCHED_DISABLE=1, as the environment was when the layer was loaded. */
bool cuda_is_disabled(void);

bool cuda_version_is_asked(void);

/* With the lock of cuda-rm.h, on a file on which a client was made. */
void cuda_version_ask(int fd);

/* What came of it. Both are false until it is asked. */
bool cuda_version_is_on(void);
bool cuda_version_is_off(void);

/* Also what was never seen at work. */
bool cuda_version_any_is_wanted(void);

/* As the driver says it, or "?". */
const char *cuda_version_text(void);

/* In words; NULL: it is on. Not from two threads at once. */
const char *cuda_version_why(void);
