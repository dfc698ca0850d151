/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check: what the service knows of a process
 */

#include <stdbool.h>

#include "tools/shared/object.h"
#include "tools/xschedctl/xschedctl-check-findings.h"

/* Whether xschedctl register has made it a client: it has no shim, and is not to have any. */
bool client_is_registered_only(const Snapshot *s, const Object *client);

/* Its queues, and what it waits for. */
void check_registered(Check *k, const Snapshot *s, const Object *client);
