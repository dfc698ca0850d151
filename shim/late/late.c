/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Loads libxsched with the first queue; and the unwinder, which is needed where a thread is cancelled inside of a call
 */

#define HIDE_EXPORTS /* of the unwinder: those below are for this library alone */

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <unwind.h>

#include "common/client-environment.h"
#include "common/macro.h"
#include "common/why-page.h"
#include "include/xsched/words.h"
#include "shim/late/late.h"

/* libxsched finds the variable by this name. */
_public_
extern ClientEnvironment xsched_early_environment;
ClientEnvironment xsched_early_environment;

__attribute__((constructor)) static void read_environment(void) {
        PROTECT_ERRNO;

        if (xsched_early_environment.size == 0)
                environment_read(&xsched_early_environment);
}

/* --- libxsched --- */

#define EACH_FUNCTION(X)                                                                                               \
        X(queue_begin)                                                                                                 \
        X(queue_begin_bounded)                                                                                         \
        X(queue_begin_nowait)                                                                                          \
        X(queue_boost)                                                                                                 \
        X(queue_complete)                                                                                              \
        X(queue_drained)                                                                                               \
        X(queue_get_state)                                                                                             \
        X(queue_join)                                                                                                  \
        X(queue_lead)                                                                                                  \
        X(queue_limit)                                                                                                 \
        X(queue_limit_for)                                                                                             \
        X(queue_look)                                                                                                  \
        X(queue_look_in)                                                                                               \
        X(queue_lower_level)                                                                                           \
        X(queue_new)                                                                                                   \
        X(queue_set_flying)                                                                                            \
        X(queue_set_hooked)                                                                                            \
        X(queue_started)                                                                                               \
        X(queue_unref)                                                                                                 \
        X(queue_words)

/* Written once, before the first queue. All functions but the first take a queue. */
static struct {
#define DECLARE(name) typeof(&xsched_##name) name;
        EACH_FUNCTION(DECLARE)
#undef DECLARE
        typeof(&_Unwind_Backtrace) backtrace;
        typeof(&_Unwind_GetIPInfo) get_ip_info;
} late;

/* old-glibc.h declares them weak, and says why. */
#pragma weak dladdr
#pragma weak dlerror
#pragma weak dlopen
#pragma weak dlsym
#pragma weak pthread_create
#pragma weak pthread_once

static pthread_once_t late_once = PTHREAD_ONCE_INIT;
static _Atomic bool late_loaded;

static void *find(void *library, const char *name) {
        return library ? dlsym(library, name) : NULL;
}

/* Why the last file that was there could not be loaded; empty: it could. */
static char load_error[160];

/* The error is read at once: a library in front of libc may look for symbols in whatever is called next. */
static void *open_library(const char *name) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        const char *error = library || !dlerror ? NULL : dlerror();

        (void) snprintf(load_error, sizeof(load_error), "%s", strempty(error));
        return library;
}

/* Opens libxsched from this library's directory, where there is one. Under a sanitizer dlopen() is the sanitizer's, so
 * our own run path does not count. */
static void *open_beside(const char *where) {
        char path[PATH_MAX];
        Dl_info info;

        if (!dladdr(&late, &info) || !info.dli_fname)
                return NULL;
        const char *slash = strrchr(info.dli_fname, '/');
        if (!slash)
                return NULL;
        int n = snprintf(path, sizeof(path), "%.*s%s/libxsched.so.0", (int) (slash - info.dli_fname), info.dli_fname,
                        where);
        return n > 0 && (size_t) n < sizeof(path) && access(path, F_OK) == 0 ? open_library(path) : NULL;
}

/* Whether the library has all functions that are needed. An older one has not: an image may have its own in front of
 * the search path. */
static bool resolve(void *library) {
        bool all = library;

#define RESOLVE(name)                                                                                                  \
        late.name = (typeof(late.name)) (uintptr_t) find(library, "xsched_" #name);                                    \
        all = all && late.name;
        EACH_FUNCTION(RESOLVE)
#undef RESOLVE
        return all;
}

/* A loaded library stays loaded, even when it is of no use, because the application may use it. */
static void load(void) {
        void *unwinder = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);

        late.backtrace = (typeof(late.backtrace)) (uintptr_t) find(unwinder, "_Unwind_Backtrace");
        late.get_ip_info = (typeof(late.get_ip_info)) (uintptr_t) find(unwinder, "_Unwind_GetIPInfo");
        late_loaded = resolve(open_library("libxsched.so.0")) || resolve(open_beside("")) ||
                        resolve(open_beside("/.."));
        if (!late_loaded) /* for xschedctl: the page stays, because neither this process nor a child tries again */
                (void) why_page_map("libxsched cannot be loaded",
                                isempty(load_error) ? "it lacks functions of this version" : load_error);
}

