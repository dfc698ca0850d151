/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * GPUs that do nothing for this process any more
 *
 * When a kernel uses an address that is not mapped, or a GPU is reset, the kernel's driver takes all queues of the
 * process off that GPU for good and raises events, for which a thread of the runtime waits. The runtime then ends the
 * process, unless the program has asked to be told instead: then the process goes on, with queues whose packets stay
 * where they are. What the runtime's thread is told is read here when its wait returns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The application has made an event, is about to destroy one, or has waited for some: with the arguments of its call.
 * The last returns whether a GPU is newly found to have faulted. They take no lock, so that a process that is about to
 * end waits for nothing. */
void kfd_fault_note_event(const void *arg, size_t size);
void kfd_fault_forget_event(const void *arg, size_t size);
bool kfd_fault_look(const void *arg, size_t size);

bool kfd_gpu_has_faulted(uint32_t gpu_id);

void kfd_fault_after_fork(void);
