/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reading text, whatever number of reads it takes
 */

#include "common/read-text.h"

#include "common/macro.h"

int read_text(int fd, size_t max, char **ret, size_t *ret_size) {
        _cleanup_free_ char *text = malloc(max + 1);
        size_t size = 0;

        if (!text)
                return -ENOMEM;
        while (size < max) {
                ssize_t n = read(fd, text + size, max - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return negative_errno();
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        text[size] = '\0';
        *ret = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}
