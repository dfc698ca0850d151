/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * check --all: is every process that has a GPU open scheduled, and if not, why?
 */

#include <inttypes.h>
#include <stdio.h>

#include "tools/host/host-loaded.h"
#include "tools/host/host-scan.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/table.h"
#include "tools/xschedctl/xschedctl-waits.h"
#include "tools/xschedctl/xschedctl.h"
#include "xschedctl-host.h"

typedef struct HostCheck {
        Table table;
        Snapshot snapshot;
        bool up; /* the service answered */
        size_t n_not_scheduled;
} HostCheck;

enum {
        COLUMN_PID,
        COLUMN_UID,
        COLUMN_COMMAND,
        COLUMN_DEVICES,
        COLUMN_STATE,
        COLUMN_DETAIL,
};

static const Column columns[] = {
                [COLUMN_PID] = {"PID", "pid", CELL_PLAIN, COLUMN_RIGHT},
                [COLUMN_UID] = {"UID", "uid", CELL_PLAIN, COLUMN_RIGHT},
                [COLUMN_COMMAND] = {"COMMAND", "command", CELL_PLAIN, 0},
                [COLUMN_DEVICES] = {"DEVICES", "devices", CELL_PLAIN, 0},
                [COLUMN_STATE] = {"STATE", "state", CELL_STATE, 0},
                [COLUMN_DETAIL] = {"DETAIL", "detail", CELL_PLAIN, COLUMN_ELASTIC},
};

/* --- what the service knows of it --- */

static const Object *find_client(const Snapshot *s, pid_t pid) {
        const Object *o;

        SNAPSHOT_FOREACH(o, s, OBJECT_CLIENT)
        if (object_get_uint(o, "PID") == (uint64_t) pid)
                return o;
        return NULL;
}

/* Returns the number of its queues; *ret_unheld: one that no hold stops. */
static int64_t count_queues(const Snapshot *s, const Object *client, const Object **ret_unheld) {
        uint64_t id = object_get_uint(client, "Id");
        const Object *q;
        int64_t n = 0;

        SNAPSHOT_FOREACH(q, s, OBJECT_QUEUE) {
                const Value *unheld = object_get(q, "Unheld");

                if (object_id_from_path(object_get_string(q, "Client")) != id)
                        continue;
                n++;
                if (unheld->type == VALUE_BOOL && unheld->b)
                        *ret_unheld = q;
        }
        return n;
}

/* --- in words --- */

static const char *describe_devices(unsigned devices, char buf[static 32]) {
        (void) snprintf(buf, 32, "%s%s%s", devices & HOST_KFD ? "kfd " : "", devices & HOST_NVIDIA ? "nvidia " : "",
                        devices & HOST_RENDER ? "render " : "");
        buf[strlen(buf) - 1] = '\0';
        return buf;
}

static const char *describe_layers(int layers, char buf[static 64]) {
        (void) snprintf(buf, 64, "%s%s%s%s%s", layers & HOST_LAYER_OPENCL ? "opencl " : "",
                        layers & HOST_LAYER_CUDA ? "cuda " : "", layers & HOST_LAYER_KFD ? "kfd " : "",
                        layers & HOST_LAYER_HIP ? "hip " : "", layers & HOST_LIBRARY ? "libxsched " : "");
        buf[strlen(buf) - 1] = '\0';
        return buf;
}

/* Tells why a process with the shim is no client. */
static char *describe_unregistered(const HostCheck *k, const HostProcess *p) {
        char pid[16], buf[64], *text;

        (void) snprintf(pid, sizeof(pid), "%d", (int) p->pid);
        _cleanup_free_ char *why = k->up ? why_unregistered(pid) : strdup("xschedd is not running");
        /* A layer registers when its runtime makes a queue. */
        int r = asprintf(&text, "the shim is there (%s), and it is not registered: %s", describe_layers(p->layers, buf),
                        why ?: "it has made no queue that the shim has seen");
        return r < 0 ? NULL : text;
}

