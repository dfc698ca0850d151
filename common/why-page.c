/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The page whose name is a reason
 */

#include "common/why-page.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/why-name.h"

#define NAME_SIZE 249U /* the kernel limits a memfd's name to 249 bytes with the zero */

static void make_plain(char *s) {
        for (; *s; s++)
                if (*s < ' ' || *s > '~' || *s == '\\')
                        *s = '?';
}

/* Not close(): the layer for KFD has one in front of libc's, and a layer may be about to load libxsched here. But
 * ThreadSanitizer has to see that the number is free, or takes its next use for a race. */
static void close_unseen(int fd) {
#ifdef __SANITIZE_THREAD__
        (void) close(fd);
#else
        (void) syscall(SYS_close, fd);
#endif
}

static void *map_named(const char *name) {
        void *p = MAP_FAILED;
        int fd = memfd_create(name, MFD_CLOEXEC);

        if (fd < 0)
                return NULL;
        if (ftruncate(fd, WHY_PAGE_SIZE) >= 0)
                p = mmap(NULL, WHY_PAGE_SIZE, PROT_NONE, MAP_PRIVATE, fd, 0);
        close_unseen(fd);
        return p == MAP_FAILED ? NULL : p;
}

void *why_page_map(const char *what, const char *detail) {
        char name[NAME_SIZE], text[NAME_SIZE - sizeof(WHY_PREFIX) - sizeof(WHY_END)];

        (void) snprintf(text, sizeof(text), "%s%s%s", what, isempty(detail) ? "" : ": ", strempty(detail));
        make_plain(text);
        (void) snprintf(name, sizeof(name), WHY_PREFIX "%s" WHY_END, text);
        return map_named(name);
}
