/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What standard error is told
 */

#include "shim/core/complaints.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/file-status.h"
#include "common/macro.h"

/* A line that does not fit is lost. */
static char complaints[2048];
static size_t complaints_size;
static _Atomic bool complained;

static void remember(const char *text, void *unused) {
        size_t room = sizeof(complaints) - complaints_size;
        int n = snprintf(complaints + complaints_size, room, "xsched: %s\n", text);

        if (n > 0 && (size_t) n < room)
                complaints_size += (size_t) n;
}

const EnvironmentSource complaints_source = {.get = environment_get_own, .complain = remember};

/* A program that has closed standard error may have got its number for a file of its own. Such a file is read, too,
 * which messages are not. */
static bool is_for_messages(int fd) {
        struct stat st;
        int flags = fcntl(fd, F_GETFL);

        return flags >= 0 && ((flags & O_ACCMODE) == O_WRONLY || (fd_status(fd, &st) == 0 && !S_ISREG(st.st_mode)));
}

void complaints_tell(void) {
        if (likely(complaints_size == 0) || atomic_exchange(&complained, true))
                return;
        PROTECT_ERRNO;
        if (is_for_messages(STDERR_FILENO))
                (void) !write(STDERR_FILENO, complaints, complaints_size);
}
