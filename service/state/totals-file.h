/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Totals file: where the totals (service/core/totals.h) lie, and their copy on the disk
 *
 * The table is mapped from a file in $RUNTIME_DIRECTORY, which is memory. A thread copies the lasting entries to a file
 * in $STATE_DIRECTORY, from which the first service after a boot reads them: every few minutes while something runs,
 * and at the end of the service. Where there is no room for the table, counters do not survive the service, and the
 * Degraded property says so.
 */

#include "service/core/manager.h"

/* Opens or makes the table. Called at the start, before there are groups. `has_directories`: the environment names this
 * service's own directories; otherwise the table is in memory of this process, and is not copied. Everything else
 * happens by itself, until the manager ends. Never fails: a problem is logged and told. */
void totals_file_open(Manager *m, bool has_directories);

/* Copies the table to the disk, and waits for that. */
void totals_file_store(Manager *m);
