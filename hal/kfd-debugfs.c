/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parsers for KFD's debugfs files about queues
 */

#include "hal/kfd-debugfs.h"

#include <inttypes.h>

#include "common/array.h"
#include "common/macro.h"

/* Words of a compute queue's descriptor. The registers of a hardware slot are the same, from WORD_MQD_BASE on. */
enum {
        WORD_ACTIVE = 130,
        WORD_RING_LO = 136, /* address / 256 */
        WORD_RING_HI = 137,
        WORD_DOORBELL = 143,
        WORD_RING_CONTROL = 145,
        WORDS_WANTED = 146,
};

#define DOORBELL_MASK    0x0ffffffcU
#define DOORBELL_SHIFT   2U
#define RING_SIZE_MASK   0x3fU /* log2 of its 32-bit words, less 1 */
#define RING_SIZE_BASE   UINT64_C(8)
#define RING_SHIFT       8U
#define RING_HI_MASK     0xffU /* a 48-bit address / 256 has 40 bits; the rest is not part of it */
#define WORDS_PER_LINE   64U   /* more than any line has */
#define REGISTERS_IN_RUN 512U

/* Parses a line of a dump, "    ADDRESS: WORD WORD ...". Returns the number of words; 0: not a line of a dump. */
static size_t parse_dump_line(const char *line, uint32_t *ret_address, uint32_t words[static WORDS_PER_LINE]) {
        uint32_t address;
        size_t n = 0;
        int used = 0; /* sscanf() does not set it when the text ends earlier */

        if (line[0] != ' ' || sscanf(line, " %8" SCNx32 ":%n", &address, &used) != 1 || used <= 0 ||
                        line[used - 1] != ':')
                return 0;
        for (line += used; n < WORDS_PER_LINE && sscanf(line, " %8" SCNx32 "%n", words + n, &used) == 1; line += used)
                n++;
        *ret_address = address;
        return n;
}

/* --- mqds --- */

typedef struct Mqds {
        KfdMqd *mqds;
        size_t n;
        uint32_t words[WORDS_WANTED]; /* of the last descriptor */
        size_t n_words;
} Mqds;

static void finish_mqd(Mqds *m) {
        if (m->n == 0)
                return;
        KfdMqd *q = m->mqds + m->n - 1;
        if (!q->is_compute || q->is_known || m->n_words < WORDS_WANTED)
                return;

        const uint32_t *w = m->words;
        q->is_known = true;
        q->ring = ((uint64_t) (w[WORD_RING_HI] & RING_HI_MASK) << 32 | w[WORD_RING_LO]) << RING_SHIFT;
        q->ring_size = RING_SIZE_BASE << (w[WORD_RING_CONTROL] & RING_SIZE_MASK);
        q->doorbell = (w[WORD_DOORBELL] & DOORBELL_MASK) >> DOORBELL_SHIFT;
}

static int begin_mqd(Mqds *m, bool is_compute, uint32_t gpu_id) {
        finish_mqd(m);
        KfdMqd *more = array_grow(m->mqds, m->n, sizeof(KfdMqd));
        if (!more)
                return -ENOMEM;
        m->mqds = more;
        m->mqds[m->n++] = (KfdMqd){.gpu_id = gpu_id, .is_compute = is_compute};
        m->n_words = 0;
        return 0;
}

/* Takes words in their order. A dump that begins again is that of another partition, with the same contents. */
static void take_words(Mqds *m, uint32_t offset, const uint32_t *words, size_t n) {
        if (m->n == 0 || offset != m->n_words * sizeof(uint32_t))
                return;
        for (size_t i = 0; i < n && m->n_words < WORDS_WANTED; i++)
                m->words[m->n_words++] = words[i];
}

/* "  Compute queue on device 4a3f", "  SDMA queue on device ...", "  DIQ on device ...", "  Bad user queue type 7 on
 *    device ..." */
static bool parse_mqd_head(const char *line, bool *ret_is_compute, uint32_t *ret_gpu_id) {
        const char *device = strstr(line, " on device ");

        if (line[0] != ' ' || !device || sscanf(device, " on device %8" SCNx32, ret_gpu_id) != 1)
                return false;
        *ret_is_compute = startswith(line, "  Compute queue ") != NULL;
        return true;
}

static int take_mqd_line(Mqds *m, const char *line) {
        uint32_t words[WORDS_PER_LINE], offset, gpu_id;
        bool is_compute;

        if (parse_mqd_head(line, &is_compute, &gpu_id))
                return begin_mqd(m, is_compute, gpu_id);
        size_t n = parse_dump_line(line, &offset, words);
        if (n > 0)
                take_words(m, offset, words, n);
        return 0;
}

int kfd_debugfs_read_mqds(FILE *f, pid_t pid, KfdMqd **ret, size_t *ret_n) {
        _cleanup_free_ char *line = NULL;
        unsigned n_processes = 0;
        bool ours = false;
        size_t size = 0;
        Mqds m = {};
        int r = 0, number;

        while (r >= 0 && getline(&line, &size, f) >= 0)
                if (line[0] != ' ') {
                        ours = sscanf(line, "Process %d ", &number) == 1 && number == pid;
                        n_processes += ours;
                } else if (ours)
                        r = take_mqd_line(&m, line);
        finish_mqd(&m);
        if (r >= 0)
                r = ferror(f) ? -EIO : n_processes == 0 ? -ESRCH : n_processes > 1 ? -ENOTUNIQ : 0;
        if (r < 0) {
                free(m.mqds);
                return r;
        }
        *ret = m.mqds;
        *ret_n = m.n;
        return 0;
}

/* --- hqds --- */

/* Registers whose addresses follow each other. */
typedef struct Run {
        uint32_t next;
        uint32_t values[REGISTERS_IN_RUN];
        size_t n;
} Run;

static void take_registers(Run *run, uint32_t address, const uint32_t *words, size_t n) {
        if (address != run->next)
                run->n = 0;
        for (size_t i = 0; i < n && run->n < REGISTERS_IN_RUN; i++)
                run->values[run->n++] = words[i];
        run->next = address + (uint32_t) (n * sizeof(uint32_t));
}

/* Looks for the ring's address at the distance from the active bit that it has in a descriptor. */
static bool run_has_ring(const Run *run, uint64_t ring) {
        const size_t to_active = WORD_RING_LO - WORD_ACTIVE;
        uint32_t lo = (uint32_t) (ring >> RING_SHIFT), hi = (uint32_t) (ring >> RING_SHIFT >> 32);

        for (size_t i = to_active; i + 1 < run->n; i++)
                if (run->values[i] == lo && (run->values[i + 1] & RING_HI_MASK) == hi && run->values[i - to_active] & 1)
                        return true;
        return false;
}

int kfd_debugfs_is_mapped(FILE *f, uint32_t gpu_id, uint64_t ring) {
        uint32_t words[WORDS_PER_LINE], address, node, gpu;
        _cleanup_free_ char *line = NULL;
        bool ours = false, found = false;
        size_t size = 0, n;
        int r = -ENODATA;
        Run run = {};

        while (!found && getline(&line, &size, f) >= 0)
                if (sscanf(line, "Node %" SCNu32 ", gpu_id %8" SCNx32, &node, &gpu) == 2)
                        ours = gpu == gpu_id;
                else if (!ours)
                        continue;
                else if ((n = parse_dump_line(line, &address, words)) > 0) {
                        r = 0;
                        take_registers(&run, address, words, n);
                        found = run_has_ring(&run, ring);
                } else
                        run.n = 0;
        return found ? 1 : r;
}
