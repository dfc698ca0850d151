/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the runtimes behind XQueues have in common: nothing is linked, what the program has loaded is used
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct RuntimeFunction {
        const char *name;
        void *ret; /* the pointer to a function that gets its address; NULL where there is no such function */
} RuntimeFunction;

/* Of the libraries with these names the first that the program has loaded; NULL: none. Its handle is kept. */
void *runtime_library(const char *const names[], size_t n);

/* Looks up functions in a library; NULL: in all that is loaded. False: one is missing. */
bool runtime_functions(void *library, const RuntimeFunction functions[], size_t n);

/* How all layers call the device with this PCI address: "pci:0000:65:00.0", in a text of COMPAT_NAME_MAX bytes. False:
 * it is no such address. */
bool runtime_device_id(const char *pci, char *ret);
