/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as /etc/subuid
 *
 * For each uid at and beside the ends of ranges the table says what a walk over the lines says: the first line with the
 * uid counts. No uid counts as root, and a uid that is no sub-uid counts as itself.
 */

#include <stdio.h>
#include <unistd.h>

#include "service/base/subuid.h"
#include "tests/fuzz/fuzz-settings.h"

static int resolve(const char *name, uid_t *ret, void *userdata) {
        require(*name != '\0' && strlen(name) < SUBUID_NAME_MAX);
        if (*name == 'x')
                return -ENOENT;
        if (*name == 'y')
                return -EAGAIN;
        *ret = *name == 'r' ? 0 : 1000 + (unsigned char) *name;
        return 0;
}

static void on_problem(unsigned line, const char *what, void *userdata) {
        unsigned *last = userdata;

        require(line > *last && what);
        *last = line;
}

static bool number(const char *s, size_t n, uint64_t max, uint64_t *ret) {
        char text[24] = "";

        if (n == 0 || strspn(s, "0123456789") < n)
                return false;
        for (; n > 1 && *s == '0'; n--)
                s++;
        if (n >= sizeof(text))
                return false;
        memcpy(text, s, n);
        *ret = strtoull(text, NULL, 10);
        return *ret <= max;
}

/* What one line says of the uid. */
static bool line_has(char *line, uid_t uid, uid_t *ret) {
        char *a = strchr(line, ':'), *b = a ? strchr(a + 1, ':') : NULL;
        uint64_t owner, first, count;
        uid_t named;

        if (line[0] == '#' || !b || a == line || strchr(b + 1, ':') || a - line >= SUBUID_NAME_MAX)
                return false;
        if (!number(a + 1, (size_t) (b - a - 1), UINT32_MAX - 1, &first) ||
                        !number(b + 1, strlen(b + 1), UINT32_MAX, &count) || count == 0 || first + count > UINT32_MAX)
                return false;
        if (!number(line, (size_t) (a - line), UINT32_MAX - 1, &owner)) {
                *a = '\0';
                int r = resolve(line, &named, NULL);
                *a = ':';
                if (r < 0)
                        return false;
                owner = named;
        }
        if (uid < SUBUID_MIN || uid < first || uid >= first + count)
                return false;
        first = MAX(first, (uint64_t) SUBUID_MIN);
        *ret = owner == 0 || owner == geteuid() ? (uid_t) (first + (uid - first) / SUBUID_BLOCK * SUBUID_BLOCK)
                                                : (uid_t) owner;
        return true;
}

static void check(const Subuids *s, char **lines, size_t n, uid_t uid) {
        uid_t expected = uid;

        for (size_t i = 0; i < n && !line_has(lines[i], uid, &expected); i++)
                ;
        require(subuids_user(s, uid) == expected);
        require(uid == 0 || expected != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(subuids_freep)
        Subuids *s = NULL;
        unsigned last = 0;
        SubuidReader reader = {.resolve = resolve, .problem = on_problem, .userdata = &last};
        _cleanup_free_ char *text = malloc(size + 1);
        char *lines[64], *saved = NULL;
        size_t n = 0;

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        require(subuids_parse(text, &reader, &s) == 0);
        for (char *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved)) {
                if (n == ELEMENTSOF(lines))
                        return 0;
                lines[n++] = line;
        }
        for (size_t i = 0; i < n; i++) {
                const char *a = strchr(lines[i], ':'), *b = a ? strchr(a + 1, ':') : NULL;
                if (!b)
                        continue;
                uid_t first = (uid_t) strtoull(a + 1, NULL, 10), end = first + (uid_t) strtoull(b + 1, NULL, 10);
                for (uid_t k = 0; k < 3; k++) {
                        check(s, lines, n, first + k - 1);
                        check(s, lines, n, end + k - 1);
                        check(s, lines, n, first + SUBUID_BLOCK + k - 1);
                }
        }
        check(s, lines, n, 0);
        check(s, lines, n, SUBUID_MIN);
        check(s, lines, n, SUBUID_NOBODY);
        return 0;
}
