/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xschedctl: the command line
 *
 * There are two tables: verbs and options. The parser, --help and the check that an option fits its verb read them. A
 * test compares the manual page and the completions with --help.
 */

#include <getopt.h>
#include <locale.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "config.h"
#include "tools/shared/ctl-bus.h"
#include "tools/unit/polkit-agent.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl-set.h"
#include "tools/xschedctl/xschedctl.h"
#include "xschedctl-host.h"
#include "xschedctl-run-options.h"

typedef struct Verb {
        const char *name;
        int min_args, max_args; /* -1: any number */
        int (*run)(Ctl *c, int argc, char *argv[]);
        const char *arguments;
        const char *help;
        unsigned flags;
} Verb;

enum {
        VERB_ASKS = 1 << 0,                          /* changes something; a password may be asked for */
        VERB_LOCAL = 1 << 1,                         /* works on this machine's processes */
        VERB_RUNS = 1 << 2 | VERB_ASKS | VERB_LOCAL, /* its last arguments are a command, with options of its own */
};

static const Verb verbs[] = {
                {"status", 0, -1, verb_status, "[TARGET...]",
                                "The service and all that it schedules, or what belongs to TARGET"},
                {"list-devices", 0, 0, verb_list_devices, "", "Devices, and the policy of each"},
                {"list-groups", 0, 0, verb_list_groups, "", "Groups: cgroups and jobs, and their settings"},
                {"list-clients", 0, 0, verb_list_clients, "", "Processes that are scheduled"},
                {"list-queues", 0, 0, verb_list_queues, "", "Queues of these processes"},
                {"list-policies", 0, 0, verb_list_policies, "", "Policies that a device can have"},
                {"list-classes", 0, 0, verb_list_classes, "", "Classes: named settings"},
                {"list-holds", 0, 0, verb_list_holds, "", "Claims that hold has made, and by whom"},
                {"list-settings", 0, 0, verb_list_settings, "", "Settings that were made by set"},
                {"show", 0, -1, verb_show, "[TARGET...]", "Properties of the service, or of TARGET"},
                {"set", 2, -1, verb_set, "TARGET KEY=VALUE...", "Change settings of TARGET; KEY= removes one",
                                VERB_ASKS},
                {"reset", 1, -1, verb_reset, "TARGET...", "Remove the settings that were made by set", VERB_ASKS},
                {"suspend", 1, -1, verb_suspend, "TARGET...", "Hold TARGET until it is resumed", VERB_ASKS},
                {"resume", 1, -1, verb_resume, "TARGET...", "Let TARGET run again", VERB_ASKS},
                {"policy", 0, -1, verb_policy, "[DEVICE [NAME] [KEY=VALUE...]]",
                                "The policy of each device, or of DEVICE; or give it another", VERB_ASKS},
                {"hint", 2, -1, verb_hint, "PID|queue:N KEY=VALUE...", "Change settings of a process or a queue",
                                VERB_ASKS},
                {"run", 1, -1, verb_run, "COMMAND...",
                                "Run COMMAND in a unit of its own, with the shim in its environment", VERB_RUNS},
                {"hold", 2, -1, verb_hold, "CLASS COMMAND...", "Run COMMAND, and give it CLASS while it runs",
                                VERB_RUNS},
                {"register", 2, -1, verb_register, "DEVICE COMMAND...",
                                "Run COMMAND without the shim, as a process that only the service can stop", VERB_RUNS},
                {"top", 0, 0, verb_top, "", "Show which groups use the devices, refreshing"},
                {"plot", 0, 0, verb_plot, "", "Where the time of the devices went in the last minutes, as a picture"},
                {"record", 0, -1, verb_record, "[DEVICE...]", "Record what devices' policies are told and decide",
                                VERB_ASKS},
                {"replay", 1, -1, verb_replay, "FILE [KEY=VALUE...]",
                                "Repeat the decisions of a recording, or make other ones", VERB_LOCAL},
                {"monitor", 0, 0, verb_monitor, "", "The service's signals as they come"},
                {"explain", 1, 1, verb_explain, "TARGET", "Why a process or a unit has its settings, and why it waits"},
                {"check", 0, 1, verb_check, "[PID]", "Is the shim effective here, or in a process?", VERB_LOCAL},
                {"cdi", 1, -1, verb_cdi, "generate [CLASS...]",
                                "Write CDI devices for container engines, one for each class", VERB_LOCAL},
                {"dump", 0, 0, verb_dump, "", "The service's internal state", VERB_ASKS | VERB_LOCAL},
                {"reload", 0, 0, verb_reload, "", "Make the service read its configuration again", VERB_ASKS},
};

