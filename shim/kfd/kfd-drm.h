/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Compute queues of amdgpu's DRM driver (amdgpu.user_queue=): KFD does not know them
 *
 * From gfx11 on that driver makes queues for programs, too, whose doorbells only these programs see. No hold reaches
 * them: they are registered as what they are, so that list-queues, check and Degraded name them. The layout is that of
 * include/uapi/drm/amdgpu_drm.h since Linux 6.16, of which only the head is read.
 */

#include <linux/ioctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DRM_IOCTL_TYPE   'd'
#define DRM_NR_USERQ     0x56 /* DRM_COMMAND_BASE + DRM_AMDGPU_USERQ; other drivers have others by that number */
#define DRM_DEVICE_MAJOR 226U

#define DRM_USERQ_CREATE  1U
#define DRM_USERQ_FREE    2U
#define DRM_USERQ_COMPUTE 1U /* AMDGPU_HW_IP_COMPUTE */

typedef struct DrmUserq {
        uint32_t op; /* out: queue_id */
        uint32_t queue_id;
        uint32_t ip_type;
} DrmUserq;

static inline bool kfd_drm_is_userq(unsigned long request) {
        return _IOC_TYPE(request) == DRM_IOCTL_TYPE && _IOC_NR(request) == DRM_NR_USERQ &&
                        _IOC_SIZE(request) >= sizeof(DrmUserq);
}

/* Whether a call that succeeded is about a queue that is to be known. */
bool kfd_drm_concerns(const DrmUserq *asked);

/* The application's call has succeeded. `arg` is what it got; render_device() returns which render node an fd is, 0: it
 * is none. */
void kfd_drm_note(int fd, const DrmUserq *asked, const void *arg, dev_t (*render_device)(int fd));
void kfd_drm_after_fork(void);
