/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The configuration of classes and devices
 */

#include "manager-config.h"
#include "device.h"
#include "service/settings/xsched-conf.h"

/* A policy without entities grants nothing. */
static void on_grant(void *owner, const PolicyGrant *grant, void *userdata) {
}

bool device_policy_accepts(const PolicyOps *ops, const PolicyConfig *config) {
        const PolicyCallbacks callbacks = {.grant = on_grant};
        Policy *p;

        if (ops->new (config, &callbacks, &p) < 0)
                return false;
        ops->free(p);
        return true;
}

const PolicyOps *manager_device_config(Manager *m, const char *id, PolicyConfig *ret, DeviceTuning *ret_tuning) {
        DeviceConfig c;

        config_device(m->config, id, &c);
        const PolicyOps *ops = c.policy;
        bool by_level = c.params.threshold == 0;
        if (by_level)
                c.params.threshold = POLICY_CONFIG_DEFAULT.threshold;
        PolicyConfig params = c.params;
        device_settings_apply(&m->every_device, &ops, &params);

        /* Parameters that were set for every device may not fit the policy that the file names for this one. */
        bool fits = device_policy_accepts(ops, &params);
        *ret = fits ? params : c.params;
        *ret_tuning = c.tuning;
        ret_tuning->threshold_by_level = by_level && !(fits && device_settings_has_threshold(&m->every_device));
        if (m->every_device.has_preemption)
                ret_tuning->preemption = m->every_device.preemption;
        if (m->every_device.has_accounting)
                ret_tuning->accounting = m->every_device.accounting;
        return fits ? ops : c.policy;
}

const Settings *manager_lookup_class(const char *name, void *userdata) {
        Manager *m = userdata;
        const Class *c = config_class(m->config, name);

        return c ? &c->settings : NULL;
}
