/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * From a container's annotations to attributes of its cgroup
 *
 * "xsched.org/priority=-10" asks for a setting. Who starts a container writes its annotations, so they lower:
 * user.xsched.lower.priority. Those that the administrator names in containers.conf are his word, because he sees to
 * who may write them, and they count as user.xsched.priority.
 *
 * What engines say of Kubernetes' names becomes a label: user.xsched.label.pod, .namespace, .container.
 */

#include <stdbool.h>

#include "common/conf-parser.h"
#include "oci/state.h"

#define ANNOTATION_PREFIX "xsched.org/"

/* By the names of settings, which are few. */
typedef struct AnnotationRules {
        uint32_t raising; /* mask, in the order of setting-rows.h */
} AnnotationRules;

/* A file that is not there says nothing. Problems are reported. */
int annotation_rules_read(const char *path, ConfReport report, void *userdata, AnnotationRules *ret);

/* Called for each: "lower.priority", "label.pod", ..., and a value that fits into one line. */
typedef void (*annotation_t)(const char *key, const char *value, void *userdata);

void annotations_settings(
                const OciState *s, const AnnotationRules *rules, annotation_t found, void *userdata);
void annotations_labels(const OciState *s, annotation_t found, void *userdata);
