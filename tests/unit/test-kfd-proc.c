/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The readers of KFD's sysfs and debugfs, on directories and texts as kernels make them
 *
 * The texts have the form of the kernel's own formats (see hal/kfd-debugfs.h); their numbers are made up, because none
 * were taken from a machine with a GPU.
 */

#include <inttypes.h>
#include <stdio.h>

#include "common/macro.h"
#include "hal/kfd-proc.h"
#include "tests/lib/scratch-root.h"
#include "tests/lib/unit.h"

#define PID     4711
#define GPU     0x4a3fU
#define GPU2    0x9bcdU
#define RING(n) (UINT64_C(0x7f1234560000) + (uint64_t) (n) *0x10000)

static void put_queue(const char *context, unsigned id, uint32_t gpu, unsigned type, uint64_t size) {
        char name[160];

        (void) snprintf(name, sizeof(name), KFD_PROC_PATH "/%d%s/queues/%u/gpuid", PID, context, id);
        scratch_root_put(name, "%" PRIu32, gpu); /* the kernel writes no newline here */
        (void) snprintf(name, sizeof(name), KFD_PROC_PATH "/%d%s/queues/%u/type", PID, context, id);
        scratch_root_put(name, "%u", type);
        (void) snprintf(name, sizeof(name), KFD_PROC_PATH "/%d%s/queues/%u/size", PID, context, id);
        scratch_root_put(name, "%" PRIu64, size);
}

/* --- texts --- */

typedef struct Text {
        char *text;
        size_t size;
        FILE *f;
} Text;

static void text_begin(Text *t) {
        *t = (Text){};
        t->f = open_memstream(&t->text, &t->size);
        assert_non_null(t->f);
}

static FILE *text_read(Text *t) {
        assert_int_equal(fclose(t->f), 0);
        t->f = fmemopen(t->text, MAX(t->size, (size_t) 1), "r");
        assert_non_null(t->f);
        return t->f;
}

static void text_end(Text *t) {
        (void) fclose(t->f);
        free(t->text);
}

static unsigned log2_of(uint64_t v) {
        unsigned n = 0;

        while (v > 1)
                v >>= 1, n++;
        return n;
}

#define MQD_WORDS 512U

/* As seq_hex_dump() writes: eight words a line, each line with its offset. The registers of hqds look the same. */
static void dump_words(FILE *f, uint32_t start, const uint32_t *words, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                if (i % 8 == 0)
                        fprintf(f, "%s    %08x:", i > 0 ? "\n" : "", start + i * 4);
                fprintf(f, " %08x", words[i]);
        }
        fprintf(f, "\n");
}

static void fill_mqd(uint32_t *words, uint64_t ring, uint64_t size, uint32_t doorbell) {
        memset(words, 0, MQD_WORDS * sizeof(uint32_t));
        words[0] = 0xc0310800;
        words[136] = (uint32_t) (ring >> 8);
        words[137] = (uint32_t) (ring >> 40);
        words[143] = 0x40000000U | doorbell << 2;
        words[145] = 0xd0308500U | (log2_of(size / 4) - 1);
}

static void print_compute(FILE *f, uint32_t gpu, uint64_t ring, uint64_t size, uint32_t doorbell) {
        uint32_t words[MQD_WORDS];

        fill_mqd(words, ring, size, doorbell);
        fprintf(f, "  Compute queue on device %x\n", gpu);
        dump_words(f, 0, words, MQD_WORDS);
}

static void print_sdma(FILE *f, uint32_t gpu) {
        uint32_t words[128] = {0x8401001e};

        fprintf(f, "  SDMA queue on device %x\n", gpu);
        dump_words(f, 0, words, 128);
}

/* Registers of a place for queues: their addresses may begin anywhere; the first register is the descriptor's word
 * 128. */
static void print_place(FILE *f, const char *name, uint64_t ring, bool active) {
        uint32_t words[MQD_WORDS];

        fill_mqd(words, ring, 4096, 0);
        words[130] = active;
        fprintf(f, "  %s\n", name);
        dump_words(f, 0x7ff0, words, 4); /* others come before */
        dump_words(f, 0xc914, words + 128, 56);
}

/* --- mqds --- */

static void read_mqds_of(Text *t, KfdMqd **ret, size_t *ret_n, int want) {
        assert_int_equal(kfd_debugfs_read_mqds(text_read(t), PID, ret, ret_n), want);
}

