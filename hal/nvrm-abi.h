/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The interface of NVIDIA's kernel driver, as far as xsched uses it: objects of its resource manager (RM) on
 * /dev/nvidiactl
 *
 * Declared here, after open-gpu-kernel-modules: nvos.h, nv_escape.h, nv-ioctl.h, ctrl2080fifo.h, ctrl2080gpu.h,
 * ctrl0000client.h and ctrl0000gpu.h. The driver dispatches by the number of the request and by the size encoded in it.
 * NVIDIA does not promise that any of it is the same in the next branch of the driver, see nvrm_version_known().
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define NVRM_IOCTL_TYPE 'F'

enum {
        NVRM_NR_FREE = 0x29,
        NVRM_NR_CONTROL = 0x2a,
        NVRM_NR_ALLOC = 0x2b,
        NVRM_NR_DUP = 0x34,
        NVRM_NR_VERSION = 210,
        NVRM_NR_LARGE = 211, /* another request, named by NvrmLarge */
};

#define NVRM_IOC(nr, type) _IOWR(NVRM_IOCTL_TYPE, nr, type)

/* The driver's `status`. */
enum {
        NVRM_OK = 0x00,
        NVRM_BUSY_RETRY = 0x03,
        NVRM_GPU_IS_LOST = 0x0f,
        NVRM_GPU_IN_RESET = 0x10,
        NVRM_INSUFFICIENT_PERMISSIONS = 0x1b,
        NVRM_INVALID_ARGUMENT = 0x1f,
        NVRM_INVALID_CHANNEL = 0x21,
        NVRM_INVALID_CLIENT = 0x23,
        NVRM_INVALID_OBJECT = 0x31,
        NVRM_INVALID_OBJECT_HANDLE = 0x33,
        NVRM_INVALID_OBJECT_PARENT = 0x36,
        NVRM_INVALID_PARAM_STRUCT = 0x3a,
        NVRM_INVALID_STATE = 0x40,
        NVRM_NOT_SUPPORTED = 0x56,
        NVRM_OBJECT_NOT_FOUND = 0x57,
        NVRM_RESET_REQUIRED = 0x62,
        NVRM_STATE_IN_USE = 0x63,
        NVRM_TIMEOUT = 0x65,
};

/* Classes of objects. All channels that take work by a ring of entries (GPFIFO) end in 6f, from Kepler (a06f) to
 * Blackwell (ca6f). */
enum {
        NVRM_CLASS_ROOT = 0x0000,
        NVRM_CLASS_ROOT_NON_PRIVILEGED = 0x0001,
        NVRM_CLASS_ROOT_CLIENT = 0x0041,
        NVRM_CLASS_DEVICE = 0x0080,
        NVRM_CLASS_SUBDEVICE = 0x2080,
        NVRM_CLASS_CHANNEL_GROUP = 0xa06c,
        NVRM_CLASS_CHANNEL_HOPPER = 0xc86f,
};

static inline bool nvrm_class_is_channel(uint32_t class) {
        return (class & 0xff) == 0x6f && class > 0xff;
}

/* NVOS21. The longer form, NvrmAlloc (NVOS64), has a mask of rights in front of the size. */
typedef struct NvrmAllocShort {
        uint32_t client, parent;
        uint32_t object; /* 0: the driver chooses, and stores its choice here */
        uint32_t class;
        uint64_t parameters;
        uint32_t parameters_size;
        uint32_t status;
} NvrmAllocShort;

typedef struct NvrmAlloc {
        uint32_t client, parent, object, class;
        uint64_t parameters;
        uint64_t rights;
        uint32_t parameters_size;
        uint32_t flags;
        uint32_t status;
        uint32_t unused;
} NvrmAlloc;

/* NVOS00. Freeing an object frees all objects that were made under it. */
typedef struct NvrmFree {
        uint32_t client, parent, object;
        uint32_t status;
} NvrmFree;

/* NVOS54 */
typedef struct NvrmControl {
        uint32_t client, object;
        uint32_t command;
        uint32_t flags;
        uint64_t parameters;
        uint32_t parameters_size;
        uint32_t status;
} NvrmControl;

/* NVOS55 */
typedef struct NvrmDup {
        uint32_t client, parent, object;
        uint32_t from_client, from_object;
        uint32_t flags;
        uint32_t status;
} NvrmDup;

typedef struct NvrmLarge {
        uint32_t nr;
        uint32_t size;
        uint64_t argument;
} NvrmLarge;

#define NVRM_VERSION_QUERY '2' /* asks for the version without comparing it */

typedef struct NvrmVersion {
        uint32_t command;
        uint32_t reply;
        char text[64];
} NvrmVersion;

/* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS, its beginning */
typedef struct NvrmGroupParameters {
        uint32_t error, ecc_error, address_space;
        uint32_t engine; /* NVRM_ENGINE_* */
} NvrmGroupParameters;

/* NV2080_ENGINE_TYPE_*. The copy engines beyond the tenth, in later generations, have other numbers. */
enum {
        NVRM_ENGINE_COMPUTE = 0x01, /* and graphics */
        NVRM_ENGINE_COPY_FIRST = 0x09,
        NVRM_ENGINE_COPY_LAST = 0x12,
};

/* --- controls --- */

enum {
        NVRM_CMD_GPU_GET_PCI_INFO = 0x21b, /* of a client */
        NVRM_CMD_CLIENT_GET_HANDLE_INFO = 0xd02,
        NVRM_CMD_CLIENT_GET_CHILD_HANDLE = 0xd05,
        NVRM_CMD_GPU_GET_ID = 0x20800142,       /* of a subdevice */
        NVRM_CMD_DISABLE_CHANNELS = 0x2080110b, /* of a subdevice */
        NVRM_CMD_GROUP_SCHEDULE = 0xa06c0101,   /* GPFIFO_SCHEDULE: starts to run the group */
        NVRM_CMD_GROUP_SET_SLICE = 0xa06c0103,
        NVRM_CMD_GROUP_GET_SLICE = 0xa06c0104,
        NVRM_CMD_GROUP_SET_INTERLEAVE = 0xa06c0107,
        NVRM_CMD_GROUP_GET_INTERLEAVE = 0xa06c0108,
        NVRM_CMD_CHANNEL_SCHEDULE = 0xa06f0103,
        NVRM_CMD_CHANNEL_SCHEDULE_OF_ANY =
                        0x6f0103, /* the same for any channel class, without the class's first byte */
};

typedef struct NvrmGpuId {
        uint32_t gpu_id;
} NvrmGpuId;

typedef struct NvrmPciInfo {
        uint32_t gpu_id;
        uint32_t domain;
        uint16_t bus, slot;
} NvrmPciInfo;

enum {
        NVRM_HANDLE_INFO_PARENT = 1,
        NVRM_HANDLE_INFO_CLASS = 2,
};

typedef struct NvrmHandleInfo {
        uint32_t object;
        uint32_t what; /* NVRM_HANDLE_INFO_* */
        uint64_t result;
} NvrmHandleInfo;

/* Answers with the first of the children of that class, by the driver's own number of the class: a hash of its name,
 * the same from 535 to 595. */
#define NVRM_CHILD_DEVICE 0xe0ac20U
#define NVRM_CHILD_GROUP  0x2b5b80U

typedef struct NvrmChildHandle {
        uint32_t parent, class;
        uint32_t object;
} NvrmChildHandle;

typedef struct NvrmSlice {
        uint64_t usec;
} NvrmSlice;

typedef struct NvrmInterleave {
        uint32_t level; /* 0: low, 1: medium, 2: high */
} NvrmInterleave;

#define NVRM_CHANNELS_MAX 64U /* in one call */

/* With `disable`, the driver returns when none of the channels runs any more. */
typedef struct NvrmDisableChannels {
        uint8_t disable;
        uint8_t pad[3];
        uint32_t n;
        uint8_t only_scheduling; /* running work is not stopped */
        uint8_t rewind;
        uint8_t more_pad[6];
        uint64_t event; /* for clients in the kernel only */
        uint32_t clients[NVRM_CHANNELS_MAX];
        uint32_t channels[NVRM_CHANNELS_MAX];
} NvrmDisableChannels;

_Static_assert(sizeof(NvrmAllocShort) == 32, "NVOS21_PARAMETERS");
_Static_assert(sizeof(NvrmAlloc) == 48, "NVOS64_PARAMETERS");
_Static_assert(sizeof(NvrmFree) == 16, "NVOS00_PARAMETERS");
_Static_assert(sizeof(NvrmControl) == 32, "NVOS54_PARAMETERS");
_Static_assert(sizeof(NvrmDup) == 28, "NVOS55_PARAMETERS");
_Static_assert(sizeof(NvrmLarge) == 16, "nv_ioctl_xfer_t");
_Static_assert(sizeof(NvrmVersion) == 72, "nv_ioctl_rm_api_version_t");
_Static_assert(sizeof(NvrmHandleInfo) == 16, "NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS");
_Static_assert(sizeof(NvrmChildHandle) == 12, "NV0000_CTRL_CMD_CLIENT_GET_CHILD_HANDLE_PARAMS");
_Static_assert(sizeof(NvrmPciInfo) == 12, "NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS");
_Static_assert(sizeof(NvrmDisableChannels) == 536, "NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS");
