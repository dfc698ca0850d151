/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who called us
 */

#include "common/unwind-util.h"

#include <unwind.h>

#define FRAMES_MAX 128U

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *userdata) {
        unsigned *left = userdata;
        int is_signal_frame = 0;

        (void) _Unwind_GetIPInfo(context, &is_signal_frame);
        if (is_signal_frame) {
                *left = 0;
                return _URC_END_OF_STACK;
        }
        return --*left > 1 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool in_signal_handler(void) {
        unsigned left = FRAMES_MAX;

        (void) _Unwind_Backtrace(look_at_frame, &left);
        return left == 0;
}
