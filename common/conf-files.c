/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The list of files that make up a configuration
 */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "conf-files.h"
#include "directory.h"

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
}

static int compare_base_names(const void *a, const void *b) {
        return strcmp(base_name(*(char *const *) a), base_name(*(char *const *) b));
}

static int add(ConfFiles *f, char *path) {
        char **grown = array_grow(f->paths, f->n, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        f->paths = grown;
        f->paths[f->n++] = path;
        return 0;
}

static bool contains_name(const ConfFiles *f, const char *name) {
        for (size_t i = 0; i < f->n; i++)
                if (streq(base_name(f->paths[i]), name))
                        return true;
        return false;
}

static void report_dangling(const ConfContext *c, const char *path) {
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[MAX(n, 0)] = '\0';
        conf_report(c, CONF_ERROR, path, 0, -ENOLINK, "Not read, as it is a link to %s, where there is no file",
                        n > 0 ? target : "a place");
}

/* Returns 1: read the file; 0: it only masks others; -ENOENT: it is gone; or another negative errno, which was
 * reported. */
static int classify(const char *path, const ConfContext *c) {
        struct stat st;
        if (stat(path, &st) < 0) {
                int r = negative_errno();
                if (r == -ENOENT)
                        r = conf_missing_error(path);
                if (r == -ENOLINK)
                        report_dangling(c, path);
                else if (r != -ENOENT)
                        conf_report(c, CONF_ERROR, path, 0, r, "Failed to look at the file: %s", strerror(-r));
                return r;
        }
        int r = conf_file_kind(&st);
        if (r < 0)
                conf_report(c, CONF_ERROR, path, 0, r, "Not a regular file");
        return r > 0 ? st.st_size > 0 : r;
}

/* Returns 0 when a directory that cannot be opened does not exist, and so has no files; else the error. For a
 * subdirectory only its own name is looked at: errors of the directory above are found when that one is listed. */
static int directory_error(const char *path, bool is_subdir, int error) {
        struct stat st;
        if (is_subdir && (error == -ENOENT || error == -ENOTDIR) && lstat(path, &st) < 0)
                return -ENOENT;
        return error == -ENOENT ? conf_missing_error(path) : error;
}

/* Adds all names of one directory that no earlier directory had; also masks, which hide files of later directories. */
static int list_one(const char *dir, bool is_subdir, const char *suffix, const ConfContext *c, ConfFiles *seen,
                ConfFiles *found) {
        DIR *d = opendir(dir);
        if (!d) {
                int r = directory_error(dir, is_subdir, negative_errno());
                if (r == -ENOENT)
                        return 0;
                conf_report(c, CONF_ERROR, dir, 0, r, "Failed to read the directory: %s", conf_strerror(r));
                return r;
        }

        int first_error = 0, end = 0;
        for (struct dirent *de; (de = directory_next(d, &end));) {
                if (de->d_name[0] == '.' || !endswith(de->d_name, suffix) || contains_name(seen, de->d_name))
                        continue;
                _cleanup_free_ char *path = NULL, *copy = NULL;
                if (asprintf(&path, "%s/%s", dir, de->d_name) < 0) {
                        path = NULL;
                        first_error = -ENOMEM;
                        break;
                }
                int r = classify(path, c);
                if (r == -ENOENT)
                        continue;
                if (r < 0 && first_error == 0)
                        first_error = r;
                copy = strdup(path);
                if (!copy || add(seen, copy) < 0) {
                        first_error = -ENOMEM;
                        break;
                }
                TAKE_PTR(copy);
                if (r <= 0)
                        continue;
                if (add(found, path) < 0) {
                        first_error = -ENOMEM;
                        break;
                }
                TAKE_PTR(path);
        }
        (void) closedir(d);
        if (end < 0) {
                conf_report(c, CONF_ERROR, dir, 0, end, "Failed to read the directory: %s", strerror(-end));
                return first_error < 0 ? first_error : end;
        }
        return first_error;
}

int conf_files_list(
                const char *const *dirs, const char *subdir, const char *suffix, const ConfContext *c, ConfFiles *ret) {
        _cleanup_(conf_files_done)
        ConfFiles seen = CONF_FILES_NULL, found = CONF_FILES_NULL;
        int first_error = 0;

        for (const char *const *dir = dirs; *dir; dir++) {
                _cleanup_free_ char *path = NULL;
                if (asprintf(&path, "%s%s%s", *dir, subdir ? "/" : "", strempty(subdir)) < 0) {
                        path = NULL;
                        return -ENOMEM;
                }
                int r = list_one(path, subdir, suffix, c, &seen, &found);
                if (r == -ENOMEM)
                        return r;
                if (r < 0 && first_error == 0)
                        first_error = r;
        }
        if (found.n > 0)
                qsort(found.paths, found.n, sizeof(char *), compare_base_names);
        *ret = TAKE_GENERIC(found, CONF_FILES_NULL);
        return first_error;
}

void conf_files_done(ConfFiles *f) {
        for (size_t i = 0; i < f->n; i++)
                free(f->paths[i]);
        free(f->paths);
        *f = CONF_FILES_NULL;
}
