/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Memory of a thread of ours in somebody else's process
 *
 * A program may use memory that it has just freed, and go well because nobody else has got it. ROCr 6.1.2 does so: its
 * hsa_shut_down() locks mutexes that it has destroyed and freed, and is told EINVAL. glibc's malloc() keeps small freed
 * pieces by thread, but free() and realloc() of a piece that another thread has allocated bring such pieces into the
 * caller's cache, also those that a thread of the program has freed. So a thread of ours asks for more than glibc keeps
 * (1032 bytes; mallopt(3), glibc.malloc.tcache_max), which comes from an arena of its own.
 */

#include <stdlib.h>
#include <string.h>

#include "common/macro.h"

/* Sanitizers hand out no piece soon again, and find what is read behind the end of one. */
#if defined(__SANITIZE_ADDRESS__)
#        define APART_MIN ((size_t) 1)
#else
#        define APART_MIN ((size_t) 2048)
#endif

/* As malloc(). free() frees it. */
static inline void *malloc_apart(size_t size) {
        return malloc(MAX(size, APART_MIN));
}

/* As strdup(). */
static inline char *strdup_apart(const char *s) {
        size_t size = strlen(s) + 1;
        char *copy = malloc_apart(size);

        return copy ? memcpy(copy, s, size) : NULL;
}
