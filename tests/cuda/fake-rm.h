/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A resource manager as that of NVIDIA's kernel driver, in memory: what hal/nvrm-abi.h says of it
 *
 * As seen on an H200 with the driver 580.159: disables are counted, a list of channels fails at the first that is not
 * there when those before it have been done, and a group goes on while one of its channels is enabled. Enabling what is
 * enabled does nothing. As read: handles belong to clients, clients to the file they were made on; with an object goes
 * what was made under it; a copy is another name of the same object, which goes with the last of them.
 *
 * Two GPUs: pci:0000:a0:00.0 and pci:0000:a1:00.0. Any thread may call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_RM_GPUS 2U

#pragma GCC visibility push(default) /* out of fake-nvidiactl.c's library, too */

int fake_rm_open(void); /* a file */
void fake_rm_close(int file);

/* 0 or a negative errno; of what the driver thinks of it the argument tells. */
int fake_rm_call(int file, unsigned nr, size_t size, void *argument);

/* Whether work of the channel is done just now. */
bool fake_rm_runs(uint32_t client, uint32_t channel);

/* Does `ns` of the channel's work; ends early with the channel. */
void fake_rm_run(uint32_t client, uint32_t channel, uint64_t ns);
uint64_t fake_rm_progress(unsigned gpu); /* all its channels' work so far, nanoseconds */

/* Of the channels that calls to come name, `after` are done, and the next one has the call fail. 0: none does. */
void fake_rm_fail(unsigned after, uint32_t status);

/* The channel is not enabled the next `times` times. */
void fake_rm_refuse(uint32_t client, uint32_t channel, uint32_t status, unsigned times);

/* Called around calls that free an object or disable or enable channels, on the thread that calls. What it returns
 * `before` is the call's status; NVRM_OK: the call is made. NULL: no test asks. */
typedef uint32_t (*FakeRmHook)(unsigned nr, bool before);
void fake_rm_on_call(FakeRmHook f);

/* Waits until no channel is disabled. */
void fake_rm_wait_enabled(void);

/* Channels that were not scheduled yet cannot be disabled. */
void fake_rm_be_strict(void);
void fake_rm_set_version(const char *text);
void fake_rm_set_cost(uint64_t ns); /* of a call that disables or enables */

unsigned fake_rm_calls(void);              /* that disabled or enabled */
unsigned fake_rm_disabled(uint32_t count); /* channels that were disabled just so often */
unsigned fake_rm_sliced(uint64_t usec);    /* groups with that time slice; 0: none was set */
void fake_rm_on_change(void (*f)(void));

/* fake-nvidiactl.c: calls of the driver's that came to files that are not its own. */
unsigned fake_nvidiactl_strays(void);

#pragma GCC visibility pop
