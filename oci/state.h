/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * OCI's "state" of a container, which a runtime gives its hooks as JSON on standard input
 *
 * Its annotations come from the user who starts the container, its names from the engine.
 */

#include <json-c/json.h>
#include <sys/types.h>

#include "common/macro.h"

#define OCI_STATE_MAX ((size_t) 4 * 1024 * 1024)

typedef struct OciState {
        json_object *json;
        pid_t pid; /* 0: not told */
} OciState;

#define OCI_STATE_NULL ((OciState){0})

/* -EINVAL: not such an object. */
int oci_state_parse(const char *text, size_t size, OciState *ret);
void oci_state_done(OciState *s);

/* The container's; NULL: not told. */
const char *oci_state_id(const OciState *s);

/* NULL: there is none of this name. */
const char *oci_state_annotation(const OciState *s, const char *name);

/* Called for each annotation whose name begins so, with what is behind that. */
typedef void (*oci_annotation_t)(const char *name, const char *value, void *userdata);
void oci_state_annotations(const OciState *s, const char *prefix, oci_annotation_t found, void *userdata);

/* The container's root: of "root.path" in the bundle's config.json. A new string. */
int oci_state_root(const OciState *s, char **ret);
