/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Aliases
 */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/macro.h"
#include "unit-alias.h"

#define LINKS_MAX 8U /* one after the other */

/* The directories in systemd's order; the first that has the unit counts. */
static const char *const directories[] = {
                "/etc/systemd/system.control",
                "/run/systemd/system.control",
                "/run/systemd/transient",
                "/run/systemd/generator.early",
                "/etc/systemd/system",
                "/run/systemd/system",
                "/run/systemd/generator",
                "/usr/local/lib/systemd/system",
                "/usr/lib/systemd/system",
                "/lib/systemd/system",
                "/run/systemd/generator.late",
};

static const char *unit_suffix(const char *name) {
        static const char *const suffixes[] = {".service", ".scope", ".slice"};

        if (strchr(name, '/') || strlen(name) > NAME_MAX)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (endswith(name, suffixes[i]) && name[0] != '.')
                        return suffixes[i];
        return NULL;
}

/* Reads the link of this name. Returns > 0 and the name that it leads to, of the same kind of unit, in buf; 0: it is no
 * such link; -ENOENT: there is no file. */
static int read_link(const char *root, const char *name, char buf[static NAME_MAX + 1]) {
        const char *suffix = unit_suffix(name);
        char path[PATH_MAX], target[PATH_MAX];

        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                int n = snprintf(path, sizeof(path), "%s%s/%s", root, directories[i], name);
                if (n < 0 || n >= (int) sizeof(path))
                        return -ENAMETOOLONG;
                ssize_t size = readlink(path, target, sizeof(target) - 1);
                if (size < 0 && (errno == ENOENT || errno == ENOTDIR))
                        continue;
                if (size < 0)
                        return 0;
                target[size] = '\0';
                const char *slash = strrchr(target, '/'), *last = slash ? slash + 1 : target;
                if (strlen(last) > NAME_MAX || !suffix || !streq_ptr(unit_suffix(last), suffix) || streq(last, name))
                        return 0; /* a unit that is masked, or that lies elsewhere */
                (void) snprintf(buf, NAME_MAX + 1, "%s", last);
                return 1;
        }
        return -ENOENT;
}

/* If a template is an alias, its instances are aliases of the other template's instances. */
static int read_template(const char *root, const char *name, char buf[static NAME_MAX + 1]) {
        const char *at = strchr(name, '@'), *suffix = unit_suffix(name);
        char template[NAME_MAX + 1], own[NAME_MAX + 1];

        if (!at || !suffix)
                return -ENOENT;
        size_t prefix = (size_t) (at - name) + 1, instance = strlen(name) - prefix - strlen(suffix);
        (void) snprintf(template, sizeof(template), "%.*s%s", (int) prefix, name, suffix);
        if (instance == 0)
                return -ENOENT;
        int r = read_link(root, template, own);
        if (r <= 0)
                return r;
        const char *own_at = strchr(own, '@');
        if (!own_at || !streq(own_at + 1, suffix))
                return 0;
        int n = snprintf(buf, NAME_MAX + 1, "%.*s%.*s%s", (int) (own_at - own) + 1, own, (int) instance, name + prefix,
                        suffix);
        return n < 0 || n > NAME_MAX ? -ENAMETOOLONG : 1;
}

int unit_alias(const char *root, const char *name, char **ret) {
        char own[NAME_MAX + 1], next[NAME_MAX + 1];
        int r;

        if (!unit_suffix(name))
                return 0;
        (void) snprintf(own, sizeof(own), "%s", name);
        for (unsigned n = 0; n < LINKS_MAX; n++) {
                r = read_link(root, own, next);
                if (r == -ENOENT)
                        r = read_template(root, own, next);
                if (r <= 0)
                        break;
                memcpy(own, next, sizeof(own));
        }
        if (streq(own, name))
                return 0;
        char *copy = strdup(own);
        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 1;
}
