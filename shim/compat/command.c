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

/* Called with the lock. Finds a command that was not submitted. */
static XResult find_own(HwCommandHandle handle, Command **ret) {
        Command *c = compat_find_command(handle);

        if (!c)
                return kXSchedErrorNotFound;
        if (c->xq)
                return kXSchedErrorNotAllowed;
        *ret = c;
        return kXSchedSuccess;
}

/* Takes the command out of the table; the caller owns it. */
static XResult take_own(HwCommandHandle handle, Command **ret) {
        COMPAT_LOCKED;
        XResult r = find_own(handle, ret);

        if (r == kXSchedSuccess) {
                compat_note_unsubmitted(handle);
                compat_remove_command(*ret);
        }
        return r;
}

_public_
XResult HwCommandDestroy(HwCommandHandle hw_cmd) {
        PROTECT_ERRNO;
        Command *c;

        XResult r = take_own(hw_cmd, &c);
        if (r == kXSchedSuccess)
                free(c);
        return r;
}

_public_
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd) {
        CALL_LOCKED(x, xq);
        Command *c;

        XResult r = find_own(hw_cmd, &c);
        return r == kXSchedSuccess ? compat_error(worker_submit(x, c)) : r;
}

_public_
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle hw_cmd) {
        CALL_HWQ(h, hwq);
        Command *c;

        XResult r = take_own(hw_cmd, &c);
        if (r != kXSchedSuccess)
                return r;
        r = c->launch(h->handle, c->data);
        free(c);
        return r;
}

_public_
XResult HwQueueSynchronize(HwQueueHandle hwq) {
        CALL_HWQ(h, hwq);
        return compat_error(h->platform->finish(h));
}

_public_
XResult HwQueueDestroy(HwQueueHandle hwq) {
        CALL_HWQ(h, hwq);
        COMPAT_LOCKED;
        if (h->xq || h->leaving)
                return kXSchedErrorNotAllowed;
        if (compat_find_hwq(hwq) != h) /* another thread was faster */
                return kXSchedErrorNotFound;
        compat_remove_hwq(h);
        return kXSchedSuccess;
}
