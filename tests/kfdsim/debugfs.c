/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * mqds and hqds of the simulated driver: what /sys/kernel/debug/kfd would say
 *
 * Written anew whenever one of them is opened. Of a descriptor only the words that xsched reads are there. The newest
 * queue comes first. In sysfs that is the one whose directory has the highest inode number. The file system below may
 * number differently, and then any order will do.
 */

#include <stdio.h>
#include <sys/stat.h>

#include "sim.h"

#define MQD_WORDS    512U
#define WORD_HEADER  0U
#define WORD_BASE    128U
#define WORD_ACTIVE  130U
#define WORD_RING    136U
#define WORD_BELL    143U
#define WORD_CONTROL 145U
#define HQD_WORDS    56U
#define HQD_ADDRESS  0xc914U
#define PLACES       8U /* of a pipe */

typedef struct Entry {
        const SimQueue *q;
        ino_t inode;
} Entry;

static bool is_compute(const SimQueue *q) {
        return kfd_queue_type_is_compute(q->type);
}

static void fill_words(const SimProcess *p, const SimQueue *q, uint32_t words[static MQD_WORDS]) {
        uint32_t size = 0;

        while (q->ring_size >> (size + 3) > 1)
                size++;
        memset(words, 0, MQD_WORDS * sizeof(uint32_t));
        words[WORD_HEADER] = 0xc0310800;
        words[WORD_ACTIVE] = atomic_load(&q->mapped);
        words[WORD_RING] = (uint32_t) (q->ring >> 8);
        words[WORD_RING + 1] = (uint32_t) (q->ring >> 40);
        words[WORD_BELL] = 0x40000000U | (p->number * SIM_DOORBELLS + q->doorbell) * 2 << 2;
        words[WORD_CONTROL] = size;
}

static void dump(FILE *f, uint32_t address, const uint32_t *words, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                if (i % 8 == 0)
                        fprintf(f, "%s    %08x:", i > 0 ? "\n" : "", address + i * 4);
                fprintf(f, " %08x", words[i]);
        }
        fputc('\n', f);
}

static int newest_first(const void *a, const void *b) {
        const Entry *x = a, *y = b;

        return x->inode > y->inode ? -1 : x->inode < y->inode;
}

static size_t queues_of(const SimProcess *p, Entry entries[static SIM_QUEUES_MAX]) {
        const SimWorld *w = sim_world();
        char path[512];
        struct stat st;
        size_t n = 0;

        for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                const SimQueue *q = w->queues + i;
                (void) snprintf(path, sizeof(path), "%s/proc/%d/queues/%u", sim_dir(), (int) p->pid, q->id);
                if (sim_queue_is_of(q, p) && stat(path, &st) == 0)
                        entries[n++] = (Entry){q, st.st_ino};
        }
        qsort(entries, n, sizeof(*entries), newest_first);
        return n;
}

static void print_process(FILE *f, const SimProcess *p) {
        static Entry entries[SIM_QUEUES_MAX]; /* under the lock */
        const SimWorld *w = sim_world();
        uint32_t words[MQD_WORDS];
        size_t n = queues_of(p, entries);

        fprintf(f, "Process %d PASID 0x%x:\n", (int) p->pid, 0x8000U + p->number);
        for (size_t i = 0; i < n; i++) {
                const SimQueue *q = entries[i].q;
                fprintf(f, "  %s queue on device %x\n", is_compute(q) ? "Compute" : "SDMA", w->gpus[q->gpu].gpu_id);
                fill_words(p, q, words);
                dump(f, 0, words, is_compute(q) ? MQD_WORDS : MQD_WORDS / 4);
        }
}

static void print_mqds(FILE *f) {
        const SimWorld *w = sim_world();

        for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
                if (w->processes[i].number != SIM_NO_PROCESS)
                        print_process(f, w->processes + i);
}

static void print_hqds(FILE *f) {
        const SimWorld *w = sim_world();
        uint32_t words[MQD_WORDS];

        for (uint32_t g = 0; g < w->n_gpus; g++) {
                uint32_t place = 0;
                fprintf(f, "Node %u, gpu_id %x:\n", g + 1, w->gpus[g].gpu_id);
                for (size_t i = 0; i < SIM_QUEUES_MAX; i++) {
                        const SimQueue *q = w->queues + i;
                        if (q->process == SIM_NO_PROCESS || q->id == SIM_QUEUE_GONE || q->gpu != g || !is_compute(q) ||
                                        !atomic_load(&q->mapped))
                                continue;
                        fprintf(f, "  CP Pipe %u, Queue %u\n", place / PLACES, place % PLACES);
                        place++;
                        fill_words(w->processes + (q->process - 1), q, words);
                        dump(f, HQD_ADDRESS, words + WORD_BASE, HQD_WORDS);
                }
        }
}

/* Writes to another name first: a process that has the old file open reads that one to its end. */
static void write_file(const char *name, void (*print)(FILE *f)) {
        char path[512], fresh[540];

        (void) snprintf(path, sizeof(path), "%s/debug/%s", sim_dir(), name);
        (void) snprintf(fresh, sizeof(fresh), "%s.%d", path, (int) getpid());
        FILE *f = fopen(fresh, "we");
        if (!f)
                return;
        print(f);
        if (fclose(f) == 0)
                (void) rename(fresh, path);
}

void sim_debugfs_write(void) {
        write_file("mqds", print_mqds);
        write_file("hqds", print_hqds);
}
