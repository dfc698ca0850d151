/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * xschedctl: the command by which people and scripts use xschedd
 *
 * One file per family of verbs. A verb gets the options of the command line and its own arguments, talks to the service
 * by nothing but D-Bus, fills a Table or an Object, and returns the exit status. Errors are one line on standard error,
 * printed where they are understood; functions that say "exit status" have printed it already.
 *
 *   xschedctl.c          the command line: verbs, options, --help
 *   xschedctl-target     from what a person types to an object
 *   xschedctl-list, -status, -show, -set, -policy, -run, -hold, -register, -top, -plot, -record, -replay, -monitor,
 *   -check, -host, -cdi  the verbs
 *   plot, plot-svg, plot-text    the record of the last minutes as a picture
 *
 * The connection, objects, tables and the terminal are in tools/shared/, and what starts a unit for a command is in
 * tools/unit/.
 */

#include "tools/shared/ctl.h"

enum {
        EXIT_NOT_RUNNING = 3, /* of `status`, as systemctl has it */
};

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
int verb_register(Ctl *c, int argc, char *argv[]);
int verb_list_holds(Ctl *c, int argc, char *argv[]);
int verb_top(Ctl *c, int argc, char *argv[]);
int verb_plot(Ctl *c, int argc, char *argv[]);
int verb_monitor(Ctl *c, int argc, char *argv[]);
int verb_policy(Ctl *c, int argc, char *argv[]);
int verb_hint(Ctl *c, int argc, char *argv[]);
int verb_record(Ctl *c, int argc, char *argv[]);
int verb_replay(Ctl *c, int argc, char *argv[]);
int verb_cdi(Ctl *c, int argc, char *argv[]);
int verb_check(Ctl *c, int argc, char *argv[]);
