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

DeviceLayers manager_device_layers(Manager *m, const char *id, const DeviceSettings *runtime) {
        return (DeviceLayers){
                        .every_stored = overrides_find_device(&m->overrides, OVERRIDES_EVERY_DEVICE),
                        .stored = overrides_find_device(&m->overrides, id),
                        .every_runtime = &m->every_device,
                        .runtime = runtime,
        };
}

static void put_layer(DeviceEffective *e, const DeviceSettings *s) {
        device_settings_apply(s, &e->ops, &e->config);
        if (device_settings_has_threshold(s))
                e->tuning.threshold_by_level = false;
        if (s->has_preemption)
                e->tuning.preemption = s->preemption;
        if (s->has_accounting)
                e->tuning.accounting = s->accounting;
}

/* Puts the layer on top if the result is valid. Parameters that were set before the file changed, or for every device,
 * may not fit the layers below. */
static bool put_layer_that_fits(DeviceEffective *e, const DeviceSettings *s) {
        DeviceEffective then = *e;

        if (!s || device_settings_is_empty(s))
                return true;
        put_layer(&then, s);
        if (!device_policy_accepts(then.ops, &then.config)) {
                if (s->has_preemption)
                        e->tuning.preemption = s->preemption;
                if (s->has_accounting)
                        e->tuning.accounting = s->accounting;
                return false;
        }
        *e = then;
        return true;
}

void manager_device_effective(Manager *m, const char *id, const DeviceLayers *layers, DeviceEffective *ret) {
        DeviceEffective e;
        DeviceConfig c;

        config_device(m->config, id, &c);
        e = (DeviceEffective){.ops = c.policy, .config = c.params, .tuning = c.tuning};
        e.tuning.threshold_by_level = c.params.threshold == 0;
        if (e.tuning.threshold_by_level)
                e.config.threshold = POLICY_CONFIG_DEFAULT.threshold;

        if (!put_layer_that_fits(&e, layers->every_stored))
                e.left_out |= DEVICE_LAYER_EVERY_STORED;
        if (!put_layer_that_fits(&e, layers->stored))
                e.left_out |= DEVICE_LAYER_STORED;
        if (!put_layer_that_fits(&e, layers->every_runtime))
                e.left_out |= DEVICE_LAYER_EVERY_RUNTIME;
        if (layers->runtime)
                put_layer(&e, layers->runtime);
        *ret = e;
}

const Settings *manager_lookup_class(const char *name, void *userdata) {
        Manager *m = userdata;
        const Class *c = config_class(m->config, name);

        return c ? &c->settings : NULL;
}
