/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the GPU's driver counts of who is alone (hal/gpu-usage.h)
 *
 * A child (xsched-metrics --usage) asks the driver, because that may block, print and crash. It is told the pids of the
 * entity's processes about once a second, and ends when it is not asked for a while. A child that ends, says that it
 * knows nothing, or does not answer in ACCOUNT_DRIVER_ANSWER_NS, is not started again for ACCOUNT_DRIVER_RETRY_NS, and
 * what it was asked about is sampled. A driver that does not see what is seen to run here is treated the same way.
 */

#include "account.h"

#define ACCOUNT_DRIVER_ANSWER_NS (5 * NSEC_PER_SEC)
#define ACCOUNT_DRIVER_RETRY_NS  (600 * NSEC_PER_SEC)
#define ACCOUNT_DRIVER_PAUSE_NS  (3 * NSEC_PER_SEC)

typedef struct AccountDriver AccountDriver;

/* Asks how long the entity ran since it was last asked: account_driver_answered() is called some time later, or
 * never. */
void account_driver_ask(Device *d, Entity *e, uint64_t now);

/* The last question was answered, and the entity had run. */
bool account_driver_counts(const Device *d);

/* It was seen to run just now: a driver that says otherwise is of no use. */
void account_driver_seen(Device *d, uint64_t now);

AccountDriver *account_driver_free(AccountDriver *a);
