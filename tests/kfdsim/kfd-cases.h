/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Functions that the rows of the table of cases share
 */

#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "tests/kfdsim/abi.h"

#define NOBODY        65534
#define NO_SUCH_QUEUE 0x7ffe
#define NO_SUCH_GPU   0xdead
#define CASE_OK       0
#define CASE_FAILED   1

/* A case returns CASE_OK or CASE_FAILED, having said on stdout what it saw. */
typedef struct Case {
        const char *name;
        int (*run)(void);
} Case;

/* One table a file, with a row of NULL at its end. */
extern const Case basic_cases[], queue_cases[], memory_cases[], event_cases[], privileged_cases[], hold_cases[];

int expect(const char *what, int got, int want);
int kfd_open(void);

/* The result of an ioctl: its return value, or the negative errno. */
int kfd_call(int fd, unsigned long request, void *arg);
#define KFD_CALL(fd, nr, arg) kfd_call((fd), _IOWR(KFD_IOCTL_BASE, (nr), (arg)), &(arg))

int with_kfd(int (*f)(int fd));

/* Runs f in a child, and returns what it returned, or -ECHILD when it died. */
int in_child(int (*f)(void *), void *userdata);

bool has_gpu(int fd);
int runtime_enable(int fd, uint32_t mode);

/* A process that has /dev/kfd open (or not) and waits to be debugged. */
typedef struct Target {
        pid_t pid;
        int hold; /* closing it ends the target */
} Target;

int target_start(bool with_device, Target *ret);
void target_stop(Target *t);