static void mqds_of_one_process(void **state) {
        KfdMqd *m;
        size_t n;
        Text t;

        text_begin(&t);
        fprintf(t.f, "Process 12 PASID 0x8001:\n");
        print_compute(t.f, GPU, RING(9), 65536, 9);
        fprintf(t.f, "Process %d PASID 0x8002:\n", PID);
        print_sdma(t.f, GPU);
        print_compute(t.f, GPU2, RING(2), 16384, 0x1002);
        print_compute(t.f, GPU, RING(1), 1048576, 0x1001);
        fprintf(t.f, "Process %d1 PASID 0x8003:\n", PID);
        print_compute(t.f, GPU, RING(8), 65536, 8);

        read_mqds_of(&t, &m, &n, 0);
        assert_int_equal(n, 3);
        assert_false(m[0].is_compute);
        assert_false(m[0].is_known);
        assert_int_equal(m[0].gpu_id, GPU);
        assert_true(m[1].is_known);
        assert_int_equal(m[1].gpu_id, GPU2);
        assert_int_equal(m[1].ring, RING(2));
        assert_int_equal(m[1].ring_size, 16384);
        assert_int_equal(m[1].doorbell, 0x1002);
        assert_int_equal(m[2].ring, RING(1));
        assert_int_equal(m[2].ring_size, 1048576);
        assert_int_equal(m[2].doorbell, 0x1001);
        free(m);
        text_end(&t);
}

/* A GPU with several partitions has as many dumps for one queue; they agree on the ring, but only the first counts. */
static void mqds_of_partitions(void **state) {
        uint32_t words[MQD_WORDS];
        KfdMqd *m;
        size_t n;
        Text t;

        text_begin(&t);
        fprintf(t.f, "Process %d PASID 0x8002:\n", PID);
        print_compute(t.f, GPU, RING(2), 16384, 2);
        fill_mqd(words, RING(7), 4096, 7);
        dump_words(t.f, 0, words, MQD_WORDS);
        print_compute(t.f, GPU, RING(1), 16384, 1);
        read_mqds_of(&t, &m, &n, 0);
        assert_int_equal(n, 2);
        assert_int_equal(m[0].ring, RING(2));
        assert_int_equal(m[1].ring, RING(1));
        free(m);
        text_end(&t);
}

static void mqds_without_the_process(void **state) {
        KfdMqd *m = (KfdMqd *) state;
        size_t n = 99;
        Text t;

        text_begin(&t);
        read_mqds_of(&t, &m, &n, -ESRCH); /* an empty file */
        text_end(&t);

        text_begin(&t);
        fprintf(t.f, "Process 1 PASID 0x8001:\n");
        print_compute(t.f, GPU, RING(9), 65536, 9);
        read_mqds_of(&t, &m, &n, -ESRCH);
        text_end(&t);

        /* With two contexts, queues cannot be told apart. */
        text_begin(&t);
        fprintf(t.f, "Process %d PASID 0x8001:\nProcess %d PASID 0x8001:\n", PID, PID);
        read_mqds_of(&t, &m, &n, -ENOTUNIQ);
        text_end(&t);
        assert_ptr_equal(m, state);
        assert_int_equal(n, 99);
}

/* Unknown text is skipped: further words in a heading, queues of other kinds, other lines, dumps that are too short. */
static void mqds_of_other_kernels(void **state) {
        uint32_t words[MQD_WORDS];
        KfdMqd *m;
        size_t n;
        Text t;

        text_begin(&t);
        fprintf(t.f, "Process %d PASID 32770 context 3:\n", PID);
        fprintf(t.f, "  DIQ on device %x\n", GPU);
        fprintf(t.f, "  Bad user queue type 7 on device %x\n", GPU);
        fprintf(t.f, "  Weird: Queue node with neither kernel nor user queue\n");
        fprintf(t.f, "  Compute queue on device %x, of partition 3\n", GPU);
        fprintf(t.f, "    what this is nobody knows\n");
        fill_mqd(words, RING(1), 4096, 1);
        dump_words(t.f, 0, words, MQD_WORDS);
        fprintf(t.f, "  Compute queue on device %x\n", GPU2);
        dump_words(t.f, 0, words, 140);
        read_mqds_of(&t, &m, &n, 0);
        assert_int_equal(n, 4);
        assert_false(m[0].is_compute || m[1].is_compute);
        assert_true(m[2].is_known);
        assert_int_equal(m[2].ring, RING(1));
        assert_true(m[3].is_compute);
        assert_false(m[3].is_known);
        free(m);
        text_end(&t);
}

/* --- hqds --- */

