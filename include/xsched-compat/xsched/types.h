/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Types and constants of XSched's interface, with XSched's names and values
 *
 * For programs that were written against XSched (Shen et al., OSDI 2025). xsched-api(3) describes the calls as
 * implemented here. xschedd's own library has another interface: xsched/xsched.h below /usr/include. The two share no
 * names, so both may be included, each by its own path.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t XDevice;
typedef uint32_t XDeviceId;
typedef uint64_t XQueueHandle;    /* of XQueueCreate() */
typedef uint64_t HwQueueHandle;   /* of a platform's ...QueueCreate() */
typedef uint64_t HwCommandHandle; /* of HwCommandCreateCallback() */

/* The result of every function. */
typedef enum {
        kXSchedSuccess = 0,
        kXSchedErrorHardware = 1,     /* the runtime refused or failed, or there is no memory */
        kXSchedErrorInvalidValue = 2, /* a NULL, or a value out of range */
        kXSchedErrorNotFound = 3,     /* no such handle: never made, destroyed, or made by the parent before fork() */
        kXSchedErrorNotAllowed = 4,   /* not now, or not from here: see the function */
        kXSchedErrorNotSupported = 5, /* not by this library, or not by the queue's backend */
        kXSchedErrorBadResponse = 6,  /* never returned here */
        kXSchedErrorUnknown = 999,
} XResult;

typedef enum {
        kPlatformUnknown = 0,
        kPlatformVPI = 1,
        kPlatformCUDA = 2,
        kPlatformCUDLA = 3,
        kPlatformHIP = 4,
        kPlatformAscend = 5,
        kPlatformOpenCL = 6,
        kPlatformLevelZero = 7,
} XPlatform;

typedef enum {
        kDeviceTypeUnknown = 0,
        kDeviceTypeCPU = 1,
        kDeviceTypeGPU = 2,
        kDeviceTypeNPU = 3,
        kDeviceTypeFPGA = 4,
        kDeviceTypeASIC = 5,
        kDeviceTypeMCA = 6,
} XDeviceType;

typedef enum {
        kPreemptLevelUnknown = 0,
        kPreemptLevelBlock = 1,      /* further commands are not launched */
        kPreemptLevelDeactivate = 2, /* launched commands that have not begun wait, too */
        kPreemptLevelInterrupt = 3,  /* running commands are stopped, too */
        kPreemptLevelMax,
} XPreemptLevel;

typedef enum {
        kQueueStateUnknown = 0,
        kQueueStateIdle = 1,
        kQueueStateReady = 2, /* submitted or launched commands have not all completed */
} XQueueState;

typedef enum {
        kQueueFeatureNone = 0x0000,
        kQueueFeatureAsyncSubmit = 0x0001,
        kQueueFeatureDynamicLevel = 0x0002,
        kQueueFeatureDynamicThreshold = 0x0004,
        kQueueFeatureDynamicBatchSize = 0x0008,
        kQueueFeatureSyncSuspend = 0x0010,
        kQueueFeatureResumeDropCommands = 0x0020,
        kQueueFeatureMaskAll = -1,
} XQueueFeature;

typedef enum {
        kQueueCreateFlagNone = 0x0000,
        kQueueCreateFlagBlockingSubmit = 0x0001, /* kXSchedErrorNotSupported, as in XSched */
        kQueueCreateFlagMaskAll = -1,
} XQueueCreateFlag;

typedef enum {
        kQueueSuspendFlagNone = 0x0000,
        /* Suspend, then wait for the commands in flight; also where it is suspended already. */
        kQueueSuspendFlagSyncHwQueue = 0x0001,
        kQueueSuspendFlagWaitAll = 0x0002,  /* wait for the commands submitted so far, then suspend */
        kQueueSuspendFlagWaitIdle = 0x0004, /* wait until it is idle, then suspend */
        kQueueSuspendFlagMaskAll = -1,
} XQueueSuspendFlag;

typedef enum {
        kQueueResumeFlagNone = 0x0000,
        kQueueResumeFlagDropCommands = 0x0001, /* commands that were submitted and not launched are dropped */
        kQueueResumeFlagMaskAll = -1,
} XQueueResumeFlag;

typedef enum {
        kSchedulerUnknown = 0,
        kSchedulerAppManaged = 1, /* APP: queues wait by XQueueSuspend() and XQueueResume() alone */
        kSchedulerLocal = 2,      /* LCL: a policy, among the XQueues of this process */
        kSchedulerGlobal = 3,     /* GLB: xschedd, to which hints are sent */
        kSchedulerMax,
} XSchedulerType;

typedef enum {
        kPolicyUnknown = 0,
        kPolicyHighestPriorityFirst = 1,              /* HPF */
        kPolicyHeterogeneousHighestPriorityFirst = 2, /* HHPF */
        kPolicyCPUHighestPriorityFirst = 3,           /* CHPF */
        kPolicyUtilizationPartition = 4,              /* UP */
        kPolicyProcessUtilizationPartition = 5,       /* PUP */
        kPolicyStrictProcessUtilizationPartition = 6, /* SPUP: not supported */
        kPolicyKEarliestDeadlineFirst = 7,            /* KEDF */
        kPolicyLaxity = 8,                            /* LAX */
        kPolicyActiveWindowFirst = 9,                 /* AWF */
        kPolicyCompletelyFairScheduler = 10,          /* CFS */
        kPolicyMultiLevelFeedbackQueue = 11,          /* MLFQ */
        kPolicyMax,
} XPolicyType;

/* Launches a command's work on the queue without waiting for it. Called on a thread of the library. XQueueWait() and
 * XQueueWaitAll() return its result, if that is not kXSchedSuccess. */
typedef XResult (*LaunchCallback)(HwQueueHandle, void *);

/* Higher runs first. */
typedef int32_t Priority;
#define PRIORITY_NO_EXECUTE -256 /* the queue is held */
#define PRIORITY_MIN        -255
#define PRIORITY_DEFAULT    0
#define PRIORITY_MAX        255

/* Percent. */
typedef int32_t Utilization;
#define UTILIZATION_MIN     0
#define UTILIZATION_DEFAULT 100
#define UTILIZATION_MAX     100

/* Microseconds. */
typedef int64_t Timeslice;
#define TIMESLICE_MIN       100
#define TIMESLICE_DEFAULT   5000
#define TIMESLICE_MAX       10000000
#define TIMESLICE_UNLIMITED UINT64_MAX

typedef int64_t Laxity;
#define NO_LAXITY -1

typedef int64_t Deadline;
#define NO_DEADLINE -1

#ifdef __cplusplus
}
#endif
