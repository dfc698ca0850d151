/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ctl: the options of a program that asks xschedd, and its connection
 *
 * xschedctl fills all of it in, xsched-queues a few fields.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"
#include "tools/shared/json.h"
#include "tools/shared/value.h"

typedef struct RunOptions {
        const char *name, *shim;
        char *settings[16]; /* "class=...", in the words of `set` */
        size_t n_settings;
        const char *unit, *slice, *description, *working_directory, *uid, *gid;
        char *environment[64]; /* NAME=VALUE */
        size_t n_environment;
        bool scope, service, wait, pipe, pty, collect, quiet, verbose;
} RunOptions;

typedef struct Ctl {
        /* every verb */
        const char *bus_address;
        bool system_bus;
        bool user_bus;
        const char *host;    /* [USER@]HOST[:PORT], reached by ssh */
        const char *machine; /* [USER@]MACHINE, a container */
        bool no_ask_password;
        bool interactive; /* a person can be asked for a password */
        JsonMode json;
        bool legend;
        bool pager;
        bool full;

        /* list-queues */
        bool kernel;

        /* show, run: as they were given */
        const char *properties[64];
        size_t n_properties;
        bool value_only;

        /* set */
        bool runtime;
        bool force;

        RunOptions run;

        /* hold */
        const char *why;

        /* top */
        uint64_t iterations; /* 0: until q */
        uint64_t delay_ns;
        bool batch;
        bool clients;
        const char *sort;

        /* plot */
        const char *output, *since, *device;

        /* cdi, with output */
        bool stand_in;

        /* check */
        bool all;

        /* record, with output */
        uint64_t duration_ns; /* 0: until a signal */
        uint64_t max_size;    /* bytes; 0: the usual */

        /* replay: as they were given */
        bool check;
        const char *policy, *svg, *trace;
        const char *sets[32];
        size_t n_sets;

        sd_bus *bus;                  /* opened by ctl_connect() */
        bool bus_is_system_after_all; /* --user, and only the system's bus has a scheduler */
} Ctl;

/* "PROGRAM: ..." in one line on standard error. Returns EXIT_FAILURE. */
_printf_(1, 2) int ctl_fail(const char *format, ...);