enum {
        OPTION_BUS_ADDRESS = 0x100,
        OPTION_SYSTEM,
        OPTION_USER,
        OPTION_NO_ASK_PASSWORD,
        OPTION_JSON,
        OPTION_NO_LEGEND,
        OPTION_NO_PAGER,
        OPTION_KERNEL,
        OPTION_VALUE,
        OPTION_CLASS,
        OPTION_PRIORITY,
        OPTION_WEIGHT,
        OPTION_THRESHOLD,
        OPTION_PREEMPTION,
        OPTION_GANG,
        OPTION_MAX,
        OPTION_MIN,
        OPTION_PERIOD,
        OPTION_NAME,
        OPTION_SHIM,
        OPTION_SCOPE,
        OPTION_SERVICE,
        OPTION_UNIT,
        OPTION_SLICE,
        OPTION_DESCRIPTION,
        OPTION_WORKING_DIRECTORY,
        OPTION_UID,
        OPTION_GID,
        OPTION_WAIT,
        OPTION_WHY,
        OPTION_SORT,
        OPTION_SINCE,
        OPTION_DEVICE,
        OPTION_RUNTIME,
        OPTION_FORCE,
        OPTION_STAND_IN,
        OPTION_ALL,
        OPTION_DURATION,
        OPTION_MAX_SIZE,
        OPTION_CHECK,
        OPTION_POLICY,
        OPTION_SET,
        OPTION_SVG,
        OPTION_TRACE,
        OPTION_VERSION,
};

typedef struct Option {
        int id; /* a short option's letter, or OPTION_ */
        const char *name;
        const char *argument; /* NULL: takes none */
        const char *verb;     /* NULL: any; or two, "show, run" */
        const char *help;
} Option;

