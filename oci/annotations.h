/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Annotations: make attributes of a container's cgroup from its annotations
 *
 * "xsched.org/priority=-10" asks for a setting. The user who starts a container writes its annotations, so they only
 * lower: user.xsched.lower.priority. Annotations that the administrator names in containers.conf may raise: the
 * administrator controls who writes them, and they become user.xsched.priority.
 *
 * Kubernetes' names, as engines annotate them, become labels: user.xsched.label.pod, .namespace, .container. Only the
 * annotations of the container's own engine count, which its cgroup is named after (cgroup.h): CRI-O passes on all
 * annotations of a pod's author, who may use containerd's names. A pod's labels and its priority class, which its
 * author writes, become claims: user.xsched.claim.priority-class, .pod-label.KEY. Where the administrator names them in
 * containers.conf, they are labels, too.
 */

#include <stdbool.h>

#include "common/conf-parser.h"
#include "oci/state.h"

#define ANNOTATION_PREFIX "xsched.org/"

/* Settings whose annotations may raise. */
typedef struct AnnotationRules {
        uint32_t raising; /* mask, in the order of setting-rows.h; behind them, the pod's own */
} AnnotationRules;

/* Reads containers.conf. A missing file is no error. Problems are reported. */
int annotation_rules_read(const char *path, ConfReport report, void *userdata, AnnotationRules *ret);

/* Called for each attribute, with its key ("lower.priority", "label.pod", ...) and a value of one line, which is empty
 * only of a pod's label. */
typedef void (*annotation_t)(const char *key, const char *value, void *userdata);

void annotations_settings(const OciState *s, const AnnotationRules *rules, annotation_t found, void *userdata);
void annotations_labels(
                const OciState *s, bool of_crio, const AnnotationRules *rules, annotation_t found, void *userdata);
