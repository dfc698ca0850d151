/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A resource manager in memory, with the part of the interface of NVIDIA's kernel driver that hal/nvrm-abi.h has
 *
 * As seen on an H100 and an H200 with the driver 580.159.04: disables are counted; a group in the list stands for its
 * channels; enabling a channel that counts as enabled does nothing; and a call for a list of channels fails at the
 * first unknown one. If it disables, the channels before it stand still then, and count as enabled: only disabling and
 * enabling them lets them run. test-recorded.py compares the answers with a real driver's. As read in its source:
 * handles belong to clients, and clients to the file that they were made on; freeing an object frees all objects under
 * it; a copy is another name of the same object, which is freed with the last name.
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

/* Returns 0 or a negative errno of ioctl(); the argument has the driver's own status. */
int fake_rm_call(int file, unsigned nr, size_t size, void *argument);

/* Whether the channel is working just now. */
bool fake_rm_runs(uint32_t client, uint32_t channel);

/* Does `ns` of the channel's work; ends early with the channel. */
void fake_rm_run(uint32_t client, uint32_t channel, uint64_t ns);
uint64_t fake_rm_progress(unsigned gpu); /* all its channels' work so far, nanoseconds */

/* Of the channels in later calls, `after` are handled, and at the next one the call fails. 0: no call fails. */
void fake_rm_fail(unsigned after, uint32_t status);

/* The channel is not enabled the next `times` times. */
void fake_rm_refuse(uint32_t client, uint32_t channel, uint32_t status, unsigned times);

/* Called around calls that free an object or disable or enable channels, on the thread that calls. Its result with
 * `before` is the call's status; NVRM_OK: the call is made. NULL: there is no hook. */
typedef uint32_t (*FakeRmHook)(unsigned nr, bool before);
void fake_rm_on_call(FakeRmHook f);

/* Waits until no channel is disabled. */
void fake_rm_wait_enabled(void);

/* Channels that were not scheduled yet cannot be disabled. */
void fake_rm_be_strict(void);
void fake_rm_set_next_client(uint32_t client); /* its number */
void fake_rm_set_version(const char *text);
void fake_rm_set_cost(uint64_t ns); /* of a call that disables or enables */

unsigned fake_rm_calls(void);              /* that disabled or enabled */
unsigned fake_rm_disabled(uint32_t count); /* channels that were disabled just so often */
unsigned fake_rm_sliced(uint64_t usec);    /* groups with that time slice; 0: none was set */
void fake_rm_on_change(void (*f)(void));

/* fake-nvidiactl.c: calls of the driver's that came to files that are not its own. */
unsigned fake_nvidiactl_strays(void);

#pragma GCC visibility pop
