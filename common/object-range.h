/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Where a loaded object, a program or a library, is in memory
 */

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "macro.h"

/* From the begin of the object's first segment to the end of its last. */
typedef struct ObjectRange {
        uintptr_t begin, end;
} ObjectRange;

static inline int object_range_look(struct dl_phdr_info *info, size_t size, void *userdata) {
        ObjectRange *r = userdata; /* the address, so far */
        uintptr_t begin = UINTPTR_MAX, end = 0;

        for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = info->dlpi_phdr + i;
                if (p->p_type != PT_LOAD)
                        continue;
                begin = MIN(begin, (uintptr_t) (info->dlpi_addr + p->p_vaddr));
                end = MAX(end, (uintptr_t) (info->dlpi_addr + p->p_vaddr + p->p_memsz));
        }
        if (r->begin < begin || r->begin >= end)
                return 0;
        *r = (ObjectRange){begin, end};
        return 1;
}

/* Finds the object that has the address. Waits for the dynamic linker's lock. Returns false when no object has it. */
static inline bool object_range_find(uintptr_t address, ObjectRange *ret) {
        ObjectRange r = {.begin = address};

        if (dl_iterate_phdr(object_range_look, &r) == 0)
                return false;
        *ret = r;
        return true;
}
