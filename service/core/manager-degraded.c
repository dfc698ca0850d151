/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The Degraded property: what is missing, and why
 */

#include <stdio.h>

#include "common/array.h"
#include "manager-degraded.h"
#include "observer.h"
#include "service/base/log.h"
#include "service/base/messages.h"

/* Reasons are kept as "KEY: TEXT". */
static size_t degraded_find(Manager *m, const char *key, size_t *ret_n) {
        size_t found = SIZE_MAX, n = 0;

        for (; m->degraded && m->degraded[n]; n++) {
                const char *rest = startswith(m->degraded[n], key);
                if (rest && startswith(rest, ": "))
                        found = n;
        }
        *ret_n = n;
        return found;
}

const char *manager_status(const Manager *m, char *buf, size_t size) {
        size_t n = 0;

        while (m->degraded && m->degraded[n])
                n++;
        if (n == 0)
                (void) snprintf(buf, size, "Scheduling");
        else if (n == 1)
                (void) snprintf(buf, size, "Scheduling, degraded: %s", m->degraded[0]);
        else
                (void) snprintf(buf, size, "Scheduling, degraded: %s, and %zu more", m->degraded[0], n - 1);
        return buf;
}

int manager_set_degraded(Manager *m, const char *key, const char *text) {
        _cleanup_free_ char *line = NULL;
        size_t n, i = degraded_find(m, key, &n);

        if (!text) {
                if (i == SIZE_MAX)
                        return 0;
                free(m->degraded[i]);
                memmove(m->degraded + i, m->degraded + i + 1, (n - i) * sizeof(*m->degraded));
        } else {
                if (asprintf(&line, "%s: %s", key, text) < 0) {
                        line = NULL;
                        return -ENOMEM;
                }
                if (i == SIZE_MAX) {
                        char **v = array_grow(m->degraded, n + 1, sizeof(*v));
                        if (!v)
                                return -ENOMEM;
                        v[n] = v[n + 1] = NULL;
                        m->degraded = v;
                        i = n;
                }
                if (!streq_ptr(m->degraded[i], line))
                        log_event(LOG_WARNING, MESSAGE_DEGRADED, LOG_FIELDS(.error = 0), "Degraded: %s", line);
                free(m->degraded[i]);
                m->degraded[i] = TAKE_PTR(line);
        }
        observers_degraded_changed(m);
        return 0;
}
