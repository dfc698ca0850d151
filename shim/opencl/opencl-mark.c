/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Shows from outside that the layer is active in this process
 */

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/opencl-mark-name.h"
#include "shim/opencl/opencl-mark.h"

static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;
static void *page;

static void *map_page(void) {
        _cleanup_close_ int fd = memfd_create(OPENCL_MARK, MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 1) < 0)
                return NULL;
        void *p = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE, fd, 0);
        return p == MAP_FAILED ? NULL : p;
}

void opencl_mark_set(void) {
        (void) pthread_mutex_lock(&page_lock);
        if (!page)
                page = map_page();
        (void) pthread_mutex_unlock(&page_lock);
}

void opencl_mark_clear(void) {
        (void) pthread_mutex_lock(&page_lock);
        if (page)
                (void) munmap(page, 1);
        page = NULL;
        (void) pthread_mutex_unlock(&page_lock);
}
