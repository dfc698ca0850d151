/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * GPUs that do nothing for this process any more
 *
 * When a kernel uses an address that is not mapped, the kernel's driver takes all queues of the process off that GPU
 * for good; when a GPU is reset, it takes those of all processes off all GPUs. It raises events, for which a thread of
 * the runtime waits. The runtime then ends the process, unless the program has asked to be told instead: then the
 * process goes on, with queues whose packets stay where they are. What the runtime's thread is told is read here when
 * its wait returns.
 *
 * Runtimes before ROCm 6.0 wait for no reset, and a process then waits for its GPU until somebody ends it. So there is
 * an event of our own, about which the driver is asked now and then while launches are under way.
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

/* Events of our own, one for each file, by calls of the driver. They need the queues' lock. */
typedef int KfdContextCall(int context, unsigned long request, ...);
void kfd_fault_begin(KfdContextCall *call, unsigned context); /* once or more often */
void kfd_fault_end(KfdContextCall *call, unsigned context);
void kfd_fault_ask(KfdContextCall *call);

bool kfd_gpu_has_faulted(uint32_t gpu_id);

void kfd_fault_after_fork(void);
