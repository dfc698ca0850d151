/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xschedctl: what a person or a script asks of xschedd
 *
 * One file per family of verbs. A verb gets the options that stood on the command line and its own arguments, talks to the
 * service by nothing but D-Bus, fills a Table or an Object, and returns the exit status. Errors are one line on standard error,
 * printed where they are understood; functions that say "exit status" have printed it already.
 *
 *   xschedctl.c          the command line: verbs, options, --help
 *   xschedctl-bus        the connection, calls, errors in plain words
 *   polkit-agent         who asks for a password on this terminal
 *   xschedctl-value      a value of the bus, as text and as JSON
 *   xschedctl-object     the service's objects and their properties, all fetched by one call
 *   xschedctl-table      rows, as a table or as JSON
 *   xschedctl-terminal   size, colours, pager, single keys
 *   xschedctl-target     from what a person types to an object
 *   xschedctl-list, -status, -show, -set, -run, -hold, -top, -plot, -monitor, -check    the verbs
 *   plot, plot-svg, plot-text    the record of the last minutes as a picture
 *   systemd-bus, unit-property, transient-unit, transient-wait, pty-forward    a command in a unit of its own
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"
#include "tools/xschedctl-value.h"

enum {
        EXIT_NOT_RUNNING = 3, /* of `status`, as systemctl has it */
};

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
        bool interactive; /* somebody can be asked for a password */
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

        sd_bus *bus;                  /* opened by ctl_connect() */
        bool bus_is_system_after_all; /* --user, and only the system's bus has a scheduler */
} Ctl;

int verb_status(Ctl *c, int argc, char *argv[]);
int verb_list_devices(Ctl *c, int argc, char *argv[]);
int verb_list_clients(Ctl *c, int argc, char *argv[]);
int verb_list_queues(Ctl *c, int argc, char *argv[]);
int verb_list_groups(Ctl *c, int argc, char *argv[]);
int verb_list_policies(Ctl *c, int argc, char *argv[]);
int verb_list_classes(Ctl *c, int argc, char *argv[]);
int verb_list_settings(Ctl *c, int argc, char *argv[]);
int verb_show(Ctl *c, int argc, char *argv[]);
int verb_explain(Ctl *c, int argc, char *argv[]);
int verb_dump(Ctl *c, int argc, char *argv[]);
int verb_set(Ctl *c, int argc, char *argv[]);
int verb_reset(Ctl *c, int argc, char *argv[]);
int verb_suspend(Ctl *c, int argc, char *argv[]);
int verb_resume(Ctl *c, int argc, char *argv[]);
int verb_reload(Ctl *c, int argc, char *argv[]);
int verb_run(Ctl *c, int argc, char *argv[]);
int verb_hold(Ctl *c, int argc, char *argv[]);
int verb_list_holds(Ctl *c, int argc, char *argv[]);
int verb_top(Ctl *c, int argc, char *argv[]);
int verb_plot(Ctl *c, int argc, char *argv[]);
int verb_monitor(Ctl *c, int argc, char *argv[]);
int verb_check(Ctl *c, int argc, char *argv[]);

/* "xschedctl: ..." in one line on standard error. Returns EXIT_FAILURE. */
_printf_(1, 2) int ctl_fail(const char *format, ...);
