/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The words that say whether a queue's gate is open: for layers of xsched itself, which look at them in front of each
 * launch, so that an open gate costs no call. This header is not installed: what is at these addresses is this
 * version's own.
 *
 * Promises and errors are those of xsched/xsched.h.
 */

#include "xsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both may change at any time, and can be read for the life of the process, whatever becomes of the queue. */
typedef struct XschedWords {
        uint32_t size;           /* sizeof(XschedWords), set by the caller: the struct may grow */
        void *const *slot;       /* the queue's slot in the page: never NULL */
        void *const *local_gate; /* xsched_queue_set_local(): NULL when there is none */
} XschedWords;

/* Returns 0; -EINVAL: `size` is too small. */
int xsched_queue_words(XschedQueue *q, XschedWords *ret);

#ifdef __cplusplus
}
#endif
