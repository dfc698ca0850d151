/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Labels of an origin: attributes of its cgroup that are no settings, for [Match]
 *
 * The hook of container runtimes writes them: the names that Kubernetes has for a pod (label.namespace), and what
 * the user who started the container says of it (claim.priority-class). See xsched-containers(7).
 */

#include "origin.h"

/* Takes the attribute if it is a label, and returns whether it is one. Leaves a label out if there is no memory or no
 * room for it. */
bool origin_take_label(Origin *o, const char *key, const char *value);

bool origin_labels_are_equal(const OriginLabel *a, const OriginLabel *b);
void origin_labels_free(OriginLabel *l);

/* Adds the labels of the origin and of those above it, the nearest first: all, or those that root gave to cgroups
 * within the first `named` bytes of the path. The strings are the origins'. `o` may be NULL. */
void origin_add_labels(const Origin *o, MatchFacts *facts);
void origin_add_trusted_labels(const Origin *o, size_t named, MatchFacts *facts);
