/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check --all: is every process that has a GPU open scheduled, and if not, why?
 */

#include "tools/shared/ctl.h"

/* The first does check --all, and returns an exit status. The second turns "check --host" into "check --all": check is
 * about this host in any case, so --host has no argument there. */
int check_host(Ctl *c);
void check_take_host(int argc, char *argv[]);
