/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The command line
 */

#include <getopt.h>
#include <stdio.h>

#include "config.h"
#include "tools/demo/options.h"

#define PERIOD_GPU_NS (20 * NSEC_PER_MSEC)
#define PERIOD_CPU_NS (50 * NSEC_PER_MSEC)

enum {
        OPT_DURATION = 0x100,
        OPT_LOW,
        OPT_DEVICE,
        OPT_LIST_DEVICES,
        OPT_KERNEL_US,
        OPT_KERNELS,
        OPT_BATCH_KERNELS,
        OPT_PERIOD_MS,
        OPT_DEADLINE_MS,
        OPT_ONLY,
        OPT_SYSTEM,
        OPT_POLICY,
        OPT_HIGH_PRIORITY,
        OPT_LOW_PRIORITY,
        OPT_THRESHOLD,
        OPT_BUDGET,
        OPT_TIMESLICE,
        OPT_LINGER,
        OPT_SET,
        OPT_PLOT,
        OPT_NO_PLOT,
        OPT_JSON,
        OPT_QUIET,
        OPT_VERSION,
};

static void help(void) {
        printf("xsched-demo [OPTION...]\n"
               "\n"
               "Plays a latency-critical job and batch jobs on one device: alone, together without xsched, together\n"
               "with xsched. Checks every computed result, and shows what the sharing cost each of them.\n"
               "\n"
               "What is played:\n"
               "      --low=N               batch jobs (1)\n"
               "      --duration=SECONDS    of each phase (15)\n"
               "      --device=DEVICE       index or part of the name (the first GPU, else the CPU); amd-sim:\n"
               "                            the simulated AMD GPU of a build tree\n"
               "      --list-devices        show the devices and exit\n"
               "      --kernel-us=USEC      length of a kernel (120 on a GPU, 460 on a CPU)\n"
               "      --kernels=N           kernels in a task of the latency job (10)\n"
               "      --batch-kernels=N     kernels in a task of a batch job (100)\n"
               "      --period-ms=MSEC      time from task to task of the latency job (20 on a GPU, 50 on a CPU)\n"
               "      --deadline-ms=MSEC    a longer task is a miss (twice the length of its kernels)\n"
               "      --only=PHASE[,PHASE]  alone, shared, xsched (all three)\n"
               "\n"
               "How xsched runs it:\n"
               "      --system              use the xschedd of this system, not one started for the demo\n"
               "      --high-priority=N     of the latency job (10)\n"
               "      --low-priority=N      of the batch jobs (-10)\n"
               "      --policy=POLICY       how the device is scheduled\n"
               "      --threshold=N         launches in flight of a job while others have a claim\n"
               "      --budget=USEC         device time in flight of such a job\n"
               "      --timeslice=USEC      length of a job's turn among jobs of equal priority\n"
               "      --linger=USEC         how long the device is kept for a job that has just become idle\n"
               "      --set=NAME=VALUE      any setting of xsched.conf(5)'s [Scheduler]; may be repeated\n"
               "\n"
               "What comes out:\n"
               "      --plot=FILE           write a plot (SVG)\n"
               "      --no-plot             write none\n"
               "      --json[=FILE]         results for machines; without FILE instead of the table\n"
               "  -q, --quiet               no progress\n"
               "  -h, --help                show this help\n"
               "      --version             show the version\n"
               "\n"
               "xsched-session and xschedctl are looked for beside xsched-demo, in a build tree's tools/, "
               "and in PATH;\n"
               "XSCHED_SESSION and XSCHEDCTL name others. dbus-daemon is found in PATH.\n");
}

static int parse_number(const char *name, const char *s, double min, double max, double *ret) {
        char *end;

        errno = 0;
        double v = strtod(s, &end);
        if (end == s || *end || errno != 0 || !(v >= min && v <= max))
                return demo_error(-EINVAL, "--%s=%s: expected a number from %g to %g", name, s, min, max);
        *ret = v;
        return 0;
}