static const Option option_table[] = {
                {OPTION_BUS_ADDRESS, "bus-address", "ADDRESS", NULL,
                                "Connect to this bus; else to $XSCHED_BUS_ADDRESS, else to the system bus"},
                {OPTION_SYSTEM, "system", NULL, NULL, "Connect to the system bus"},
                {OPTION_USER, "user", NULL, NULL, "Connect to the user's bus; units are those of the user"},
                {'H', "host", "[USER@]HOST", NULL, "Connect to the system bus of another host, by ssh"},
                {'M', "machine", "[USER@]MACHINE", NULL, "Connect to the bus of a container; .host is this host"},
                {OPTION_NO_ASK_PASSWORD, "no-ask-password", NULL, NULL, "Never ask for a password"},
                {OPTION_JSON, "json", "MODE", NULL, "Print JSON: short, pretty or off"},
                {OPTION_NO_LEGEND, "no-legend", NULL, NULL, "Print neither headings nor totals"},
                {OPTION_NO_PAGER, "no-pager", NULL, NULL, "Do not pipe output into a pager"},
                {'l', "full", NULL, NULL, "Do not shorten what does not fit the terminal"},
                {'h', "help", NULL, NULL, "Show this help"},
                {OPTION_VERSION, "version", NULL, NULL, "Show the version"},
                {OPTION_KERNEL, "kernel", NULL, "list-queues",
                                "The queues of all processes on AMD GPUs, as the kernel lists them"},
                {'p', "property", "NAME", "show, run", "Only this property; NAME=VALUE: a property of the unit"},
                {OPTION_VALUE, "value", NULL, "show", "Only values, not names"},
                {OPTION_RUNTIME, "runtime", NULL, "set, policy", "Until the next boot, not for good"},
                {OPTION_FORCE, "force", NULL, "set", "Also set a unit that systemd does not know"},
                {OPTION_CLASS, "class", "CLASS", "run", "Class of the group"},
                {OPTION_PRIORITY, "priority", "N", "run", "Priority, -255..255: the highest runs first"},
                {OPTION_WEIGHT, "weight", "N", "run", "Weight, 1..10000: the share among equal priorities"},
                {OPTION_THRESHOLD, "threshold", "N", "run", "Launches in flight while others wait"},
                {OPTION_PREEMPTION, "preemption", "LEVEL", "run", "How far holds reach, as auto or 1"},
                {OPTION_GANG, "gang", "BOOL", "run", "Whether it is held and released on all devices together"},
                {OPTION_MAX, "max", "PERCENT", "run", "How much of each period it may run on a device"},
                {OPTION_MIN, "min", "PERCENT", "run", "How much of each period it is given"},
                {OPTION_PERIOD, "period", "SPAN", "run", "What --max= and --min= are a percentage of; 100ms"},
                {OPTION_SCOPE, "scope", NULL, "run", "In a scope: the command replaces xschedctl (the default)"},
                {OPTION_SERVICE, "service", NULL, "run", "In a service, which systemd starts"},
                {OPTION_UNIT, "unit", "NAME", "run", "Name of the unit"},
                {OPTION_NAME, "name", "NAME", "run", "Name for the unit or the job; else the command's"},
                {OPTION_SLICE, "slice", "SLICE", "run", "Slice of the unit"},
                {OPTION_DESCRIPTION, "description", "TEXT", "run", "Description of the unit"},
                {OPTION_WORKING_DIRECTORY, "working-directory", "PATH", "run", "Directory to run in"},
                {OPTION_UID, "uid", "USER", "run", "Run as this user"},
                {OPTION_GID, "gid", "GROUP", "run", "Run as this group"},
                {'E', "setenv", "NAME[=VALUE]", "run", "Set a variable, or pass on the one from here"},
                {OPTION_WAIT, "wait", NULL, "run", "A service; wait until it has ended, and say how"},
                {'P', "pipe", NULL, "run", "A service with the standard input, output and error from here"},
                {'t', "pty", NULL, "run", "A service with a terminal of its own, shown on this one"},
                {'G', "collect", NULL, "run", "Unload the unit even when it failed"},
                {'q', "quiet", NULL, "run", "Do not print the unit's name, nor how it ended"},
                {'v', "verbose", NULL, "run", "Print in which unit the command runs, or why in none"},
                {OPTION_SHIM, "shim", "HOW", "run", "layer (OPENCL_LAYERS, the default), preload (LD_PRELOAD) or none"},
                {OPTION_WHY, "why", "TEXT", "hold", "The reason, for list-holds; else the command's name"},
                {'n', "iterations", "N", "top", "End after N refreshes"},
                {'d', "delay", "SPAN", "top", "Time between refreshes; 1s"},
                {'b', "batch", NULL, "top", "Print tables one after the other, read no keys"},
                {'c', "clients", NULL, "top", "Show the processes of each group"},
                {OPTION_SORT, "sort", "KEY", "top", "gpu, wait, launches, preempted or name"},
                {'o', "output", "FILE", "plot, cdi, record",
                                "Write SVG, devices or records to FILE; - is standard output"},
                {OPTION_SINCE, "since", "TIME", "plot", "Begin then: 5min ago, or at 14:05; 15min"},
                {OPTION_DEVICE, "device", "ID", "plot", "Only this device"},
                {OPTION_STAND_IN, "stand-in", NULL, "cdi", "Devices that do nothing, for when xsched is removed"},
                {OPTION_ALL, "all", NULL, "check", "All processes that have a GPU open"},
                {OPTION_DURATION, "duration", "SPAN", "record", "End after this time; else with SIGINT"},
                {OPTION_MAX_SIZE, "max-size", "BYTES", "record", "End when FILE has this size; 1G"},
                {OPTION_CHECK, "check", NULL, "replay", "Only say whether all decisions are the same"},
                {OPTION_POLICY, "policy", "NAME", "replay", "With this policy"},
                {OPTION_SET, "set", "GROUP:KEY=VALUE", "replay", "With this setting of GROUP"},
                {OPTION_SVG, "svg", "FILE", "replay", "Draw when groups ran and waited"},
                {OPTION_TRACE, "trace", "FILE", "replay", "Write the same for Perfetto and Chrome"},
};

