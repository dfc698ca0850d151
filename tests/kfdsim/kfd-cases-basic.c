/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about the device itself: numbers, arguments, and the owner of an fd
 */

#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/kfdsim/kfd-cases.h"

#define NR_UNKNOWN    0x7f
#define NR_DEPRECATED 0x0d /* DBG_REGISTER of old */

/* --- version and numbers --- */

static int version(int fd) {
        KfdVersion v = {0};
        int r = expect("GET_VERSION", kfd_call(fd, KFD_IOC_GET_VERSION, &v), 0);
        printf("# KFD API %u.%u\n", v.major, v.minor);
        r = r ?: expect("major", (int) v.major, KFD_API_MAJOR);
        return r ?: expect("1.13 or newer", v.minor >= KFD_API_DBG_TRAP, 1);
}

static int case_version(void) {
        return with_kfd(version);
}

static int unknown_number(int fd) {
        uint64_t arg[16] = {0};
        return expect("unknown number", kfd_call(fd, _IOWR(KFD_IOCTL_BASE, NR_UNKNOWN, arg), arg), -ENOTTY);
}

static int case_unknown_number(void) {
        return with_kfd(unknown_number);
}

static int number_past_the_end(int fd) {
        uint64_t arg[4] = {0};
        return expect("first number past the end", kfd_call(fd, _IOWR(KFD_IOCTL_BASE, _KFD_NR_END, arg), arg), -ENOTTY);
}

static int case_number_past_the_end(void) {
        return with_kfd(number_past_the_end);
}

static int deprecated(int fd) {
        uint32_t arg[2] = {0};
        return expect("deprecated number", kfd_call(fd, _IOW(KFD_IOCTL_BASE, NR_DEPRECATED, arg), arg), -EPERM);
}

static int case_deprecated(void) {
        return with_kfd(deprecated);
}

/* KFD goes by the number alone: the size in the request may be that of an older structure. */
static int old_size(int fd) {
        struct {
                uint8_t args[KFD_CREATE_QUEUE_SIZE_1_11];
        } q = {0};
        return expect("CREATE_QUEUE of 1.11", kfd_call(fd, _IOWR(KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, q), &q), -EINVAL);
}

static int case_old_size(void) {
        return with_kfd(old_size);
}

/* --- arguments: what the kernel copies, from where and whereto --- */

static int bad_address(int fd) {
        static const struct {
                const char *name;
                unsigned long request;
        } calls[] = {
                        {"GET_VERSION", KFD_IOC_GET_VERSION},
                        {"CREATE_QUEUE", KFD_IOC_CREATE_QUEUE},
                        {"UPDATE_QUEUE", KFD_IOC_UPDATE_QUEUE},
                        {"DESTROY_QUEUE", KFD_IOC_DESTROY_QUEUE},
                        {"CRIU_OP", KFD_IOC_CRIU_OP},
                        {"DBG_TRAP", KFD_IOC_DBG_TRAP},
        };
        int r = CASE_OK;

        for (size_t i = 0; i < ELEMENTSOF(calls); i++) {
                r = expect(calls[i].name, kfd_call(fd, calls[i].request, NULL), -EFAULT) ?: r;
                r = expect(calls[i].name, kfd_call(fd, calls[i].request, (void *) UINTPTR_MAX), -EFAULT) ?: r;
        }
        return r;
}

static int case_bad_address(void) {
        return with_kfd(bad_address);
}

/* The result is copied out whatever the call said: memory that cannot be written hides its error. */
static int read_only_argument(int fd) {
        void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return expect("mmap", negative_errno(), 0);
        return expect("GET_VERSION", kfd_call(fd, KFD_IOC_GET_VERSION, page), -EFAULT)
                        ?: expect("CREATE_QUEUE, which fails anyway", kfd_call(fd, KFD_IOC_CREATE_QUEUE, page), -EFAULT)
                        ?: expect("UPDATE_QUEUE returns nothing", kfd_call(fd, KFD_IOC_UPDATE_QUEUE, page), -EFAULT)
                        ?: expect("DESTROY_QUEUE, which does", kfd_call(fd, KFD_IOC_DESTROY_QUEUE, page), -EFAULT);
}

static int case_read_only_argument(void) {
        return with_kfd(read_only_argument);
}

/* The driver ignores the direction and the type in the request. */
static int direction_and_type(int fd) {
        KfdVersion written = {0}, neither = {0};
        uint32_t queue[2] = {NO_SUCH_QUEUE, 0};
        const unsigned long version_written = _IOW(KFD_IOCTL_BASE, KFD_NR_GET_VERSION, written);
        const unsigned long version_typed = _IOR('x', KFD_NR_GET_VERSION, neither);
        const unsigned long destroy_read = _IOR(KFD_IOCTL_BASE, KFD_NR_DESTROY_QUEUE, queue);

        return expect("GET_VERSION as _IOW", kfd_call(fd, version_written, &written), 0)
                        ?: expect("which returns it", (int) written.major, KFD_API_MAJOR)
                        ?: expect("GET_VERSION of another type", kfd_call(fd, version_typed, &neither), 0)
                        ?: expect("which returns it", (int) neither.major, KFD_API_MAJOR)
                        ?: expect("DESTROY_QUEUE as _IOR", kfd_call(fd, destroy_read, queue), -EINVAL)
                        ?: expect("TCGETS, which has the number of GET_VERSION and no "
                                        "size", kfd_call(fd, TCGETS, NULL), 0);
}

