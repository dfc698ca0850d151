/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * fleet-sim: runs the jobs of a cluster's trace on simulated hosts, under the policies of policy/ and under other
 * disciplines
 */

#include <getopt.h>
#include <time.h>

#include "common/parse-util.h"
#include "tools/fleet/report.h"
#include "trace-make.h"
#include "trace-pai.h"
#include "trace-philly.h"

enum {
        OPT_HOSTS = 0x100,
        OPT_GPUS,
        OPT_SLOTS,
        OPT_SEED,
        OPT_LENGTH,
        OPT_SERVICES,
        OPT_TRAINING,
        OPT_FASTER,
        OPT_PHILLY,
        OPT_PAI_JOBS,
        OPT_PAI_TASKS,
        OPT_MAKE,
        OPT_ONLY,
        OPT_POLICY,
        OPT_TIMESLICE,
        OPT_CHECK,
        OPT_JSON,
};

typedef struct Options {
        FleetConfig fleet;
        TraceShape shape;
        uint64_t faster;
        const char *philly, *pai_jobs, *pai_tasks;
        bool make, check, json;
        bool services; /* asked for */
        bool ran[_DISCIPLINE_MAX];
} Options;

static void help(void) {
        printf("fleet-sim [OPTION...]\n"
               "\n"
               "Runs the jobs of a trace on simulated hosts with GPUs, and says what services and training get of\n"
               "them: first come, first served; with GPUs of their own; in equal time slices; under xsched's policy.\n"
               "tools/fleet/fleet.h says what is simulated.\n"
               "\n"
               "      --hosts=N, --gpus=N   hosts (100), and GPUs of each (8)\n"
               "      --slots=N             jobs that fit on a GPU together (3)\n"
               "      --policy=NAME         of xsched (tree); xschedctl list-policies has them\n"
               "      --timeslice=TIME      of the policy (20ms)\n"
               "      --only=NAME           first-come, exclusive, time-slicing or xsched; may be repeated\n"
               "\n"
               "Which jobs:\n"
               "      --philly=FILE         Philly's cluster_job_log\n"
               "      --pai-jobs=FILE       PAI's pai_job_table.csv, and\n"
               "      --pai-tasks=FILE      its pai_task_table.csv\n"
               "      --faster=N            the trace's times divided by N\n"
               "      --services=PERCENT    beside those a made-up service for so many of the GPUs (0); "
               "Philly has none\n"
               "  and where no trace is named, made-up ones:\n"
               "      --length=TIME         submitted within that time (20min)\n"
               "      --services=PERCENT    a service for so many of the GPUs (40)\n"
               "      --training=PERCENT    training that would keep so many of them busy (90)\n"
               "      --seed=N              others (1)\n"
               "      --make                write them to the files of --pai-jobs and --pai-tasks, and run nothing\n"
               "\n"
               "      --check               fail where what has to hold does not\n"
               "      --json                for programs\n"
               "  -h, --help                this help\n");
}

static int usage(const char *what) {
        fprintf(stderr, "fleet-sim: %s; --help lists the options\n", what);
        return -EINVAL;
}

static int parse_number(uint64_t min, uint64_t max, uint64_t *ret) {
        if (parse_uint64(optarg, min, max, ret) < 0)
                return usage("a number is wrong, or out of range");
        return 0;
}

static int parse_u32(uint64_t min, uint64_t max, uint32_t *ret) {
        uint64_t v;
        int r = parse_number(min, max, &v);

        if (r >= 0)
                *ret = (uint32_t) v;
        return r;
}

static int parse_time(uint64_t min, uint64_t max, uint64_t *ret) {
        uint64_t v;

        if (parse_nsec(optarg, &v) < 0 || v < min || v > max)
                return usage("a time is wrong, or out of range");
        *ret = v;
        return 0;
}

static int parse_only(Options *o) {
        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++)
                if (strcmp(optarg, discipline_to_string(i)) == 0) {
                        o->ran[i] = true;
                        return 0;
                }
        return usage("no such discipline");
}

