/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Standing grants: what idle entities keep, because nobody has a claim against them
 *
 * Of a crowd of equals that come in turns, each would be granted when it comes, and held when the next one comes: two
 * words of two pages for each turn, and a first launch that waits for both. But nobody needs that hold: the entity is
 * idle, and the next one has the device for itself. So of more than POLICY_ADVANCE_MAX equals an idle entity of the
 * highest tier keeps its grant until somebody has a claim: a higher tier comes, a minimum or maximum begins to count,
 * or its equals contend, by POLICY_CROWD_NS longer than for one POLICY_CROWD_PART-th of the time, or did so within
 * CORE_RECENT_NS. Then the standing grants end, all at once. Each of these holds is one that was put off, so an event
 * costs no more of them than it would otherwise, on average; and one event ends at most POLICY_STANDING_MAX.
 *
 * Who comes with a standing grant launches at once, also while an equal runs, until the caller hears of it and one of
 * them is held. By a contention that is over in a moment nobody would gain all those holds; in one that lasts nobody
 * else comes like that.
 *
 * Standing grants are not in Policy.granted, which is walked at each dispatch. An entity that is there for another
 * reason, as the last runner or because the device may be kept for it, is not standing yet.
 */

#include "core.h"

/* The idle entity's grant stands from now on. */
void entity_stand(PolicyEntity *e);

/* It is decided anew by the next dispatch. Nothing happens where it does not stand. */
void entity_stand_end(PolicyEntity *e);

/* Ends all. */
void core_standing_end(Policy *p);

/* The one that has stood longest. */
PolicyEntity *core_longest_standing(const Policy *p);

/* Called at each dispatch: whether more entities of the highest tier that wants anything could run than there are
 * places. */
void core_note_crowd(Policy *p, Tier *top, bool contends);

/* Whether the tier is large, and its entities hardly contend. */
bool tier_lets_stand(const Tier *t);