static int case_direction_and_type(void) {
        return with_kfd(direction_and_type);
}

/* Bytes that the caller leaves out read as 0; bytes beyond the structure come back unchanged. */
static int other_sizes(int fd) {
        struct {
                KfdVersion v;
                uint32_t rest[30];
        } more;
        struct {
                KfdUpdateQueue q;
                uint8_t rest[200];
        } long_update = {.q = {.queue_id = NO_SUCH_QUEUE, .queue_percentage = 100}};
        uint32_t less = 0, nothing = 0x1234;
        int r = 0;

        memset(&more, 0xff, sizeof(more));
        r = r
                        ?: expect("GET_VERSION of 4 bytes",
                                           kfd_call(fd, _IOR(KFD_IOCTL_BASE, KFD_NR_GET_VERSION, less), &less), 0);
        r = r ?: expect("which returns the half of it", (int) less, KFD_API_MAJOR);
        r = r
                        ?: expect("GET_VERSION of none",
                                           kfd_call(fd, _IOC(_IOC_READ, KFD_IOCTL_BASE, KFD_NR_GET_VERSION, 0),
                                                           &nothing),
                                           0);
        r = r ?: expect("which writes nothing", (int) nothing, 0x1234);
        r = r
                        ?: expect("GET_VERSION of 128 bytes",
                                           kfd_call(fd, _IOR(KFD_IOCTL_BASE, KFD_NR_GET_VERSION, more), &more), 0);
        r = r ?: expect("which returns it", (int) more.v.major, KFD_API_MAJOR);
        r = r ?: expect("and clears the rest", more.rest[0] == 0 && more.rest[29] == 0, 1);
        r = r
                        ?: expect("UPDATE_QUEUE of more bytes",
                                           kfd_call(fd, _IOW(KFD_IOCTL_BASE, KFD_NR_UPDATE_QUEUE, long_update),
                                                           &long_update),
                                           -EFAULT);
        less = NO_SUCH_QUEUE;
        return r
                        ?: expect("DESTROY_QUEUE of 4 bytes",
                                           kfd_call(fd, _IOWR(KFD_IOCTL_BASE, KFD_NR_DESTROY_QUEUE, less), &less),
                                           -EINVAL);
}

static int case_other_sizes(void) {
        return with_kfd(other_sizes);
}

/* --- whose fd it is --- */

static int call_version(void *userdata) {
        KfdVersion v = {0};
        return -kfd_call(*(int *) userdata, KFD_IOC_GET_VERSION, &v);
}

static int inherited_fd(int fd) {
        return expect("fd inherited over fork", -in_child(call_version, &fd), -EBADF);
}

static int case_inherited_fd(void) {
        return with_kfd(inherited_fd);
}

static int open_and_call_version(void *userdata) {
        int fd = kfd_open();
        return fd < 0 ? -fd : call_version(&fd);
}

static int own_fd_after_fork(int fd) {
        return expect("a child's own fd", -in_child(open_and_call_version, NULL), 0);
}

static int case_own_fd_after_fork(void) {
        return with_kfd(own_fd_after_fork);
}

static int second_open(int fd) {
        int other = kfd_open(), r;
        if (other < 0)
                return expect("second open", other, 0);
        r = expect("call on the second fd", -call_version(&other), 0);
        safe_close(other);
        return r ?: expect("the first after the second was closed", -call_version(&fd), 0);
}

static int case_second_open(void) {
        return with_kfd(second_open);
}

static int duplicate(int fd) {
        int other = dup(fd);
        int r = expect("call on a dup", -call_version(&other), 0);
        safe_close(other);
        return r;
}

static int case_duplicate(void) {
        return with_kfd(duplicate);
}

static int fd_of_another(int fd) {
        KfdVersion v = {0};
        int pidfd = (int) syscall(SYS_pidfd_open, getppid(), 0);
        int got = (int) syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        safe_close(pidfd);
        return got < 0 ? -got : -kfd_call(got, KFD_IOC_GET_VERSION, &v);
}

static int steal_fd(void *userdata) {
        return fd_of_another(*(int *) userdata);
}

static int fd_by_pidfd(int fd) {
        return expect("another's fd by pidfd_getfd, as root", -in_child(steal_fd, &fd), -EBADF);
}

static int case_fd_by_pidfd(void) {
        return with_kfd(fd_by_pidfd);
}

const Case basic_cases[] = {
                {"version", case_version},
                {"unknown-number", case_unknown_number},
                {"number-past-the-end", case_number_past_the_end},
                {"deprecated-number", case_deprecated},
                {"create-queue-of-an-older-size", case_old_size},
                {"bad-address", case_bad_address},
                {"read-only-argument", case_read_only_argument},
                {"direction-and-type", case_direction_and_type},
                {"other-sizes", case_other_sizes},
                {"fd-inherited-over-fork", case_inherited_fd},
                {"own-fd-after-fork", case_own_fd_after_fork},
                {"second-open", case_second_open},
                {"duplicate-fd", case_duplicate},
                {"fd-by-pidfd", case_fd_by_pidfd},
                {NULL, NULL},
};
