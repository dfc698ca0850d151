/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A tenant: one process that uses the device. demo.h has the lines that it speaks.
 */

#include "tools/demo/demo.h"

typedef struct TenantPlan {
        Role role;
        const char *device;
        uint32_t seed;
        uint32_t n_kernels; /* a task */
        uint32_t rounds;    /* a kernel */
        bool xsched;        /* the layer must be loaded and attached before we are ready */
} TenantPlan;

/* The arguments behind --tenant, in the order of the plan; argv is NULL-terminated. */
int tenant_parse(char *const argv[], TenantPlan *ret);

int tenant_main(const TenantPlan *plan);
