/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Between libxsched-hsa.so, which the HSA runtime has for a tool, and the layer: see kfd-tool.c
 */

#define KFD_LAYER_NAME "libxsched-kfd.so"

/* The runtime's table of functions, while it is initialised: before anybody has a queue. */
void xsched_kfd_tool_load(void *table);

/* What the runtime's queues lie in is about to go. It is not said which runtime it is; who still has a function of ours
 * goes on by it. */
void xsched_kfd_tool_unload(void);
