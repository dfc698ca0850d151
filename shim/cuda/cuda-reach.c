/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the file and the subdevice for calls about channels: see cuda-reach.h
 */

#include "shim/cuda/cuda-reach.h"
#include "shim/cuda/cuda-next-ioctl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"
#include "shim/cuda/cuda-rm.h"

static CudaGpu *gpus;

CudaGpu *cuda_reach_gpus(void) {
        return gpus;
}

void cuda_reach_forget(void) {
        gpus = NULL;
}

static CudaGpu *gpu_get(const char *id) {
        for (CudaGpu *g = gpus; g; g = g->next)
                if (streq(g->id, id))
                        return g;

        CudaGpu *g = calloc(1, sizeof(CudaGpu));
        if (!g)
                return NULL;
        (void) snprintf(g->id, sizeof(g->id), "%s", id);
        g->hal.level = LEVEL_INTERRUPT;
        g->next = gpus;
        gpus = g;
        return g;
}

/* --- files --- */

static bool file_read(int fd, CudaFile *ret) {
        struct stat st; /* libc's own function is a new one */
        PROTECT_ERRNO;

        if (fd < 0 || syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) < 0)
                return false;
        *ret = (CudaFile){.fd = fd, .device = st.st_dev, .special = st.st_rdev, .inode = st.st_ino};
        return true;
}

static bool file_is(int fd, const CudaFile *f) {
        CudaFile now;

        return file_read(fd, &now) && now.device == f->device && now.special == f->special && now.inode == f->inode;
}

void cuda_reach_note_file(CudaObject *client, int fd) {
        client->file.fd = -EBADF;
        (void) file_read(fd, &client->file);
}

static CudaObject *client_on(int fd) {
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (cuda_class_is_client(o->class) && o->file.fd == fd)
                        return o;
        return NULL;
}

/* As the libc function, but on the driver's files alone. */
static int checked_ioctl(int fd, unsigned long request, ...) {
        const CudaObject *client = client_on(fd);
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        if (!client || !file_is(fd, &client->file)) {
                errno = EBADF;
                return -1;
        }
        return cuda_next_ioctl(fd, request, arg);
}

/* Whether the driver knows the client on this file. */
static bool file_knows(int fd, const CudaObject *client) {
        NvrmPciInfo pci = {};

        if (!file_is(fd, &client->file))
                return false;
        int r = nvrm_control(cuda_next_ioctl, fd, client->id, client->id, NVRM_CMD_GPU_GET_PCI_INFO, &pci, sizeof(pci));
        return r != -ENOENT && r != -ESTALE;
}

/* Finds the client's file, by the number that we know, or by another one of this process. */
static bool file_search(CudaObject *client) {
        PROTECT_ERRNO;
        if (file_knows(client->file.fd, client))
                return true;

        DIR *d = opendir("/proc/self/fd");
        bool found = false;
        for (struct dirent *e; d && !found && (e = readdir(d));) {
                int fd = atoi(e->d_name);
                found = e->d_name[0] != '.' && file_knows(fd, client);
                if (found)
                        client->file.fd = fd;
        }
        if (d)
                (void) closedir(d);
        return found;
}

/* --- devices --- */

/* Both calls only read. */
static CudaGpu *gpu_ask(int fd, uint32_t client, uint32_t subdevice) {
        NvrmGpuId id = {};
        char text[32];

        if (nvrm_control(checked_ioctl, fd, client, subdevice, NVRM_CMD_GPU_GET_ID, &id, sizeof(id)) < 0)
                return NULL;
        NvrmPciInfo pci = {.gpu_id = id.gpu_id};
        if (nvrm_control(checked_ioctl, fd, client, client, NVRM_CMD_GPU_GET_PCI_INFO, &pci, sizeof(pci)) < 0)
                return NULL;
        (void) snprintf(text, sizeof(text), "pci:%04x:%02x:%02x.0", pci.domain, pci.bus, pci.slot);
        return gpu_get(text);
}

static CudaObject *client_of(const CudaObject *o) {
        return cuda_object_find(o->client, o->client);
}

static bool holder_take(CudaObject *holder, CudaObject *subdevice) {
        const CudaObject *root = client_of(subdevice);

        if (!root || root->leaving > 0 || root->going)
                return false;
        if (!subdevice->gpu)
                subdevice->gpu = gpu_ask(root->file.fd, subdevice->client, subdevice->id);
        if (!subdevice->gpu || (holder->last_gpu && holder->last_gpu != subdevice->gpu))
                return false;
        holder->gpu = holder->last_gpu = subdevice->gpu;
        holder->hal.device = &holder->gpu->hal;
        holder->hal.ioctl = checked_ioctl;
        holder->hal.fd = root->file.fd;
        holder->hal.client = subdevice->client;
        holder->hal.subdevice = subdevice->id;
        return true;
}

static bool is_usable(const CudaObject *o) {
        return o->class == NVRM_CLASS_SUBDEVICE && o->leaving == 0 && !o->going;
}

/* Takes a subdevice of the holder's own device. If that device is gone, any subdevice of the same GPU. */
bool cuda_reach_find(CudaObject *holder) {
        const CudaObject *device = cuda_object_above(holder, cuda_class_is_device);

        if (holder->gpu)
                return true;
        for (CudaObject *o = cuda_objects(); device && o; o = o->next)
                if (is_usable(o) && o->client == device->client && o->parent == device->id && holder_take(holder, o))
                        return true;
        for (CudaObject *o = cuda_objects(); holder->last_gpu && o; o = o->next)
                if (is_usable(o) && holder_take(holder, o))
                        return true;
        return false;
}

static bool is_there(const CudaObject *holder) {
        NvrmGpuId id = {};
        const NvrmHalQueue *q = &holder->hal;

        int r = nvrm_control(checked_ioctl, q->fd, q->client, q->subdevice, NVRM_CMD_GPU_GET_ID, &id, sizeof(id));
        return r != -ENOENT && r != -ESTALE;
}

bool cuda_reach_repair(CudaObject *holder, void (*gone)(CudaObject *top)) {
        if (!holder->gpu)
                return cuda_reach_find(holder);
        if (is_there(holder))
                return true;

        CudaObject *root = cuda_object_find(holder->hal.client, holder->hal.client),
                   *subdevice = cuda_object_find(holder->hal.client, holder->hal.subdevice);
        holder->gpu = NULL;
        if (root && file_search(root)) {
                if (subdevice && holder_take(holder, subdevice) && is_there(holder))
                        return true;
                holder->gpu = NULL;
                if (subdevice)
                        gone(subdevice);
                return cuda_reach_find(holder);
        }
        /* The holder may be among the objects that are freed. */
        uint64_t serial = holder->serial;
        if (root)
                gone(root);
        for (CudaObject *o = cuda_objects(); o; o = o->next)
                if (o->serial == serial)
                        return cuda_reach_find(o);
        return false;
}
