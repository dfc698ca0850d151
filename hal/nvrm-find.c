/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds objects of other processes: see nvrm-find.h
 */

#include "hal/nvrm-find.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/macro.h"
#include "hal/nvrm.h"

#define ROOM_FIRST   16U
#define DEPTH_MAX    8U          /* of an object below its client; the driver's are four */
#define NUMBERS_MASK 0xff000000U /* what libcuda's numbers of objects have in common with a device's */

void nvrm_found_done(NvrmFound *f) {
        free(f->clients);
        free(f->objects);
        *f = (NvrmFound){};
}

/* --- questions --- */

static int ask(const NvrmFile *f, uint32_t client, uint32_t command, void *parameters, uint32_t size) {
        return nvrm_control(f->ioctl, f->fd, client, client, command, parameters, size);
}

/* -ENOENT: there is no such object, or the client is not of this file. */
static int ask_about(const NvrmFile *f, uint32_t client, uint32_t object, uint32_t what, uint32_t *ret) {
        NvrmHandleInfo a = {.object = object, .what = what};

        int r = ask(f, client, NVRM_CMD_CLIENT_GET_HANDLE_INFO, &a, sizeof(a));
        *ret = (uint32_t) a.result;
        return r;
}

static int ask_for_device(const NvrmFile *f, uint32_t client, uint32_t *ret) {
        NvrmChildHandle a = {.parent = client, .class = NVRM_CHILD_DEVICE};

        int r = ask(f, client, NVRM_CMD_CLIENT_GET_CHILD_HANDLE, &a, sizeof(a));
        *ret = a.object;
        return r < 0 ? r : a.object == 0 ? -ENOENT : 0;
}

/* Whether the question itself failed, and not what was asked about. */
static bool is_fatal(int r) {
        return r == -ESTALE || r == -ENODEV || r == -EAGAIN;
}

/* --- clients --- */

int nvrm_newest_client(const NvrmFile *own, uint32_t *ret) {
        NvrmAllocShort a = {.class = NVRM_CLASS_ROOT_CLIENT};

        if (own->ioctl(own->fd, NVRM_IOC(NVRM_NR_ALLOC, NvrmAllocShort), &a) < 0)
                return negative_errno();
        if (a.status != NVRM_OK)
                return -EIO;
        NvrmFree f = {.client = a.object, .object = a.object};
        (void) own->ioctl(own->fd, NVRM_IOC(NVRM_NR_FREE, NvrmFree), &f);
        *ret = a.object;
        return 0;
}

/* Asks by an allocation that cannot succeed, of a child of nothing. A control of a client that does not exist would put
 * a line into the kernel's log. Returns 1, 0 or a negative errno. */
static int has_client(const NvrmFile *file, uint32_t client) {
        NvrmAllocShort a = {.client = client, .class = NVRM_CLASS_SUBDEVICE};
        PROTECT_ERRNO;

        if (file->ioctl(file->fd, NVRM_IOC(NVRM_NR_ALLOC, NvrmAllocShort), &a) < 0)
                return errno == EINTR || errno == EAGAIN ? -EAGAIN : errno == EBADF || errno == ENOTTY ? -ESTALE : -EIO;
        return a.status == NVRM_OBJECT_NOT_FOUND || a.status == NVRM_INVALID_OBJECT_PARENT;
}

bool nvrm_has_client(const NvrmFile *file, uint32_t client) {
        uint32_t class;

        return has_client(file, client) > 0 && ask_about(file, client, client, NVRM_HANDLE_INFO_CLASS, &class) >= 0 &&
                        class == NVRM_CLASS_ROOT_CLIENT;
}

static bool is_known(const NvrmFound *f, uint32_t client) {
        for (size_t i = 0; i < f->n_clients; i++)
                if (f->clients[i].client == client)
                        return true;
        return false;
}

/* Makes room for one more. Returns the array, which may have moved; NULL: out of memory. */
static void *grown(void *array, size_t *room, size_t n, size_t size) {
        if (n < *room)
                return array;
        size_t more = *room ? *room * 2 : ROOM_FIRST;
        void *p = reallocarray(array, more, size);
        if (p)
                *room = more;
        return p;
}

static int add_client(NvrmFound *f, uint32_t client) {
        NvrmFoundClient *p = grown(f->clients, &f->clients_room, f->n_clients, sizeof(*p));

        if (!p)
                return -ENOMEM;
        f->clients = p;
        f->clients[f->n_clients++] = (NvrmFoundClient){.client = client};
        return 1;
}

