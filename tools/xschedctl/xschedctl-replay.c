/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * replay: plays a recording again, offline
 */

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/stream-util.h"
#include "tools/replay/replay.h"
#include "tools/replay/timeline.h"
#include "tools/shared/table.h"
#include "tools/xschedctl/xschedctl.h"

/* A group that its policy decides for as a whole has no process and no queue. */
static Value number_or_none(uint64_t n) {
        return n > 0 ? value_uint(n) : (Value){0};
}

static int show(const Ctl *c, const Outcome *o) {
        static const Column columns[] = {
                        {"DEVICE", "device", CELL_PLAIN, 0},
                        {"GROUP", "group", CELL_PLAIN, COLUMN_ELASTIC},
                        {"PID", "pid", CELL_PLAIN, COLUMN_RIGHT | COLUMN_IF_KNOWN},
                        {"QUEUE", "queue", CELL_PLAIN, COLUMN_RIGHT | COLUMN_IF_KNOWN},
                        {"BURSTS", "bursts", CELL_PLAIN, COLUMN_RIGHT},
                        {"RAN", "run_usec", CELL_USEC, COLUMN_RIGHT},
                        {"WAITED", "wait_usec", CELL_USEC, COLUMN_RIGHT},
                        {"P50", "ready_to_run_p50_usec", CELL_USEC, COLUMN_RIGHT},
                        {"P99", "ready_to_run_p99_usec", CELL_USEC, COLUMN_RIGHT},
                        {"SHARE", "share", CELL_SHARE, COLUMN_RIGHT},
                        {"ASKED", "asked", CELL_SHARE, COLUMN_RIGHT},
                        {"PREEMPTED", "preempted", CELL_PLAIN, COLUMN_RIGHT},
        };
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        const Tenant *tenant, *next;

        HASH_ITER(hh, o->tenants, tenant, next) {
                uint64_t all = outcome_device_run(o, tenant->device);
                Value *cells = table_add(&t, TABLE_NO_PARENT);

                if (!cells)
                        return ctl_fail("out of memory");
                cells[0] = value_string(tenant->device);
                cells[1] = value_string(tenant->group);
                cells[2] = number_or_none(tenant->pid);
                cells[3] = number_or_none(tenant->queue);
                cells[4] = value_uint(tenant->n_bursts);
                cells[5] = value_uint(tenant->run_ns / NSEC_PER_USEC);
                cells[6] = value_uint(tenant->wait_ns / NSEC_PER_USEC);
                cells[7] = value_uint(tenant_wait(tenant, 50) / NSEC_PER_USEC);
                cells[8] = value_uint(tenant_wait(tenant, 99) / NSEC_PER_USEC);
                cells[9] = value_double(all > 0 ? (double) tenant->run_ns / (double) all : 0);
                cells[10] = value_double(tenant_asked(tenant));
                cells[11] = value_uint(tenant->n_preempted);
        }
        return table_show(c, &t, "tenant", "tenants");
}

static bool is_file_of(const char *name, FILE *f) {
        struct stat a, b;

        return name && stat(name, &a) == 0 && fstat(fileno(f), &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
                        a.st_ino == b.st_ino;
}

typedef int (*print_t)(const Outcome *o, FILE *f);

static int write_file(const Outcome *o, const char *name, print_t print) {
        _cleanup_(fclosep)
        FILE *f = streq(name, "-") ? fdopen(dup(STDOUT_FILENO), "we") : fopen(name, "we");

        if (!f)
                return ctl_fail("%s: %m", name);
        int r = print(o, f);
        if (r < 0)
                return ctl_fail("%s: %s", name, strerror(-r));
        return fflush(f) != 0 ? ctl_fail("%s: %m", name) : 0;
}

static int show_check(const char *name, const Replay *p) {
        if (p->player.lost)
                return ctl_fail("%s: %" PRIu64 " records were lost; all others came out as they were recorded", name,
                                p->player.n_lost);
        if (!p->player.ended)
                return ctl_fail("%s: it is cut after record %" PRIu64 "; all came out as they were recorded", name,
                                p->player.n_records);
        printf("%s: the same: %" PRIu64 " records, %" PRIu64 " decisions, %" PRIu64 " grants\n", name,
                        p->player.n_records, p->player.n_dispatches, p->player.n_grants);
        return 0;
}

static void warn(const char *name, const Replay *p) {
        if (p->player.lost)
                fprintf(stderr, "xschedctl: %s: not exact: %" PRIu64 " records were lost\n", name, p->player.n_lost);
        else if (!p->player.ended)
                fprintf(stderr, "xschedctl: %s: it is cut after record %" PRIu64 "\n", name, p->player.n_records);
}

int verb_replay(Ctl *c, int argc, char *argv[]) {
        _cleanup_(replay_done)
        Replay p = {0};
        _cleanup_(fclosep)
        FILE *f = streq(argv[0], "-") ? fdopen(dup(STDIN_FILENO), "re") : fopen(argv[0], "re");
        int r;

        if (!f)
                return ctl_fail("%s: %m", argv[0]);
        if (is_file_of(c->svg, f) || is_file_of(c->trace, f))
                return ctl_fail("%s: --svg= and --trace= do not overwrite the recording itself", argv[0]);
        r = replay_ask(&p, c->policy, argv + 1, (size_t) argc - 1, c->sets, c->n_sets);
        if (r < 0)
                return ctl_fail("%s", p.why);
        if (c->check && replay_is_other(&p))
                return ctl_fail("--check is of what was recorded, without another policy or settings");
        r = replay_run(&p, f);
        if (r < 0)
                return ctl_fail("%s: %s", argv[0], p.why);
        if (c->check)
                return show_check(argv[0], &p);
        warn(argv[0], &p);
        r = c->svg ? write_file(&p.outcome, c->svg, outcome_print_svg) : 0;
        if (r == 0 && c->trace)
                r = write_file(&p.outcome, c->trace, outcome_print_trace);
        return r != 0 || streq_ptr(c->svg, "-") || streq_ptr(c->trace, "-") ? r : show(c, &p.outcome);
}
