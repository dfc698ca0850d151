/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Writes and reads pause records
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/directory.h"
#include "common/macro.h"
#include "pause-record.h"
#include "service/base/state-file.h"

#define NAME_PREFIX "hold-"
#define TEXT_SIZE   256U
#define LOCK_NAME   "lock"

void pause_record_name(pid_t pid, uint64_t start_time, char ret[static PAUSE_RECORD_NAME_SIZE]) {
        (void) snprintf(ret, PAUSE_RECORD_NAME_SIZE, NAME_PREFIX "%d-%" PRIu64, (int) pid, start_time);
}

int pause_record_dir_open(const char *path) {
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return negative_errno();
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return fd < 0 ? negative_errno() : fd;
}

int pause_record_make(pid_t pid, uint64_t start_time, PrivilegedMode mode, PauseRecord *ret) {
        *ret = (PauseRecord){.pid = pid, .start_time = start_time, .mode = mode};
        return boot_id_read(ret->boot_id);
}

/* --- writing --- */

/* The last line shows that the record is complete. */
static int record_print(const PauseRecord *r, char text[static TEXT_SIZE]) {
        return snprintf(text, TEXT_SIZE, "xsched-hold 1\nboot %s\npid %d\nstart %" PRIu64 "\nmode %s\nend\n",
                        r->boot_id, (int) r->pid, r->start_time, privileged_mode_to_string(r->mode));
}

int pause_record_write(int dir, const PauseRecord *r) {
        char name[PAUSE_RECORD_NAME_SIZE], text[TEXT_SIZE];

        pause_record_name(r->pid, r->start_time, name);
        return state_file_write_at(dir, name, text, (size_t) record_print(r, text));
}

int pause_record_remove(int dir, pid_t pid, uint64_t start_time) {
        char name[PAUSE_RECORD_NAME_SIZE];

        pause_record_name(pid, start_time, name);
        return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? negative_errno() : 0;
}

int pause_record_set_aside(int dir, const char *name) {
        return state_file_set_aside_at(dir, name);
}

/* --- reading --- */

static int record_parse(const char *text, PauseRecord *ret) {
        char again[TEXT_SIZE], mode[16];
        PauseRecord r = {0};
        int pid;

        if (sscanf(text, "xsched-hold 1\nboot %36s\npid %d\nstart %" SCNu64 "\nmode %15s\n", r.boot_id, &pid,
                            &r.start_time, mode) != 4)
                return -EBADMSG;
        int m = privileged_mode_from_string(mode);
        if (pid <= 0 || m <= PRIVILEGED_NO)
                return -EBADMSG;
        r.pid = pid;
        r.mode = (PrivilegedMode) m;

        /* Accepts only a text that record_print() would write. */
        (void) record_print(&r, again);
        if (!streq(text, again))
                return -EBADMSG;
        *ret = r;
        return 0;
}

int pause_record_read(int dir, const char *name, PauseRecord *ret) {
        char text[TEXT_SIZE], its_name[PAUSE_RECORD_NAME_SIZE];
        PauseRecord record;

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

        /* A record under another name would never be removed. */
        pause_record_name(record.pid, record.start_time, its_name);
        if (!streq(name, its_name))
                return -EBADMSG;
        *ret = record;
        return 0;
}

int pause_record_find(int dir, pid_t pid, uint64_t start_time, PauseRecord *ret) {
        char name[PAUSE_RECORD_NAME_SIZE];

        pause_record_name(pid, start_time, name);
        return pause_record_read(dir, name, ret);
}

static bool is_record(const char *name) {
        size_t n = strlen(name);

        return startswith(name, NAME_PREFIX) && (n < 4 || !streq(name + n - 4, ".bad"));
}

int pause_record_each(int dir, pause_record_each_t each, void *userdata) {
        int r = 0, end = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        DIR *d = fdopendir(fd);
        if (!d) {
                safe_close(fd);
                return -ENOMEM;
        }
        for (struct dirent *e; r >= 0 && (e = directory_next(d, &end));)
                if (is_record(e->d_name))
                        r = each(e->d_name, userdata);
        (void) closedir(d);
        return r < 0 ? r : end;
}

bool pause_record_is_over(const PauseRecord *r) {
        char boot_id[BOOT_ID_SIZE];
        uint64_t start_time;

        if (boot_id_read(boot_id) >= 0 && !streq(boot_id, r->boot_id))
                return true;
        int q = process_stat(r->pid, NULL, &start_time);
        return q == -ESRCH || (q >= 0 && start_time != r->start_time);
}

int pause_record_lock(int dir, pid_t pid, bool wait) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1};

        _cleanup_close_ int fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return negative_errno();
        while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l) < 0)
                if (errno != EINTR)
                        return errno == EACCES ? -EAGAIN : negative_errno();
        return TAKE_FD(fd);
}
