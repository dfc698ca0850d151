/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Annotations
 */

#include <stdio.h>

#include "common/parse-util.h"
#include "common/setting-rows.h"
#include "oci/annotations.h"

#define SETTING_MAX ((size_t) 63) /* bytes, as xschedd reads them */
#define LABEL_MAX   ((size_t) 253)
#define SPACE       " \t"

#define NAME_OF(arg, KEY, Name, name, ...) #name,
static const char *const settings[] = {SETTING_ROWS(NAME_OF, )};
_Static_assert(ELEMENTSOF(settings) <= 32, "more settings than a mask has bits");

/* Of containerd, and of CRI-O and podman's pods. */
static const struct {
        const char *annotation, *label;
} labels[] = {
                {"io.kubernetes.cri.sandbox-name", "label.pod"},
                {"io.kubernetes.pod.name", "label.pod"},
                {"io.kubernetes.cri.sandbox-namespace", "label.namespace"},
                {"io.kubernetes.pod.namespace", "label.namespace"},
                {"io.kubernetes.cri.container-name", "label.container"},
                {"io.kubernetes.container.name", "label.container"},
};

/* --- containers.conf --- */

static const ConfType type_annotations = {"names of settings (\"class priority\")", NULL, NULL};
static const ConfItem container_items[] = {{.key = "RaisingAnnotations", .type = &type_annotations}};

static int open_containers(const char *argument, void *userdata, ConfTarget *ret) {
        *ret = (ConfTarget){0};
        return 0;
}

static int find_setting(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(settings); i++)
                if (streq(settings[i], name))
                        return (int) i;
        return -EINVAL;
}

/* All or nothing of a line. */
static int assign_annotations(
                const ConfItem *item, const char *value, const char *file, unsigned line, void *userdata) {
        AnnotationRules *rules = userdata;
        uint32_t mask = 0;
        char *saved = NULL;

        /* A line that could not be read: there is nothing to take from it. */
        if (!item)
                return 0;
        _cleanup_free_ char *copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        for (char *word = strtok_r(copy, SPACE, &saved); word; word = strtok_r(NULL, SPACE, &saved)) {
                int i = find_setting(word);
                if (i < 0)
                        return i;
                mask |= UINT32_C(1) << i;
        }
        rules->raising = mask;
        return 0;
}

int annotation_rules_read(const char *path, ConfReport report, void *userdata, AnnotationRules *ret) {
        static const ConfSection sections[] = {{
                        .name = "Containers",
                        .items = container_items,
                        .n_items = ELEMENTSOF(container_items),
                        .open = open_containers,
                        .assign = assign_annotations,
        }};
        AnnotationRules rules = {0};
        const ConfContext c = {
                        .sections = sections,
                        .n_sections = ELEMENTSOF(sections),
                        .userdata = &rules,
                        .report = report,
                        .report_userdata = userdata,
        };

        int r = conf_parse_file(&c, path);
        if (r < 0 && r != -ENOENT)
                return r;
        *ret = rules;
        return 0;
}

/* --- of a container --- */

static bool is_value(const char *s, size_t max) {
        return !isempty(s) && strlen(s) <= max && string_is_printable(s);
}

void annotations_settings(
                const OciState *s, const AnnotationRules *rules, annotation_t found, void *userdata) {
        for (size_t i = 0; i < ELEMENTSOF(settings); i++) {
                char name[64], key[32];
                bool raises = rules->raising & UINT32_C(1) << i;

                (void) snprintf(name, sizeof(name), ANNOTATION_PREFIX "%s", settings[i]);
                (void) snprintf(key, sizeof(key), "%s%s", raises ? "" : "lower.", settings[i]);
                const char *value = oci_state_annotation(s, name);
                if (is_value(value, SETTING_MAX))
                        found(key, value, userdata);
        }
}

void annotations_labels(const OciState *s, annotation_t found, void *userdata) {
        for (size_t i = 0; i < ELEMENTSOF(labels); i++) {
                const char *value = oci_state_annotation(s, labels[i].annotation);

                if (is_value(value, LABEL_MAX))
                        found(labels[i].label, value, userdata);
        }
}
