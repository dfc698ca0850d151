/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Files that outlive a reboot
 */

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/write-all.h"
#include "state-file.h"

const char *state_directory(const char *variable, char buf[static PATH_MAX]) {
        const char *all = getenv(variable);
        size_t n = all ? strcspn(all, ":") : 0;

        if (n == 0 || n >= PATH_MAX)
                return NULL;
        memcpy(buf, all, n);
        buf[n] = '\0';
        return buf;
}

static int open_directory(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? negative_errno() : fd;
}

static int read_all(int fd, char *data, size_t size) {
        for (size_t n = 0; n < size;) {
                ssize_t k = read(fd, data + n, size - n);
                if (k < 0 && errno != EINTR)
                        return negative_errno();
                if (k == 0)
                        return -EIO; /* another program has shortened it while we read */
                if (k > 0)
                        n += (size_t) k;
        }
        return 0;
}

int state_file_read(const char *directory, const char *name, char **ret, size_t *ret_size) {
        _cleanup_close_ int dir = open_directory(directory);
        struct stat st;

        if (dir < 0)
                return dir;
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        if (st.st_size > (off_t) STATE_FILE_SIZE_MAX)
                return -EFBIG;

        size_t size = (size_t) st.st_size;
        _cleanup_free_ char *data = malloc(size + 1);
        if (!data)
                return -ENOMEM;
        int r = read_all(fd, data, size);
        if (r < 0)
                return r;
        data[size] = '\0';
        *ret = TAKE_PTR(data);
        *ret_size = size;
        return 0;
}

/* The temporary file always has the same name, so that what a crash has left is replaced. */
static int write_temporary(int dir, const char *name, const char *data, size_t size) {
        (void) unlinkat(dir, name, 0);
        _cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return negative_errno();
        int r = write_all(fd, data, size);
        return r >= 0 && fsync(fd) < 0 ? negative_errno() : r;
}

int state_file_write_at(int dir, const char *name, const char *data, size_t size) {
        char temporary[NAME_MAX + 1];

        int n = snprintf(temporary, sizeof(temporary), ".%s.tmp", name);
        if (n < 0 || (size_t) n >= sizeof(temporary))
                return -ENAMETOOLONG;
        int r = write_temporary(dir, temporary, data, size);
        if (r >= 0 && renameat(dir, temporary, dir, name) < 0)
                r = negative_errno();
        if (r < 0) {
                (void) unlinkat(dir, temporary, 0);
                return r;
        }
        return fsync(dir) < 0 ? negative_errno() : 0;
}

int state_file_write(const char *directory, const char *name, const char *data, size_t size) {
        _cleanup_close_ int dir = open_directory(directory);

        return dir < 0 ? dir : state_file_write_at(dir, name, data, size);
}

int state_file_set_aside_at(int dir, const char *name) {
        char bad[NAME_MAX + 1];

        int n = snprintf(bad, sizeof(bad), "%s.bad", name);
        if (n < 0 || (size_t) n >= sizeof(bad))
                return -ENAMETOOLONG;
        if (renameat(dir, name, dir, bad) < 0)
                return negative_errno();
        return fsync(dir) < 0 ? negative_errno() : 0;
}

int state_file_set_aside(const char *directory, const char *name) {
        _cleanup_close_ int dir = open_directory(directory);

        return dir < 0 ? dir : state_file_set_aside_at(dir, name);
}
