/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * kfdsim: a simulated /dev/kfd
 *
 * A library to preload (libkfdsim.so). It answers to /dev/kfd, its topology directory and the render nodes, below the
 * real libhsakmt and above libc, and executes AQL packets. Processes that name the same directory in KFDSIM_DIR share
 * the same GPUs: they take turns on them, hold each other up and see each other's queues, as with a driver.
 *
 * What it models
 *   - the ioctls of KFD 1.17 that a runtime needs for queues, memory and events, with their permission rules and error
 *     codes; the table in kfd-cases.c runs here and against a real driver;
 *   - several GPUs of several generations; AQL rings, kernel dispatch and barrier packets, completion signals;
 *   - a dispatch takes simulated time on the GPU, in real time, and leaves a proof of its execution (aql.h);
 *   - hardware scheduling (HWS): processes with runnable queues share a GPU by round-robin quanta; an UPDATE_QUEUE or
 *     the like costs time, and on HWS GPUs stops everybody's queues on that GPU for that time; on MES GPUs only the
 *     process's own;
 *   - context save (CWSR): a running dispatch stops when its queue is unmapped, and goes on where it stopped; with
 *     cwsr=0 it ends first;
 *   - SDMA queues, as far as ROCr uses them for copies of bytes and of rectangles (sdma.c): the copies of HIP arrive,
 *     between memory of the host and of a GPU;
 *   - doorbells: a ring while the queue is unmapped is lost in strict mode. Otherwise each map of queues reads the
 *     write index of all queues on an HWS GPU again, and kfdsim_torn() counts the places that had no packet then, at
 *     which some firmware hangs (only of the caller's own queues: others' memory is not read). Who announces a packet
 *     that is not written ends the process;
 *   - a kernel that faults stops its queue, with its packet in front, and is reported by the queue's inactive signal
 *     (amd_queue_t), which the runtime waits for; mapped again, the queue tries that packet once more;
 *   - a kernel that uses an address which is not mapped: all queues of the process are off that GPU for good, those
 *     made later, too, and the process's events for memory faults are raised, as the driver does without a debugger;
 *   - exceptions of queues, KFD_EC_QUEUE_*: the queue stands, also when it is mapped again, and a runtime that has said
 *     so (RUNTIME_ENABLE) is told by the error payload and the event that its header of the queue's save area names;
 *   - a GPU that hangs and is reset (reset.c): the queues of all processes are off all GPUs for good, but for processes
 *     that come later, and all events for hardware exceptions are raised;
 *   - packets are fetched when they are announced, SIM_FETCH_MAX ahead at most: what is written into one later is not
 *     seen;
 *   - CRIU_OP pause and unpause, DBG_TRAP suspend and resume, RUNTIME_ENABLE, injected errors, an unmap that times out;
 *   - queues that programs ask amdgpu's DRM driver for, as far as that they have numbers;
 *   - /sys/class/kfd/kfd/proc/PID/queues/QID, and of /sys/kernel/debug/kfd the files mqds and hqds.
 *
 * What it does not model
 *   - instructions: a kernel is a duration and a proof. A real code object "runs" for a default time and does nothing,
 *     and that is where HIP on kfdsim ends: streams, events and copies work; kernels are launched and end, and what
 *     they should have computed is not there. That goes for what runtimes do by kernels of their own, too: hipMemset,
 *     copies within a GPU, and from HIP 6.0 on small copies ($GPU_FORCE_BLIT_COPY_SIZE=0 has them made by SDMA);
 *   - SDMA packets for anything else (fills): the queue stands there, which is said once on stderr; a copy takes no
 *     time, and has its turn between kernels, not beside them;
 *   - PM4 queues: they can be made, unmapped and destroyed, and never run;
 *   - queues of one process do not run at the same time on one GPU, and a dispatch always fills the GPU; queue_priority
 *     is remembered and has no effect;
 *   - with cwsr=0 an unmap waits for the dispatch of its own queue only, while a real HWS waits for everybody's;
 *   - memory: every allocation is host memory, and every address is the CPU's (but for copies from and to memory that
 *     the application has registered); running out of it, eviction and SVM do not happen; memory that was freed may be
 *     freed and mapped again;
 *   - DBG_TRAP's exceptions but for QUEUE_NEW and PROCESS_RUNTIME, and that some GPUs can be debugged by one process
 *     only;
 *   - calls while a reset is under way; a process without queues is not told of a reset;
 *   - a process that is stopped by a signal stops its part of the GPU, too: the others go on after a few quanta;
 *   - a process that calls exec() without using KFD afterwards leaves its queues listed until it ends;
 *   - nothing of it says how long anything takes on real hardware.
 *
 * Environment
 *   KFDSIM_DIR   the shared directory, made if missing; mandatory
 *   KFDSIM_GPUS  models, "gfx90a,gfx906,gfx1030,gfx1100" (any, repeated as wanted); read by the process that makes the
 *                world; "" is no GPU
 *   KFDSIM_OPTS  comma-separated, likewise: strict (1), cwsr (1), quantum-us (1000), map-us (cost of one unmap and map,
 *                50), timeout-ms (of an unmap; the driver's 9 s, scaled: 900), api-minor (17), exceptions (0; 1: the
 *                firmware knows debugging, so that runtimes ask to be told of exceptions, and the driver refuses a
 *                process's second runtime), reset-eacces (1: after a reset of its GPU a queue cannot be updated; 0: as
 *                in drivers before 6.12)
 *   KFDSIM_FAIL  which calls of this process fail on purpose: see failure.c
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/kfd-abi.h"
#include "kfdsim.h"