int nvrm_find_clients(const NvrmFile *file, uint32_t from, uint32_t to, NvrmFound *f) {
        int n = 0;

        for (uint64_t c = MAX(from, NVRM_CLIENT_FIRST); c <= MIN(to, NVRM_CLIENT_LAST); c++) {
                int r = has_client(file, (uint32_t) c);
                if (r < 0)
                        return r;
                if (r == 0 || is_known(f, (uint32_t) c) || !nvrm_has_client(file, (uint32_t) c))
                        continue;
                r = add_client(f, (uint32_t) c);
                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}

/* --- objects --- */

static bool is_wanted(uint32_t class) {
        return class == NVRM_CLASS_DEVICE || class == NVRM_CLASS_SUBDEVICE || class == NVRM_CLASS_CHANNEL_GROUP ||
                        nvrm_class_is_channel(class);
}

static int add_object(const NvrmFile *file, NvrmFound *f, uint32_t client, uint32_t id, uint32_t class) {
        uint32_t parent;

        int r = ask_about(file, client, id, NVRM_HANDLE_INFO_PARENT, &parent);
        if (r < 0)
                return is_fatal(r) ? r : 0; /* it has gone meanwhile */
        NvrmFoundObject *p = grown(f->objects, &f->objects_room, f->n_objects, sizeof(*p));
        if (!p)
                return -ENOMEM;
        f->objects = p;
        f->objects[f->n_objects++] = (NvrmFoundObject){.client = client, .id = id, .parent = parent, .class = class};
        return 0;
}

/* Adds the object if there is one, of a class that matters, and it is not known. -ENOENT: there is none. */
static int look_at(const NvrmFile *file, NvrmFound *f, uint32_t client, uint32_t id) {
        uint32_t class;

        if (nvrm_found_object(f, client, id))
                return 0;
        int r = ask_about(file, client, id, NVRM_HANDLE_INFO_CLASS, &class);
        if (r < 0)
                return is_fatal(r) ? r : -ENOENT;
        return is_wanted(class) ? add_object(file, f, client, id, class) : 0;
}

static int search(const NvrmFile *file, NvrmFound *f, NvrmFoundClient *c) {
        uint32_t device, most = c->first == 0 ? NVRM_MISSES_FIRST : NVRM_MISSES_AGAIN;

        if (c->first == 0) {
                int r = ask_for_device(file, c->client, &device);
                if (r < 0)
                        return is_fatal(r) ? r : 0;
                c->first = c->end = device & NUMBERS_MASK;
        }
        uint32_t last = c->first | ~NUMBERS_MASK;
        for (uint32_t id = c->first; id < last && (id < c->end || id - c->end < most); id++) {
                int r = look_at(file, f, c->client, id);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r >= 0)
                        c->end = MAX(c->end, id + 1);
        }
        return 0;
}

static bool is_there(const NvrmFile *file, const NvrmFoundObject *o, int *ret_error) {
        uint32_t class = 0, parent = 0;

        int r = ask_about(file, o->client, o->id, NVRM_HANDLE_INFO_CLASS, &class);
        if (r >= 0)
                r = ask_about(file, o->client, o->id, NVRM_HANDLE_INFO_PARENT, &parent);
        if (is_fatal(r))
                *ret_error = r;
        return r >= 0 && class == o->class && parent == o->parent;
}

static int forget_gone(const NvrmFile *file, NvrmFound *f) {
        int error = 0;
        size_t n = 0;

        for (size_t i = 0; i < f->n_clients; i++)
                if (nvrm_has_client(file, f->clients[i].client))
                        f->clients[n++] = f->clients[i];
        f->n_clients = n;
        n = 0;
        for (size_t i = 0; i < f->n_objects; i++)
                if (is_known(f, f->objects[i].client) && is_there(file, &f->objects[i], &error))
                        f->objects[n++] = f->objects[i];
        f->n_objects = n;
        return error;
}

bool nvrm_has_object(const NvrmFile *file, const NvrmFoundObject *o) {
        int error = 0;

        return is_there(file, o, &error);
}

int nvrm_find_objects(const NvrmFile *file, NvrmFound *f) {
        int r = forget_gone(file, f);

        for (size_t i = 0; i < f->n_clients && r >= 0; i++)
                r = search(file, f, &f->clients[i]);
        return r;
}

const NvrmFoundObject *nvrm_found_object(const NvrmFound *f, uint32_t client, uint32_t id) {
        for (size_t i = 0; i < f->n_objects; i++)
                if (f->objects[i].client == client && f->objects[i].id == id)
                        return &f->objects[i];
        return NULL;
}

const NvrmFoundObject *nvrm_found_above(const NvrmFound *f, const NvrmFoundObject *o, uint32_t class) {
        for (unsigned depth = 0; o && o->class != class; depth++)
                o = depth < DEPTH_MAX ? nvrm_found_object(f, o->client, o->parent) : NULL;
        return o;
}
