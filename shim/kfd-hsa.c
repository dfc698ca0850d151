/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Between a program and the HSA runtime: the gate in front of doorbells
 */

#include "shim/kfd-queue.h"

void kfd_hsa_forget(const KfdQueue *q) {
}

void kfd_hsa_after_fork(void) {
}
