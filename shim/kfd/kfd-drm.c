/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Compute queues of amdgpu's DRM driver
 *
 * A record is known by its file's number and the driver's number of the queue. If a program closes the file without
 * removing its queues first, their records stay until it makes the next queue, or ends.
 */

#include "shim/kfd/kfd-drm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "hal/hal.h"
#include "hal/kfd-topology.h"
#include "include/xsched/xsched.h"

typedef struct DrmQueue {
        int fd;
        dev_t device;
        uint32_t id;
        XschedQueue *xsched;
        struct DrmQueue *next;
} DrmQueue;

static pthread_mutex_t drm_lock = PTHREAD_MUTEX_INITIALIZER;
static DrmQueue *drm_queues;
static _Atomic bool has_queues;

typedef dev_t RenderDevice(int fd);

static bool is_gone(const DrmQueue *q, int fd, uint32_t id, RenderDevice *render_device) {
        return (q->fd == fd && q->id == id) || render_device(q->fd) != q->device;
}

/* Forgets a queue, and those whose files are gone. */
static void forget(int fd, uint32_t id, RenderDevice *render_device) {
        for (DrmQueue **link = &drm_queues, *q; (q = *link);)
                if (is_gone(q, fd, id, render_device)) {
                        *link = q->next;
                        xsched_queue_unref(q->xsched);
                        free(q);
                } else
                        link = &q->next;
}

static void add(int fd, uint32_t id, RenderDevice *render_device) {
        dev_t device = render_device(fd);
        char name[KFD_GFX_NAME_MAX], pci[KFD_DEVICE_ID_MAX], label[32];
        KfdNode n;

        forget(fd, id, render_device);
        if (device == 0 || kfd_topology_find_render(KFD_TOPOLOGY_PATH, minor(device), &n) < 0)
                return;
        DrmQueue *q = malloc(sizeof(*q));
        if (!q)
                return;
        *q = (DrmQueue){.fd = fd, .device = device, .id = id, .next = drm_queues};
        kfd_node_device_id(&n, pci);
        kfd_node_gfx_name(&n, name);
        (void) snprintf(label, sizeof(label), "user queue %u of DRM", id);
        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = pci,
                        .device_name = name,
                        .backend = "drm",
                        .label = label,
                        .level = LEVEL_GATE,
                        .hooked = XSCHED_HOOKED_NONE,
        };
        if (xsched_queue_new(&info, &q->xsched) < 0)
                free(q);
        else
                drm_queues = q;
}

bool kfd_drm_concerns(const DrmUserq *asked) {
        return (asked->op == DRM_USERQ_CREATE && asked->ip_type == DRM_USERQ_COMPUTE) ||
                        (asked->op == DRM_USERQ_FREE && atomic_load(&has_queues));
}

/* If a signal handler makes such a call while its thread has the lock, the queue is not recorded. */
void kfd_drm_note(int fd, const DrmUserq *asked, const void *arg, RenderDevice *render_device) {
        PROTECT_ERRNO;
        DrmUserq answer;

        if (!arguments_read(&answer, arg, sizeof(answer)) || pthread_mutex_trylock(&drm_lock) != 0)
                return;
        if (asked->op == DRM_USERQ_CREATE)
                add(fd, answer.op, render_device);
        else
                forget(fd, asked->queue_id, render_device);
        atomic_store(&has_queues, drm_queues != NULL);
        (void) pthread_mutex_unlock(&drm_lock);
}

/* The records stay where they are: the parent's list may have been in the middle of a change. */
void kfd_drm_after_fork(void) {
        (void) pthread_mutex_init(&drm_lock, NULL);
        drm_queues = NULL;
        atomic_store(&has_queues, false);
}
