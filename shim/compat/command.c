/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The public calls on commands and hardware queues
 */

#include "shim/compat/worker.h"

_public_
XResult HwCommandCreateCallback(HwCommandHandle *hw_cmd, LaunchCallback launch, void *data) {
        PROTECT_ERRNO;

        if (!hw_cmd || !launch)
                return kXSchedErrorInvalidValue;
        Command *c = calloc(1, sizeof(Command));
        if (!c)
                return kXSchedErrorHardware;
        c->launch = launch;
        c->data = data;

        COMPAT_LOCKED;
        int r = compat_add_command(c);
        if (r < 0) {
                free(c);
                return compat_error(r);
        }
        *hw_cmd = c->handle;
        return kXSchedSuccess;
}

/* With the lock. One that nobody has submitted. */
static XResult find_own(HwCommandHandle handle, Command **ret) {
        Command *c = compat_find_command(handle);

        if (!c)
                return kXSchedErrorNotFound;
        if (c->xq)
                return kXSchedErrorNotAllowed;
        *ret = c;
        return kXSchedSuccess;
}

_public_
XResult HwCommandDestroy(HwCommandHandle hw_cmd) {
        PROTECT_ERRNO;
        Command *c;
        COMPAT_LOCKED;

        XResult r = find_own(hw_cmd, &c);
        if (r != kXSchedSuccess)
                return r;
        compat_remove_command(c);
        free(c);
        return kXSchedSuccess;
}

_public_
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd) {
        PROTECT_ERRNO;
        _cleanup_(compat_unrefp)
        XQueue *x = compat_get(xq);
        Command *c;

        if (!x)
                return kXSchedErrorNotFound;
        COMPAT_LOCKED;
        XResult r = find_own(hw_cmd, &c);
        if (r != kXSchedSuccess)
                return r;
        if (x->hwq->xq != x) /* it has gone meanwhile */
                return kXSchedErrorNotFound;
        return compat_error(worker_submit(x, c));
}

_public_
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle hw_cmd) {
        PROTECT_ERRNO;
        _cleanup_(compat_unref_hwqp)
        HwQueue *h = compat_get_hwq(hwq);
        Command *c;

        if (!h)
                return kXSchedErrorNotFound;
        {
                COMPAT_LOCKED;
                XResult r = find_own(hw_cmd, &c);
                if (r != kXSchedSuccess)
                        return r;
                compat_remove_command(c);
        }
        XResult r = c->launch(h->handle, c->data);
        free(c);
        return r;
}

_public_
XResult HwQueueSynchronize(HwQueueHandle hwq) {
        PROTECT_ERRNO;
        _cleanup_(compat_unref_hwqp)
        HwQueue *h = compat_get_hwq(hwq);

        if (!h)
                return kXSchedErrorNotFound;
        return compat_error(h->platform->finish(h));
}

_public_
XResult HwQueueDestroy(HwQueueHandle hwq) {
        PROTECT_ERRNO;
        _cleanup_(compat_unref_hwqp)
        HwQueue *h = compat_get_hwq(hwq);

        if (!h)
                return kXSchedErrorNotFound;
        COMPAT_LOCKED;
        if (h->xq)
                return kXSchedErrorNotAllowed;
        HwQueue *known = compat_find_hwq(hwq);
        if (known != h) { /* another thread was faster */
                if (known)
                        known->refs--;
                return kXSchedErrorNotFound;
        }
        h->refs--;
        compat_remove_hwq(h);
        return kXSchedSuccess;
}
