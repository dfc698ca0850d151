/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Runtimes behind XQueues: finds those that the program has loaded, because none is linked, and names their devices
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct RuntimeFunction {
        const char *name;
        void *ret; /* the pointer to a function that gets its address; NULL where there is no such function */
} RuntimeFunction;

/* Returns the first of these libraries that the program has loaded, which then stays loaded; NULL: none is. */
void *runtime_library(const char *const names[], size_t n);

/* Looks up functions in a library; NULL: in all loaded ones. Returns false when one is missing. */
bool runtime_functions(void *library, const RuntimeFunction functions[], size_t n);

/* Writes the id that all layers use for the device with this PCI address, "pci:0000:65:00.0", into COMPAT_NAME_MAX
 * bytes. Returns false when `pci` is no PCI address. */
bool runtime_device_id(const char *pci, char *ret);