static void help(void) {
        printf("xschedctl [OPTION...] VERB ...\n"
               "\n"
               "Inspect and control the GPU scheduler.\n"
               "\n"
               "Verbs:\n");
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                printf("  %-13s %-20s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].help);
        printf("\nTARGET is a process id, client:N, queue:N, device:ID, device:all, a group's name, a cgroup path\n"
               "or a unit.\n");
        settings_print_keys();
        printf("\nOptions:\n");
        for (size_t i = 0; i < ELEMENTSOF(option_table); i++) {
                const Option *o = option_table + i;
                char text[64];

                snprintf(text, sizeof(text), "%c%c%c --%s%s%s", o->id < 0x100 ? '-' : ' ', o->id < 0x100 ? o->id : ' ',
                                o->id < 0x100 ? ',' : ' ', o->name, o->argument ? "=" : "", strempty(o->argument));
                printf("  %-27s %s%s%s\n", text, o->verb ? o->verb : "", o->verb ? ": " : "", o->help);
        }
        printf("\nSee xschedctl(1).\n");
}

static const Verb *find_verb(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (streq(verbs[i].name, name))
                        return verbs + i;
        return NULL;
}

/* The number of letters to insert, remove or replace. The words are short. */
static size_t words_differ(const char *a, const char *b) {
        size_t row[32], n = strlen(b);

        if (n >= ELEMENTSOF(row))
                return SIZE_MAX;
        for (size_t k = 0; k <= n; k++)
                row[k] = k;
        for (size_t i = 1; *a; a++, i++) {
                size_t before = row[0];

                row[0] = i;
                for (size_t k = 1; k <= n; k++) {
                        size_t replaced = before + (*a != b[k - 1]);

                        before = row[k];
                        if (row[k - 1] < row[k])
                                row[k] = row[k - 1];
                        row[k] = MIN(replaced, row[k] + 1);
                }
        }
        return row[n];
}

static int no_such_verb(const char *name) {
        size_t best = 3;
        const char *meant = NULL;

        for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
                size_t n = words_differ(name, verbs[i].name);

                if (n < best) {
                        best = n;
                        meant = verbs[i].name;
                }
        }
        return meant ? ctl_fail("%s: no such verb; did you mean %s?", name, meant)
                     : ctl_fail("%s: no such verb; try --help", name);
}

static const Option *find_option(int id) {
        for (size_t i = 0; i < ELEMENTSOF(option_table); i++)
                if (option_table[i].id == id)
                        return option_table + i;
        return NULL;
}

static int add_property(Ctl *c, const char *text) {
        if (c->n_properties >= ELEMENTSOF(c->properties))
                return ctl_fail("--property=: too many");
        c->properties[c->n_properties++] = text;
        return 0;
}

/* Sets an option of `run`. Returns an exit status. */
static int set_run_option(RunOptions *o, const Option *option, const char *argument) {
        const struct {
                int id;
                bool *flag;
                const char **text;
        } plain[] = {
                        {OPTION_SCOPE, &o->scope, NULL},
                        {OPTION_SERVICE, &o->service, NULL},
                        {OPTION_WAIT, &o->wait, NULL},
                        {'P', &o->pipe, NULL},
                        {'t', &o->pty, NULL},
                        {'G', &o->collect, NULL},
                        {'q', &o->quiet, NULL},
                        {'v', &o->verbose, NULL},
                        {OPTION_NAME, NULL, &o->name},
                        {OPTION_SHIM, NULL, &o->shim},
                        {OPTION_UNIT, NULL, &o->unit},
                        {OPTION_SLICE, NULL, &o->slice},
                        {OPTION_DESCRIPTION, NULL, &o->description},
                        {OPTION_WORKING_DIRECTORY, NULL, &o->working_directory},
                        {OPTION_UID, NULL, &o->uid},
                        {OPTION_GID, NULL, &o->gid},
        };

        for (size_t i = 0; i < ELEMENTSOF(plain); i++) {
                if (plain[i].id != option->id)
                        continue;
                if (plain[i].flag)
                        *plain[i].flag = true;
                else if (plain[i].text)
                        *plain[i].text = argument;
                return 0;
        }
        if (option->id == 'E')
                return run_options_add_variable(o, argument);
        return run_options_add_setting(o, option->name, argument);
}

/* Sets an option without an argument. Returns whether it is one. */
static bool set_flag(Ctl *c, int id) {
        const struct {
                int id;
                bool *flag;
        } flags[] = {
                        {OPTION_SYSTEM, &c->system_bus},
                        {OPTION_USER, &c->user_bus},
                        {OPTION_NO_ASK_PASSWORD, &c->no_ask_password},
                        {'l', &c->full},
                        {OPTION_KERNEL, &c->kernel},
                        {OPTION_VALUE, &c->value_only},
                        {OPTION_FORCE, &c->force},
                        {OPTION_RUNTIME, &c->runtime},
                        {'b', &c->batch},
                        {'c', &c->clients},
                        {OPTION_ALL, &c->all},
                        {OPTION_STAND_IN, &c->stand_in},
                        {OPTION_CHECK, &c->check},
        };

        for (size_t i = 0; i < ELEMENTSOF(flags); i++)
                if (flags[i].id == id)
                        return *flags[i].flag = true;
        return false;
}

