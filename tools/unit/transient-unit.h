/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A unit that is made by a call, for one command: a scope around this process, or a service that systemd starts
 *
 * What the options ask for becomes properties of the unit, as systemd-run(1) has it; the properties' names and meanings
 * are systemd's. The class and the settings of a service travel as LogExtraFields=, where the scheduler reads them: it
 * needs to be told nothing else.
 *
 * systemd-run(1) is not executed for this, because it would not give the same: settings in a user's manager are set for
 * the main process, once it runs and while xschedctl waits for its end, and a systemd-run that waits does not say which
 * process that is; and it does not pass SIGINT on to the unit.
 */

#include "common/process.h"
#include "tools/unit/pty-forward.h"
#include "tools/unit/systemd-bus.h"

typedef struct TransientUnit {
        Ctl *ctl;
        sd_bus *bus; /* systemd's */
        bool user;   /* of the user's manager */
        bool scope;
        char *name;
        char *path; /* on the bus */
        bool left;  /* by the person in front of it: the wait ends, the unit goes on */
} TransientUnit;

void transient_unit_done(TransientUnit *u);

/* Opens the bus of the manager that the options name; where they name none, the system's for root and the user's for
 * others. 0, or a negative errno where there is none. Silent. */
int transient_unit_open(Ctl *c, TransientUnit *ret);

/* The unit's name, from the options or made up. An exit status. */
int transient_unit_set_name(TransientUnit *u, const char *command);

/* Each starts the unit and waits until systemd has done so. `executable` is an absolute path; `pty` may be NULL. An
 * exit status. */
int transient_scope_start(TransientUnit *u, char *argv[]);
int transient_service_start(TransientUnit *u, const char *executable, char *argv[], const PtyForward *pty);

/* The main process of a service; *ret is left as it is when that has ended already. An exit status. */
int transient_service_main(TransientUnit *u, ProcessId *ret);
