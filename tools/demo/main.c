/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-demo: the parent's way from the command line to the results
 */

#include <libgen.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "plot.h"
#include "tools/demo/progress.h"
#include "tools/demo/report.h"
#include "tools/demo/session.h"
#include "tools/demo/sim.h"
#include "tools/demo/tenant.h"
#include "tools/demo/work.h"

static void outcome_done(Outcome *o) {
        for (unsigned k = 0; k < _PHASE_MAX; k++)
                phase_result_done(o->phases + k);
}

static int run_phases(const Options *o, const PhasePlan *plan, Progress *progress, Outcome *outcome) {
        for (unsigned k = 0; k < _PHASE_MAX; k++) {
                if (!options_has_phase(o, (PhaseKind) k))
                        continue;
                progress_begin(progress, (PhaseKind) k);
                int r = phase_run((PhaseKind) k, plan, progress_update, progress, outcome->phases + k);
                if (r < 0)
                        return r;
                progress_end(progress, outcome->phases + k);
        }
        return 0;
}

typedef int (*write_t)(const Outcome *o, FILE *f);

static int write_file(const Outcome *o, const char *path, write_t write_it) {
        FILE *f = fopen(path, "we");
        if (!f)
                return demo_error(negative_errno(), "cannot write %s: %s", path, strerror(errno));

        int r = write_it(o, f);
        if (fclose(f) != 0 && r >= 0)
                r = negative_errno();
        return r < 0 ? demo_error(r, "cannot write %s: %s", path, strerror(-r)) : 0;
}

static int check_file(const char *path) {
        _cleanup_free_ char *copy = strdup(path);
        struct stat st;

        if (!copy)
                return demo_error(-ENOMEM, "out of memory");
        int r = stat(path, &st) < 0 ? negative_errno() : 0;
        if (r == 0)
                r = S_ISDIR(st.st_mode) ? -EISDIR : access(path, W_OK) < 0 ? negative_errno() : 0;
        else if (r == -ENOENT)
                r = access(dirname(copy), W_OK | X_OK) < 0 ? negative_errno() : 0;
        return r < 0 ? demo_error(r, "cannot write %s: %s", path, strerror(-r)) : 1;
}

/* Checks that the files can be written, before the phases run whose results would be lost. */
static int check_files(const Options *o) {
        int r = o->json_file ? check_file(o->json_file) : 1;

        return r > 0 && o->plot ? check_file(o->plot) : r;
}

static int write_results(const Outcome *outcome) {
        const Options *o = outcome->options;
        int r = 0, k = 0;

        if (!o->json || o->json_file)
                report_table(outcome, stdout);
        if (o->json)
                k = o->json_file ? write_file(outcome, o->json_file, report_json) : report_json(outcome, stdout);
        if (o->plot) {
                r = write_file(outcome, o->plot, report_plot);
                if (r >= 0 && (!o->json || o->json_file))
                        printf("Plot: %s\n", o->plot);
        }
        if (fflush(stdout) != 0)
                return demo_error(negative_errno(), "cannot write the results: %s", strerror(errno));
        return r < 0 ? r : k;
}

static int run(Options *o) {
        _cleanup_(outcome_done)
        Outcome outcome = {.options = o};
        _cleanup_free_ char *xschedctl = NULL;
        Calibration calibration;
        int r = 0;

        if (o->system)
                (void) unsetenv("XSCHED_BUS_ADDRESS");
        if (options_has_phase(o, PHASE_XSCHED))
                r = find_program("xschedctl", "XSCHEDCTL", &xschedctl);
        if (r < 0)
                return r;

        Progress progress = progress_new(o->quiet, (unsigned) __builtin_popcount(o->phases));
        progress_note(&progress, "calibrating the kernel ...");
        r = calibrate(o->device, o->kernel_ns, &calibration);
        if (r < 0)
                return r;
        options_complete(o, &calibration);
        progress_note(&progress, "%s: kernels of %.3f ms", calibration.device, (double) calibration.kernel_ns / 1e6);

        const PhasePlan plan = {
                        .calibration = &calibration,
                        .device = o->device,
                        .duration_ns = o->duration_ns,
                        .period_ns = o->period_ns,
                        .deadline_ns = o->deadline_ns,
                        .n_low = o->n_low,
                        .n_kernels = o->n_kernels,
                        .n_batch_kernels = o->n_batch_kernels,
                        .xschedctl = xschedctl,
                        .high_priority = o->high_priority,
                        .low_priority = o->low_priority,
        };
        outcome.calibration = &calibration;
        r = run_phases(o, &plan, &progress, &outcome);
        return r < 0 ? r : write_results(&outcome);
}

/* Runs the role that this binary has when it starts itself. */
static bool run_role(int argc, char *argv[], int *ret) {
        TenantPlan plan;

        if (argc >= 2 && streq(argv[1], "--tenant")) {
                int r = tenant_parse(argv + 2, &plan);
                *ret = r < 0 ? r : tenant_main(&plan);
                return true;
        }
        if (argc == 4 && streq(argv[1], "--calibrator")) {
                *ret = calibrate_main(argv[2], strtoull(argv[3], NULL, 10));
                return true;
        }
        return false;
}

int main(int argc, char *argv[]) {
        Options o;
        int r;

        (void) setlocale(LC_CTYPE, "");
        if (run_role(argc, argv, &r))
                return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;

        /* Writing to a child that has ended fails, and then its exit status is read. */
        (void) signal(SIGPIPE, SIG_IGN);

        r = options_parse(argc, argv, &o);
        if (r > 0)
                r = check_files(&o);
        if (r > 0 && o.list_devices)
                r = work_list_devices();
        else if (r > 0) {
                r = session_enter(argc, argv, &o);
                if (r >= 0 && sim_is_device(o.device))
                        r = sim_enter();
                if (r >= 0)
                        r = run(&o);
                sim_leave();
        }
        if (r >= 0 && fflush(stdout) != 0)
                r = demo_error(negative_errno(), "cannot write: %s", strerror(errno));
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
