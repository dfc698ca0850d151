/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Publishes the reason why this process runs unscheduled
 */

#include <sys/mman.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/why-page.h"
#include "shim/core/why.h"

static void *page;
static pid_t page_pid; /* a child has no such page */

void why_clear(void) {
        if (page && page_pid == getpid())
                (void) munmap(page, WHY_PAGE_SIZE);
        page = NULL;
}

/* Maps the new name before unmapping the old, so that a reader finds one at any time. Where a new one cannot be made,
 * for want of a descriptor, the last one is nearer to the truth than none. */
void why_set(const char *what, const char *detail) {
        void *p = why_page_map(what, detail);

        if (!p)
                return;
        why_clear();
        (void) madvise(p, WHY_PAGE_SIZE, MADV_DONTFORK);
        page = p;
        page_pid = getpid();
}
