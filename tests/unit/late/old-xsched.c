/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An older libxsched, with the functions of its time
 */

#include <errno.h>

#include "xsched/xsched.h"

int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret) {
        return -EPROTO;
}
