/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Everything that the service knows, for people and for machines
 */

#include "manager.h"

/* One JSON object: "version", "devices", "groups", "clients", "queues", "statistics". */
int describe_json(Manager *m, char **ret);

/* The internal state as text: every entity with its grant and its queues' words. */
int describe_text(Manager *m, char **ret, size_t *ret_size);
