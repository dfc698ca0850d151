/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Files of the simulated /sys: writing and removing, and those of processes and queues under /sys/class/kfd/kfd/proc
 */

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "sim.h"

static int make_dirs(char *path) {
        for (char *s = path + 1; *s; s++)
                if (*s == '/') {
                        *s = 0;
                        int r = mkdir(path, 0777) < 0 && errno != EEXIST ? negative_errno() : 0;
                        *s = '/';
                        if (r < 0)
                                return r;
                }
        return 0;
}

int sim_file_put(const char *name, const char *format, ...) {
        char path[512];
        (void) snprintf(path, sizeof(path), "%s/%s", sim_dir(), name);
        int r = make_dirs(path);
        if (r < 0)
                return r;

        if (path[strlen(path) - 1] == '/') /* a directory only */
                return 0;
        FILE *f = fopen(path, "we");
        if (!f)
                return negative_errno();
        va_list ap;
        va_start(ap, format);
        (void) vfprintf(f, format, ap);
        va_end(ap);
        return fclose(f) == 0 ? 0 : negative_errno();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) remove(path);
        return 0;
}

void sim_tree_remove(const char *name) {
        char path[512];

        (void) snprintf(path, sizeof(path), "%s/%s", sim_dir(), name);
        (void) nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put_counter(const SimProcess *p, const char *what, uint32_t gpu_id, const char *attribute) {
        char name[96];

        (void) snprintf(name, sizeof(name), "proc/%d/%s_%u%s", (int) p->pid, what, gpu_id, attribute);
        (void) sim_file_put(name, "%u", 0U);
}

/* Attributes of /sys/class/kfd/kfd/proc end without a newline. */
void sim_proc_add_process(const SimProcess *p) {
        const SimWorld *w = sim_world();
        char name[96];

        (void) snprintf(name, sizeof(name), "proc/%d/pasid", (int) p->pid);
        (void) sim_file_put(name, "%u", 0x8000U + p->number);
        (void) snprintf(name, sizeof(name), "proc/%d/queues/", (int) p->pid);
        (void) sim_file_put(name, "%s", "");
        for (uint32_t i = 0; i < w->n_gpus; i++) {
                const uint32_t id = w->gpus[i].gpu_id;
                put_counter(p, "vram", id, "");
                put_counter(p, "sdma", id, "");
                put_counter(p, "stats", id, "/evicted_ms");
                put_counter(p, "stats", id, "/cu_occupancy");
        }
}

void sim_proc_remove_process(const SimProcess *p) {
        const SimWorld *w = sim_world();
        char name[64];

        (void) snprintf(name, sizeof(name), "proc/%d", (int) p->pid);
        sim_tree_remove(name);
        for (uint32_t i = 0; i < w->n_gpus; i++) {
                (void) snprintf(name, sizeof(name), "devices/doorbells-%d-%u", (int) p->pid, i);
                sim_tree_remove(name);
        }
}

/* The driver tells its own number of a type, not that of its interface. */
static unsigned own_type(uint32_t type) {
        switch (type) {
        case KFD_QUEUE_SDMA:
                return 1;
        case KFD_QUEUE_SDMA_XGMI:
                return 3;
        case KFD_QUEUE_SDMA_BY_ENGINE:
                return 4;
        default:
                return 0; /* compute, of either packet format */
        }
}

void sim_proc_add_queue(const SimProcess *p, const SimQueue *q) {
        char name[96];

        (void) snprintf(name, sizeof(name), "proc/%d/queues/%u/size", (int) p->pid, q->id);
        (void) sim_file_put(name, "%u", q->ring_size);
        (void) snprintf(name, sizeof(name), "proc/%d/queues/%u/type", (int) p->pid, q->id);
        (void) sim_file_put(name, "%u", own_type(q->type));
        (void) snprintf(name, sizeof(name), "proc/%d/queues/%u/gpuid", (int) p->pid, q->id);
        (void) sim_file_put(name, "%u", sim_world()->gpus[q->gpu].gpu_id);
}

void sim_proc_remove_queue(const SimProcess *p, const SimQueue *q) {
        char name[96];

        (void) snprintf(name, sizeof(name), "proc/%d/queues/%u", (int) p->pid, q->id);
        sim_tree_remove(name);
}
