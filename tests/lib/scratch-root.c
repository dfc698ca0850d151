/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A directory in place of the system's root */

#include "tests/lib/scratch-root.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/lib/unit.h"

static char root[] = "/tmp/scratch-root.XXXXXX";

const char *scratch_root(void) {
        return root;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

int scratch_root_setup(void **state) {
        return mkdtemp(root) ? 0 : -1;
}

int scratch_root_teardown(void **state) {
        return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void scratch_root_clear(void) {
        assert_int_equal(scratch_root_teardown(NULL), 0);
        assert_int_equal(mkdir(root, 0755), 0);
}

static void make_directories(char *path) {
        for (char *s = path + strlen(root) + 1; (s = strchr(s, '/')); s++) {
                *s = '\0';
                assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
                *s = '/';
        }
}

void scratch_root_put(const char *name, const char *format, ...) {
        char path[PATH_MAX];
        va_list ap;

        assert_true(snprintf(path, sizeof(path), "%s%s", root, name) < (int) sizeof(path));
        make_directories(path);
        if (path[strlen(path) - 1] == '/')
                return;
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        va_start(ap, format);
        assert_true(vfprintf(f, format, ap) >= 0);
        va_end(ap);
        assert_int_equal(fclose(f), 0);
}
