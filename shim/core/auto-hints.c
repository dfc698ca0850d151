/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * XSched's variables
 */

#include "shim/core/auto-hints.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/auto-xqueue.h"
#include "common/file-status.h"
#include "common/macro.h"

/* Complaints for standard error; a line that does not fit is lost. */
static char complaints[2048];
static size_t complaints_size;
static _Atomic bool complained;

static void remember(const char *line) {
        size_t n = strlen(line);

        if (complaints_size + n >= sizeof(complaints))
                return;
        (void) strcpy(complaints + complaints_size, line);
        complaints_size += n;
}

static void set(HintSet *s, const char *name, int64_t value, int64_t min, int64_t max) {
        (void) hints_set(s, name, CLAMP(value, min, max));
}

void auto_hints_read(HintSet *ret) {
        AutoXQueue a;

        auto_xqueue_read(&a, remember);
        if (!a.on || a.scheduler != AUTO_XQUEUE_GLB)
                return;
        bool lax = a.is_set[AUTO_XQUEUE_LAXITY];
        if (a.is_set[AUTO_XQUEUE_PRIORITY])
                set(ret, lax ? "Critical" : "Priority", a.values[AUTO_XQUEUE_PRIORITY], -255, 255);
        if (lax)
                set(ret, "Laxity", a.values[AUTO_XQUEUE_LAXITY], 1, INT64_C(3600000000));
        if (a.is_set[AUTO_XQUEUE_DEADLINE])
                set(ret, "Deadline", a.values[AUTO_XQUEUE_DEADLINE], 1, INT64_C(3600000000));
        if (a.is_set[AUTO_XQUEUE_UTILIZATION])
                set(ret, "Utilization", a.values[AUTO_XQUEUE_UTILIZATION], 1, 100);
        if (a.is_set[AUTO_XQUEUE_THRESHOLD])
                set(ret, "Threshold", a.values[AUTO_XQUEUE_THRESHOLD], 1, 65535);
}

/* A program that has closed standard error may have got its number for a file of its own. Such a file is read, too,
 * which messages are not. */
static bool is_for_messages(int fd) {
        struct stat st;
        int flags = fcntl(fd, F_GETFL);

        return flags >= 0 && ((flags & O_ACCMODE) == O_WRONLY || (fd_status(fd, &st) == 0 && !S_ISREG(st.st_mode)));
}

void auto_hints_complain(void) {
        if (likely(complaints_size == 0) || atomic_exchange(&complained, true))
                return;
        PROTECT_ERRNO;
        if (is_for_messages(STDERR_FILENO))
                (void) !write(STDERR_FILENO, complaints, complaints_size);
}