#define SIM_GPUS_MAX      8U
#define SIM_PROCESSES_MAX 128U
#define SIM_QUEUES_MAX    2048U
#define SIM_MODEL_MAX     16U
#define SIM_RENDER_MINOR  128U
#define SIM_DEVICE_MAJOR  511U
#define SIM_DOORBELL_PAGE 8192U
#define SIM_DOORBELLS     (SIM_DOORBELL_PAGE / sizeof(uint64_t))
#define SIM_NO_PROCESS    0U
#define SIM_FETCH_MAX     16U

/* No index rings a doorbell with this value. */
#define SIM_DOORBELL_SILENT UINT64_MAX

typedef struct SimOptions {
        bool strict;
        bool cwsr;
        bool reset_eacces;
        bool exceptions;
        uint32_t api_minor;
        uint64_t quantum_ns;
        uint64_t map_ns;
        uint64_t timeout_ns;
} SimOptions;

typedef struct SimGpu {
        char model[SIM_MODEL_MAX];
        uint32_t gfx_target_version; /* 90010 for gfx90a, as in sysfs */
        uint32_t device_id;
        uint32_t n_cus;
        uint32_t gpu_id;
        uint32_t location; /* PCI bus, device, function */
        bool mes;

        /* The turn: which process executes. Written by the holder, or by a process that finds the holder dead or
         * stopped. */
        _Atomic uint32_t holder; /* SimProcess.number; SIM_NO_PROCESS: free */
        _Atomic uint64_t turn_since_ns;
        _Atomic uint64_t wants[SIM_PROCESSES_MAX / 64]; /* bit per process number - 1: has something to execute */
        _Atomic uint64_t frozen_until_ns;               /* nobody executes: the cost of a remap */
        _Atomic uint32_t event;                         /* futex: something about this GPU changed */
        _Atomic uint64_t n_maps;                        /* times that queues were unmapped and mapped */
        _Atomic uint64_t n_torn;                        /* places without a packet that a map has found */
        _Atomic uint32_t reset_cause;                   /* of the last reset */
        _Atomic uint32_t n_resets;
} SimGpu;

typedef struct SimProcess {
        uint32_t number; /* 1.., SIM_NO_PROCESS: unused */
        pid_t pid;
        uint64_t start_time;
        _Atomic pid_t in_call; /* futex: process in the middle of a call about this one; 0: none */
        bool is_paused;        /* CRIU_OP: UNPAUSE is allowed */
        uint32_t n_evictions;
        bool runtime_enabled;
        bool runtime_waits; /* RUNTIME_ENABLE waits for the debugger's word */
        bool debugged;
        pid_t debugger;
        uint64_t debugger_start_time;
        _Atomic uint32_t queues_changed; /* counts; the engine's list of queues is as of some count */
        _Atomic uint32_t resets_told[SIM_GPUS_MAX];
} SimProcess;

typedef enum SimQueueFlags {
        SIM_QUEUE_NEW = 1 << 0,       /* EC_QUEUE_NEW is set */
        SIM_QUEUE_SUSPENDED = 1 << 1, /* by DBG_TRAP */
        SIM_QUEUE_DYING = 1 << 2,     /* DESTROY_QUEUE waits until it is resumed */
        SIM_QUEUE_UPDATED = 1 << 3,   /* UPDATE_QUEUE is about it */
        SIM_QUEUE_RESET = 1 << 4,     /* its GPU was reset */
} SimQueueFlags;

