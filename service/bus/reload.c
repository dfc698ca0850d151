/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads the configuration at the start and on a reload
 */

#include <stdio.h>

#include "audit.h"
#include "bus-util.h"
#include "reload.h"
#include "service/base/messages.h"
#include "service/base/notify.h"
#include "service/base/subuid-file.h"
#include "service/core/manager-degraded.h"

#define DEGRADED_KEY "configuration"

int reload_read(const Options *o, const Config *last_good, Config **ret) {
        const ConfigPaths paths = {.file = o->config_file, .classes_dir = o->classes_dir};

        return config_load(&paths, last_good, config_log_problem, NULL, ret);
}

void reload_apply_log(const Options *o, const Config *c) {
        log_set_max_level(o->log_level >= 0 ? o->log_level : c->log_level);
        log_set_target(o->log_target >= 0 ? (LogTarget) o->log_target : c->log_target);
}

void reload_report(Manager *m, unsigned n_problems, int error) {
        char text[128];

        if (error < 0)
                (void) snprintf(text, sizeof(text), "The configuration could not be read again: %s",
                                conf_strerror(error));
        else
                (void) snprintf(text, sizeof(text), "%u problem%s in the configuration, see the journal", n_problems,
                                n_problems == 1 ? "" : "s");
        if (manager_set_degraded(m, DEGRADED_KEY, error < 0 || n_problems > 0 ? text : NULL) < 0)
                log_oom();
}

static void log_reloaded(Manager *m, sd_bus_message *by, unsigned n_problems) {
        const AuditObject o = {.name = "the configuration"};
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char what[128];

        (void) snprintf(what, sizeof(what), "Configuration read again, %u problem%s", n_problems,
                        n_problems == 1 ? "" : "s");
        if (!by) {
                log_event(LOG_INFO, MESSAGE_RELOADED, LOG_FIELDS(.error = 0), "%s", what);
                return;
        }
        audit_begin(m, by, &a);
        audit_event(&a, MESSAGE_RELOADED, &o, what);
}

int manager_reload(Manager *m, sd_bus_message *by) {
        _cleanup_(config_freep)
        Config *config = NULL;

        notify_reloading();
        subuid_file_reread(m->subuids);
        int r = reload_read(m->options, m->config, &config);
        reload_report(m, config ? config->n_problems : 0, r);
        if (config) {
                unsigned n_problems = config->n_problems;

                reload_apply_log(m->options, config);
                manager_set_config(m, TAKE_PTR(config));
                bus_settle(m);
                log_reloaded(m, by, n_problems);
        } else
                log_event(LOG_ERR, MESSAGE_CONFIG_PROBLEM, LOG_FIELDS(.error = r),
                                "Configuration could not be read again, everything stays as it was: %s",
                                conf_strerror(r));
        char status[512];
        notify_ready(manager_status(m, status, sizeof(status)));
        return r;
}
