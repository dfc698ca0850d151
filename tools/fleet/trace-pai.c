/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * PAI's tables of jobs and tasks
 */

#include <math.h>
#include <uthash.h>

#include "tools/fleet/trace.h"
#include "trace-pai.h"

enum { JOB_NAME, JOB_INST_ID, JOB_USER, JOB_STATUS, JOB_START, JOB_END, _JOB_COLUMNS };
enum {
        TASK_JOB,
        TASK_NAME,
        TASK_INSTANCES,
        TASK_STATUS,
        TASK_START,
        TASK_END,
        TASK_CPU,
        TASK_MEMORY,
        TASK_GPU,
        TASK_GPU_TYPE,
        _TASK_COLUMNS,
};
#define COLUMNS_MAX _TASK_COLUMNS

/* A job by its name, while tasks are read. */
typedef struct PaiJob {
        char *name, *user;
        double submit_s;
        double gpus, duration_s; /* of the tasks that take whole GPUs: one gang */
        UT_hash_handle hh;
} PaiJob;

/* Splits the line in place. Returns how many columns it has, at most n + 1. No field has a comma in it. */
static size_t split(char *line, char *columns[], size_t n) {
        size_t i = 0;

        line[strcspn(line, "\r\n")] = '\0';
        for (char *rest = line; rest && i <= n; i++) {
                char *field = strsep(&rest, ",");

                if (i < n)
                        columns[i] = field;
        }
        return i;
}

/* NaN: there is none. */
static double number(const char *s) {
        char *end;
        double v = strtod(s, &end);

        return *s && !*end ? v : NAN;
}

static int read_job(char *columns[], PaiJob **jobs) {
        PaiJob *j;

        HASH_FIND_STR(*jobs, columns[JOB_NAME], j);
        if (j)
                return 0;
        j = calloc(1, sizeof(*j));
        if (!j)
                return -ENOMEM;
        *j = (PaiJob){
                        .name = strdup(columns[JOB_NAME]),
                        .user = strdup(columns[JOB_USER]),
                        .submit_s = number(columns[JOB_START]),
        };
        if (!j->name || !j->user) {
                free(j->name);
                free(j->user);
                free(j);
                return -ENOMEM;
        }
        HASH_ADD_KEYPTR(hh, *jobs, j->name, strlen(j->name), j);
        return 0;
}

/* Instances of a part of a GPU are services of their own; those of whole GPUs are one gang with the job's others. */
static int read_task(char *columns[], PaiJob *jobs, Trace *t) {
        double gpus = number(columns[TASK_GPU]) / 100, n = number(columns[TASK_INSTANCES]);
        double duration = number(columns[TASK_END]) - number(columns[TASK_START]);
        PaiJob *j;
        int r = 0;

        HASH_FIND_STR(jobs, columns[TASK_JOB], j);
        if (!*columns[TASK_GPU] || gpus == 0)
                return 0; /* a task without a GPU */
        if (!j || !(n >= 1 && n <= TRACE_GPUS_MAX) || !(gpus > 0) || !(duration > 0)) {
                t->n_left_out++;
                return 0;
        }
        if (gpus < 1) {
                for (unsigned i = 0; i < n && r >= 0; i++)
                        r = trace_add(t, j->name, j->user, gpus, j->submit_s, duration);
                return r;
        }
        j->gpus += n * ceil(gpus);
        j->duration_s = MAX(j->duration_s, duration);
        return 0;
}

/* Each line of a table; a line of the header's names is none. */
static int each_line(FILE *f, size_t n_columns, const char *first, PaiJob **jobs, Trace *t) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        int r = 0;

        while (r >= 0 && getline(&line, &size, f) >= 0) {
                char *columns[COLUMNS_MAX];
                size_t n = split(line, columns, n_columns);

                if (n != n_columns)
                        return -EINVAL;
                if (strcmp(columns[0], first) == 0)
                        continue;
                r = t ? read_task(columns, *jobs, t) : read_job(columns, jobs);
        }
        return r < 0 ? r : ferror(f) ? -EIO : 0;
}

int trace_read_pai(FILE *jobs, FILE *tasks, Trace *ret) {
        PaiJob *known = NULL, *j, *next;

        int r = each_line(jobs, _JOB_COLUMNS, "job_name", &known, NULL);
        if (r >= 0)
                r = each_line(tasks, _TASK_COLUMNS, "job_name", &known, ret);
        HASH_ITER(hh, known, j, next) {
                if (r >= 0 && j->gpus > 0)
                        r = trace_add(ret, j->name, j->user, j->gpus, j->submit_s, j->duration_s);
                HASH_DEL(known, j);
                free(j->name);
                free(j->user);
                free(j);
        }
        return r;
}
