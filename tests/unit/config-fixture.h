/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Configuration files in a folder of the test's own
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/settings/xsched-conf.h"
#include "tests/unit/config-root.h"

#define ETC XSCHED_PKGCONFDIR
#define RUN "/run/xsched"
#define USR XSCHED_VENDORDIR

#define CONFIG_PROBLEMS_MAX 16384U

/* Make the folder, and remove it. */
int config_setup(void **state);
int config_teardown(void **state);

/* The problems of the last load: one line each, and their number. */
extern char problems[CONFIG_PROBLEMS_MAX];
extern unsigned n_problems;

void remember(const ConfProblem *p, void *userdata);
void path_of(char *buf, size_t size, const char *name);
void put(const char *name, const char *text);
void put_link(const char *name, const char *target);
void take_away(const char *name);
int try_load(const Config *last_good, Config **ret);
Config *load(const Config *last_good);

void assert_same_device(const DeviceConfig *a, const DeviceConfig *b);
void assert_defaults(const Config *c);
