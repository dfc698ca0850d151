/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Labels of an origin: attributes of its cgroup that are no settings, for [Match]
 *
 * The hook of container runtimes writes them: the names that Kubernetes has for a pod (label.namespace), and what
 * the user who started the container says of it (claim.priority-class). See xsched-containers(7).
 */

#include "origin.h"

/* Whether it is a label. One that there is no memory or no room for is left out. */
bool origin_take_label(Origin *o, const char *key, const char *value);

bool origin_labels_are_equal(const OriginLabel *a, const OriginLabel *b);
void origin_labels_free(OriginLabel *l);
