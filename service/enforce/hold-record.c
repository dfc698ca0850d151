/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is held by privilege, written down
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/macro.h"
#include "hold-record.h"

#define NAME_PREFIX "hold-"
#define TEXT_SIZE   256U
#define LOCK_NAME   "lock"

void hold_record_name(pid_t pid, uint64_t start_time, char ret[static HOLD_RECORD_NAME_SIZE]) {
        (void) snprintf(ret, HOLD_RECORD_NAME_SIZE, NAME_PREFIX "%d-%" PRIu64, (int) pid, start_time);
}

int hold_record_dir_open(const char *path) {
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return negative_errno();
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? negative_errno() : fd;
}

int hold_record_make(pid_t pid, uint64_t start_time, KfdPrivilegedMode mode, HoldRecord *ret) {
        *ret = (HoldRecord){.pid = pid, .start_time = start_time, .mode = mode};
        return boot_id_read(ret->boot_id);
}

/* --- writing --- */

/* The last line says that nothing is missing before it. */
static int record_print(const HoldRecord *r, char text[static TEXT_SIZE]) {
        return snprintf(text, TEXT_SIZE, "xsched-hold 1\nboot %s\npid %d\nstart %" PRIu64 "\nmode %s\nend\n",
                        r->boot_id, (int) r->pid, r->start_time, kfd_privileged_mode_to_string(r->mode));
}

static int write_file(int dir, const char *name, const char *text, size_t size) {
        _cleanup_close_ int fd =
                        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return negative_errno();
        ssize_t n = write(fd, text, size);
        if (n < 0)
                return negative_errno();
        if ((size_t) n != size)
                return -ENOSPC;
        return fsync(fd) < 0 ? negative_errno() : 0;
}

int hold_record_write(int dir, const HoldRecord *r) {
        char name[HOLD_RECORD_NAME_SIZE], aside[HOLD_RECORD_NAME_SIZE + 1], text[TEXT_SIZE];

        hold_record_name(r->pid, r->start_time, name);
        (void) snprintf(aside, sizeof(aside), ".%s", name);
        int q = write_file(dir, aside, text, (size_t) record_print(r, text));
        if (q >= 0 && (renameat(dir, aside, dir, name) < 0 || fsync(dir) < 0))
                q = negative_errno();
        if (q < 0)
                (void) unlinkat(dir, aside, 0);
        return q;
}

int hold_record_remove(int dir, pid_t pid, uint64_t start_time) {
        char name[HOLD_RECORD_NAME_SIZE];

        hold_record_name(pid, start_time, name);
        return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? negative_errno() : 0;
}

int hold_record_set_aside(int dir, const char *name) {
        char aside[NAME_MAX + 1];

        if (snprintf(aside, sizeof(aside), "%s.bad", name) >= (int) sizeof(aside))
                return -ENAMETOOLONG;
        return renameat(dir, name, dir, aside) < 0 ? negative_errno() : 0;
}

/* --- reading --- */

static int record_parse(const char *text, HoldRecord *ret) {
        char again[TEXT_SIZE], mode[16];
        HoldRecord r = {0};
        int pid;

        if (sscanf(text, "xsched-hold 1\nboot %36s\npid %d\nstart %" SCNu64 "\nmode %15s\n", r.boot_id, &pid,
                            &r.start_time, mode) != 4)
                return -EBADMSG;
        int m = kfd_privileged_mode_from_string(mode);
        if (pid <= 0 || m <= KFD_PRIVILEGED_NO)
                return -EBADMSG;
        r.pid = pid;
        r.mode = (KfdPrivilegedMode) m;

        /* Nothing before, behind or between: it is what we would write. */
        (void) record_print(&r, again);
        if (!streq(text, again))
                return -EBADMSG;
        *ret = r;
        return 0;
}

int hold_record_read(int dir, const char *name, HoldRecord *ret) {
        char text[TEXT_SIZE], its_name[HOLD_RECORD_NAME_SIZE];
        HoldRecord record;

        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return negative_errno();
        ssize_t n = read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return negative_errno();
        text[n] = '\0';
        int r = strlen(text) == (size_t) n ? record_parse(text, &record) : -EBADMSG;
        if (r < 0)
                return r;

        /* A file that somebody has put under another name would never be struck out. */
        hold_record_name(record.pid, record.start_time, its_name);
        if (!streq(name, its_name))
                return -EBADMSG;
        *ret = record;
        return 0;
}

int hold_record_find(int dir, pid_t pid, uint64_t start_time, HoldRecord *ret) {
        char name[HOLD_RECORD_NAME_SIZE];

        hold_record_name(pid, start_time, name);
        return hold_record_read(dir, name, ret);
}

static bool is_record(const char *name) {
        size_t n = strlen(name);

        return startswith(name, NAME_PREFIX) && (n < 4 || !streq(name + n - 4, ".bad"));
}

int hold_record_each(int dir, hold_record_each_t each, void *userdata) {
        int r = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        DIR *d = fdopendir(fd);
        if (!d) {
                safe_close(fd);
                return -ENOMEM;
        }
        for (struct dirent *e; r >= 0 && (e = readdir(d));)
                if (is_record(e->d_name))
                        r = each(e->d_name, userdata);
        (void) closedir(d);
        return MIN(r, 0);
}

bool hold_record_is_over(const HoldRecord *r) {
        char boot_id[BOOT_ID_SIZE];
        uint64_t start_time;

        if (boot_id_read(boot_id) >= 0 && !streq(boot_id, r->boot_id))
                return true;
        int q = process_stat(r->pid, NULL, &start_time);
        return q == -ESRCH || (q >= 0 && start_time != r->start_time);
}

int hold_record_lock(int dir, pid_t pid, bool wait) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1};

        _cleanup_close_ int fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return negative_errno();
        while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l) < 0)
                if (errno != EINTR)
                        return errno == EACCES ? -EAGAIN : negative_errno();
        return TAKE_FD(fd);
}
