/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Records of the driver's objects and of their tree. cuda-rm.h says what they are for
 *
 * Thread safety: everything under cuda_rm_lock().
 */

#include <sys/stat.h>

#include "hal/nvrm-abi.h"
#include "hal/nvrm.h"

typedef struct CudaGpu {
        char id[32]; /* "pci:0000:a0:00.0", as cuda-queue.c says */
        NvrmHalDevice hal;
        bool stopped; /* wanted state of its channels */
        struct CudaGpu *next;
} CudaGpu;

/* The file that an fd number referred to. */
typedef struct CudaFile {
        int fd;
        dev_t device, special;
        ino_t inode;
} CudaFile;

typedef struct CudaObject {
        uint32_t client, id, parent, class;
        uint64_t serial;   /* unlike a handle, never reused */
        CudaFile file;     /* of a client: the file that it was made on */
        uint32_t engine;   /* of a group: NVRM_ENGINE_* */
        unsigned leaving;  /* number of running calls that free it */
        bool going;        /* its record is being removed */
        bool scheduled;    /* of a group or channel: the driver was told to */
        int sliced;        /* of a group: result of setting its time slice; > 0: not tried yet */
        CudaGpu *gpu;      /* of a group, single channel or subdevice; NULL: unknown, or out of reach */
        CudaGpu *last_gpu; /* of a group or single channel: `gpu` before it came out of reach */
        NvrmHalQueue hal;  /* of a group, or of a channel without a group */
        NvrmChannel channel;
        struct CudaObject *up;   /* its parent; freeing the parent frees this object */
        struct CudaObject *same; /* of a copy: the object's first name */
        struct CudaObject *next;
} CudaObject;

/* --- classes --- */

bool cuda_class_is_client(uint32_t class);
bool cuda_class_is_device(uint32_t class);
bool cuda_class_is_group(uint32_t class);
bool cuda_class_is_channel(uint32_t class);
bool cuda_class_is_recorded(uint32_t class);

/* --- records --- */

/* Returns the newest object, which begins the list. A child is newer than its parent. */
CudaObject *cuda_objects(void);

/* Finds an object by its names. A client is found by its own handle as `id`. */
CudaObject *cuda_object_find(uint32_t client, uint32_t id);

/* Returns the nearest object of that class upwards, beginning with the object itself. */
CudaObject *cuda_object_above(const CudaObject *o, bool (*is)(uint32_t class));
bool cuda_object_is_below(const CudaObject *o, const CudaObject *top);

/* Returns the object that a channel is held with. */
CudaObject *cuda_object_holder(CudaObject *channel);

static inline bool cuda_object_has_channels(const CudaObject *o) {
        return o->hal.channels != NULL;
}

/* Whether the object is the first name of a channel. */
static inline bool cuda_object_is_one_channel(const CudaObject *o) {
        return cuda_class_is_channel(o->class) && !o->same;
}

/* Makes a record. The name must be unused. Returns NULL without memory. */
CudaObject *cuda_object_new(uint32_t client, uint32_t id, uint32_t parent, uint32_t class);
void cuda_object_free(CudaObject *o);

/* A call is about to free an object and its children. Returns the epoch for cuda_object_stay(), which is called when
 * they were not freed. */
uint64_t cuda_object_leave(const CudaObject *top);
void cuda_object_stay(const CudaObject *top, uint64_t epoch);

/* An array with room for all objects, so that a stop needs no memory. */
HalQueue **cuda_objects_batch(void);

/* In a child after fork(). Does not free the memory: the parent may have been in the middle of a change. */
void cuda_objects_forget(void);
