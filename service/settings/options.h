/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The command line of xschedd
 */

#include "common/macro.h"
#include "service/base/log.h"

typedef enum BusKind {
        BUS_SYSTEM,
        BUS_SESSION,
        BUS_ADDRESS,
        _BUS_KIND_MAX,
} BusKind;

typedef struct Options {
        BusKind bus;
        const char *bus_address; /* with BUS_ADDRESS */
        const char *socket;      /* of the service's own; NULL: none */
        const char *config_file; /* NULL: the installed one */
        const char *classes_dir; /* NULL: the installed ones */
        bool thaw;               /* only thaws units that a service that has ended left frozen */
        int log_level;           /* -1: as configured */
        int log_target;          /* LogTarget; -1: as configured */
} Options;

/* Returns > 0: go on. 0: the text of --help or --version was printed, exit with success. Negative: a line on stderr
 * says what is wrong. */
int options_parse(int argc, char *argv[], Options *ret);
