/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about queues
 */

#include "tests/kfdsim/kfd-cases.h"

#define NO_SUCH_TYPE   99
#define KERNEL_ADDRESS UINT64_C(0xffff888000000000)
#define NOT_SUPPORTED  524 /* the kernel's own ENOTSUPP, which it lets out */

static int create_queue_with(int fd, const char *what, KfdCreateQueue q, int want) {
        return expect(what, kfd_call(fd, KFD_IOC_CREATE_QUEUE, &q), want);
}

/* The driver checks the values, in this order, before it looks up the GPU. */
static int create_queue_errors(int fd) {
        static uint8_t ring[4096];
        KfdCreateQueue good = {
                        .ring_base_address = (uint64_t) (uintptr_t) ring,
                        .write_pointer_address = (uint64_t) (uintptr_t) ring,
                        .read_pointer_address = (uint64_t) (uintptr_t) ring,
                        .ring_size = sizeof(ring),
                        .gpu_id = NO_SUCH_GPU,
                        .queue_type = KFD_QUEUE_COMPUTE_AQL,
                        .queue_percentage = 100,
                        .queue_priority = 7,
        };
        KfdCreateQueue q;
        int r = create_queue_with(fd, "unknown GPU", good, -EINVAL);

        q = good, q.write_pointer_address = q.read_pointer_address = 0;
        r = create_queue_with(fd, "no pointers", q, -EINVAL) ?: r;
        q = good, q.write_pointer_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "a write pointer in the kernel", q, -EFAULT) ?: r;
        q = good, q.read_pointer_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "a read pointer in the kernel", q, -EFAULT) ?: r;
        q = good, q.ring_base_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "a ring in the kernel", q, -EFAULT) ?: r;
        q = good, q.eop_buffer_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "an EOP buffer in the kernel", q, -EFAULT) ?: r;
        q = good, q.ctx_save_restore_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "a save area in the kernel", q, -EFAULT) ?: r;
        q = good, q.ring_size = 3000;
        r = create_queue_with(fd, "ring size no power of two", q, -EINVAL) ?: r;
        q = good, q.queue_percentage = KFD_PERCENTAGE_MAX + 1, q.ring_base_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "percentage above 100, looked at first", q, -EINVAL) ?: r;
        q = good, q.queue_priority = KFD_PRIORITY_MAX + 1, q.ring_base_address = KERNEL_ADDRESS;
        r = create_queue_with(fd, "priority above 15, looked at before the ring", q, -EINVAL) ?: r;
        q = good, q.queue_type = NO_SUCH_TYPE;
        r = create_queue_with(fd, "unknown type", q, -NOT_SUPPORTED) ?: r;
        q = good, q.queue_percentage = 0x200 | 50, q.ring_base_address = KERNEL_ADDRESS;
        return create_queue_with(fd, "bits above the low 8 of the percentage, which pass", q, -EFAULT) ?: r;
}

static int case_create_queue_errors(void) {
        return with_kfd(create_queue_errors);
}

static int create_queue_unknown_gpu(int fd) {
        KfdCreateQueue q = {.gpu_id = NO_SUCH_GPU,
                        .ring_size = 4096,
                        .queue_type = KFD_QUEUE_COMPUTE_AQL,
                        .queue_percentage = 100};
        return expect("CREATE_QUEUE on no GPU", kfd_call(fd, KFD_IOC_CREATE_QUEUE, &q), -EINVAL);
}

static int case_create_queue_unknown_gpu(void) {
        return with_kfd(create_queue_unknown_gpu);
}

static int update_queue_with(int fd, const char *what, KfdUpdateQueue q, int want) {
        return expect(what, kfd_call(fd, KFD_IOC_UPDATE_QUEUE, &q), want);
}

