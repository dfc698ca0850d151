/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * XSched's environment variables
 */

#include <stdio.h>

#include "auto-xqueue.h"
#include "macro.h"

static const struct {
        const char *variable;
        int64_t min, max;
} numbers[_AUTO_XQUEUE_NUMBER_MAX] = {
                [AUTO_XQUEUE_LEVEL] = {"XSCHED_AUTO_XQUEUE_LEVEL", 1, 3},
                [AUTO_XQUEUE_THRESHOLD] = {"XSCHED_AUTO_XQUEUE_THRESHOLD", 1, INT64_MAX},
                [AUTO_XQUEUE_BATCH_SIZE] = {"XSCHED_AUTO_XQUEUE_BATCH_SIZE", 1, INT64_MAX},
                [AUTO_XQUEUE_PRIORITY] = {"XSCHED_AUTO_XQUEUE_PRIORITY", -256, 255},
                [AUTO_XQUEUE_UTILIZATION] = {"XSCHED_AUTO_XQUEUE_UTILIZATION", 0, 100},
                [AUTO_XQUEUE_TIMESLICE] = {"XSCHED_AUTO_XQUEUE_TIMESLICE", 100, 100000},
                [AUTO_XQUEUE_DEADLINE] = {"XSCHED_AUTO_XQUEUE_DEADLINE", 1, INT64_MAX},
                [AUTO_XQUEUE_KDEADLINE] = {"XSCHED_AUTO_XQUEUE_KDEADLINE", 1, INT64_MAX},
                [AUTO_XQUEUE_LAXITY] = {"XSCHED_AUTO_XQUEUE_LAXITY", 1, INT64_MAX},
};

/* The names by their numbers. */
static const char *const schedulers[] = {"", "APP", "LCL", "GLB"};
static const char *const policies[] = {
                "", "HPF", "HHPF", "CHPF", "UP", "PUP", "SPUP", "KEDF", "LAX", "AWF", "CFS", "MLFQ"};
#define POLICY_SPUP 6 /* not available here */

static int read_name(const EnvironmentSource *s, const char *variable, const char *const *names, int n, int without,
                const char *wanted) {
        const char *v = environment_get(s, variable);

        if (isempty(v))
                return 0;
        for (int i = 1; i < n; i++)
                if (i != without && streq(names[i], v))
                        return i;
        environment_complain(s, variable, v, wanted);
        return 0;
}

static void read_number(const EnvironmentSource *s, AutoXQueue *a, AutoXQueueNumber i) {
        const char *v = environment_get(s, numbers[i].variable);
        char wanted[64], *end;

        if (isempty(v))
                return;
        errno = 0;
        long long value = strtoll(v, &end, 10);
        if (errno == 0 && *end == '\0' && value >= numbers[i].min && value <= numbers[i].max) {
                a->is_set[i] = true;
                a->values[i] = value;
                return;
        }
        if (numbers[i].max == INT64_MAX)
                (void) snprintf(wanted, sizeof(wanted), "%lld or more", (long long) numbers[i].min);
        else
                (void) snprintf(wanted, sizeof(wanted), "%lld..%lld", (long long) numbers[i].min,
                                (long long) numbers[i].max);
        environment_complain(s, numbers[i].variable, v, wanted);
}

void auto_xqueue_read(const EnvironmentSource *s, AutoXQueue *ret) {
        PROTECT_ERRNO;
        AutoXQueue a = {.scheduler = AUTO_XQUEUE_APP};
        const char *on = strempty(environment_get(s, "XSCHED_AUTO_XQUEUE"));

        if (!streq(on, "") && !streq(on, "ON") && !streq(on, "OFF"))
                environment_complain(s, "XSCHED_AUTO_XQUEUE", on, "ON or OFF");
        a.on = streq(on, "ON");

        int scheduler = read_name(s, "XSCHED_SCHEDULER", schedulers, ELEMENTSOF(schedulers), 0, "APP, LCL or GLB");
        a.policy = read_name(s, "XSCHED_POLICY", policies, ELEMENTSOF(policies), POLICY_SPUP,
                        "HPF, HHPF, CHPF, UP, PUP, KEDF, LAX, AWF, CFS or MLFQ");
        /* As in XSched, a policy without a scheduler asks for the local scheduler, and the local scheduler without a
         * policy asks for nothing. */
        if (a.policy > 0)
                a.scheduler = AUTO_XQUEUE_LCL;
        else if (scheduler == AUTO_XQUEUE_LCL)
                environment_complain(s, "XSCHED_SCHEDULER", "LCL", "XSCHED_POLICY beside it");
        else if (scheduler == AUTO_XQUEUE_GLB)
                a.scheduler = scheduler;

        for (AutoXQueueNumber i = 0; i < _AUTO_XQUEUE_NUMBER_MAX; i++)
                read_number(s, &a, i);
        if (a.is_set[AUTO_XQUEUE_BATCH_SIZE] &&
                        a.values[AUTO_XQUEUE_BATCH_SIZE] >
                                        (a.is_set[AUTO_XQUEUE_THRESHOLD] ? a.values[AUTO_XQUEUE_THRESHOLD] : 16)) {
                a.is_set[AUTO_XQUEUE_BATCH_SIZE] = false;
                environment_complain(s, numbers[AUTO_XQUEUE_BATCH_SIZE].variable,
                                environment_get(s, numbers[AUTO_XQUEUE_BATCH_SIZE].variable), "at most the threshold");
        }
        *ret = a;
}
