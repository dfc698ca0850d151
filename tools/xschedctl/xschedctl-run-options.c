/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Options of `run` that need more than one argument
 */

#include <stdio.h>

#include "tools/xschedctl/xschedctl.h"
#include "xschedctl-run-options.h"

int run_options_add_variable(RunOptions *o, const char *text) {
        size_t n = strcspn(text, "=");
        const char *own = text[n] == '=' ? NULL : getenv(text);
        char *assignment;

        if (n == 0 || text[strspn(text, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")] != text[n])
                return ctl_fail("--setenv=%s: not NAME or NAME=VALUE", text);
        if (text[n] != '=' && !own)
                return 0;
        if (o->n_environment >= ELEMENTSOF(o->environment))
                return ctl_fail("--setenv=: too many");
        if (asprintf(&assignment, "%s%s%s", text, own ? "=" : "", strempty(own)) < 0)
                return ctl_fail("out of memory");
        o->environment[o->n_environment++] = assignment;
        return 0;
}

int run_options_add_setting(RunOptions *o, const char *key, const char *value) {
        size_t i = 0;
        char *text;

        while (i < o->n_settings && !(startswith(o->settings[i], key) && o->settings[i][strlen(key)] == '='))
                i++;
        if (i >= ELEMENTSOF(o->settings))
                return ctl_fail("--%s=: too many", key);
        if (asprintf(&text, "%s=%s", key, value) < 0)
                return ctl_fail("out of memory");
        free(i < o->n_settings ? o->settings[i] : NULL);
        o->settings[i] = text;
        o->n_settings = MAX(o->n_settings, i + 1);
        return 0;
}

void run_options_done(RunOptions *o) {
        for (size_t i = 0; i < o->n_settings; i++)
                free(o->settings[i]);
        for (size_t i = 0; i < o->n_environment; i++)
                free(o->environment[i]);
}
