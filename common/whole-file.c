/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Replaces a file as a whole
 */

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/whole-file.h"
#include "common/write-all.h"

/* The mode of a new file. */
#define MODE        0644
#define MODE_UMASK  0666 /* less what the umask takes away */
#define MODE_SECRET 0600 /* until the file has its mode */

typedef struct Temporary {
        char path[PATH_MAX];
        int fd;
} Temporary;

/* Closes it: some file systems report only then what could not be written. */
static int write_and_close(int fd, const char *text, size_t size, bool sync) {
        int r = write_all(fd, text, size);

        if (r >= 0 && sync && fsync(fd) < 0)
                r = negative_errno();
        return close(fd) < 0 && r >= 0 ? negative_errno() : r;
}

static int write_in_place(const char *path, const char *text, size_t size, int flags) {
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, MODE_UMASK);

        return fd < 0 ? negative_errno() : write_and_close(fd, text, size, false);
}

/* Opens a new file beside `path`. `mode` < 0: the mode that the umask leaves. */
static int temporary_open(const char *path, int mode, Temporary *ret) {
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        uint32_t id;

        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
                return negative_errno();
        int n = snprintf(ret->path, sizeof(ret->path), "%.*s.%s.%08x", (int) (name - path), path, name, id);
        if (n < 0 || (size_t) n >= sizeof(ret->path))
                return -ENAMETOOLONG;
        _cleanup_close_ int fd =
                        open(ret->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode < 0 ? MODE_UMASK : MODE_SECRET);
        if (fd < 0)
                return negative_errno();
        if (mode >= 0 && fchmod(fd, (mode_t) mode) < 0) {
                int r = negative_errno();

                (void) unlink(ret->path);
                return r;
        }
        ret->fd = TAKE_FD(fd);
        return 0;
}

/* Writes the text, and has the file replace `path`. */
static int temporary_become(const Temporary *t, const char *path, const char *text, size_t size, bool sync) {
        int r = write_and_close(t->fd, text, size, sync);

        if (r >= 0 && rename(t->path, path) < 0)
                r = negative_errno();
        if (r < 0)
                (void) unlink(t->path);
        return r;
}

static int write_keep(const char *path, const char *text, size_t size, bool sync) {
        char target[PATH_MAX];
        Temporary t;
        struct stat st;
        bool former = stat(path, &st) >= 0, dangling = !former && lstat(path, &st) >= 0;

        if (former && access(path, W_OK) < 0)
                return negative_errno();
        if (dangling)
                return write_in_place(path, text, size, O_CREAT | O_TRUNC);
        if (former && !realpath(path, target))
                return negative_errno();
        int r = temporary_open(former ? target : path, former ? (int) (st.st_mode & 0777) : -1, &t);
        if (former && (r == -EACCES || r == -EPERM || r == -EROFS))
                return write_in_place(path, text, size, O_TRUNC);
        return r < 0 ? r : temporary_become(&t, former ? target : path, text, size, sync);
}

int whole_file_write(const char *path, const char *text, size_t size, WholeFileFlags flags) {
        bool sync = flags & WHOLE_FILE_SYNC;
        struct stat st;
        Temporary t;

        if (stat(path, &st) >= 0 && !S_ISREG(st.st_mode))
                return write_in_place(path, text, size, 0);
        if (flags & WHOLE_FILE_KEEP)
                return write_keep(path, text, size, sync);
        int r = temporary_open(path, MODE, &t);
        return r < 0 ? r : temporary_become(&t, path, text, size, sync);
}
