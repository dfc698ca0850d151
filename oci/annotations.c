/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Annotations
 */

#include <stdio.h>

#include "cgroup/cgroup-attr.h"
#include "common/parse-util.h"
#include "common/setting-rows.h"
#include "oci/annotations.h"

#define SETTING_MAX       ((size_t) 63) /* bytes, as xschedd reads them */
#define LABEL_MAX         CGROUP_ATTR_LABEL_MAX
#define SPACE             " \t"
#define POD_LABELS_MAX    ((size_t) 32)
#define POD_LABEL_KEY_MAX ((size_t) 200) /* bytes; an attribute has 255, with its prefix */

#define NAME_OF(arg, KEY, Name, name, ...) #name,
static const char *const settings[] = {SETTING_ROWS(NAME_OF, )};

/* Names for RaisingAnnotations= that are not names of settings. */
static const char *const of_pods[] = {"priority-class", "pod-label"};
enum { OF_POD_PRIORITY_CLASS = ELEMENTSOF(settings), OF_POD_LABEL };
_Static_assert(OF_POD_LABEL < 32, "more settings than a mask has bits");

/* Annotations of containerd, which lets a pod's author write the others; and those of CRI-O and podman's pods. CRI-O
 * lets a pod's author write containerd's. */
static const struct {
        const char *of_containerd, *of_others, *label;
} labels[] = {
                {"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name", "label.pod"},
                {"io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace", "label.namespace"},
                {"io.kubernetes.cri.container-name", "io.kubernetes.container.name", "label.container"},
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
        for (size_t i = 0; i < ELEMENTSOF(of_pods); i++)
                if (streq(of_pods[i], name))
                        return (int) (ELEMENTSOF(settings) + i);
        return -EINVAL;
}

/* Takes a line as a whole, or not at all. */
static int assign_annotations(
                const ConfItem *item, const char *value, const char *file, unsigned line, void *userdata) {
        AnnotationRules *rules = userdata;
        uint32_t mask = 0;
        char *saved = NULL;

        /* The line could not be read: there is nothing to take from it. */
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

void annotations_settings(const OciState *s, const AnnotationRules *rules, annotation_t found, void *userdata) {
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

/* A pod's label, as it is found in two places. */
typedef struct PodLabels {
        const char *prefix;
        annotation_t found;
        void *userdata;
        size_t n;
} PodLabels;

static void take_pod_label(const char *name, const char *value, void *userdata) {
        PodLabels *l = userdata;
        char key[512];

        int r = snprintf(key, sizeof(key), "%spod-label.%s", l->prefix, name);
        if (r < 0 || (size_t) r >= sizeof(key) || !is_value(name, POD_LABEL_KEY_MAX) || l->n >= POD_LABELS_MAX)
                return;
        if (*value && !is_value(value, LABEL_MAX))
                return;
        l->n++;
        l->found(key, value, l->userdata);
}

/* CRI-O gives all labels as one JSON object. */
static void take_crio_labels(const OciState *s, PodLabels *l) {
        const char *text = oci_state_annotation(s, "io.kubernetes.cri-o.Labels");
        json_object *all = text ? json_tokener_parse(text) : NULL;

        if (json_object_is_type(all, json_type_object)) {
                json_object_object_foreach(all, name, value) {
                        const char *v = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                                     : NULL;
                        if (v && strlen(v) == (size_t) json_object_get_string_len(value))
                                take_pod_label(name, v, l);
                }
        }
        json_object_put(all);
}

static const char *prefix_of(const AnnotationRules *rules, unsigned bit) {
        return rules->raising & UINT32_C(1) << bit ? CGROUP_ATTR_LABEL : CGROUP_ATTR_CLAIM;
}

void annotations_labels(
                const OciState *s, bool of_crio, const AnnotationRules *rules, annotation_t found, void *userdata) {
        PodLabels l = {.prefix = prefix_of(rules, OF_POD_LABEL), .found = found, .userdata = userdata};
        const char *value = oci_state_annotation(s, ANNOTATION_PREFIX "priority-class");
        char key[64];

        for (size_t i = 0; i < ELEMENTSOF(labels); i++) {
                const char *name = of_crio ? NULL : oci_state_annotation(s, labels[i].of_containerd);

                name = name ?: oci_state_annotation(s, labels[i].of_others);

                if (is_value(name, LABEL_MAX))
                        found(labels[i].label, name, userdata);
        }
        if (is_value(value, LABEL_MAX)) {
                (void) snprintf(key, sizeof(key), "%spriority-class", prefix_of(rules, OF_POD_PRIORITY_CLASS));
                found(key, value, userdata);
        }
        if (of_crio)
                take_crio_labels(s, &l);
        else
                oci_state_annotations(s, ANNOTATION_PREFIX "pod-label.", take_pod_label, &l);
}
