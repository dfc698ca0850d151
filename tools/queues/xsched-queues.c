/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-queues: from a process to its queues on AMD GPUs, as the kernel tells
 */

#include <getopt.h>
#include <locale.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "config.h"
#include "tools/queues/kernel-queues.h"
#include "tools/shared/ctl-bus.h"

#define PIDS_MAX 1024U

typedef struct Arguments {
        bool hardware, usage;
        pid_t pids[PIDS_MAX];
        size_t n_pids;
} Arguments;

enum {
        OPTION_HARDWARE = 0x100,
        OPTION_USAGE,
        OPTION_BUS_ADDRESS,
        OPTION_SYSTEM,
        OPTION_USER,
        OPTION_JSON,
        OPTION_NO_LEGEND,
        OPTION_NO_PAGER,
        OPTION_VERSION,
};

static const struct option options[] = {
                {"hardware", no_argument, NULL, OPTION_HARDWARE},
                {"usage", no_argument, NULL, OPTION_USAGE},
                {"bus-address", required_argument, NULL, OPTION_BUS_ADDRESS},
                {"system", no_argument, NULL, OPTION_SYSTEM},
                {"user", no_argument, NULL, OPTION_USER},
                {"json", required_argument, NULL, OPTION_JSON},
                {"no-legend", no_argument, NULL, OPTION_NO_LEGEND},
                {"no-pager", no_argument, NULL, OPTION_NO_PAGER},
                {"full", no_argument, NULL, 'l'},
                {"help", no_argument, NULL, 'h'},
                {"version", no_argument, NULL, OPTION_VERSION},
                {},
};

static void help(void) {
        puts("xsched-queues [OPTION...] PID...\n"
             "\n"
             "List the queues that a process has on AMD GPUs, as the kernel (KFD) reports them.\n"
             "\n"
             "Options:\n"
             "      --hardware             As root: also which queues are in the hardware now\n"
             "      --usage                What the process uses of each GPU, in place of its queues\n"
             "      --bus-address=ADDRESS  Ask the xschedd on this bus; else on $XSCHED_BUS_ADDRESS, else\n"
             "                             on the system bus\n"
             "      --system               Ask the xschedd on the system bus\n"
             "      --user                 Ask the xschedd on the user's bus\n"
             "      --json=MODE            Print JSON: short, pretty or off\n"
             "      --no-legend            Print neither headings nor totals\n"
             "      --no-pager             Do not pipe output into a pager\n"
             "  -l, --full                 Do not shorten what does not fit the terminal\n"
             "  -h, --help                 Show this help\n"
             "      --version              Show the version\n"
             "\n"
             "See xsched-queues(1).");
}

/* Returns an exit status, or -1 to go on. */
static int take_option(Ctl *c, Arguments *a, int option) {
        switch (option) {
        case OPTION_HARDWARE:
                a->hardware = true;
                return -1;
        case OPTION_USAGE:
                a->usage = true;
                return -1;
        case OPTION_BUS_ADDRESS:
                c->bus_address = optarg;
                return -1;
        case OPTION_SYSTEM:
                c->system_bus = true;
                return -1;
        case OPTION_USER:
                c->user_bus = true;
                return -1;
        case OPTION_JSON:
                if (json_mode_from_string(optarg) < 0)
                        return ctl_fail("--json= is one of short, pretty, off");
                c->json = (JsonMode) json_mode_from_string(optarg);
                return -1;
        case OPTION_NO_LEGEND:
                c->legend = false;
                return -1;
        case OPTION_NO_PAGER:
                c->pager = false;
                return -1;
        case 'l':
                c->full = true;
                return -1;
        case 'h':
                help();
                return EXIT_SUCCESS;
        case OPTION_VERSION:
                puts("xsched-queues " XSCHED_VERSION);
                return EXIT_SUCCESS;
        default:
                return EXIT_FAILURE; /* getopt_long() said why */
        }
}

static int take_arguments(Ctl *c, Arguments *a, int argc, char *argv[]) {
        int option;

        while ((option = getopt_long(argc, argv, "lh", options, NULL)) >= 0) {
                int r = take_option(c, a, option);
                if (r >= 0)
                        return r;
        }
        if (optind >= argc)
                return ctl_fail("which process? Try --help");
        if (a->hardware && a->usage)
                return ctl_fail("--hardware is about queues, --usage shows none");
        for (; optind < argc; optind++) {
                uint64_t pid;
                if (a->n_pids >= PIDS_MAX)
                        return ctl_fail("too many processes");
                if (parse_uint64(argv[optind], 1, INT32_MAX, &pid) < 0)
                        return ctl_fail("%s: not a process id", argv[optind]);
                a->pids[a->n_pids++] = (pid_t) pid;
        }
        return -1;
}

static int list_queues(Ctl *c, const Arguments *a) {
        _cleanup_(kernel_queues_done)
        KernelQueues q = {};

        int r = kernel_queues_read(c, a->pids, a->n_pids, a->hardware, &q);
        if (r != 0)
                return r;
        if (a->hardware && !q.has_registers && q.table.n_rows > 0)
                return ctl_fail("--hardware: debugfs cannot be read: %s",
                                geteuid() == 0 ? "it is not mounted, or says nothing that is understood"
                                               : "that takes root");
        return kernel_queues_show(c, &q);
}

int main(int argc, char *argv[]) {
        Ctl c = {.legend = true, .pager = true};
        Arguments a = {};

        (void) setlocale(LC_CTYPE, "");
        int r = take_arguments(&c, &a, argc, argv);
        if (r < 0)
                r = a.usage ? kernel_usage_show(&c, a.pids, a.n_pids) : list_queues(&c, &a);
        sd_bus_flush_close_unref(c.bus);
        if (fflush(stdout) != 0 && r == 0)
                r = ctl_fail("cannot write: %m");
        return r;
}
