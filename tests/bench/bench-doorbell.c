/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the KFD layer adds to a doorbell with an open gate: instructions, counted by valgrind, and system calls
 *
 *     bench-doorbell LAYER SIMULATOR
 *
 * The program makes a queue on the simulated device, and rings its doorbell through a runtime that does nothing
 * (fake-hsa.c), with the layer and without. Only the ringing is counted. While it rings, every system call of the
 * thread would end it (seccomp's strict mode).
 */

#include <fcntl.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "callgrind.h"
#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "shim/kfd/hsa.h"

#define INSTRUCTIONS_MAX 230U
#define GPU_ID           0x4111U
#define RING_SIZE        4096U
#define N_STORES         100000U

/* The layer looks up the runtime once for each call site: this is the only one. */
static _noinline_ void ring_often(HsaSignal signal, int64_t n) {
        for (int64_t i = 0; i < n; i++)
                hsa_signal_store_screlease(signal, i);
}

/* valgrind counts while this function runs, which it knows by its name. */
void ring_doorbells(HsaSignal signal);

_noinline_ void ring_doorbells(HsaSignal signal) {
        ring_often(signal, N_STORES);
}

/* Memory as a runtime lays it out: a ring, its amd_queue_t, and the doorbell's signal. */
static AmdQueue *make_queue(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        char *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (fd < 0 || memory == MAP_FAILED)
                return NULL;
        AmdQueue *q = (AmdQueue *) (memory + RING_SIZE);
        AmdSignal *signal = (AmdSignal *) (memory + (size_t) 2 * RING_SIZE);
        q->hsa_queue = (HsaQueue){
                        .base_address = memory,
                        .doorbell_signal.handle = (uintptr_t) signal,
                        .size = RING_SIZE / KFD_AQL_PACKET_SIZE,
        };
        *signal = (AmdSignal){.kind = AMD_SIGNAL_DOORBELL, .queue = q};
        KfdCreateQueue a = {
                        .ring_base_address = (uintptr_t) memory,
                        .ring_size = RING_SIZE,
                        .write_pointer_address = (uintptr_t) &q->write_index,
                        .read_pointer_address = (uintptr_t) &q->read_index,
                        .gpu_id = GPU_ID,
                        .queue_type = KFD_QUEUE_COMPUTE_AQL,
                        .queue_percentage = 100,
                        .queue_priority = 7,
                        .ctx_save_restore_address = (uintptr_t) memory + 16384,
                        .ctx_save_restore_size = 4096,
        };
        return ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, sizeof(a)), &a) < 0 ? NULL
                                                                                                               : q;
}

static AmdQueue *queue;
static atomic_bool rang;

/* Any system call except exit() ends this thread: then it has not rung. */
static void *ring_strictly(void *unused) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
                return NULL;
        ring_doorbells(queue->hsa_queue.doorbell_signal);
        atomic_store(&rang, true);
        (void) syscall(SYS_exit, 0);
        return NULL;
}

/* In a child of the benchmark. */
static int ring(bool strict) {
        pthread_t thread;

        queue = make_queue();
        if (!queue)
                return 2;
        ring_often(queue->hsa_queue.doorbell_signal, 1); /* resolves symbols, and marks the slot */
        if (!strict) {
                ring_doorbells(queue->hsa_queue.doorbell_signal);
                return 0;
        }
        if (pthread_create(&thread, NULL, ring_strictly, NULL) != 0)
                return 3;
        (void) pthread_join(thread, NULL);
        return atomic_load(&rang) ? 0 : 4;
}

static uint64_t count(const char *preload, const char *directory) {
        char command[8192];

        (void) snprintf(command, sizeof(command),
                        "KFDSIM_DIR='%s' KFDSIM_GPUS=gfx90a LD_PRELOAD='%s' timeout -s KILL 60 valgrind "
                        "--tool=callgrind "
                        "--callgrind-out-file=/dev/null --toggle-collect=ring_doorbells /proc/%d/exe ring 2>&1",
                        directory, preload, (int) getpid());
        return callgrind_count(command, true);
}

static int run_strict(const char *preload, const char *directory) {
        char command[8192];

        (void) snprintf(command, sizeof(command),
                        "KFDSIM_DIR='%s' KFDSIM_GPUS=gfx90a LD_PRELOAD='%s' timeout -s KILL 20 /proc/%d/exe strict",
                        directory, preload, (int) getpid());
        return system(command); /* NOLINT(cert-env33-c): our own words */
}

int main(int argc, char *argv[]) {
        char both[4096], directory[] = "/tmp/bench-doorbell-XXXXXX", remove[64];

        if (argc == 2)
                _exit(ring(streq(argv[1], "strict")));
        if (argc != 3 || !mkdtemp(directory))
                return EXIT_FAILURE;
        (void) setenv("XSCHED_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
        (void) snprintf(both, sizeof(both), "%s %s", argv[1], argv[2]);

        int status = run_strict(both, directory);
        uint64_t native = count(argv[2], directory), layer = count(both, directory);
        (void) snprintf(remove, sizeof(remove), "rm -rf %s", directory);
        (void) !system(remove); /* NOLINT(cert-env33-c): our own words */

        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                printf("a doorbell with an open gate made a system call, or there was no queue: status %#x\n",
                                (unsigned) status);
                return EXIT_FAILURE;
        }
        puts("system calls that the layer makes at a doorbell with an open gate: 0");
        if (native == 0 || layer == 0) {
                puts("instructions: not counted, there is no valgrind");
                return EXIT_SUCCESS;
        }
        double added = ((double) layer - (double) native) / N_STORES;
        printf("instructions that the layer adds to a doorbell with an open gate: %.1f\n", added);
        return added > 0 && added <= INSTRUCTIONS_MAX ? EXIT_SUCCESS : EXIT_FAILURE;
}
