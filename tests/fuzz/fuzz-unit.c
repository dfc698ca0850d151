/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as a unit's file, and as the drop-in to another
 *
 * Users write the unit files of their own managers. Every value is within its range, the same each time, and comes from
 * lines of [X-XSched] alone.
 */

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "service/base/log.h"
#include "service/core/origin.h"
#include "tests/fuzz/fuzz-settings.h"

static void make_file(const uint8_t *data, size_t size, char path[static 64]) {
        static int fd = -1;

        if (fd < 0)
                fd = memfd_create("x.service", MFD_CLOEXEC);
        require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t) size);
        (void) snprintf(path, 64, "/proc/self/fd/%i", fd);
}

/* Line numbers stay true, and what is left was there. */
static void check_section(const char *path, const uint8_t *data, size_t size) {
        _cleanup_free_ char *section = NULL;
        size_t n = 0;

        if (unit_file_read_section(path, "X-XSched", &section, &n) < 0)
                return;
        require(n == size);
        for (size_t i = 0; i < n; i++)
                require(section[i] == (char) data[i] || (section[i] == ' ' && data[i] != '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char path[64];

        log_set_max_level(-1);
        make_file(data, size, path);
        check_section(path, data, size);

        Origin once = {.path = (char *) "/x.service"}, twice = once;
        char *files[] = {path, path, NULL}, *file[] = {path, NULL};
        origin_take_files(&once, file);
        origin_take_files(&twice, files);
        check_settings(&once.file);
        check_settings(&twice.file);
        require(!settings_is_empty(&once.file) || once.file_detail == NULL || streq(once.file_detail, path));
        free(once.file_detail);
        free(twice.file_detail);
        return 0;
}
