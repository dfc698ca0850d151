/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Doorbells: a page of cells per process and GPU
 *
 * The page is a file, mapped by the application where the driver maps doorbells, and by the engine. A cell is memory,
 * which announces nothing: the engine exchanges it with "silent", so that a second ring with the same value is a ring,
 * too.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "sim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(_Atomic uint64_t *) pages[SIM_GPUS_MAX];

void sim_doorbells_forget(void) {
        (void) pthread_mutex_init(&lock, NULL);
        for (size_t i = 0; i < ELEMENTSOF(pages); i++)
                atomic_store(pages + i, NULL);
}

static void *page_map(pid_t pid, uint32_t gpu, void *addr, size_t size, int prot, int flags) {
        char path[300];

        (void) snprintf(path, sizeof(path), "%s/devices/doorbells-%d-%u", sim_dir(), (int) pid, gpu);
        _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || ftruncate(fd, SIM_DOORBELL_PAGE) < 0)
                return MAP_FAILED;
        void *p = mmap(addr, size, prot, flags, fd, 0);
        if (p != MAP_FAILED)
                (void) madvise(p, size, MADV_DONTFORK); /* a child's ring is not its parent's */
        return p;
}

/* Silent before the application can ring. */
_Atomic uint64_t *sim_doorbells(uint32_t gpu) {
        _Atomic uint64_t *cells = atomic_load(pages + gpu);

        if (cells)
                return cells;
        (void) pthread_mutex_lock(&lock);
        cells = atomic_load(pages + gpu);
        if (!cells) {
                cells = page_map(getpid(), gpu, NULL, SIM_DOORBELL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
                if (cells == MAP_FAILED)
                        cells = NULL;
                for (size_t i = 0; cells && i < SIM_DOORBELLS; i++)
                        atomic_store(cells + i, SIM_DOORBELL_SILENT);
                atomic_store(pages + gpu, cells);
        }
        (void) pthread_mutex_unlock(&lock);
        return cells;
}

void *sim_doorbells_map(uint32_t gpu, void *addr, size_t size, int prot, int flags) {
        if (gpu >= SIM_GPUS_MAX || size > SIM_DOORBELL_PAGE || !sim_doorbells(gpu)) {
                errno = EINVAL;
                return MAP_FAILED;
        }
        return page_map(getpid(), gpu, addr, size, prot, flags);
}

uint64_t sim_doorbell_take(const SimProcess *p, const SimQueue *q) {
        bool own = p->pid == getpid();
        _Atomic uint64_t *cells = own
                        ? sim_doorbells(q->gpu)
                        : page_map(p->pid, q->gpu, NULL, SIM_DOORBELL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

        if (!cells || cells == MAP_FAILED)
                return SIM_DOORBELL_SILENT;
        uint64_t v = atomic_exchange(cells + q->doorbell, SIM_DOORBELL_SILENT);
        if (!own)
                (void) munmap((void *) (uintptr_t) cells, SIM_DOORBELL_PAGE);
        return v;
}

/* An AQL doorbell takes the index of the last packet, all others take the write index. */
void sim_queue_ring(SimQueue *q, uint64_t value) {
        uint64_t rung = atomic_load(&q->rung), end = value + (q->type == KFD_QUEUE_COMPUTE_AQL);

        if (value == SIM_DOORBELL_SILENT)
                return;
        while (end > rung && !atomic_compare_exchange_weak(&q->rung, &rung, end))
                ;
}