static char *describe(
                const HostCheck *k, const HostProcess *p, HostState state, const Object *client, const Object *unheld) {
        char *text = NULL;
        int r = 0;

        switch (state) {
        case HOST_SCHEDULED:
                r = unheld ? asprintf(&text,
                                             "client:%" PRIu64 ", and nothing holds queue:%" PRIu64
                                             ": it launches past the gate",
                                             object_get_uint(client, "Id"), object_get_uint(unheld, "Id"))
                           : asprintf(&text, "client:%" PRIu64 " in %s", object_get_uint(client, "Id"),
                                             object_get_string(client, "Group"));
                break;
        case HOST_NO_QUEUE:
                r = asprintf(&text, "client:%" PRIu64 " has no queue: what it launches is not seen",
                                object_get_uint(client, "Id"));
                break;
        case HOST_UNREGISTERED:
                return describe_unregistered(k, p);
        case HOST_DISABLED:
                return strdup("XSCHED_DISABLE turns the shim off");
        case HOST_NO_LAYER:
                return strdup("it has nothing of the shim loaded");
        default:
                return strdup(p->layers == -ETIMEDOUT ? "what it has loaded cannot be read in time"
                                                      : "what it has loaded cannot be read");
        }
        return r < 0 ? NULL : text;
}

/* --- the table --- */

static int add_row(HostCheck *k, const HostProcess *p) {
        const Object *client = find_client(&k->snapshot, p->pid), *unheld = NULL;
        int64_t n_queues = client ? count_queues(&k->snapshot, client, &unheld) : -1;
        char buf[32];

        HostState state = host_judge(p, n_queues);
        _cleanup_free_ char *detail = describe(k, p, state, client, unheld);
        Value *cells = table_add(&k->table, TABLE_NO_PARENT);
        if (!cells || !detail)
                return -ENOMEM;
        cells[COLUMN_PID] = value_uint((uint64_t) p->pid);
        cells[COLUMN_UID] = value_uint(p->uid);
        cells[COLUMN_COMMAND] = value_string(p->command);
        cells[COLUMN_DEVICES] = value_string(describe_devices(p->devices, buf));
        cells[COLUMN_STATE] = value_string(host_state_to_string(state));
        cells[COLUMN_DETAIL] = value_string(detail);
        if (state != HOST_SCHEDULED || unheld)
                k->n_not_scheduled++;
        return 0;
}

static int show_json(const Ctl *c, const HostCheck *k, size_t n_unseen) {
        Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
        const Value unseen = value_uint(n_unseen), up = value_bool(k->up);

        json_begin(&j, NULL, '{');
        json_value(&j, "up", &up);
        (void) table_print_json(&k->table, &j, "processes");
        json_value(&j, "unseen", &unseen);
        return json_end(&j) < 0 ? ctl_fail("out of memory") : 0;
}

/* An exit status. */
static int show(const Ctl *c, const HostCheck *k, size_t n_unseen) {
        if (c->json != JSON_OFF)
                return show_json(c, k, n_unseen);
        int r = table_show(c, &k->table, NULL, NULL);
        if (r != 0 || !c->legend)
                return r;
        printf("\n%zu with a GPU open, %zu of them not scheduled.\n", k->table.n_rows, k->n_not_scheduled);
        if (n_unseen > 0)
                printf("%zu others could not be looked at: whether they have is not known; ask as root.\n", n_unseen);
        return 0;
}

/* Asks whether the service runs, without starting it. */
static void ask_service(Ctl *c, HostCheck *k) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;

        int r = ctl_open_bus(c);
        if (r >= 0)
                r = snapshot_fetch(c, &error, &k->snapshot);
        k->up = r >= 0;
}

void check_take_host(int argc, char *argv[]) {
        int i = 1;

        while (i < argc && argv[i][0] == '-')
                i++;
        if (i >= argc || !streq(argv[i], "check"))
                return;
        for (i++; i < argc; i++)
                if (streq(argv[i], "--host"))
                        argv[i] = (char *) "--all";
}

static bool is_not_registered(const HostProcess *p, void *userdata) {
        const HostCheck *k = userdata;

        return !find_client(&k->snapshot, p->pid);
}

int check_host(Ctl *c) {
        HostCheck k = {.table = TABLE_INIT(columns)};
        HostProcesses all = {0};

        int r = host_scan(&all);
        if (r >= 0)
                ask_service(c, &k);
        if (r >= 0)
                r = host_read_loaded(&all, is_not_registered, &k);
        for (size_t i = 0; r >= 0 && i < all.n; i++)
                r = add_row(&k, all.processes + i);
        r = r < 0 ? ctl_fail("cannot look at processes: %s", strerror(-r)) : show(c, &k, all.n_unseen);
        if (r == 0 && (k.n_not_scheduled > 0 || all.n_unseen > 0))
                r = EXIT_FAILURE;
        table_done(&k.table);
        snapshot_done(&k.snapshot);
        host_processes_done(&all);
        return r;
}
