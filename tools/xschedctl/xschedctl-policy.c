/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * policy, hint: `set` and `show` under the names that XSched's users know
 */

#include <stdio.h>

#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl.h"

/* Makes "device:ID" of "ID" or "device:ID". The caller frees it; NULL: no memory. */
static char *device_target(const char *text) {
        char *target;

        return asprintf(&target, "%s%s", startswith(text, "device:") ? "" : "device:", text) < 0 ? NULL : target;
}

static int show_policy(Ctl *c, char *target) {
        static const char *const properties[] = {"Policy", "Concurrency", "TimeSliceUSec", "Threshold", "LingerUSec",
                        "StarveUSec", "StarveRunUSec", "Preemption", "Accounting"};

        for (size_t i = 0; i < ELEMENTSOF(properties); i++)
                c->properties[c->n_properties++] = properties[i];
        return verb_show(c, 1, (char *[]){target, NULL});
}

/* Sets policy=NAME for NAME, with further settings after it. An empty NAME, such as a variable that is not set, would
 * take the policy back. */
static int set_policy(Ctl *c, char *target, int argc, char *argv[]) {
        _cleanup_free_ char **words = calloc((size_t) argc + 2, sizeof(*words));
        _cleanup_free_ char *name = NULL;
        int n = 0;

        if (!words)
                return ctl_fail("out of memory");
        words[n++] = target;
        for (int i = 0; i < argc; i++) {
                bool is_name = i == 0 && !strchr(argv[i], '=');

                if (is_name && isempty(argv[i]))
                        return ctl_fail("the name of the policy is empty");
                if (is_name && asprintf(&name, "policy=%s", argv[i]) < 0) {
                        name = NULL;
                        return ctl_fail("out of memory");
                }
                if (name && !is_name && strncasecmp(argv[i], "policy=", strlen("policy=")) == 0)
                        return ctl_fail("%s: the policy is %s already", argv[i], argv[0]);
                words[n++] = is_name ? name : argv[i];
        }
        return verb_set(c, n, words);
}

int verb_policy(Ctl *c, int argc, char *argv[]) {
        if (argc == 0)
                return verb_list_devices(c, 0, NULL);

        _cleanup_free_ char *target = device_target(argv[0]);
        if (!target)
                return ctl_fail("out of memory");
        return argc == 1 ? show_policy(c, target) : set_policy(c, target, argc - 1, argv + 1);
}

/* Hints are for processes and queues, not for groups and devices. */
int verb_hint(Ctl *c, int argc, char *argv[]) {
        if (!target_is_pid(argv[0]) && !startswith(argv[0], "queue:") && !startswith(argv[0], "client:"))
                return ctl_fail("%s: a hint is for a process or a queue: a process id, client:N or queue:N", argv[0]);
        return verb_set(c, argc, argv);
}
