/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Records of the driver's objects: what there is, and what is below what. See cuda-rm.h for what they are for
 *
 * Thread safety: everything under cuda_rm_lock().
 */

#include <sys/stat.h>

#include "hal/nvrm-abi.h"
#include "hal/nvrm.h"

typedef struct CudaGpu {
        char id[32]; /* "pci:0000:a0:00.0", as cuda-queue.c says */
        NvrmHalDevice hal;
        bool stopped; /* what its channels are to be */
        struct CudaGpu *next;
} CudaGpu;

/* Which file a number stood for. */
typedef struct CudaFile {
        int fd;
        dev_t device, special;
        ino_t inode;
} CudaFile;

typedef struct CudaObject {
        uint32_t client, id, parent, class;
        uint64_t serial;  /* a handle may be used again, this never */
        CudaFile file;    /* of a client: the one that it was made on */
        uint32_t engine;  /* of a group: NVRM_ENGINE_* */
        unsigned leaving; /* how many calls under way free it */
        bool going;       /* its record is being removed */
        bool scheduled;   /* of a group or channel: the driver was told to */
        CudaGpu *gpu; /* of what has channels, and of a subdevice; NULL: not known yet, or out of reach */
        CudaGpu *last_gpu; /* of what has channels: what gpu was before it came out of reach */
        NvrmHalQueue hal;  /* of what has channels: a group, or a channel that is in none */
        NvrmChannel channel;
        struct CudaObject *up;   /* what it was made under, which does not go without it */
        struct CudaObject *same; /* of a copy: the first of its names */
        struct CudaObject *next;
} CudaObject;

/* --- classes --- */

bool cuda_class_is_client(uint32_t class);
bool cuda_class_is_device(uint32_t class);
bool cuda_class_is_group(uint32_t class);
bool cuda_class_is_channel(uint32_t class);
bool cuda_class_is_recorded(uint32_t class);

/* --- records --- */

/* The newest; what is below another is newer than that. */
CudaObject *cuda_objects(void);

/* A client's own name is that of its object, too. */
CudaObject *cuda_object_find(uint32_t client, uint32_t id);

/* The nearest of that kind, the object itself included. */
CudaObject *cuda_object_above(const CudaObject *o, bool (*is)(uint32_t class));
bool cuda_object_is_below(const CudaObject *o, const CudaObject *top);

/* What a channel is held with. */
CudaObject *cuda_object_holder(CudaObject *channel);

static inline bool cuda_object_has_channels(const CudaObject *o) {
        return o->hal.channels != NULL;
}

/* A channel by its first name. */
static inline bool cuda_object_is_one_channel(const CudaObject *o) {
        return cuda_class_is_channel(o->class) && !o->same;
}

/* NULL: no memory. Nobody may have the name. */
CudaObject *cuda_object_new(uint32_t client, uint32_t id, uint32_t parent, uint32_t class);
void cuda_object_free(CudaObject *o);

/* A call is about to free it and all below it. Returns what cuda_object_stay() wants. */
uint64_t cuda_object_leave(const CudaObject *top);
void cuda_object_stay(const CudaObject *top, uint64_t epoch);

/* Room for all of them, so that none is needed when time matters. */
HalQueue **cuda_objects_batch(void);

/* In a child after fork(). The memory stays where it is: the parent may have been in the middle of a change. */
void cuda_objects_forget(void);
