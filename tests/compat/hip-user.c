/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A library that is opened for its own use, as a Python module is, with the HIP runtime that it is linked to
 */

#include "common/macro.h"
#include "fake-hip.h"

HipResult hipMemcpyAsync(void *to, const void *from, size_t n, int kind, HipStream stream);
HipResult hipStreamDestroy(HipStream stream);

unsigned hip_user_launch(void);

/* Returns how many launches have arrived on the stream that this library's runtime has made. */
_public_
unsigned hip_user_launch(void) {
        HipStream stream;

        if (hipStreamCreate(&stream) != HIP_RESULT_SUCCESS ||
                        hipMemcpyAsync(NULL, NULL, 0, 0, stream) != HIP_RESULT_SUCCESS)
                return 0;
        /* The other copy of the runtime has not seen it. */
        return fake_hip_last().name ? stream->n : 0;
}
