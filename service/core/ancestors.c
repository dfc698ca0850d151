/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Ancestors
 */

#include "ancestors.h"
#include "common/array.h"

void ancestors_done(Ancestors *a) {
        free(a->list);
        *a = (Ancestors){};
}

static int make_room(Ancestors *a) {
        Ancestor *list = array_grow(a->list, a->n, sizeof(Ancestor));

        if (!list)
                return -ENOMEM;
        a->list = list;
        return 0;
}

static int read_next(Ancestors *a, const Peer *peer) {
        const Ancestor *child = a->n > 0 ? a->list + a->n - 1 : NULL;
        pid_t pid = child ? a->parent : peer->pid, parent;
        uint64_t start_time;

        int r = process_parent(pid, &parent, &start_time);
        if (r < 0)
                return r;
        /* A child that is older than its parent means that the parent's pid is another process's by now. */
        if (child ? start_time > child->start_time : start_time != peer->start_time)
                return -ESRCH;
        r = make_room(a);
        if (r < 0)
                return r;
        a->list[a->n++] = (Ancestor){pid, start_time};
        a->parent = parent;
        return 0;
}

bool ancestors_read(Ancestors *a, const Peer *peer) {
        if (!a->complete)
                a->complete = read_next(a, peer) < 0 || a->parent <= 1 || a->n >= ANCESTORS_MAX;
        return !a->complete;
}

bool ancestors_have(const Ancestors *a, pid_t pid, uint64_t start_time) {
        for (unsigned i = 0; i < a->n; i++)
                if (a->list[i].pid == pid && a->list[i].start_time == start_time)
                        return true;
        return false;
}
