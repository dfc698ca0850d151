/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Included before everything else: a build of xsched-conf.c whose installed places are below a folder of the test's own
 */

extern char *root;

#define CONF_ROOT root
