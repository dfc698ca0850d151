/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A simulated OpenCL runtime, and a libxsched without a service, for tests of the layer alone
 *
 * Nothing runs by itself: a command completes when the test says so. The simulation counts everything that the layer
 * could leak, forget or do behind the application's back. All functions but the enqueues scribble over errno.
 *
 * Thread safety: one lock; callbacks are called without it.
 */

#include "shim/opencl/opencl-next.h"
#include "xsched/xsched.h"

#define SIM_COMMANDS_MAX 4096

struct _cl_command_queue {
        int refs;
        bool in_order, profiling;
};

typedef struct SimCallback {
        void(CL_CALLBACK *function)(cl_event, cl_int, void *);
        void *userdata;
        cl_int on;
        struct SimCallback *next;
} SimCallback;

struct _cl_event {
        int refs;
        cl_int status;
        cl_command_queue queue; /* NULL: user event */
        SimCallback *callbacks;
};

/* Calls that the application and the layer have made to the runtime. */
typedef struct SimCounters {
        int enqueues, markers, finishes, flushes, retains, queries, callbacks, queue_releases, stamps;
        int events_alive, queues_alive;
} SimCounters;

typedef struct Sim {
        SimCounters n;
        cl_int fail_next;                       /* the next enqueue returns this */
        bool forget_failed;                     /* a failed command has no callback, as in PoCL */
        bool is_cpu;                            /* whether the devices of queues made from now on are CPUs */
        bool is_nvidia;                         /* whether their vendor is NVIDIA */
        bool late_callbacks;                    /* callbacks wait for sim_call_back() */
        bool no_callbacks;                      /* clSetEventCallback() fails */
        uint64_t stamp_ns;                      /* length of a launch by the device's time stamps; 0: it has none */
        void (*in_marker)(cl_command_queue q);  /* called from inside the next enqueue of a marker */
        void (*in_query)(void);                 /* called before an event is asked about */
        void (*in_finish)(void);                /* called before all is complete */
        void (*in_wait)(void);                  /* the same in clWaitForEvents() */
        void (*in_enqueue)(cl_command_queue q); /* called when the next command is in, before the call returns */
        cl_event events[SIM_COMMANDS_MAX];      /* of the enqueues, in their order; each holds the device's reference */
        int n_events;
        const char *pci; /* extension by which a device tells its address: "khr", "nv", "amd", or NULL */
} Sim;

extern Sim sim;

/* Puts the runtime back to its first state. */
void sim_reset(void);

/* The runtime's functions. */
extern const cl_icd_dispatch sim_dispatch;

/* The command of enqueue `n` begins to run, and the callbacks for that are called, if callbacks are not late. */
void sim_begin(int n);

/* The command of enqueue `n` is over, with this status. */
void sim_end(int n, cl_int status);
void sim_complete_to(int n); /* all before n, in order */
void sim_call_back(void);

/* Devices: one root with a sub-device, and one more of the same name. */
extern cl_device_id const sim_device, sim_sub_device, sim_twin;

/* --- libxsched --- */

struct XschedQueue {
        int refs;
        int outstanding;
        bool look_wanted;
        XschedQueueInfo info;
        char device[256];
};

typedef struct FakeLibrary {
        bool track, held;
        uint32_t limit;
        uint64_t budget_ns, lead_ns, each_ns; /* each_ns: the argument of the last call */
        int launches, nowait, completed, drained, boosts, looks, queues_alive;
        uint64_t device_ns, started_ns; /* started_ns: the argument of the last call */
        uint64_t look_in_ns;            /* the same */
        XschedQueue *last;              /* made */
} FakeLibrary;

extern FakeLibrary library;

/* Looks at `q` as the control thread does, if a look was asked for. Returns whether one was. */
bool library_look(XschedQueue *q);