bool late_load(void) {
        PROTECT_ERRNO;

        if (!pthread_once || !pthread_create || !dlopen || !dlsym || !dladdr)
                return false;
        (void) pthread_once(&late_once, load);
        return true;
}

int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret) {
        return late_loaded ? late.queue_new(info, ret) : -ENOSYS;
}

XschedQueue *xsched_queue_unref(XschedQueue *q) {
        return q ? late.queue_unref(q) : NULL;
}

int xsched_queue_begin(XschedQueue *q) {
        return late.queue_begin(q);
}

int xsched_queue_begin_nowait(XschedQueue *q) {
        return late.queue_begin_nowait(q);
}

int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata) {
        return late.queue_begin_bounded(q, wait, userdata);
}

int xsched_queue_join(XschedQueue *q, uint32_t n) {
        return late.queue_join(q, n);
}

void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns) {
        late.queue_complete(q, n, device_ns);
}

void xsched_queue_drained(XschedQueue *q) {
        late.queue_drained(q);
}

uint32_t xsched_queue_limit(XschedQueue *q) {
        return late.queue_limit(q);
}

uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns) {
        return late.queue_limit_for(q, each_ns);
}

uint64_t xsched_queue_lead(XschedQueue *q) {
        return late.queue_lead(q);
}

void xsched_queue_look(XschedQueue *q) {
        late.queue_look(q);
}

void xsched_queue_look_in(XschedQueue *q, uint64_t ns) {
        late.queue_look_in(q, ns);
}

void xsched_queue_boost(XschedQueue *q) {
        late.queue_boost(q);
}

int xsched_queue_get_state(XschedQueue *q) {
        return late.queue_get_state(q);
}

void xsched_queue_lower_level(XschedQueue *q, uint32_t level) {
        late.queue_lower_level(q, level);
}

void xsched_queue_set_flying(XschedQueue *q, uint64_t ns, uint64_t since_ns) {
        late.queue_set_flying(q, ns, since_ns);
}

void xsched_queue_started(XschedQueue *q, uint64_t since_ns) {
        late.queue_started(q, since_ns);
}

void xsched_queue_set_hooked(XschedQueue *q, uint32_t hooked) {
        late.queue_set_hooked(q, hooked);
}

int xsched_queue_words(XschedQueue *q, XschedWords *ret) {
        return late.queue_words(q, ret);
}

/* --- the unwinder --- */

/* A thread is being cancelled: libc has loaded the unwinder, and this call finds it, as libc's own functions of these
 * names do. */
static void *unwinder_function(const char *name) {
        return find(dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL), name);
}

_Unwind_Reason_Code __gcc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                struct _Unwind_Exception *exception, struct _Unwind_Context *context);

_Unwind_Reason_Code __gcc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
        static _Atomic(typeof(&__gcc_personality_v0)) next;

        if (!next)
                next = (typeof(&__gcc_personality_v0)) (uintptr_t) unwinder_function("__gcc_personality_v0");
        return next ? next(version, actions, class, exception, context) : _URC_CONTINUE_UNWIND;
}

/* Called only after __gcc_personality_v0(). */
void _Unwind_Resume(struct _Unwind_Exception *exception) {
        static _Atomic(typeof(&_Unwind_Resume)) next;

        if (!next)
                next = (typeof(&_Unwind_Resume)) (uintptr_t) unwinder_function("_Unwind_Resume");
        next(exception);
        __builtin_unreachable();
}

/* May be called in a signal handler, but only with a queue: it is resolved by then. */
_Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn trace, void *userdata) {
        return late.backtrace ? late.backtrace(trace, userdata) : _URC_END_OF_STACK;
}

_Unwind_Ptr _Unwind_GetIPInfo(struct _Unwind_Context *context, int *ret_before) {
        if (late.get_ip_info)
                return late.get_ip_info(context, ret_before);
        *ret_before = 0;
        return 0;
}