static int parse_option(Options *o, int c) {
        switch (c) {
        case OPT_HOSTS:
                return parse_u32(1, 10000, &o->fleet.n_hosts);
        case OPT_GPUS:
                return parse_u32(1, 64, &o->fleet.gpus_per_host);
        case OPT_SLOTS:
                return parse_u32(1, FLEET_SLOTS_MAX, &o->fleet.slots);
        case OPT_SEED:
                return parse_number(0, UINT32_MAX, &o->shape.seed);
        case OPT_LENGTH:
                return parse_time(NSEC_PER_SEC, UINT64_C(86400000) * NSEC_PER_SEC, &o->shape.length_ns);
        case OPT_SERVICES:
                o->services = true;
                return parse_u32(0, 100, &o->shape.services);
        case OPT_TRAINING:
                return parse_u32(0, 1000, &o->shape.training);
        case OPT_FASTER:
                return parse_number(1, 1000000, &o->faster);
        case OPT_POLICY:
                o->fleet.ops = policy_find(optarg);
                return o->fleet.ops ? 0 : usage("no such policy");
        case OPT_TIMESLICE:
                return parse_time(NSEC_PER_MSEC, NSEC_PER_SEC, &o->fleet.policy.timeslice_ns);
        case OPT_ONLY:
                return parse_only(o);
        case OPT_PHILLY:
                o->philly = optarg;
                return 0;
        case OPT_PAI_JOBS:
                o->pai_jobs = optarg;
                return 0;
        case OPT_PAI_TASKS:
                o->pai_tasks = optarg;
                return 0;
        case OPT_MAKE:
                o->make = true;
                return 0;
        case OPT_CHECK:
                o->check = true;
                return 0;
        case OPT_JSON:
                o->json = true;
                return 0;
        default:
                return usage("unknown option");
        }
}

static int parse_options(int argc, char *argv[], Options *o) {
        static const struct option options[] = {
                        {"hosts", required_argument, NULL, OPT_HOSTS},
                        {"gpus", required_argument, NULL, OPT_GPUS},
                        {"slots", required_argument, NULL, OPT_SLOTS},
                        {"seed", required_argument, NULL, OPT_SEED},
                        {"length", required_argument, NULL, OPT_LENGTH},
                        {"services", required_argument, NULL, OPT_SERVICES},
                        {"training", required_argument, NULL, OPT_TRAINING},
                        {"faster", required_argument, NULL, OPT_FASTER},
                        {"philly", required_argument, NULL, OPT_PHILLY},
                        {"pai-jobs", required_argument, NULL, OPT_PAI_JOBS},
                        {"pai-tasks", required_argument, NULL, OPT_PAI_TASKS},
                        {"make", no_argument, NULL, OPT_MAKE},
                        {"only", required_argument, NULL, OPT_ONLY},
                        {"policy", required_argument, NULL, OPT_POLICY},
                        {"timeslice", required_argument, NULL, OPT_TIMESLICE},
                        {"check", no_argument, NULL, OPT_CHECK},
                        {"json", no_argument, NULL, OPT_JSON},
                        {"help", no_argument, NULL, 'h'},
                        {},
        };
        bool any = false;
        int c;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
                if (c == 'h') {
                        help();
                        exit(EXIT_SUCCESS);
                }
                int r = parse_option(o, c);
                if (r < 0)
                        return r;
        }
        if (optind < argc)
                return usage("there are no arguments");
        if (!o->pai_jobs != !o->pai_tasks || (o->make && !o->pai_jobs))
                return usage("--pai-jobs= and --pai-tasks= go together");
        if (o->philly && o->pai_jobs)
                return usage("one trace at a time");
        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++)
                any = any || o->ran[i];
        for (unsigned i = 0; i < _DISCIPLINE_MAX; i++)
                o->ran[i] = o->ran[i] || !any;
        o->shape.n_gpus = o->fleet.n_hosts * o->fleet.gpus_per_host;
        o->shape.mean_job_ns = o->shape.length_ns / 10;
        o->fleet.seed = o->shape.seed;
        return 0;
}

