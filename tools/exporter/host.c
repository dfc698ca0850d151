/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes of the host
 */

#include "tools/exporter/host.h"
#include "common/array.h"
#include "tools/host/host-loaded.h"

typedef struct Registered {
        uint64_t id;
        pid_t pid;
        int64_t n_queues;
} Registered;

typedef struct AllRegistered {
        Registered *clients;
        size_t n;
} AllRegistered;

static int add_client(AllRegistered *all, uint64_t id, uint32_t pid) {
        Registered *grown = array_grow(all->clients, all->n, sizeof(Registered));

        if (!grown)
                return -ENOMEM;
        all->clients = grown;
        all->clients[all->n++] = (Registered){.id = id, .pid = (pid_t) pid};
        return 0;
}

static int compare(const void *a, const void *b) {
        const Registered *p = a, *q = b;
        return p->id < q->id ? -1 : p->id > q->id;
}

static int read_clients(sd_bus_message *m, AllRegistered *all) {
        uint64_t id;
        uint32_t pid;

        int r = sd_bus_message_enter_container(m, 'a', "(tuusso)");
        while (r >= 0) {
                r = sd_bus_message_read(m, "(tuusso)", &id, &pid, NULL, NULL, NULL, NULL);
                if (r <= 0)
                        break;
                r = add_client(all, id, pid);
        }
        if (r >= 0 && all->n > 0)
                qsort(all->clients, all->n, sizeof(Registered), compare);
        return r;
}

static int read_queues(sd_bus_message *m, AllRegistered *all) {
        Registered key = {0};

        int r = sd_bus_message_enter_container(m, 'a', "(ttsso)");
        while (r >= 0) {
                r = sd_bus_message_read(m, "(ttsso)", NULL, &key.id, NULL, NULL, NULL);
                if (r <= 0)
                        break;
                Registered *c = all->n > 0 ? bsearch(&key, all->clients, all->n, sizeof(key), compare) : NULL;
                if (c)
                        c->n_queues++;
        }
        return r;
}

/* Returns < 0: not registered. */
static int64_t queues_of(const AllRegistered *all, pid_t pid) {
        for (size_t i = 0; i < all->n; i++)
                if (all->clients[i].pid == pid)
                        return all->clients[i].n_queues;
        return -1;
}

static bool is_not_registered(const HostProcess *p, void *userdata) {
        return queues_of(userdata, p->pid) < 0;
}

int host_metrics_count(sd_bus_message *clients, sd_bus_message *queues, HostMetrics *ret) {
        HostMetrics metrics = {.known = true};
        HostProcesses processes = {0};
        AllRegistered all = {0};
        int r = 0;

        if (clients && queues)
                r = read_clients(clients, &all);
        if (r >= 0 && clients && queues)
                r = read_queues(queues, &all);
        if (r >= 0)
                r = host_scan(&processes);
        if (r >= 0)
                r = host_read_loaded(&processes, is_not_registered, &all);
        for (size_t i = 0; r >= 0 && i < processes.n; i++) {
                const HostProcess *p = processes.processes + i;
                metrics.n[host_judge(p, queues_of(&all, p->pid))]++;
        }
        if (r >= 0) {
                metrics.n_unseen = processes.n_unseen;
                *ret = metrics;
        }
        host_processes_done(&processes);
        free(all.clients);
        return r < 0 ? r : 0;
}