/* An exit status. */
static int set_record_option(Ctl *c, int id, const char *argument) {
        if (id == OPTION_DURATION) {
                if (parse_nsec(argument, &c->duration_ns) < 0 || c->duration_ns == 0)
                        return ctl_fail("--duration=%s: not a time span, like 5min", argument);
        } else if (parse_size(argument, &c->max_size) < 0 || c->max_size == 0)
                return ctl_fail("--max-size=%s: not a size, like 500M", argument);
        return 0;
}

static int set_replay_option(Ctl *c, int id, const char *argument) {
        if (id == OPTION_POLICY)
                c->policy = argument;
        else if (id == OPTION_SVG)
                c->svg = argument;
        else if (id == OPTION_TRACE)
                c->trace = argument;
        else if (c->n_sets >= ELEMENTSOF(c->sets))
                return ctl_fail("--set=: too many");
        else
                c->sets[c->n_sets++] = argument;
        return 0;
}

/* An exit status. */
static int set_option(Ctl *c, const Option *o, char *argument) {
        if (set_flag(c, o->id))
                return 0;
        switch (o->id) {
        case OPTION_BUS_ADDRESS:
                c->bus_address = argument;
                return 0;
        case 'H':
                c->host = argument;
                return isempty(argument) ? ctl_fail("--host= is empty: name a host") : 0;
        case 'M':
                c->machine = argument;
                return isempty(argument) ? ctl_fail("--machine= is empty: name a container, or .host") : 0;
        case OPTION_JSON:
                if (json_mode_from_string(argument) < 0)
                        return ctl_fail("--json= is one of short, pretty, off");
                c->json = (JsonMode) json_mode_from_string(argument);
                return 0;
        case OPTION_NO_LEGEND:
                c->legend = false;
                return 0;
        case OPTION_NO_PAGER:
                c->pager = false;
                return 0;
        case 'p':
                return add_property(c, argument);
        case OPTION_WHY:
                c->why = argument;
                return 0;
        case 'n':
                if (parse_uint64(argument, 1, UINT32_MAX, &c->iterations) < 0)
                        return ctl_fail("--iterations=%s: not a number of refreshes", argument);
                return 0;
        case 'd':
                if (parse_nsec(argument, &c->delay_ns) < 0 || c->delay_ns == 0 || c->delay_ns == NSEC_INFINITY)
                        return ctl_fail("--delay=%s: not a time span, like 500ms", argument);
                return 0;
        case OPTION_SORT:
                c->sort = argument;
                return 0;
        case 'o':
                c->output = argument;
                return isempty(argument) ? ctl_fail("--output= is empty: name a file, or -") : 0;
        case OPTION_SINCE:
                c->since = argument;
                return 0;
        case OPTION_DEVICE:
                c->device = startswith(argument, "device:") ?: argument;
                return 0;
        default:
                return o->verb && streq(o->verb, "record")            ? set_record_option(c, o->id, argument)
                                : o->verb && streq(o->verb, "replay") ? set_replay_option(c, o->id, argument)
                                                                      : set_run_option(&c->run, o, argument);
        }
}

typedef struct CommandLine {
        const Verb *verb;
        bool help, version;
        const Option *used[64];
        size_t n_used;
        int argc; /* of the verb's own arguments */
        char **argv;
} CommandLine;

