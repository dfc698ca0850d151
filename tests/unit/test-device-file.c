/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Copies of another process's device files, beside files of a FUSE file system that does not answer
 *
 * The device is /dev/null. The file system has one file. Its server is stopped once the process has opened it: from
 * then on fstat() of a copy of that file does not return, nor does closing the copy.
 */

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "common/process.h"
#include "hal/device-file.h"
#include "tests/lib/deadline.h"
#include "tests/lib/unit.h"

#define FILE_NODE 2U
#define PATH_SIZE 128U

static const DeviceFile null_device = {.path = "/dev/null", .major_of = 1, .minor_of = 3};
static const DeviceFile elsewhere = {.path = "/nonexistent", .major_of = 1, .minor_of = 3}; /* not where we are */

static char dir[] = "/tmp/xsched-device-file-XXXXXX";
static int fuse = -EBADF;

/* --- the file system --- */

typedef struct Reply {
        struct fuse_out_header header;
        union {
                struct fuse_init_out init;
                struct fuse_entry_out entry;
                struct fuse_attr_out attr;
                struct fuse_open_out open;
        };
} Reply;

static struct fuse_attr attr_of(uint64_t node) {
        return (struct fuse_attr){.ino = node, .mode = node == FILE_NODE ? S_IFREG | 0600 : S_IFDIR | 0700, .nlink = 1};
}

/* Returns the size of the answer behind the header. */
static size_t answer(const struct fuse_in_header *in, Reply *r) {
        switch (in->opcode) {
        case FUSE_INIT:
                r->init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
                return sizeof(r->init);
        case FUSE_LOOKUP:
                r->entry = (struct fuse_entry_out){.nodeid = FILE_NODE, .attr = attr_of(FILE_NODE)};
                return sizeof(r->entry);
        case FUSE_GETATTR:
                r->attr = (struct fuse_attr_out){.attr = attr_of(in->nodeid)};
                return sizeof(r->attr);
        case FUSE_OPEN:
                r->open = (struct fuse_open_out){0};
                return sizeof(r->open);
        default:
                r->header.error = in->opcode == FUSE_FLUSH ? 0 : -ENOSYS;
                return 0;
        }
}

_noreturn_ static void serve(void) {
        _Alignas(8) static char buf[1 << 17];

        for (;;) {
                ssize_t n = read(fuse, buf, sizeof(buf));
                const struct fuse_in_header *in = (const void *) buf;
                Reply r = {0};
                if (n < (ssize_t) sizeof(*in))
                        _exit(0);
                if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT)
                        continue;
                r.header.unique = in->unique;
                r.header.len = (uint32_t) (sizeof(r.header) + answer(in, &r));
                if (write(fuse, &r, r.header.len) < 0 && errno != ENOENT)
                        _exit(1);
        }
}

/* --- processes --- */

static pid_t start(void (*f)(void *userdata), void *userdata) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                f(userdata);
                _exit(0);
        }
        return pid;
}

static void run_server(void *userdata) {
        serve();
}

/* The process's files, in this order. */
enum { SERVED, DEVICE, ZERO, BY_PATH, SERVED_TOO, NODE, N_FILES };

typedef struct Tenant {
        bool moves; /* to a mount namespace of its own, when it has the files open */
        int said;   /* a pipe, for its fds */
        int fds[N_FILES];
} Tenant;

static int must_open(const char *at, const char *name, int flags) {
        char path[PATH_SIZE];

        (void) snprintf(path, sizeof(path), "%s%s", at, name);
        int fd = open(path, flags | O_CLOEXEC);
        if (fd < 0)
                _exit(1);
        return fd;
}

static void run_tenant(void *userdata) {
        Tenant *t = userdata;

        t->fds[SERVED] = must_open(dir, "/served/file", O_RDWR);
        t->fds[DEVICE] = must_open("/dev", "/null", O_RDWR);
        t->fds[ZERO] = must_open("/dev", "/zero", O_RDWR);
        t->fds[BY_PATH] = must_open("/dev", "/null", O_PATH);
        t->fds[SERVED_TOO] = must_open(dir, "/served/file", O_RDONLY);
        t->fds[NODE] = must_open(dir, "/nodes/node", O_RDWR);
        if ((t->moves && unshare(CLONE_NEWNS) < 0) || write(t->said, t->fds, sizeof(t->fds)) < 0)
                _exit(1);
        for (;;)
                (void) pause();
}

