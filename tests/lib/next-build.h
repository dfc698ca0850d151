/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Included before everything else: a build of the service with another version, and with NEXT_LAYOUT another layout of
 * the shared page, which no client knows */

#include <config.h>

#undef XSCHED_VERSION
#ifdef NEXT_LAYOUT
#        define XSCHED_VERSION "88.0"

#        include "common/page.h"

#        undef PAGE_VERSION
#        define PAGE_VERSION 88U
#else
#        define XSCHED_VERSION "77.0"
#endif
