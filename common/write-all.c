/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Writes without short writes
 */

#include <poll.h>

#include "common/macro.h"
#include "common/write-all.h"

/* Whether to try again. */
static bool wait_for_room(int fd) {
        if (errno == EAGAIN)
                (void) poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        return errno == EAGAIN || errno == EINTR;
}

int write_all(int fd, const void *data, size_t size) {
        for (const char *p = data, *end = p + size; p < end;) {
                ssize_t n = write(fd, p, (size_t) (end - p));
                if (n >= 0)
                        p += n;
                else if (!wait_for_room(fd))
                        return negative_errno();
        }
        return 0;
}

int write_all_at(int fd, const void *data, size_t size, uint64_t offset) {
        for (size_t done = 0; done < size;) {
                ssize_t n = pwrite(fd, (const char *) data + done, size - done, (off_t) (offset + done));
                if (n >= 0)
                        done += (size_t) n;
                else if (errno != EINTR)
                        return negative_errno();
        }
        return 0;
}
