/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Maps an inaccessible page whose name is the reason why this process runs unscheduled (why-name.h)
 */

#define WHY_PAGE_SIZE 1U

/* Returns NULL when there is no descriptor or no memory for it. */
void *why_page_map(const char *what, const char *detail);
