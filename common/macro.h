/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Small language helpers that every folder uses
 *
 * common/ is the bottom of the tree: it knows no other folder. Nothing here logs, allocates behind the caller's back or
 * touches errno; what the shim includes must be safe inside any process.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define _cleanup_(f)   __attribute__((cleanup(f)))
#define _noreturn_     __attribute__((noreturn))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _public_       __attribute__((visibility("default")))
#define _unused_       __attribute__((unused))
#define _aligned_(n)   __attribute__((aligned(n)))
#define _fallthrough_  __attribute__((fallthrough))
#define _noinline_     __attribute__((noinline))
#define _hidden_       __attribute__((visibility("hidden")))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define XS_CONCAT_(a, b) a##b
#define XS_CONCAT(a, b)  XS_CONCAT_(a, b)

#define ELEMENTSOF(a)                                                                                                  \
        (sizeof(a) / sizeof((a)[0]) + 0 * sizeof(struct {                                                              \
                _Static_assert(!__builtin_types_compatible_p(typeof(a), typeof(&(a)[0])), "array");                    \
                int _x;                                                                                                \
        }))

/* Evaluate both arguments once, and keep their type. */
#define MIN(a, b)                                                                                                      \
        ({                                                                                                             \
                typeof(a) XS_CONCAT(_a, __LINE__) = (a);                                                               \
                typeof(b) XS_CONCAT(_b, __LINE__) = (b);                                                               \
                XS_CONCAT(_a, __LINE__) < XS_CONCAT(_b, __LINE__) ? XS_CONCAT(_a, __LINE__) : XS_CONCAT(_b, __LINE__); \
        })
#define MAX(a, b)                                                                                                      \
        ({                                                                                                             \
                typeof(a) XS_CONCAT(_a, __LINE__) = (a);                                                               \
                typeof(b) XS_CONCAT(_b, __LINE__) = (b);                                                               \
                XS_CONCAT(_a, __LINE__) > XS_CONCAT(_b, __LINE__) ? XS_CONCAT(_a, __LINE__) : XS_CONCAT(_b, __LINE__); \
        })
#define CLAMP(x, lo, hi)                                                                                               \
        ({                                                                                                             \
                typeof(x) _clamp_x = (x);                                                                              \
                typeof(x) _clamp_lo = (lo), _clamp_hi = (hi);                                                          \
                _clamp_x<_clamp_lo ? _clamp_lo : _clamp_x> _clamp_hi ? _clamp_hi : _clamp_x;                           \
        })

#define DIV_ROUND_UP(x, y) (((x) + (y) -1) / (y))

#define container_of(ptr, type, member)                                                                                \
        ({                                                                                                             \
                const typeof(((type *) 0)->member) *_member = (ptr);                                                   \
                (type *) (void *) ((char *) (uintptr_t) _member - offsetof(type, member));                             \
        })

/* No user: the kernel never gives this uid. */
#define UID_NONE ((uid_t) -1)

/* Hand a resource on: the variable keeps its empty value, so its _cleanup_ does nothing. */
#define TAKE_GENERIC(var, nullvalue)                                                                                   \
        ({                                                                                                             \
                typeof(var) *_pvar = &(var);                                                                           \
                typeof(var) _taken = *_pvar;                                                                           \
                *_pvar = (nullvalue);                                                                                  \
                _taken;                                                                                                \
        })
#define TAKE_PTR(ptr) TAKE_GENERIC(ptr, NULL)
#define TAKE_FD(fd)   TAKE_GENERIC(fd, -EBADF)

#define DEFINE_TRIVIAL_CLEANUP_FUNC(type, func)                                                                        \
        static inline void func##p(type *p) {                                                                          \
                if (*p)                                                                                                \
                        *p = func(*p);                                                                                 \
        }

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Leaves errno alone, so that any clean-up path may call it. Returns -EBADF, for `fd = safe_close(fd)`. */
static inline int safe_close(int fd) {
        if (fd >= 0) {
                int saved = errno;
                (void) close(fd);
                errno = saved;
        }
        return -EBADF;
}

static inline void closep(int *fd) {
        safe_close(*fd);
}

static inline void restore_errno(const int *saved) {
        errno = *saved;
}

#define _cleanup_free_  _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* For code that runs inside an application: whatever happens in this block, errno is what it was. */
#define PROTECT_ERRNO                                                                                                  \
        _cleanup_(restore_errno)                                                                                       \
        _unused_ int XS_CONCAT(_saved_errno, __LINE__) = errno

/* errno as a negative error, and never 0: a library that failed without saying why still failed. */
static inline int negative_errno(void) {
        int r = -errno;
        return r < 0 ? r : -EIO;
}

static inline bool streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

static inline bool streq_ptr(const char *a, const char *b) {
        return a == b || (a && b && streq(a, b));
}

static inline const char *strempty(const char *s) {
        return s ?: "";
}

static inline bool isempty(const char *s) {
        return !s || s[0] == '\0';
}

static inline const char *startswith(const char *s, const char *prefix) {
        size_t n = strlen(prefix);
        return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* Also of a string that is nothing but the suffix. */
static inline bool endswith(const char *s, const char *suffix) {
        size_t n = strlen(s), k = strlen(suffix);
        return n >= k && strcmp(s + n - k, suffix) == 0;
}

/* Look-ups in a table: enum to name (NULL when out of range), and name to enum (-EINVAL when unknown). */
#define DEFINE_STRING_TABLE_TO_STRING(name, type)                                                                      \
        const char *name##_to_string(type v) {                                                                         \
                return (size_t) v < ELEMENTSOF(name##_table) ? name##_table[v] : NULL;                                 \
        }
#define DEFINE_STRING_TABLE_FROM_STRING(name)                                                                          \
        int name##_from_string(const char *s) {                                                                        \
                for (size_t i = 0; s && i < ELEMENTSOF(name##_table); i++)                                             \
                        if (name##_table[i] && streq(name##_table[i], s))                                              \
                                return (int) i;                                                                        \
                return -EINVAL;                                                                                        \
        }
#define DEFINE_STRING_TABLE_LOOKUP(name, type)                                                                         \
        DEFINE_STRING_TABLE_TO_STRING(name, type)                                                                      \
        DEFINE_STRING_TABLE_FROM_STRING(name)
