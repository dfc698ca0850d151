/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any lines KEY=value as extended attributes of a cgroup, and as what a unit sets for its processes
 *
 * The owner of the cgroup writes attributes. Accepted values are within their ranges, and refused ones change nothing.
 */

#include <stdio.h>

#include "service/base/log.h"
#include "service/core/origin-labels.h"
#include "service/core/origin.h"
#include "tests/fuzz/fuzz-settings.h"

static void take_attribute(char *line, Origin *o) {
        const unsigned before = o->attr.mask, lowered = o->lowered.mask;
        char *equals = strchr(line, '=');

        if (!equals)
                return;
        *equals = '\0';
        origin_take_attribute(line, equals + 1, o);
        *equals = '=';
        check_settings(&o->attr);
        check_settings(&o->lowered);
        require((o->attr.mask & before) == before);
        require((o->lowered.mask & lowered) == lowered);
        require(startswith(line, "lower.") ? o->attr.mask == before : o->lowered.mask == lowered);
}

static void take_assignment(const char *line, const Origin *o, Settings *s) {
        _cleanup_free_ char *assignment = NULL;

        if (!strchr(line, '='))
                return;
        require(asprintf(&assignment, "XSCHED_%s", line) > 0);
        origin_take_assignment(o, assignment, s);
        check_settings(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = malloc(size + 1);
        Origin o = {.path = (char *) "/x.service", .unit = (char *) "x.service"};
        Settings s = SETTINGS_NULL;
        char *saved = NULL;

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        log_set_max_level(-1);
        for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
                take_attribute(line, &o);
                take_assignment(line, &o, &s);
        }
        origin_labels_free(o.labels);
        return 0;
}
