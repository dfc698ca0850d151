/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Replaces a file as a whole
 */

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/whole-file.h"
#include "common/write-all.h"

static int write_temporary(char *path, const char *text, size_t size, bool sync) {
        _cleanup_close_ int fd = mkostemp(path, O_CLOEXEC);

        if (fd < 0)
                return negative_errno();
        int r = write_all(fd, text, size);
        if (r >= 0 && (fchmod(fd, 0644) < 0 || (sync && fsync(fd) < 0)))
                r = negative_errno();
        if (r < 0)
                (void) unlink(path);
        return r;
}

/* A device, a pipe: what it is stays. */
static int write_in_place(const char *path, const char *text, size_t size) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

        return fd < 0 ? negative_errno() : write_all(fd, text, size);
}

int whole_file_write(const char *path, const char *text, size_t size, bool sync) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        char temporary[PATH_MAX];
        struct stat st;

        if (stat(path, &st) >= 0 && !S_ISREG(st.st_mode))
                return write_in_place(path, text, size);
        int n = snprintf(temporary, sizeof(temporary), "%.*s.%s.XXXXXX", (int) (name - path), path, name);
        if (n < 0 || (size_t) n >= sizeof(temporary))
                return -ENAMETOOLONG;
        int r = write_temporary(temporary, text, size, sync);
        if (r < 0)
                return r;
        if (rename(temporary, path) >= 0)
                return 0;
        r = negative_errno();
        (void) unlink(temporary);
        return r;
}
