/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Adds to json-c's objects and arrays, for whoever is linked to json-c
 */

#include <errno.h>
#include <json-c/json.h>

/* Adds the item to an object, or to an array (`key` NULL), and takes it, also on failure. `to` or `item` NULL: there
 * was no memory for it. Returns 0 or -ENOMEM. */
static inline int json_add(json_object *to, const char *key, json_object *item) {
        int r = !to || !item ? -1 : key ? json_object_object_add(to, key, item) : json_object_array_add(to, item);

        if (r >= 0)
                return 0;
        json_object_put(item);
        return -ENOMEM;
}