typedef struct Taker {
        const Tenant *tenant;
        pid_t pid;
        const DeviceFile *device;
} Taker;

/* Ends with the files that it has got, as bits. */
static void run_taker(void *userdata) {
        const Taker *t = userdata;
        int found = 0, found_singly = 0, at = 0, fd;
        uint64_t start_time;

        int pidfd = process_open(t->pid, &start_time);
        while ((fd = device_file_take_next(t->pid, pidfd, t->device, &at)) >= 0) {
                for (int i = 0; i < N_FILES; i++)
                        found |= t->tenant->fds[i] == at ? 1 << i : 0;
                (void) close(fd);
                at++;
        }
        if (fd != -ENODEV)
                _exit(1 << N_FILES);

        /* One by one, as for files that were found before. */
        for (int i = 0; i < N_FILES; i++) {
                fd = device_file_take(t->pid, pidfd, t->device, t->tenant->fds[i]);
                if (fd < 0 && fd != -ENODEV)
                        _exit(1 << N_FILES);
                found_singly |= fd >= 0 ? 1 << i : 0;
                if (fd >= 0)
                        (void) close(fd);
        }
        _exit(found == found_singly ? found : 1 << N_FILES);
}

/* Returns its exit status, or -1 when it has not ended in time. */
static int wait_for(pid_t pid) {
        int status = 0;

        return poll_until(waitpid(pid, &status, WNOHANG) == pid) && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- tests --- */

static int mount_all(void **state) {
        char path[PATH_SIZE], options[128];

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return 0;
        assert_non_null(mkdtemp(dir));
        assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, "mode=700"), 0);
        (void) snprintf(path, sizeof(path), "%s/nodes", dir);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(mount("tmpfs", path, "tmpfs", 0, "mode=700"), 0);
        (void) snprintf(path, sizeof(path), "%s/nodes/node", dir);
        if (mknod(path, S_IFCHR | 0600, makedev(null_device.major_of, null_device.minor_of)) < 0)
                return 0; /* where only the host may do this */
        (void) snprintf(path, sizeof(path), "%s/served", dir);
        assert_int_equal(mkdir(path, 0700), 0);
        fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        (void) snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
        if (fuse >= 0 && mount("served", path, "fuse", MS_NODEV | MS_NOSUID, options) < 0)
                fuse = safe_close(fuse);
        return 0;
}

static int unmount_all(void **state) {
        (void) umount2(dir, MNT_DETACH);
        (void) rmdir(dir);
        fuse = safe_close(fuse);
        return 0;
}

/* Returns the files of a process that are found, while the file system does not answer. */
static int found_of(bool moves, const DeviceFile *device, pid_t server) {
        int said[2];

        assert_int_equal(pipe2(said, O_CLOEXEC), 0);
        Tenant tenant = {.moves = moves, .said = said[1]};
        pid_t pid = start(run_tenant, &tenant);
        assert_int_equal(read(said[0], tenant.fds, sizeof(tenant.fds)), sizeof(tenant.fds));
        assert_int_equal(kill(server, SIGSTOP), 0);

        Taker taker = {.tenant = &tenant, .pid = pid, .device = device};
        pid_t taking = start(run_taker, &taker);
        int found = wait_for(taking);
        assert_int_equal(kill(server, SIGCONT), 0);
        if (found < 0)
                (void) waitpid(taking, NULL, 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void) close(said[0]);
        (void) close(said[1]);
        return found;
}

static void test_file_system_that_hangs(void **state) {
        static const struct {
                bool moves;
                const DeviceFile *device;
                int found;
        } cases[] = {
                        {false, &null_device, 1 << DEVICE | 1 << NODE},
                        {false, &elsewhere, 1 << DEVICE | 1 << NODE},
                        /* Its files are on no mount of the process then. */
                        {true, &null_device, 1 << DEVICE},
                        {true, &elsewhere, 0},
        };

        if (fuse < 0)
                skip(); /* not root, or no FUSE */
        pid_t server = start(run_server, NULL);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_int_equal(found_of(cases[i].moves, cases[i].device, server), cases[i].found);
        assert_int_equal(kill(server, SIGKILL), 0);
        assert_int_equal(waitpid(server, NULL, 0), server);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_file_system_that_hangs, mount_all, unmount_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
