/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Clients over a restart of the service
 */

#include <sys/mman.h>

#include "arbiter.h"

int client_serialize(Client *c) {
        if (c->meta < 0)
                c->meta = memfd_create("xsched-meta", MFD_CLOEXEC);
        return c->meta < 0 ? negative_errno() : 0;
}

int client_adopt(Manager *m, int meta, int page, int lifeline, int wake, int pidfd, Client **ret) {
        return -EOPNOTSUPP;
}

void queue_changed(Queue *q) {
        client_changed(q->client);
}
