/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Driver accounts: run time of an entity that is alone, as the GPU's driver counts it (hal/gpu-usage.h)
 *
 * A child (xsched-metrics --usage) asks the driver, because that may block, print and crash. It is told the pids of the
 * entity's processes about once a second, and ends when it is not asked for a while. A child that ends, knows nothing,
 * or does not answer in ACCOUNT_DRIVER_ANSWER_NS, is not started again for ACCOUNT_DRIVER_RETRY_NS; the entity is
 * sampled meanwhile. So is an entity that the service sees run and the driver does not.
 */

#include "device.h"

#define ACCOUNT_DRIVER_ANSWER_NS (5 * NSEC_PER_SEC)
#define ACCOUNT_DRIVER_RETRY_NS  (600 * NSEC_PER_SEC)
#define ACCOUNT_DRIVER_PAUSE_NS  (3 * NSEC_PER_SEC)

typedef struct AccountDriver AccountDriver;

/* The entity ran `ran_ns` of the last `span_ns`. */
typedef void (*account_driver_answer_t)(Device *d, Entity *e, uint64_t span_ns, uint64_t ran_ns);

/* Asks how long the entity ran since the last question. `answer` is called later, or never. */
void account_driver_ask(Device *d, Entity *e, uint64_t now, account_driver_answer_t answer);

/* Whether the last question was answered, and the entity had run. */
bool account_driver_counts(const Device *d);

/* Called when the service saw the entity run: a driver that denies that is not asked again. */
void account_driver_seen(Device *d, uint64_t now);

AccountDriver *account_driver_free(AccountDriver *a);
