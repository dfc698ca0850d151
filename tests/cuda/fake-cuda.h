/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The part of the driver's interface that fake-cuda.c and its programs share
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Context;
struct Event;
struct FakeNode;
struct Graph;
typedef struct Stream *FakeStream;

typedef struct FakeLaunchConfig {
        unsigned grid[3], block[3], shared;
        FakeStream stream;
        void *attributes;
        unsigned n_attributes;
} FakeLaunchConfig;

typedef struct FakeLaunchParams {
        void *function;
        unsigned grid[3], block[3], shared;
        FakeStream stream;
        void **params;
} FakeLaunchParams;

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(struct Context **ret, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuDevicePrimaryCtxGetState(int device, unsigned *ret_flags, int *ret_active);
int cuStreamGetCtx(FakeStream handle, struct Context **ret);
int cuCtxCreate_v2(struct Context **ret, unsigned flags, int device);
int cuCtxSetCurrent(struct Context *c);
int cuCtxGetCurrent(struct Context **ret);
int cuCtxPushCurrent_v2(struct Context *c);
int cuCtxPopCurrent_v2(struct Context **ret);
int cuCtxGetDevice(int *ret);
int cuCtxGetId(struct Context *c, unsigned long long *ret);
int cuCtxDestroy_v2(struct Context *c);
int cuCtxSynchronize(void);
int cuDeviceGet(int *ret, int index);
int cuDeviceGetPCIBusId(char *ret, int n, int device);
int cuDeviceGetName(char *ret, int n, int device);
int cuMemAlloc_v2(uint64_t *ret, size_t size);
int cuMemFree_v2(uint64_t p);
int cuMemAllocHost_v2(void **ret, size_t size);
int cuModuleLoadData(const void **ret, const void *text);
int cuModuleGetFunction(void **ret, void *module, const char *name);
int cuStreamCreate(struct Stream **ret, unsigned flags);
int cuStreamDestroy_v2(struct Stream *s);
int cuGreenCtxCreate(struct Context **ret, const void *resources, int device, unsigned flags);
int cuGreenCtxDestroy(struct Context *c);
int cuGreenCtxStreamCreate(struct Stream **ret, struct Context *c, unsigned flags, int priority);
int cuCtxFromGreenCtx(struct Context **ret, struct Context *c);
int cuStreamSynchronize(FakeStream handle);
int cuStreamSynchronize_ptsz(FakeStream handle);
int cuStreamQuery(FakeStream handle);
int cuStreamWaitEvent(FakeStream handle, struct Event *e, unsigned flags);
int cuStreamIsCapturing(FakeStream handle, int *ret);
int cuStreamBeginCapture_v2(FakeStream handle, int mode);
int cuStreamBeginCapture_v2_ptsz(FakeStream handle, int mode);
int cuStreamBeginCaptureOfTomorrow(FakeStream handle, const void *parameters, int mode);
int cuStreamBeginRecaptureToGraph(FakeStream handle, int mode, struct Graph *g, int (*callback)(void), void *userdata);
int cuStreamBeginCaptureToCig(FakeStream handle, void *parameters);
int cuStreamEndCaptureToCig(FakeStream handle);
int cuStreamEndCapture(FakeStream handle, struct Graph **ret);
int cuStreamEndCapture_ptsz(FakeStream handle, struct Graph **ret);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuEventCreate(struct Event **ret, unsigned flags);
int cuEventDestroy_v2(struct Event *e);
int cuEventRecord(struct Event *e, FakeStream handle);
int cuEventQuery(struct Event *e);
int cuEventSynchronize(struct Event *e);
int cuEventElapsedTime(float *ret, struct Event *from, struct Event *to);
int cuGraphInstantiateWithFlags(struct Graph **ret, struct Graph *g, uint64_t flags);
int cuGraphCreate(struct Graph **ret, unsigned flags);
int cuGraphConditionalHandleCreate(uint64_t *ret, struct Graph *g, struct Context *c, unsigned value, unsigned flags);
int cuGraphAddNode(void **ret, struct Graph *g, void *const *dependencies, size_t n, struct FakeNode *node);
int cuStreamBeginCaptureToGraph(
                struct Stream *s, struct Graph *g, const void *dependencies, const void *edges, size_t n, int mode);
int cuGraphLaunch(struct Graph *g, FakeStream handle);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, FakeStream stream, void **params, void **extra);
int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, FakeStream stream, void **params, void **extra);
int cuLaunchOfTomorrow(FakeStream stream, void *f, void **params);
int cuLaunchKernelEx(const FakeLaunchConfig *config, void *f, void **params, void **extra);
int cuLaunchCooperativeKernelMultiDevice(FakeLaunchParams *list, unsigned n, unsigned flags);
int cuLaunchHostFunc(FakeStream stream, void (*f)(void *), void *userdata);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, FakeStream stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, FakeStream stream);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, FakeStream stream);
int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status);

/* Count launches that went to the device, where a graph counts once; and captured ones. */
unsigned long fake_cuda_launches(void);
unsigned long fake_cuda_captured(void);

/* Events that there are, and calls about streams of green contexts that were destroyed, events of ended contexts, and
 * events in streams of others; and streams that were destroyed while they were asked. */
unsigned long fake_cuda_events(void);
unsigned long fake_cuda_dead_calls(void);

/* Whether green contexts are not destroyed, or no events made. */
void fake_cuda_refuse_green(bool refuse);
void fake_cuda_refuse_events(bool refuse);

/* Called once, within the next cuGreenCtxDestroy(), or the call that ends a primary context, at its end. */
void fake_cuda_on_green_destroyed(void (*f)(void));
void fake_cuda_on_primary_ended(void (*f)(void));

/* Calls f() once, when a context's number has been asked for, and before that call returns. */
void fake_cuda_on_id(void (*f)(void));

/* Called at the begin of each launch of a kernel, on the thread that launches; NULL: nothing is. */
void fake_cuda_on_launch(void (*f)(void));

/* Called at the begin of each cuEventRecord() and cuEventQuery(), on the thread that calls it; NULL: nothing is. */
void fake_cuda_on_event(void (*f)(bool record));

/* Calls f() once, within the next cuStreamQuery(). */
void fake_cuda_on_query(void (*f)(void));