static int parse_time(const char *name, const char *s, uint64_t unit_ns, uint64_t *ret) {
        double v = 0;

        int r = parse_number(name, s, 0.001, 1e6, &v);
        if (r >= 0)
                *ret = (uint64_t) (v * (double) unit_ns);
        return r;
}

static int parse_integer(const char *name, const char *s, int min, int max, int *ret) {
        double v = 0;

        int r = parse_number(name, s, min, max, &v);
        if (r < 0)
                return r;
        if (v != (double) (int) v)
                return demo_error(-EINVAL, "--%s=%s: expected a whole number", name, s);
        *ret = (int) v;
        return 0;
}

static int parse_count(const char *name, const char *s, int min, int max, uint32_t *ret) {
        int v = 0;

        int r = parse_integer(name, s, min, max, &v);
        if (r >= 0)
                *ret = (uint32_t) v;
        return r;
}

static int parse_phases(const char *s, unsigned *ret) {
        _cleanup_free_ char *copy = strdup(s);
        unsigned phases = 0;
        char *state = NULL;

        if (!copy)
                return demo_error(-ENOMEM, "out of memory");
        for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
                int k = phase_kind_from_string(word);
                if (k < 0)
                        return demo_error(-EINVAL, "--only=%s: '%s' is not one of alone, shared, xsched", s, word);
                phases |= 1U << k;
        }
        if (phases == 0)
                return demo_error(-EINVAL, "--only= names no phase");
        *ret = phases;
        return 0;
}

static int add_setting(Options *o, const char *setting) {
        if (!strchr(setting, '=') || setting[0] == '=' || strpbrk(setting, "\n[]"))
                return demo_error(-EINVAL, "--set=%s: expected NAME=VALUE", setting);
        if (o->n_settings == OPTIONS_SETTINGS_MAX)
                return demo_error(-E2BIG, "too many settings");
        o->settings[o->n_settings++] = setting;
        return 0;
}

/* The string lives as long as the process, as those of argv do. */
static int add_numeric_setting(Options *o, const char *option, const char *name, const char *value, const char *unit) {
        char *setting;
        int v = 0;

        int r = parse_integer(option, value, 0, 1000000000, &v);
        if (r < 0)
                return r;
        if (asprintf(&setting, "%s=%d%s", name, v, unit) < 0)
                return demo_error(-ENOMEM, "out of memory");
        return add_setting(o, setting);
}

static int parse_option(int c, Options *o) {
        switch (c) {
        case OPT_DURATION:
                return parse_time("duration", optarg, NSEC_PER_SEC, &o->duration_ns);
        case OPT_LOW:
                return parse_count("low", optarg, 1, 64, &o->n_low);
        case OPT_DEVICE:
                o->device = optarg;
                return 0;
        case OPT_LIST_DEVICES:
                o->list_devices = true;
                return 0;
        case OPT_KERNEL_US:
                return parse_time("kernel-us", optarg, NSEC_PER_USEC, &o->kernel_ns);
        case OPT_KERNELS:
                return parse_count("kernels", optarg, 1, 4096, &o->n_kernels);
        case OPT_BATCH_KERNELS:
                return parse_count("batch-kernels", optarg, 1, 4096, &o->n_batch_kernels);
        case OPT_PERIOD_MS:
                return parse_time("period-ms", optarg, NSEC_PER_MSEC, &o->period_ns);
        case OPT_DEADLINE_MS:
                return parse_time("deadline-ms", optarg, NSEC_PER_MSEC, &o->deadline_ns);
        case OPT_ONLY:
                return parse_phases(optarg, &o->phases);
        case OPT_SYSTEM:
                o->system = true;
                return 0;
        case OPT_HIGH_PRIORITY:
                return parse_integer("high-priority", optarg, -255, 255, &o->high_priority);
        case OPT_LOW_PRIORITY:
                return parse_integer("low-priority", optarg, -255, 255, &o->low_priority);
        case OPT_POLICY:
                o->policy = optarg;
                return 0;
        case OPT_THRESHOLD:
                return add_numeric_setting(o, "threshold", "Threshold", optarg, "");
        case OPT_BUDGET:
                return add_numeric_setting(o, "budget", "Budget", optarg, "us");
        case OPT_TIMESLICE:
                return add_numeric_setting(o, "timeslice", "TimeSlice", optarg, "us");
        case OPT_LINGER:
                return add_numeric_setting(o, "linger", "Linger", optarg, "us");
        case OPT_SET:
                return add_setting(o, optarg);
        case OPT_PLOT:
                o->plot = optarg;
                return 0;
        case OPT_NO_PLOT:
                o->plot = NULL;
                return 0;
        case OPT_JSON:
                o->json = true;
                o->json_file = optarg;
                return 0;
        case 'q':
                o->quiet = true;
                return 0;
        default:
                return -EINVAL; /* getopt has said why */
        }
}

