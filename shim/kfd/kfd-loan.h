/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Turns of held queues that the runtime waits for
 */

#include "kfd-queue.h"

/* Looks at a queue. Returns true: look again soon. */
bool kfd_loan_look(KfdQueue *q, uint64_t now_ns);
