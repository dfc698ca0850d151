/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Gangs: a group that is held and let go on all its devices together (Gang=yes)
 *
 * A job whose processes wait for each other across devices (a collective) gains nothing from one device while it is
 * held on another. The members of a gang are the entities of one group (or of one client with settings of its own) on
 * several devices. While one of them is ready on a device whose grants are in force, all have one verdict:
 *
 *   - the lead is the ready member whose device has the smallest id; what the lead's policy grants, all get,
 *   - but hold, while on another member's device somebody of a higher priority runs to whom that device's policy gives
 *     precedence,
 *   - and this exception ends when the gang has been held for as long as the lead's policy lets anybody starve.
 *
 * On the other devices a gang that runs is beside whoever has the turn there among its equals, until the turn comes
 * round.
 *
 * Why nobody waits for ever. A gang's verdict never depends on another gang's verdict, only on grants, and grants never
 * depend on gangs: policies are told of readiness as it is. So there is no circle of gangs that wait for each other. A
 * gang waits for those of higher priority, or for its turn on one device, the lead's; with equals of any number of
 * devices, a gang that waits has therefore exactly one policy to wait for, and that one gives turns to all. Those of
 * higher priority hold it up to the floor of the lead's device (StarveAfter=), from where on the lead's grant alone
 * counts, which the same floor grants. Every hold ends by the lease besides.
 */

#include "client.h"

/* After a device's policy has decided: brings the verdicts of the gangs on it up to date, on all their devices. */
void gang_update_device(Device *d, uint64_t now);

/* What a member gets: its gang's verdict, or its own grant when its gang has none. */
Verdict gang_entity_verdict(const Entity *e);
