/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The interface between libxsched-hsa.so, which the HSA runtime loads as a tool, and the layer: see kfd-tool.c
 */

#define KFD_LAYER_NAME "libxsched-kfd.so"

/* Called with the runtime's table of functions while the runtime initialises, before any queue exists. */
void xsched_kfd_tool_load(void *table);

/* The memory of the runtime's queues is about to be unmapped. The call does not tell which runtime. Callers that still
 * have a function of ours continue through it. */
void xsched_kfd_tool_unload(void);
