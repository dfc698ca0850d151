/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Review: what time changes for held entities: how far holds reach (ladder.h), which of them are overdue, and whether
 * their tails have ended (tail.h)
 */

#include "entity.h"

/* Called at Device.review_at, which it sets anew: looks at the entities that entity_review_by() has listed. */
void device_review(Device *d, uint64_t now);
