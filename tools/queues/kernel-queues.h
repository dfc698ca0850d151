/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Kernel queues: queues as KFD tells them, with what xschedd knows of them, for xsched-queues and `xschedctl
 * list-queues --kernel`
 *
 * Only here a tool reads something else than the bus: the kernel's data is compared with the service's, and is also
 * available without the service, and for processes without the shim.
 */

#include <sys/types.h>

#include "tools/shared/table.h"

typedef struct KernelQueues {
        Table table;
        bool has_debugfs;   /* descriptors were read */
        bool has_registers; /* registers of the hardware were read */
        size_t n_hidden;
} KernelQueues;

void kernel_queues_done(KernelQueues *q);

/* The queues of these processes; `pids` NULL: of all that have opened KFD. With `hardware`, debugfs is asked for the
 * registers of all GPUs. An exit status. */
int kernel_queues_read(Ctl *c, const pid_t *pids, size_t n, bool hardware, KernelQueues *ret);

/* The table, and where it is from. An exit status. */
int kernel_queues_show(const Ctl *c, const KernelQueues *q);

/* What the processes use of each GPU, likewise. */
int kernel_usage_show(const Ctl *c, const pid_t *pids, size_t n);