/* Parses options up to the first word that is none, from *index on. Returns an exit status. */
static int parse_options(Ctl *c, CommandLine *l, int argc, char *argv[], int *index) {
        struct option options[ELEMENTSOF(option_table) + 1] = {};
        char letters[2 * ELEMENTSOF(option_table) + 2] = "+", *p = letters + 1;
        int id, r;

        for (size_t i = 0; i < ELEMENTSOF(option_table); i++) {
                const Option *o = option_table + i;

                options[i] = (struct option){o->name, o->argument ? required_argument : no_argument, NULL, o->id};
                if (o->id < 0x100) {
                        *p++ = (char) o->id;
                        if (o->argument)
                                *p++ = ':';
                }
        }
        optind = *index;
        while ((id = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
                const Option *o = find_option(id);

                if (!o)
                        return EXIT_FAILURE; /* getopt_long() said why */
                if (id == 'h')
                        l->help = true;
                else if (id == OPTION_VERSION)
                        l->version = true;
                else {
                        r = set_option(c, o, optarg);
                        if (r != 0)
                                return r;
                        if (l->n_used < ELEMENTSOF(l->used))
                                l->used[l->n_used++] = o;
                }
        }
        *index = optind;
        return 0;
}

/* Options may be before and behind the verb and between its arguments, up to "--", or to the first word of a command.
 */
static int parse_command_line(Ctl *c, CommandLine *l, int argc, char *argv[]) {
        int index = 1, r;

        l->argv = calloc((size_t) argc + 1, sizeof(char *));
        if (!l->argv)
                return ctl_fail("out of memory");
        while (index < argc) {
                bool end;

                r = parse_options(c, l, argc, argv, &index);
                if (r != 0)
                        return r;
                end = index > 1 && streq(argv[index - 1], "--");
                if (index >= argc)
                        return 0;
                if (!l->verb) {
                        l->verb = find_verb(argv[index]);
                        if (!l->verb)
                                return no_such_verb(argv[index]);
                        index++;
                        continue;
                }
                if (end || (l->verb->flags == VERB_RUNS && l->argc == l->verb->min_args - 1)) {
                        while (index < argc)
                                l->argv[l->argc++] = argv[index++];
                        break;
                }
                l->argv[l->argc++] = argv[index++];
        }
        return 0;
}

static bool is_of_verb(const Option *o, const Verb *v) {
        size_t n = strlen(v->name);

        for (const char *p = o->verb; *p; p += strcspn(p, " "), p += strspn(p, " "))
                if (strncmp(p, v->name, n) == 0 && (p[n] == '\0' || p[n] == ','))
                        return true;
        return false;
}

/* An option that has no effect on the verb is a mistake, and reported. */
static int check_command_line(const Ctl *c, const CommandLine *l) {
        for (size_t i = 0; i < l->n_used; i++)
                if (l->used[i]->verb && !is_of_verb(l->used[i], l->verb))
                        return ctl_fail("--%s is an option of %s, not of %s", l->used[i]->name, l->used[i]->verb,
                                        l->verb->name);
        if (!!c->host + !!c->machine + !!c->bus_address > 1)
                return ctl_fail("only one of --host, --machine and --bus-address can say where");
        if (c->host && c->user_bus)
                return ctl_fail("--user: only the system bus of another host can be reached");
        if ((c->host || c->machine) && ((l->verb->flags & VERB_LOCAL) || c->kernel))
                return ctl_fail("%s%s works on this host only: it takes neither --host nor --machine", l->verb->name,
                                c->kernel ? " --kernel" : "");
        if (l->argc < l->verb->min_args)
                return ctl_fail("%s wants %s", l->verb->name, l->verb->arguments);
        if (l->verb->max_args >= 0 && l->argc > l->verb->max_args)
                return ctl_fail("%s: too many arguments", l->verb->name);
        return 0;
}

/* polkit does not ask for a password where no person can answer. Another host has agents of its own. */
static int run_verb(Ctl *c, const CommandLine *l) {
        c->interactive = (l->verb->flags & VERB_ASKS) && !c->no_ask_password && !c->host && !c->machine &&
                        polkit_agent_is_useful();
        if (c->interactive)
                polkit_agent_open();
        list_users_are_elsewhere(c->host || c->machine);
        int r = l->verb->run(c, l->argc, l->argv);
        polkit_agent_close();
        return r;
}

int main(int argc, char *argv[]) {
        Ctl c = {.legend = true, .pager = true, .delay_ns = NSEC_PER_SEC};
        CommandLine l = {};
        int r;

        check_take_host(argc, argv);
        /* Only the character set: numbers stay as programs read them. */
        (void) setlocale(LC_CTYPE, "");
        r = parse_command_line(&c, &l, argc, argv);
        if (r == 0 && l.help)
                help();
        else if (r == 0 && l.version)
                printf("xschedctl %s\n", XSCHED_VERSION);
        else if (r == 0) {
                if (!l.verb)
                        l.verb = find_verb("status");
                r = check_command_line(&c, &l);
                if (r == 0)
                        r = run_verb(&c, &l);
        }
        free(l.argv);
        run_options_done(&c.run);
        sd_bus_flush_close_unref(c.bus);
        /* What is larger than the buffer may have failed before. */
        if ((fflush(stdout) != 0 || ferror(stdout)) && r == 0)
                r = ctl_fail("cannot write: %m");
        return r;
}