int options_parse(int argc, char *argv[], Options *ret) {
        static const struct option options[] = {
                        {"duration", required_argument, NULL, OPT_DURATION},
                        {"low", required_argument, NULL, OPT_LOW},
                        {"device", required_argument, NULL, OPT_DEVICE},
                        {"list-devices", no_argument, NULL, OPT_LIST_DEVICES},
                        {"kernel-us", required_argument, NULL, OPT_KERNEL_US},
                        {"kernels", required_argument, NULL, OPT_KERNELS},
                        {"batch-kernels", required_argument, NULL, OPT_BATCH_KERNELS},
                        {"period-ms", required_argument, NULL, OPT_PERIOD_MS},
                        {"deadline-ms", required_argument, NULL, OPT_DEADLINE_MS},
                        {"only", required_argument, NULL, OPT_ONLY},
                        {"system", no_argument, NULL, OPT_SYSTEM},
                        {"policy", required_argument, NULL, OPT_POLICY},
                        {"high-priority", required_argument, NULL, OPT_HIGH_PRIORITY},
                        {"low-priority", required_argument, NULL, OPT_LOW_PRIORITY},
                        {"threshold", required_argument, NULL, OPT_THRESHOLD},
                        {"budget", required_argument, NULL, OPT_BUDGET},
                        {"timeslice", required_argument, NULL, OPT_TIMESLICE},
                        {"linger", required_argument, NULL, OPT_LINGER},
                        {"set", required_argument, NULL, OPT_SET},
                        {"plot", required_argument, NULL, OPT_PLOT},
                        {"no-plot", no_argument, NULL, OPT_NO_PLOT},
                        {"json", optional_argument, NULL, OPT_JSON},
                        {"quiet", no_argument, NULL, 'q'},
                        {"help", no_argument, NULL, 'h'},
                        {"version", no_argument, NULL, OPT_VERSION},
                        {},
        };
        Options o = {
                        .duration_ns = 15 * NSEC_PER_SEC,
                        .n_low = 1,
                        .n_kernels = 10,
                        .n_batch_kernels = 100,
                        .phases = (1U << _PHASE_MAX) - 1,
                        .high_priority = 10,
                        .low_priority = -10,
        };

        for (int c; (c = getopt_long(argc, argv, "qh", options, NULL)) >= 0;) {
                if (c == 'h') {
                        help();
                        return 0;
                }
                if (c == OPT_VERSION) {
                        printf("xsched-demo %s\n", XSCHED_VERSION);
                        return 0;
                }
                int r = parse_option(c, &o);
                if (r < 0)
                        return r;
        }
        if (optind < argc)
                return demo_error(-EINVAL, "unexpected argument '%s'; --help lists the options", argv[optind]);
        if (o.system && (o.n_settings > 0 || o.policy))
                return demo_error(-EINVAL,
                                "--system uses the xschedd of this system as it is: change its settings with "
                                "xschedctl(1) or in xsched.conf(5)");
        *ret = o;
        return 1;
}

void options_complete(Options *o, const Calibration *c) {
        if (o->period_ns == 0)
                o->period_ns = c->gpu ? PERIOD_GPU_NS : PERIOD_CPU_NS;
        if (o->deadline_ns == 0)
                o->deadline_ns = 2 * (uint64_t) o->n_kernels * c->kernel_ns;
}
