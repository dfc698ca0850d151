/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The state of a container
 */

#include <stdio.h>

#include "oci/state.h"

static json_object *parse_object(const char *text, size_t size) {
        json_tokener *t = json_tokener_new();

        if (!t || size > OCI_STATE_MAX) {
                json_tokener_free(t);
                return NULL;
        }
        json_object *o = json_tokener_parse_ex(t, text, (int) size);
        json_tokener_free(t);
        if (o && json_object_is_type(o, json_type_object))
                return o;
        (void) json_object_put(o);
        return NULL;
}

static const char *get_string(json_object *o, const char *key) {
        json_object *value;

        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, key, &value) ||
                        !json_object_is_type(value, json_type_string))
                return NULL;
        /* A string with a zero byte would be shorter than what was read. */
        const char *s = json_object_get_string(value);
        return strlen(s) == (size_t) json_object_get_string_len(value) ? s : NULL;
}

int oci_state_parse(const char *text, size_t size, OciState *ret) {
        json_object *json = parse_object(text, size), *pid;

        if (!json)
                return -EINVAL;
        *ret = (OciState){.json = json};
        if (json_object_object_get_ex(json, "pid", &pid) && json_object_is_type(pid, json_type_int)) {
                int64_t v = json_object_get_int64(pid);
                ret->pid = v > 0 && v <= INT32_MAX ? (pid_t) v : 0;
        }
        return 0;
}

void oci_state_done(OciState *s) {
        (void) json_object_put(s->json);
        *s = OCI_STATE_NULL;
}

const char *oci_state_id(const OciState *s) {
        return get_string(s->json, "id");
}

const char *oci_state_annotation(const OciState *s, const char *name) {
        json_object *annotations;

        if (!json_object_object_get_ex(s->json, "annotations", &annotations))
                return NULL;
        return get_string(annotations, name);
}

void oci_state_annotations(const OciState *s, const char *prefix, oci_annotation_t found, void *userdata) {
        json_object *annotations;

        if (!json_object_object_get_ex(s->json, "annotations", &annotations) ||
                        !json_object_is_type(annotations, json_type_object))
                return;
        json_object_object_foreach(annotations, name, unused) {
                const char *value = get_string(annotations, name), *rest = startswith(name, prefix);

                (void) unused;
                if (rest && value)
                        found(rest, value, userdata);
        }
}

static int read_file(const char *path, char **ret, size_t *ret_size) {
        _cleanup_free_ char *text = malloc(OCI_STATE_MAX);
        FILE *f = text ? fopen(path, "re") : NULL;

        if (!f)
                return text ? negative_errno() : -ENOMEM;
        size_t n = fread(text, 1, OCI_STATE_MAX, f);
        bool whole = feof(f) && !ferror(f);
        (void) fclose(f);
        if (!whole)
                return -EFBIG;
        *ret = TAKE_PTR(text);
        *ret_size = n;
        return 0;
}

int oci_state_root(const OciState *s, char **ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        const char *bundle = get_string(s->json, "bundle"), *root = NULL;
        json_object *of_root;
        size_t size;
        int r;

        if (!bundle || bundle[0] != '/')
                return -EINVAL;
        if (asprintf(&path, "%s/config.json", bundle) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        r = read_file(path, &text, &size);
        if (r < 0)
                return r;
        json_object *config = parse_object(text, size);
        if (config && json_object_object_get_ex(config, "root", &of_root))
                root = get_string(of_root, "path");
        if (isempty(root))
                r = -EINVAL;
        else if (asprintf(ret, "%s%s%s", root[0] == '/' ? "" : bundle, root[0] == '/' ? "" : "/", root) < 0)
                r = -ENOMEM;
        (void) json_object_put(config);
        return r < 0 ? r : 0;
}