/* What the engine does with a queue: see queue.c on how an unmap stops it. */
typedef enum SimExecution {
        SIM_IDLE,
        SIM_EXECUTING,
        SIM_RETIRING, /* past the point where an unmap can stop the dispatch */
} SimExecution;

/* The id of a record whose queue was destroyed: only a queue of the same process on the same GPU takes it again, since
 * that process's engine may still look at it. */
#define SIM_QUEUE_GONE UINT32_MAX

typedef struct SimQueue {
        uint32_t process; /* number; SIM_NO_PROCESS: unused */
        uint32_t id;
        uint32_t gpu; /* index */
        uint32_t type;
        uint64_t ring;
        uint32_t ring_size;
        uint64_t write_pointer, read_pointer;
        uint64_t save_area;
        uint32_t save_area_size;
        uint32_t percentage, priority;
        uint64_t n_updates;
        uint32_t doorbell; /* index of its cell in the process's page */
        unsigned flags;

        _Atomic bool mapped; /* may execute; false: an engine must stop */
        _Atomic uint32_t execution;
        _Atomic uint64_t rung;     /* packets below this index have been announced */
        _Atomic bool is_looked_at; /* the engine shall take the write index for rung */
        _Atomic uint64_t fetched;  /* the engine has copies of the packets below this index */
        _Atomic bool stalled;      /* by a fault of the dispatch at the read index, until it is mapped again */
        _Atomic bool halted;       /* likewise, for good */
        uint64_t remaining_ns;     /* of the dispatch at the read index; 0: not begun */
        uint64_t begun_ns;         /* when it was */
} SimQueue;

typedef struct SimWorld {
        uint32_t magic;
        pthread_mutex_t lock; /* robust, process-shared: everything that is not atomic */
        SimOptions options;
        uint32_t n_gpus;
        SimGpu gpus[SIM_GPUS_MAX];
        SimProcess processes[SIM_PROCESSES_MAX];
        SimQueue queues[SIM_QUEUES_MAX];
} SimWorld;

/* The world of KFDSIM_DIR, made and mapped at the first call; NULL when that is impossible (said once on stderr). */
SimWorld *sim_world(void);
const char *sim_dir(void);

void sim_lock(void);
void sim_unlock(void);

/* Processes: all under the lock. The first makes one if there is none; NULL: too many. */
SimProcess *sim_process_get(pid_t pid);
SimProcess *sim_process_find(pid_t pid);
SimProcess *sim_process_self(void); /* as sim_process_get() of the caller, fast */
void sim_processes_sweep(void);     /* forgets the dead */

/* One call about a process at a time; both under the lock, which the first gives up while it waits. False: it has died
 * meanwhile. */
bool sim_process_enter(SimProcess *p);
void sim_process_leave(SimProcess *p);

/* /proc's word: the start time tells two processes of one number apart; 0: there is no such live process. */
uint64_t sim_start_time(pid_t pid);
bool sim_is_stopped(pid_t pid); /* by a signal or a tracer */
pid_t sim_tracer(pid_t pid);

SimGpu *sim_gpu_by_id(uint32_t gpu_id);
uint32_t sim_gpu_index(const SimGpu *g);
bool sim_queue_is_of(const SimQueue *q, const SimProcess *p);
SimQueue *sim_queue_find(const SimProcess *p, uint32_t id);

/* Files below the simulated /sys and /dev: those of the world, and those that come and go with processes and queues
 * (under the lock). */
int sim_file_put(const char *name, const char *format, ...) _printf_(2, 3);
void sim_tree_remove(const char *name);
int sim_topology_write(const SimWorld *w);
void sim_proc_add_process(const SimProcess *p);
void sim_proc_remove_process(const SimProcess *p);
void sim_proc_add_queue(const SimProcess *p, const SimQueue *q);
void sim_proc_remove_queue(const SimProcess *p, const SimQueue *q);
void sim_debugfs_write(void); /* likewise: as things stand */

/* ioctl() on a simulated device that belongs to process `owner`: 0 or positive, or a negative errno. */
int sim_ioctl(pid_t owner, unsigned long request, void *arg);

/* Between the simulator and the caller's memory, as the kernel copies: 0, or -EFAULT. */
int sim_copy_in(void *to, uint64_t from, size_t size);
int sim_copy_out(uint64_t to, const void *from, size_t size);

/* Where an address of the GPU is in the caller's memory. */
void *sim_memory_find(uint64_t address);
void sim_memory_forget(void);

