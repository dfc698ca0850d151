/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Alternative stacks: see cuda-stack.h
 */

#include "shim/cuda/cuda-stack.h"

#include <signal.h>

#include "common/macro.h"

bool cuda_on_other_stack(void) {
        stack_t s;
        PROTECT_ERRNO;

        return sigaltstack(NULL, &s) < 0 || s.ss_flags & SS_ONSTACK;
}
