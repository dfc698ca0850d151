/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check --all: is every process that has a GPU open scheduled, and if not, why?
 */

#include "tools/shared/ctl.h"

/* Of check --all: an exit status. And the same by the name of check --host, since check is of this host in any case:
 * there --host has no argument, and becomes --all. */
int check_host(Ctl *c);
void check_take_host(int argc, char *argv[]);