/* Which GPU's render node an fd is; -ENODEV: none. */
int sim_render_number(int fd);
int sim_render_userq(void *arg); /* as ioctl() */
void sim_render_forget(void);

/* Injected failures: what is to happen to this call of that number. */
typedef struct SimFailure {
        int error;  /* negative errno; 0: none */
        bool late;  /* after the call has done its work */
        bool hangs; /* as long as an unmap that times out */
} SimFailure;
/* In the child of a fork. */
void sim_failure_forget(void);
SimFailure sim_failure_take(int nr);

/* The parts of sim_ioctl(), one file each; `p` is the calling process. Called without the lock. */
int sim_queue_ioctl(SimProcess *p, KfdNr nr, void *arg);
int sim_memory_ioctl(SimProcess *p, KfdNr nr, void *arg);
int sim_event_ioctl(SimProcess *p, KfdNr nr, void *arg);
int sim_criu_ioctl(SimProcess *p, KfdCriu *a);
int sim_debug_ioctl(KfdDbgTrap *a);
void sim_debug_sweep(SimProcess *t); /* under the lock: lets go of a process whose debugger has died */
int sim_runtime_ioctl(SimProcess *p, KfdRuntimeEnable *a);

/* In sim_process_enter(), under the lock, which is given up while it waits. Brings `mapped` of those of the process's
 * queues (or of `only`) to what percentage, flags and pauses say; waits until no engine executes one that is unmapped;
 * models the cost. 0, or -ETIME. */
int sim_queues_apply(SimProcess *p, SimQueue *only);

/* Doorbells: the mapping for an application (MAP_FAILED on error), and the simulator's own of this process (NULL). */
void *sim_doorbells_map(uint32_t gpu, void *addr, size_t size, int prot, int flags);
_Atomic uint64_t *sim_doorbells(uint32_t gpu);
void sim_doorbells_forget(void);
uint64_t sim_doorbell_take(const SimProcess *p, const SimQueue *q); /* of any process; silent afterwards */
void sim_queue_ring(SimQueue *q, uint64_t value);

/* Raises an event of this process: id as in CREATE_EVENT. */
void sim_event_raise(uint32_t id);
void sim_event_fault(const KfdMemoryFault *fault); /* all events of this process that tell of memory faults */
void sim_event_reset(const KfdHwException *e);     /* likewise, of resets */
void sim_event_forget(void);

/* The packet at a queue's read index: whether there is one that may execute now, how long it takes, and its end. */
void sim_packet_look(SimQueue *q);            /* takes the write index for rung, and fetches */
uint64_t sim_packets_torn(const SimQueue *q); /* places below the write index that have no packet */
KfdsimTorn sim_packet_last_torn(void);
void sim_packet_check(const SimQueue *q, uint64_t value);
bool sim_packet_is_ready(SimQueue *q);
bool sim_packet_fault(SimQueue *q); /* false: it has none */
void sim_packet_forget(void);       /* in the child of a fork */
uint64_t sim_packet_duration(const SimQueue *q);
void sim_packet_retire(SimQueue *q, uint64_t ended_ns);
bool sim_sdma_is_ready(const SimQueue *q);
void sim_sdma_retire(SimQueue *q);

/* Resets a GPU; and tells this process of resets, once its engines have stopped. `cause` is KFD_RESET_*. */
void sim_gpu_reset(SimGpu *g, uint32_t cause);
void sim_reset_tell(SimProcess *p);

/* Whether there is an engine for it at all. */
bool sim_queue_is_executed(const SimQueue *q);

/* The GPU's clock, which has 100 MHz and goes on while nothing executes. */
static inline uint64_t sim_gpu_clock(uint64_t ns) {
        return ns / 10;
}

/* The turn on a GPU. Take returns false after it has waited for it in vain for at most `max_ns`. */
bool sim_turn_take(SimGpu *g, uint32_t self, uint64_t max_ns);
bool sim_turn_is_over(const SimGpu *g, uint32_t self);
bool sim_turn_is_wanted(const SimGpu *g, uint32_t self); /* by others */
void sim_turn_pass(SimGpu *g, uint32_t self);
void sim_turn_want(SimGpu *g, uint32_t self, bool wants);

/* Waiting for a GPU: the event as it was seen before one looked. */
void sim_gpu_notify(SimGpu *g);
void sim_gpu_wait(SimGpu *g, uint32_t seen, uint64_t until_ns);

/* The engine: one thread per process and GPU, started by the first queue. A child after fork has none. */
void sim_engine_start(uint32_t gpu);
void sim_engine_forget(void);
