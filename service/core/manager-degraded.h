/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The Degraded property: what is missing, and why
 */

#include "manager.h"

/* The status text for systemd: whether the service is degraded, and why. Into buf, or a constant. */
const char *manager_status(const Manager *m, char *buf, size_t size);

/* Adds or removes (`text` NULL) the reason `key` from the Degraded property. */
int manager_set_degraded(Manager *m, const char *key, const char *text);
