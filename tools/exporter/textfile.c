/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Text files
 *
 * What is being written is called ".NAME.XXXXXX": the collector takes what ends in ".prom".
 */

#include "tools/exporter/textfile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/macro.h"
#include "common/write-all.h"

static int write_new(const char *path, const char *text, size_t size) {
        _cleanup_close_ int fd = mkostemp((char *) (uintptr_t) path, O_CLOEXEC);

        if (fd < 0)
                return negative_errno();
        int r = write_all(fd, text, size);
        if (r >= 0 && fchmod(fd, 0644) < 0)
                r = negative_errno();
        return r;
}

int textfile_write(const char *path, const char *text, size_t size) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        char new[PATH_MAX];

        if (streq(path, "-"))
                return write_all(STDOUT_FILENO, text, size);
        int n = snprintf(new, sizeof(new), "%.*s.%s.XXXXXX", (int) (name - path), path, name);
        if (n < 0 || (size_t) n >= sizeof(new))
                return -ENAMETOOLONG;
        int r = write_new(new, text, size);
        if (r >= 0 && rename(new, path) < 0)
                r = negative_errno();
        if (r < 0)
                (void) unlink(new);
        return r;
}
