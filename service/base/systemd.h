/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * systemd: what the service asks of the service manager
 *
 * The questions go over the bus, whose messages stay in systemd.c: the rooms that freeze units and keep clients have
 * these functions alone.
 */

#include <stdint.h>

#include "common/macro.h"

struct sd_bus;
typedef struct Systemd Systemd;
typedef struct UnitCall UnitCall;

typedef enum UnitAnswer {
        UNIT_DONE,
        UNIT_GONE,    /* systemd has no such unit, or the unit has ended */
        UNIT_BUSY,    /* another job of the unit is running: ask again later */
        UNIT_UNCLEAR, /* there was no answer: systemd may have done it, or not */
        UNIT_REFUSED,
} UnitAnswer;

/* `why` is systemd's own text, NULL when it was done, and valid during the call only. May free the call. */
typedef void (*unit_answered_t)(UnitAnswer answer, const char *why, void *userdata);

int systemd_new(struct sd_bus *bus, Systemd **ret);

/* The same with a connection of its own to the system's bus, for a process that has none. */
int systemd_open(Systemd **ret);
Systemd *systemd_free(Systemd *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Systemd *, systemd_free);

/* FreezeUnit and ThawUnit, without waiting: `answered` is called once, unless *ret is freed before. They need no
 * person's authorization: the caller of Suspend was asked already. */
int systemd_freeze(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret);
int systemd_thaw(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret);
UnitCall *unit_call_free(UnitCall *c);

/* ThawUnit, for the end of the service: waits for the answer, some seconds at most. 0: done, or the unit is gone. */
int systemd_thaw_and_wait(Systemd *s, const char *unit);

/* Returns 0 and FileDescriptorStoreMax= of the service's own unit. Waits for the answer, some seconds at most. */
int systemd_fdstore_max(Systemd *s, uint32_t *ret);
