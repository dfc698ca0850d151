/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * To be preloaded: memory and threads that xsched's libraries ask for are refused
 *
 * FAIL_AT: the number of the one call that fails. FAIL_FROM: the number of the first one; all after it fail, too. The
 * file that FAIL_REPORT names is made when one fails.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API    __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

void *__libc_calloc(size_t n, size_t size);
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_realloc(void *p, size_t size);

static _Atomic unsigned long n_calls;
static unsigned long fail_at, fail_from;
static const char *report;
static _Thread_local bool looks __attribute__((tls_model("initial-exec")));

static unsigned long number(const char *name) {
        const char *value = getenv(name);

        return value ? strtoul(value, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_environment(void) {
        fail_at = number("FAIL_AT");
        fail_from = number("FAIL_FROM");
        report = getenv("FAIL_REPORT");
}

static bool is_ours(const void *caller) {
        Dl_info info;

        looks = true;
        bool ours = dladdr(caller, &info) && strstr(info.dli_fname, "/libxsched");
        looks = false;
        return ours;
}

static bool fails(const void *caller) {
        if (!report || looks || !is_ours(caller))
                return false;
        unsigned long n = ++n_calls;
        if (n != fail_at && (fail_from == 0 || n < fail_from))
                return false;
        (void) close(open(report, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        errno = ENOMEM;
        return true;
}

API void *malloc(size_t size) {
        return fails(CALLER) ? NULL : __libc_malloc(size);
}

API void *calloc(size_t nmemb, size_t size) {
        return fails(CALLER) ? NULL : __libc_calloc(nmemb, size);
}

API void *realloc(void *ptr, size_t size) {
        return fails(CALLER) ? NULL : __libc_realloc(ptr, size);
}

API void *aligned_alloc(size_t alignment, size_t size) {
        return fails(CALLER) ? NULL : __libc_memalign(alignment, size);
}

API char *strdup(const char *s) {
        size_t size = strlen(s) + 1;
        char *copy = fails(CALLER) ? NULL : __libc_malloc(size);

        return copy ? memcpy(copy, s, size) : NULL;
}

API int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg) {
        typeof(&pthread_create) next = (typeof(&pthread_create)) (uintptr_t) dlsym(RTLD_NEXT, "pthread_create");

        return fails(CALLER) ? EAGAIN : next(thread, attr, start_routine, arg);
}