static void places(void **state) {
        Text t;

        text_begin(&t);
        fprintf(t.f, "Node 1, gpu_id %x:\n", GPU2);
        print_place(t.f, "CP Pipe 0, Queue 0", RING(1), true);
        fprintf(t.f, "Node 2, gpu_id %x:\n", GPU);
        print_place(t.f, "HIQ on MEC 1 Pipe 1 Queue 0", RING(5), true);
        print_place(t.f, "Inst 0, CP Pipe 0, Queue 0", RING(2), false);
        print_place(t.f, "Inst 0, CP Pipe 0, Queue 1", RING(3), true);
        fprintf(t.f, "Node 3, gpu_id %x:\n Device is stopped\n", 0x77U);
        FILE *f = text_read(&t);
        static const struct {
                uint32_t gpu;
                unsigned ring;
                int want;
        } cases[] = {
                        {GPU, 3, 1},
                        {GPU, 2, 0}, /* an inactive queue */
                        {GPU, 1, 0}, /* another GPU's */
                        {GPU2, 1, 1},
                        {0x77, 1, -ENODATA},
                        {0x78, 1, -ENODATA},
        };
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                rewind(f);
                assert_int_equal(kfd_debugfs_is_mapped(f, cases[i].gpu, RING(cases[i].ring)), cases[i].want);
        }
        text_end(&t);
}

/* --- sysfs --- */

static void no_driver(void **state) {
        KfdProcQueues q = {.n = 99};
        KfdProcUsage *u;
        pid_t *pids;
        size_t n;

        scratch_root_clear();
        assert_int_equal(kfd_proc_read_queues(scratch_root(), PID, &q), -ENODEV);
        assert_int_equal(kfd_proc_list(scratch_root(), &pids, &n), -ENODEV);
        assert_int_equal(kfd_proc_read_usage(scratch_root(), PID, &u, &n), -ENODEV);
        assert_int_equal(q.n, 99);
        scratch_root_put(KFD_PROC_PATH "/", "%s", "");
        assert_int_equal(kfd_proc_read_queues(scratch_root(), PID, &q), -ESRCH);
        assert_int_equal(kfd_proc_list(scratch_root(), &pids, &n), 0);
        assert_int_equal(n, 0);
        free(pids);
}

static void queues_of_a_process(void **state) {
        KfdProcQueues q;
        pid_t *pids;
        size_t n;

        scratch_root_clear();
        put_queue("", 10, GPU, 0, 65536);
        put_queue("", 9, GPU2, 1, 1048576);
        put_queue("", 0, GPU, 4, 4096);
        put_queue("/context_2", 0, GPU, 2, 4096);
        scratch_root_put(KFD_PROC_PATH "/4711/context_3/", "%s", ""); /* has no queues yet */
        scratch_root_put(KFD_PROC_PATH "/4711/queues/7/gpuid", "%s", "not a number");
        scratch_root_put(KFD_PROC_PATH "/4711/queues/8/", "%s", ""); /* a queue that is being removed */
        scratch_root_put(KFD_PROC_PATH "/4711/queues/x/gpuid", "1");
        scratch_root_put(KFD_PROC_PATH "/4711/pasid", "32770");
        scratch_root_put(KFD_PROC_PATH "/5000/queues/", "%s", "");
        scratch_root_put(KFD_PROC_PATH "/self/queues/", "%s", "");

        assert_int_equal(kfd_proc_read_queues(scratch_root(), PID, &q), 0);
        assert_int_equal(q.n, 4);
        assert_int_equal(q.n_contexts, 2);
        assert_int_equal(q.n_hidden, 0);
        assert_int_equal(q.queues[0].id, 0);
        assert_string_equal(kfd_proc_type_to_string(q.queues[0].type), "sdma");
        assert_int_equal(q.queues[1].id, 9);
        assert_int_equal(q.queues[1].gpu_id, GPU2);
        assert_int_equal(q.queues[1].ring_size, 1048576);
        assert_string_equal(kfd_proc_type_to_string(q.queues[1].type), "sdma");
        assert_int_equal(q.queues[2].id, 10);
        assert_string_equal(kfd_proc_type_to_string(q.queues[2].type), "compute");
        assert_int_equal(q.queues[2].is_mapped, -ENODATA);
        assert_false(q.queues[2].mqd.is_known);
        assert_int_equal(q.queues[3].context, 2);
        assert_string_equal(kfd_proc_type_to_string(q.queues[3].type), "other");
        kfd_proc_queues_done(&q);

        assert_int_equal(kfd_proc_read_queues(scratch_root(), 5000, &q), 0);
        assert_int_equal(q.n, 0);
        assert_int_equal(q.n_contexts, 0);
        kfd_proc_queues_done(&q);
        assert_int_equal(kfd_proc_list(scratch_root(), &pids, &n), 0);
        assert_int_equal(n, 2);
        assert_int_equal(pids[0] + pids[1], PID + 5000);
        free(pids);
}

