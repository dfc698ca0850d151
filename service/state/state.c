/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records changes of objects, so that they survive a restart
 */

#include "state.h"
#include "client-state.h"
#include "manager-state.h"
#include "service/core/observer.h"

static int on_client_made(Client *c, void *userdata) {
        return client_serialize(c);
}

static void on_client_changed(Client *c, unsigned changes, void *userdata) {
        if (changes & (CLIENT_SETTINGS | CLIENT_SUSPENDED))
                client_write(c);
}

static void on_queue_added(Queue *q, void *userdata) {
        if (!q->client->adopting) /* an adopted queue is in the ledger already */
                queue_write(q);
}

static void on_queue_gone(Queue *q, void *userdata) {
        queue_write_gone(q);
}

static void on_group_changed(Group *g, unsigned changes, void *userdata) {
        if (changes & GROUP_KEPT)
                manager_state_group(g);
}

static void on_group_removed(Group *g, void *userdata) {
        manager_state_group_gone(g);
}

static void on_job_added(Job *j, void *userdata) {
        manager_state_job(j);
}

static void on_job_gone(Job *j, void *userdata) {
        manager_state_job_gone(j);
}

static void on_manager_changed(Manager *m, void *userdata) {
        manager_state_changed(m);
}

static void on_manager_closing(Manager *m, void *userdata) {
        manager_state_close(m);
}

static const ObserverOps state_ops = {
                .client_made = on_client_made,
                .client_changed = on_client_changed,
                .queue_added = on_queue_added,
                .queue_gone = on_queue_gone,
                .group_changed = on_group_changed,
                .group_removed = on_group_removed,
                .job_added = on_job_added,
                .job_gone = on_job_gone,
                .manager_changed = on_manager_changed,
                .manager_closing = on_manager_closing,
};

int state_attach(Manager *m) {
        return observer_add(m, &state_ops, m);
}
