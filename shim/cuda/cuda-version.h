/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Decides whether channels are stopped with this version of NVIDIA's kernel driver, by the environment and by what is
 * known of the version (nvrm_version_known())
 *
 * The driver is asked for its version once, when the first object is made. Thread safety: all but cuda_version_ask()
 * from any thread.
 */

#include <stdbool.h>

/* XSCHED_DISABLE=1, as the environment was when the layer was loaded. */
bool cuda_is_disabled(void);

bool cuda_version_is_asked(void);

/* Asks the driver, with the lock of cuda-rm.h. `fd`: a file on which a client was made. */
void cuda_version_ask(int fd);

/* The decision. Both return false until the driver was asked. */
bool cuda_version_is_on(void);
bool cuda_version_is_off(void);

/* Returns whether versions that xsched never ran on are allowed, too. */
bool cuda_version_any_is_wanted(void);
