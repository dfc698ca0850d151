/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Publishes the reason why this process runs unscheduled
 */

#include <stdio.h>
#include <sys/mman.h>

#include "common/macro.h"
#include "shim/core/why.h"

#define NAME_SIZE 249U /* the kernel limits a memfd's name to 249 bytes with the zero */

static void *page;
static pid_t page_pid; /* a child has no such page */

void why_clear(void) {
        if (page && page_pid == getpid())
                (void) munmap(page, 1);
        page = NULL;
}

static void make_plain(char *s) {
        for (; *s; s++)
                if (*s < ' ' || *s > '~' || *s == '\\')
                        *s = '?';
}

static void *map_named(const char *name) {
        _cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 1) < 0)
                return NULL;
        void *p = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE, fd, 0);
        return p == MAP_FAILED ? NULL : p;
}

/* Maps the new name before unmapping the old, so that a reader finds one at any time. */
void why_set(const char *what, const char *detail) {
        char name[NAME_SIZE], text[NAME_SIZE - sizeof(WHY_PREFIX) - sizeof(WHY_END)];

        (void) snprintf(text, sizeof(text), "%s%s%s", what, isempty(detail) ? "" : ": ", strempty(detail));
        make_plain(text);
        (void) snprintf(name, sizeof(name), WHY_PREFIX "%s" WHY_END, text);
        void *p = map_named(name);
        why_clear();
        if (!p)
                return;
        (void) madvise(p, 1, MADV_DONTFORK);
        page = p;
        page_pid = getpid();
}
