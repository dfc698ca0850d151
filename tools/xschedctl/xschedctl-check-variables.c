/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Says what libxsched says on the standard error of the process
 */

#include "xschedctl-check-variables.h"

#include "common/auto-xqueue.h"
#include "common/client-environment.h"
#include "common/macro.h"

typedef struct Variables {
        Check *check;
        char *last;
} Variables;

static const char *get(const char *variable, void *userdata) {
        Variables *v = userdata;

        free(TAKE_PTR(v->last));
        return check_get_variable(v->check, variable, &v->last) < 0 ? NULL : v->last;
}

static void complain(const char *text, void *userdata) {
        const Variables *v = userdata;

        check_add(v->check, "variables", CHECK_WARNING, "%s", text);
}

void check_variables(Check *k) {
        Variables v = {.check = k};
        const EnvironmentSource source = {.get = get, .complain = complain, .userdata = &v};
        AutoXQueue unused;

        environment_check(&source);
        auto_xqueue_read(&source, &unused);
        free(v.last);
}