static FILE *open_file(const char *name, const char *mode) {
        FILE *f = name ? fopen(name, mode) : tmpfile();

        if (!f)
                fprintf(stderr, "fleet-sim: %s: %s\n", name ?: "a file", strerror(errno));
        return f;
}

static void close_file(FILE **f) {
        if (*f)
                (void) fclose(*f);
}

/* Reads the trace from files. A made-up trace is written to files first, and read as any other. */
static int read_trace(const Options *o, Trace *ret) {
        bool made = o->make || (!o->philly && !o->pai_jobs);
        _cleanup_(close_file)
        FILE *a = open_file(o->philly ?: o->pai_jobs, made ? "w+e" : "re"), *b = NULL;
        int r = 0;

        if (a && !o->philly)
                b = open_file(o->pai_tasks, made ? "w+e" : "re");
        if (!a || (!o->philly && !b))
                return -EIO;
        if (made) {
                r = trace_make_pai(&o->shape, a, b);
                rewind(a);
                rewind(b);
        }
        if (r >= 0)
                r = o->philly ? trace_read_philly(a, ret) : trace_read_pai(a, b, ret);
        if (r >= 0 && !made && o->services)
                r = trace_add_services(&o->shape, ret);
        if (r < 0)
                fprintf(stderr, "fleet-sim: the trace: %s\n", r == -EINVAL ? "not in its format" : strerror(-r));
        else if (ret->n == 0) {
                fprintf(stderr, "fleet-sim: the trace has no job with GPUs\n");
                r = -EINVAL;
        }
        return r;
}

/* CPU time of this process, so that other work of the machine makes no difference. */
static uint64_t cpu_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        return timespec_to_ns(&ts);
}

static int run(const Options *o, const Trace *t, FleetResult *results) {
        double took_s[_DISCIPLINE_MAX] = {0};
        bool ok = true;
        int r = 0;

        for (unsigned i = 0; i < _DISCIPLINE_MAX && r >= 0; i++) {
                FleetConfig c = o->fleet;
                uint64_t begin = cpu_ns();

                if (!o->ran[i])
                        continue;
                c.discipline = i;
                r = fleet_run(&c, t, results + i);
                took_s[i] = (double) (cpu_ns() - begin) / NSEC_PER_SEC;
                if (r >= 0 && o->check)
                        ok = report_check(&c, results + i, t) && ok;
                if (r >= 0 && o->check && i == DISCIPLINE_XSCHED)
                        ok = report_check_behind(&c, results + i, t) && ok;
        }
        if (r < 0)
                fprintf(stderr, "fleet-sim: %s\n", strerror(-r));
        else if (o->json)
                r = report_json(stdout, t, &o->fleet, results, o->ran, took_s);
        else
                report_text(stdout, t, &o->fleet, results, o->ran);
        return r < 0 ? r : ok ? 0 : -EBADMSG;
}

int main(int argc, char *argv[]) {
        Options o = {
                        .fleet = {.n_hosts = 100, .gpus_per_host = 8, .slots = 3, .policy = POLICY_CONFIG_DEFAULT},
                        .shape = {.seed = 1,
                                        .length_ns = 1200 * NSEC_PER_SEC,
                                        .services = 40,
                                        .training = 90,
                                        .largest_percent = 25},
                        .faster = 1,
        };
        _cleanup_(trace_done)
        Trace t = {0};
        _cleanup_free_ FleetResult *results = calloc(_DISCIPLINE_MAX, sizeof(*results));

        if (!results || parse_options(argc, argv, &o) < 0 || read_trace(&o, &t) < 0)
                return EXIT_FAILURE;
        if (o.make)
                return EXIT_SUCCESS;
        trace_sort(&t, (uint32_t) o.faster);
        return run(&o, &t, results) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
