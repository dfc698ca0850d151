/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as KFD's mqds and hqds
 *
 * The format of debugfs may change with every kernel. Whatever it holds, the readers come to an end, and every value
 * that they read is within its range.
 */

#include "common/macro.h"
#include "hal/kfd-debugfs.h"

#define PID  12
#define GPU  0x4a3f
#define RING UINT64_C(0x7f1234560000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
        if (!ok)
                abort();
}

static void read_mqds(FILE *f) {
        KfdMqd *m = NULL;
        size_t n = 0;

        int r = kfd_debugfs_read_mqds(f, PID, &m, &n);
        require(r == 0 || r == -ESRCH || r == -ENOTUNIQ);
        for (size_t i = 0; i < n; i++) {
                require(!m[i].is_known || m[i].is_compute);
                require(m[i].ring >> 48 == 0 && m[i].doorbell < 1U << 26);
                require(!m[i].is_known || (m[i].ring_size & (m[i].ring_size - 1)) == 0);
        }
        free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        FILE *f = size > 0 ? fmemopen((void *) (uintptr_t) data, size, "r") : NULL;

        if (!f)
                return 0;
        read_mqds(f);
        rewind(f);
        int r = kfd_debugfs_is_mapped(f, GPU, RING);
        require(r == 0 || r == 1 || r == -ENODATA);
        (void) fclose(f);
        return 0;
}
