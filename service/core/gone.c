/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What ends with a cgroup
 */

#include "gone.h"
#include "cgroup/cgroup-attr.h"
#include "service/base/log.h"
#include "service/base/messages.h"

static bool has_suffix(const char *s, const char *suffix) {
        size_t n = strlen(s), l = strlen(suffix);

        return n > l && streq(s + n - l, suffix);
}

bool gone_forgets(const char *cgroup) {
        if (cgroup[0] != '/' || streq(cgroup, "/"))
                return false;
        return strstr(cgroup, ".scope") || !(has_suffix(cgroup, ".service") || has_suffix(cgroup, ".slice"));
}

bool gone_since(const char *cgroup, uint64_t id) {
        uint64_t now;

        if (id == 0)
                return false;
        int r = cgroup_id(cgroup, &now);
        return r == -ENOENT || (r >= 0 && now != id);
}

void gone_note(Group *g) {
        if (g->kind != GROUP_CGROUP || g->name[0] != '/' || cgroup_id(g->name, &g->cgroup_id) < 0)
                g->cgroup_id = 0;
}

void gone_log_resumed(const char *cgroup) {
        log_event(LOG_NOTICE, MESSAGE_RESUMED, LOG_FIELDS(.group = cgroup), "%s is gone, and its suspension with it",
                        cgroup);
}

void gone_log_forgotten(const char *cgroup) {
        log_event(LOG_INFO, MESSAGE_SETTINGS_CHANGED, LOG_FIELDS(.group = cgroup),
                        "%s is gone, and its settings with it", cgroup);
}
