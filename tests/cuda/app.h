/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the parts of app.c share
 */

#include "app-check.h"
#include "fake-cuda.h"

#define N    16U
#define MUCH (UINT64_C(1) << 20) /* more than fake-other.c lets anybody have */

/* The functions as they were found. */
typedef struct AppFunctions {
        typeof(&cuLaunchKernel) kernel, kernel_ptsz;
        typeof(&cuLaunchKernelEx) kernel_ex;
        /* Symbols that the layer does not have are not seen: not when linked. */
        typeof(&cuLaunchOfTomorrow) tomorrow;
        typeof(&cuStreamBeginCaptureOfTomorrow) capture_of_tomorrow;
        typeof(&cuLaunchCooperativeKernelMultiDevice) multi;
        typeof(&cuGraphLaunch) graph;
        typeof(&cuStreamSynchronize) wait;
        typeof(&cuMemcpyDtoHAsync_v2) copy;
        typeof(&cuMemAlloc_v2) alloc;
} AppFunctions;

extern AppFunctions cu;
extern void *triple; /* a kernel */
extern struct Context *context;

FakeStream stream(void);
uint64_t memory(void); /* N numbers */
int launch_on(FakeStream s, uint64_t p, int k, uint64_t ns);
unsigned sum(uint64_t p, FakeStream s); /* of the numbers, when all of the stream is done */

/* app-left.c */
extern unsigned long n_left; /* launches that were left before they were made, or failed on an ended stream */
void case_cancelled(void);
void case_left(void);
void leave_one(FakeStream s, uint64_t p);
void leave_the_gate(FakeStream s, uint64_t p);
void await_line(void); /* of the standard input */
void case_locks(void); /* needs jump-at-locks.c */

/* app-steps.c */
void case_steps(void);

/* app-green.c */
void case_green(void);
void case_green_threads(void);
void case_green_reset(void);
void case_green_special(const char *name); /* that are the layer's, and so are the numbers that they print */
void use(struct Context *g);
void use_all_streams(struct Context *g, FakeStream s);
void launch_some(FakeStream s, uint64_t p, uint64_t ns);
void be_reset(void);
struct Context *green_new(int device);
FakeStream green_stream(struct Context *g);

/* app-ends.c */
void case_end_special(const char *name); /* the same */
void be_destroyed(FakeStream s, struct Context *g);
void wait_at_host(void *userdata); /* a semaphore */

/* app-behind.c */
void behind_and_beside(FakeStream s, uint64_t p);
void case_behind(void);

/* app-elsewhere.c */
void case_elsewhere(void);

/* app-captures.c */
void case_capture_cost(void); /* where it is asked for: the layer's number, as above */
void case_captures(void);
void case_capturers(void);
void case_cig(void);
void case_per_thread_captures(void);
void case_recaptures(void);
void case_refused_captures(void);
void case_unknown_captures(void);
void capture_and_run(FakeStream s, uint64_t p, int k); /* one launch */
void end_capture(FakeStream s);                        /* if there is one */
