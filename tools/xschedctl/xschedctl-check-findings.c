/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What check finds
 */

#include <stdio.h>

#include "xschedctl-check-findings.h"

void check_add(Check *k, const char *what, CheckState state, const char *format, ...) {
        static const char *const states[] = {"ok", "warning", "failed"};
        Value *cells = table_add(&k->table, TABLE_NO_PARENT);
        char *detail = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&detail, format, ap) < 0)
                detail = NULL;
        va_end(ap);
        if (cells) {
                cells[0] = value_string(what);
                cells[1] = value_string(states[state]);
                cells[2] = value_string(detail);
        }
        free(detail);
        k->failed |= state == CHECK_FAILED;
}

/* --- files of the process --- */

int check_read_proc(const char *pid, const char *file, char **ret, size_t *ret_size) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        size_t size = 0, n;
        char buf[4096];
        FILE *in, *out;

        if (asprintf(&path, "/proc/%s/%s", pid, file) < 0)
                return -ENOMEM;
        in = fopen(path, "re");
        if (!in)
                return negative_errno();
        out = open_memstream(&text, &size);
        if (out)
                while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
                        (void) fwrite(buf, 1, n, out);
        (void) fclose(in);
        if (!out || fclose(out) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}

int check_get_variable(const Check *k, const char *name, char **ret) {
        _cleanup_free_ char *environ_text = NULL;
        const char *value = NULL;
        size_t size = 0, n = strlen(name);
        int r;

        if (!k->pid)
                value = getenv(name);
        else {
                r = check_read_proc(k->pid, "environ", &environ_text, &size);
                if (r < 0)
                        return r;
                for (const char *p = environ_text; p && p < environ_text + size; p += strlen(p) + 1)
                        if (strncmp(p, name, n) == 0 && p[n] == '=')
                                value = p + n + 1;
        }
        *ret = value ? strdup(value) : NULL;
        return value && !*ret ? -ENOMEM : 0;
}

char *check_find_mapped(const char *maps, const char *name) {
        for (const char *p = maps; p && (p = strstr(p, name)); p++) {
                const char *line = p, *slash;
                size_t n = strcspn(p, "\n");

                while (line > maps && line[-1] != '\n')
                        line--;
                slash = memchr(line, '/', (size_t) (p - line));
                if (slash && p[-1] == '/' && !startswith(slash, "/memfd:")) /* such a name may tell of a file */
                        return strndup(slash, (size_t) (p - slash) + n);
        }
        return NULL;
}
