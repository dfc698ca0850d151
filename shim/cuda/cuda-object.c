/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of the driver's objects: see cuda-object.h
 */

#include "shim/cuda/cuda-object.h"

#include "common/array.h"
#include "common/macro.h"

#define DEPTH_MAX 8U /* a client, a device, a group and a channel are four */

static CudaObject *objects;
static HalQueue **batch;
static size_t n_objects, batch_size;
static uint64_t last_serial;

bool cuda_class_is_client(uint32_t class) {
        return class == NVRM_CLASS_ROOT || class == NVRM_CLASS_ROOT_NON_PRIVILEGED || class == NVRM_CLASS_ROOT_CLIENT;
}

bool cuda_class_is_device(uint32_t class) {
        return class == NVRM_CLASS_DEVICE;
}

bool cuda_class_is_group(uint32_t class) {
        return class == NVRM_CLASS_CHANNEL_GROUP;
}

bool cuda_class_is_channel(uint32_t class) {
        return (class & 0xff) == 0x6f && class >= 0xa06f;
}

bool cuda_class_is_recorded(uint32_t class) {
        return cuda_class_is_client(class) || cuda_class_is_channel(class) || cuda_class_is_device(class) ||
                        class == NVRM_CLASS_SUBDEVICE || cuda_class_is_group(class);
}

CudaObject *cuda_objects(void) {
        return objects;
}

CudaObject *cuda_object_find(uint32_t client, uint32_t id) {
        for (CudaObject *o = objects; o; o = o->next)
                if (o->client == client && o->id == id)
                        return o;
        return NULL;
}

CudaObject *cuda_object_above(const CudaObject *o, bool (*is)(uint32_t class)) {
        for (unsigned depth = 0; o && depth < DEPTH_MAX; depth++) {
                if (is(o->class))
                        return (CudaObject *) o;
                o = o->up;
        }
        return NULL;
}

bool cuda_object_is_below(const CudaObject *o, const CudaObject *top) {
        for (unsigned depth = 0; o && depth < DEPTH_MAX; depth++) {
                if (o == top)
                        return true;
                o = o->up;
        }
        return false;
}

CudaObject *cuda_object_holder(CudaObject *channel) {
        return cuda_object_above(channel, cuda_class_is_group) ?: channel;
}

static bool make_room(void) {
        HalQueue **p = array_reserve(batch, &batch_size, n_objects + 1, sizeof(HalQueue *));

        if (p)
                batch = p;
        return p;
}

HalQueue **cuda_objects_batch(void) {
        return batch;
}

CudaObject *cuda_object_new(uint32_t client, uint32_t id, uint32_t parent, uint32_t class) {
        CudaObject *o = make_room() ? calloc(1, sizeof(CudaObject)) : NULL;
        if (!o)
                return NULL;
        *o = (CudaObject){
                        .client = client,
                        .id = id,
                        .parent = parent,
                        .class = class,
                        .serial = ++last_serial,
                        .file = {.fd = -EBADF},
                        .up = cuda_class_is_client(class) ? NULL : cuda_object_find(client, parent),
                        .next = objects,
        };
        objects = o;
        n_objects++;
        return o;
}

void cuda_object_free(CudaObject *o) {
        for (CudaObject **link = &objects; *link; link = &(*link)->next)
                if (*link == o) {
                        *link = o->next;
                        n_objects--;
                        break;
                }
        free(o);
}

uint64_t cuda_object_leave(const CudaObject *top) {
        for (CudaObject *o = objects; o; o = o->next)
                if (cuda_object_is_below(o, top)) {
                        o->leaving++;
                        o->channel.leaving = true;
                }
        return last_serial;
}

/* Objects that were made since then were not counted. */
void cuda_object_stay(const CudaObject *top, uint64_t epoch) {
        for (CudaObject *o = objects; o; o = o->next)
                if (o->serial <= epoch && o->leaving > 0 && cuda_object_is_below(o, top))
                        o->channel.leaving = --o->leaving > 0;
}

void cuda_objects_forget(void) {
        objects = NULL;
        batch = NULL;
        n_objects = batch_size = 0;
}