static void use_of_a_process(void **state) {
        KfdProcUsage *u;
        size_t n;

        scratch_root_clear();
        scratch_root_put(KFD_PROC_PATH "/4711/vram_19007", "1073741824\n");
        scratch_root_put(KFD_PROC_PATH "/4711/sdma_19007", "250\n");
        scratch_root_put(KFD_PROC_PATH "/4711/stats_19007/evicted_ms", "17\n");
        scratch_root_put(KFD_PROC_PATH "/4711/vram_", "1");
        assert_int_equal(kfd_proc_read_usage(scratch_root(), PID, &u, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(u[0].gpu_id, GPU);
        assert_int_equal(u[0].vram, 1 << 30);
        assert_int_equal(u[0].sdma_us, 250);
        assert_int_equal(u[0].evicted_ms, 17);
        assert_int_equal(u[0].cu_occupancy, UINT64_MAX);
        free(u);
}

/* --- both together --- */

/* The queues' directories in the order in which they were made, as inode numbers have it on this file system. */
static void read_sorted(KfdProcQueues *q, KfdProcQueue *order[static 3]) {
        assert_int_equal(kfd_proc_read_queues(scratch_root(), PID, q), 0);
        assert_int_equal(q->n, 3);
        for (size_t i = 0; i < 3; i++)
                order[i] = q->queues + i;
        for (size_t i = 0; i < 3; i++)
                for (size_t k = i + 1; k < 3; k++)
                        if (order[k]->inode < order[i]->inode) {
                                KfdProcQueue *other = order[i];
                                order[i] = order[k];
                                order[k] = other;
                        }
}

static void put_mqds(KfdProcQueue *const order[static 3], unsigned shift) {
        Text t;

        text_begin(&t);
        fprintf(t.f, "Process %d PASID 0x8002:\n", PID);
        for (size_t i = 3; i-- > 0;)
                print_compute(t.f, order[i]->gpu_id, RING(order[i]->id), order[i]->ring_size << shift,
                                0x1000 + order[i]->id);
        (void) text_read(&t);
        scratch_root_put(KFD_DEBUGFS_MQDS, "%s", t.text);
        text_end(&t);
}

static void descriptors_find_their_queues(void **state) {
        KfdProcQueue *order[3];
        KfdProcQueues q;
        Text t;

        scratch_root_clear();
        put_queue("", 0, GPU, 0, 65536);
        put_queue("", 2, GPU, 0, 65536);
        put_queue("", 1, GPU, 0, 65536); /* in the place of one that is gone */
        read_sorted(&q, order);
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENOENT);

        put_mqds(order, 0);
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), 0);
        for (size_t i = 0; i < q.n; i++) {
                assert_true(q.queues[i].mqd.is_known);
                assert_int_equal(q.queues[i].mqd.ring, RING(q.queues[i].id));
                assert_int_equal(q.queues[i].mqd.doorbell, 0x1000 + q.queues[i].id);
        }

        assert_int_equal(kfd_proc_read_hqds(scratch_root(), &q), -ENOENT);
        text_begin(&t);
        fprintf(t.f, "Node 1, gpu_id %x:\n", GPU);
        print_place(t.f, "CP Pipe 0, Queue 0", RING(2), true);
        (void) text_read(&t);
        scratch_root_put(KFD_DEBUGFS_HQDS, "%s", t.text);
        text_end(&t);
        assert_int_equal(kfd_proc_read_hqds(scratch_root(), &q), 0);
        assert_int_equal(q.queues[0].is_mapped, 0);
        assert_int_equal(q.queues[1].is_mapped, 0);
        assert_int_equal(q.queues[2].is_mapped, 1);
        kfd_proc_queues_done(&q);
}

/* After one contradiction the whole file is refused. */
static void contradictions(void **state) {
        KfdProcQueue *order[3];
        KfdProcQueues q;

        scratch_root_clear();
        put_queue("", 0, GPU, 0, 65536);
        put_queue("", 1, GPU, 0, 65536);
        put_queue("", 2, GPU2, 0, 65536);
        read_sorted(&q, order);
        put_mqds(order, 1); /* other ring sizes */
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENODATA);

        KfdProcQueue *turned[] = {order[1], order[2], order[0]}; /* other GPUs */
        put_mqds(turned, 0);
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENODATA);

        put_mqds(order, 0); /* another number */
        q.n--;
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENODATA);
        q.n++;
        q.n_hidden = 1;
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENODATA);
        q.n_hidden = 0;

        scratch_root_put(KFD_DEBUGFS_MQDS, "%s", "");
        assert_int_equal(kfd_proc_read_mqds(scratch_root(), PID, &q), -ENODATA);
        for (size_t i = 0; i < q.n; i++)
                assert_false(q.queues[i].mqd.is_known);
        kfd_proc_queues_done(&q);
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test(mqds_of_one_process),
                cmocka_unit_test(mqds_of_partitions),
                cmocka_unit_test(mqds_without_the_process),
                cmocka_unit_test(mqds_of_other_kernels),
                cmocka_unit_test(places),
                cmocka_unit_test(no_driver),
                cmocka_unit_test(queues_of_a_process),
                cmocka_unit_test(use_of_a_process),
                cmocka_unit_test(descriptors_find_their_queues),
                cmocka_unit_test(contradictions),
};

int main(void) {
        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
