/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kfdsim-mapped: prints which queues the simulated hardware executes, without becoming one of its processes
 *
 * Prints "PID QUEUE GPU MAPPED" for each queue of the world in KFDSIM_DIR, and "gpu GPU MAPS" with the times that
 * queues of a GPU have been unmapped and mapped.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "sim.h"

int main(void) {
        char path[512];

        (void) snprintf(path, sizeof(path), "%s/world", strempty(getenv("KFDSIM_DIR")));
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        const SimWorld *w = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*w), PROT_READ, MAP_SHARED, fd, 0);
        if (w == MAP_FAILED) {
                (void) fprintf(stderr, "kfdsim-mapped: %s: %s\n", path, strerror(errno));
                return EXIT_FAILURE;
        }
        for (uint32_t i = 0; i < w->n_gpus; i++)
                printf("gpu %u %" PRIu64 "\n", i, atomic_load(&w->gpus[i].n_maps));
        for (uint32_t i = 0; i < SIM_QUEUES_MAX; i++) {
                const SimQueue *q = w->queues + i;
                if (q->process == SIM_NO_PROCESS || q->id == SIM_QUEUE_GONE)
                        continue;
                printf("%d %u %u %d\n", (int) w->processes[q->process - 1].pid, q->id, q->gpu,
                                (int) atomic_load(&q->mapped));
        }
        return EXIT_SUCCESS;
}