/* The order of the checks is a rule, too: the driver checks the values before it looks up the queue. */
static int update_queue_errors(int fd) {
        static uint8_t ring[4096];
        KfdUpdateQueue good = {
                        .ring_base_address = (uint64_t) (uintptr_t) ring,
                        .queue_id = NO_SUCH_QUEUE,
                        .ring_size = sizeof(ring),
                        .queue_percentage = 100,
                        .queue_priority = 7,
        };
        KfdUpdateQueue q;
        int r = update_queue_with(fd, "unknown queue", good, -EFAULT);

        q = good, q.queue_percentage = 0;
        r = r ?: update_queue_with(fd, "unknown queue, percentage 0", q, -EFAULT);
        q = good, q.queue_percentage = KFD_PERCENTAGE_MAX + 1;
        r = r ?: update_queue_with(fd, "percentage above 100", q, -EINVAL);
        q = good, q.queue_priority = KFD_PRIORITY_MAX + 1;
        r = r ?: update_queue_with(fd, "priority above 15", q, -EINVAL);
        q = good, q.ring_size = 3000;
        r = r ?: update_queue_with(fd, "ring size no power of two", q, -EINVAL);
        q.ring_base_address = KERNEL_ADDRESS;
        r = r ?: update_queue_with(fd, "a ring in the kernel, looked at before the size", q, -EFAULT);
        q = good, q.ring_base_address = 0, q.ring_size = 0;
        r = r ?: update_queue_with(fd, "no ring", q, -EFAULT);
        q = good, q.queue_percentage = 0x200 | 50;
        return r ?: update_queue_with(fd, "bits above the low 8 of the percentage", q, -EFAULT);
}

static int case_update_queue_errors(void) {
        return with_kfd(update_queue_errors);
}

static int destroy_unknown_queue(int fd) {
        KfdDestroyQueue q = {.queue_id = NO_SUCH_QUEUE};
        return expect("DESTROY_QUEUE of no queue", kfd_call(fd, KFD_IOC_DESTROY_QUEUE, &q), -EINVAL);
}

static int case_destroy_unknown_queue(void) {
        return with_kfd(destroy_unknown_queue);
}

static int cu_mask(int fd, uint32_t bits, const void *mask) {
        KfdSetCuMask a = {.queue_id = NO_SUCH_QUEUE, .num_cu_mask = bits, .cu_mask_ptr = (uint64_t) (uintptr_t) mask};
        return kfd_call(fd, _IOW(KFD_IOCTL_BASE, KFD_NR_SET_CU_MASK, a), &a);
}

static int unknown_queue_otherwise(int fd) {
        static const uint32_t mask[4] = {~0U};
        KfdWaveState w = {.queue_id = NO_SUCH_QUEUE};
        const unsigned long get_wave_state = _IOWR(KFD_IOCTL_BASE, KFD_NR_GET_QUEUE_WAVE_STATE, w);

        return expect("SET_CU_MASK of no queue", cu_mask(fd, 64, mask), -EFAULT)
                        ?: expect("SET_CU_MASK of a part of a word", cu_mask(fd, 33, mask), -EINVAL)
                        ?: expect("SET_CU_MASK of nothing", cu_mask(fd, 0, mask), -EINVAL)
                        ?: expect("SET_CU_MASK from nowhere", cu_mask(fd, 64, NULL), -EFAULT)
                        ?: expect("GET_QUEUE_WAVE_STATE of no queue", kfd_call(fd, get_wave_state, &w), -EFAULT);
}

static int case_unknown_queue_otherwise(void) {
        return with_kfd(unknown_queue_otherwise);
}

const Case queue_cases[] = {
                {"create-queue-unknown-gpu", case_create_queue_unknown_gpu},
                {"create-queue-errors", case_create_queue_errors},
                {"update-queue-errors", case_update_queue_errors},
                {"destroy-unknown-queue", case_destroy_unknown_queue},
                {"unknown-queue-otherwise", case_unknown_queue_otherwise},
                {NULL, NULL},
};
