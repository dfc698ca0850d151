/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads KFD's queues, and what xschedd knows of them
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "hal/kfd-proc.h"
#include "hal/kfd-topology.h"
#include "tools/queues/kernel-queues.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/object.h"

#define ROOT "" /* the system's own */

enum {
        CELL_PID,
        CELL_COMMAND,
        CELL_QUEUE,
        CELL_CONTEXT,
        CELL_DEVICE,
        CELL_GPU,
        CELL_GFX,
        CELL_TYPE,
        CELL_KERNEL_TYPE,
        CELL_RING,
        CELL_RING_ADDRESS,
        CELL_DOORBELL_TEXT,
        CELL_DOORBELL,
        CELL_MAPPED,
        CELL_XSCHED,
        CELL_STATE_,
        CELL_BACKLOG,
        CELL_KERNEL,
        _CELLS,
};

static const Column queue_columns[_CELLS] = {
                [CELL_PID] = {"PID", "pid", CELL_PLAIN, COLUMN_RIGHT},
                [CELL_COMMAND] = {"COMMAND", "command", CELL_PLAIN, COLUMN_ELASTIC},
                [CELL_QUEUE] = {"QUEUE", "queue", CELL_PLAIN, COLUMN_RIGHT},
                [CELL_CONTEXT] = {"", "context", CELL_PLAIN, COLUMN_JSON},
                [CELL_DEVICE] = {"DEVICE", "device", CELL_PLAIN, COLUMN_ELASTIC},
                [CELL_GPU] = {"", "gpu_id", CELL_PLAIN, COLUMN_JSON},
                [CELL_GFX] = {"GFX", "gfx", CELL_PLAIN, 0},
                [CELL_TYPE] = {"TYPE", "type", CELL_PLAIN, 0},
                [CELL_KERNEL_TYPE] = {"", "kernel_type", CELL_PLAIN, COLUMN_JSON},
                [CELL_RING] = {"RING", "ring_size", CELL_BYTES, COLUMN_RIGHT},
                [CELL_RING_ADDRESS] = {"", "ring_address", CELL_PLAIN, COLUMN_JSON},
                [CELL_DOORBELL_TEXT] = {"DOORBELL", "", CELL_PLAIN, COLUMN_RIGHT | COLUMN_TEXT},
                [CELL_DOORBELL] = {"", "doorbell", CELL_PLAIN, COLUMN_JSON},
                [CELL_MAPPED] = {"MAPPED", "mapped", CELL_PLAIN, COLUMN_IF_KNOWN},
                [CELL_XSCHED] = {"XSCHED", "xsched", CELL_PLAIN, COLUMN_RIGHT},
                [CELL_STATE_] = {"STATE", "state", CELL_STATE, 0},
                [CELL_BACKLOG] = {"BACKLOG", "backlog", CELL_PLAIN, COLUMN_RIGHT},
                [CELL_KERNEL] = {"", "kernel", CELL_PLAIN, COLUMN_JSON},
};

enum {
        USE_PID,
        USE_DEVICE,
        USE_GPU,
        USE_GFX,
        USE_VRAM,
        USE_SDMA,
        USE_CUS,
        USE_EVICTED,
        USE_KERNEL,
        _USES,
};

static const Column usage_columns[_USES] = {
                [USE_PID] = {"PID", "pid", CELL_PLAIN, COLUMN_RIGHT},
                [USE_DEVICE] = {"DEVICE", "device", CELL_PLAIN, COLUMN_ELASTIC},
                [USE_GPU] = {"", "gpu_id", CELL_PLAIN, COLUMN_JSON},
                [USE_GFX] = {"GFX", "gfx", CELL_PLAIN, 0},
                [USE_VRAM] = {"VRAM", "vram_bytes", CELL_BYTES, COLUMN_RIGHT},
                [USE_SDMA] = {"COPIES", "sdma_usec", CELL_USEC, COLUMN_RIGHT},
                [USE_CUS] = {"CUS", "cu_occupancy", CELL_PLAIN, COLUMN_RIGHT},
                [USE_EVICTED] = {"EVICTED", "evicted_usec", CELL_USEC, COLUMN_RIGHT},
                [USE_KERNEL] = {"", "kernel", CELL_PLAIN, COLUMN_JSON},
};

void kernel_queues_done(KernelQueues *q) {
        table_done(&q->table);
}

static Value kernel_release(void) {
        struct utsname u;

        return uname(&u) < 0 ? (Value){} : value_string(u.release);
}

static Value command_of(pid_t pid) {
        char path[64], text[64] = "";

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
        FILE *f = fopen(path, "re");
        if (!f)
                return (Value){};
        if (!fgets(text, sizeof(text), f))
                text[0] = '\0';
        (void) fclose(f);
        text[strcspn(text, "\n")] = '\0';
        return value_string(text);
}

/* Fills the columns of a GPU: KFD names it by a number, xschedd by its address. */
static void fill_gpu(uint32_t gpu_id, Value *device, Value *gpu, Value *gfx) {
        char id[KFD_DEVICE_ID_MAX], name[KFD_GFX_NAME_MAX];
        KfdNode node;

        *gpu = value_uint(gpu_id);
        if (kfd_topology_find(KFD_TOPOLOGY_PATH, gpu_id, &node) < 0)
                return;
        kfd_node_device_id(&node, id);
        kfd_node_gfx_name(&node, name);
        *device = value_string(id);
        *gfx = value_string(name);
}

/* --- the service's half --- */

/* Without a service its columns stay empty. */
static void fetch_objects(Ctl *c, Snapshot *s) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;

        if (ctl_open_bus(c) >= 0)
                (void) snapshot_fetch(c, &error, s);
}

static const Object *find_queue(const Snapshot *s, pid_t pid, const KfdProcQueue *k) {
        const Object *q, *client;

        SNAPSHOT_FOREACH(q, s, OBJECT_QUEUE) {
                if (k->context != 0 || object_get_uint(q, "KfdGpuId") != k->gpu_id ||
                                object_get_uint(q, "KfdQueueId") != k->id)
                        continue;
                client = snapshot_find_by_id(s, OBJECT_CLIENT, object_id_from_path(object_get_string(q, "Client")));
                if (client && object_get_uint(client, "PID") == (uint64_t) pid)
                        return q;
        }
        return NULL;
}

/* --- a row --- */

static int add_queue(Table *t, const Snapshot *s, pid_t pid, const KfdProcQueue *k) {
        const Object *o = find_queue(s, pid, k);
        Value *cells = table_add(t, TABLE_NO_PARENT);
        char doorbell[16];

        if (!cells)
                return -ENOMEM;
        cells[CELL_PID] = value_uint((uint64_t) pid);
        cells[CELL_COMMAND] = command_of(pid);
        cells[CELL_QUEUE] = value_uint(k->id);
        cells[CELL_CONTEXT] = value_uint(k->context);
        fill_gpu(k->gpu_id, cells + CELL_DEVICE, cells + CELL_GPU, cells + CELL_GFX);
        cells[CELL_TYPE] = value_string(kfd_proc_type_to_string(k->type));
        cells[CELL_KERNEL_TYPE] = value_uint(k->type);
        cells[CELL_RING] = value_uint(k->ring_size);
        if (k->mqd.is_known) {
                (void) snprintf(doorbell, sizeof(doorbell), "%#" PRIx32, k->mqd.doorbell);
                cells[CELL_RING_ADDRESS] = value_uint(k->mqd.ring);
                cells[CELL_DOORBELL_TEXT] = value_string(doorbell);
                cells[CELL_DOORBELL] = value_uint(k->mqd.doorbell);
        }
        if (k->is_mapped >= 0)
                cells[CELL_MAPPED] = value_bool(k->is_mapped > 0);
        if (o) {
                cells[CELL_XSCHED] = value_copy(object_get(o, "Id"));
                cells[CELL_STATE_] = value_copy(object_get(o, "State"));
                cells[CELL_BACKLOG] = value_copy(object_get(o, "Backlog"));
        }
        cells[CELL_KERNEL] = kernel_release();
        return 0;
}

/* --- processes --- */

static int fail_process(pid_t pid, int r) {
        if (r == -ENODEV)
                return ctl_fail("this kernel has no KFD: amdgpu is not loaded");
        if (r == -ESRCH && kill(pid, 0) < 0 && errno == ESRCH)
                return ctl_fail("%d: no such process", (int) pid);
        if (r == -ESRCH)
                return ctl_fail("process %d has not opened /dev/kfd", (int) pid);
        return ctl_fail("process %d: %s", (int) pid, strerror(-r));
}

static int read_process(pid_t pid, const Snapshot *s, bool hardware, KernelQueues *ret) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues q = {};

        int r = kfd_proc_read_queues(ROOT, pid, &q);
        if (r < 0)
                return r;
        ret->n_hidden += q.n_hidden;
        r = kfd_proc_read_mqds(ROOT, pid, &q);
        if (r == -ENOMEM)
                return r;
        ret->has_debugfs |= r >= 0;
        if (hardware && r >= 0)
                ret->has_registers |= kfd_proc_read_hqds(ROOT, &q) >= 0;
        for (size_t i = 0; i < q.n; i++) {
                r = add_queue(&ret->table, s, pid, q.queues + i);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_pids(const void *a, const void *b) {
        const pid_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

int kernel_queues_read(Ctl *c, const pid_t *pids, size_t n, bool hardware, KernelQueues *ret) {
        _cleanup_free_ pid_t *all = NULL;
        _cleanup_(snapshot_done)
        Snapshot s = {};

        ret->table = (Table) TABLE_INIT(queue_columns);
        if (!pids) {
                int r = kfd_proc_list(ROOT, &all, &n);
                if (r < 0)
                        return fail_process(0, r);
                if (n > 0)
                        qsort(all, n, sizeof(pid_t), compare_pids);
        }
        fetch_objects(c, &s);
        for (size_t i = 0; i < n; i++) {
                pid_t pid = pids ? pids[i] : all[i];
                int r = read_process(pid, &s, hardware, ret);
                if (r == -ESRCH && !pids)
                        continue; /* has ended meanwhile */
                if (r < 0)
                        return fail_process(pid, r);
        }
        return 0;
}

int kernel_queues_show(const Ctl *c, const KernelQueues *q) {
        _cleanup_(value_done)
        Value release = kernel_release();

        int r = table_show(c, &q->table, NULL, NULL);
        if (r != 0 || c->json != JSON_OFF || !c->legend)
                return r;
        printf("\n%zu %s listed, from sysfs%s%s of Linux %s.\n", q->table.n_rows,
                        q->table.n_rows == 1 ? "queue" : "queues", q->has_debugfs ? " and debugfs" : "",
                        q->has_registers ? " with registers" : "", strempty(value_get_string(&release)));
        if (q->n_hidden > 0)
                printf("%zu more on GPUs that may not be used from here.\n", q->n_hidden);
        return 0;
}

/* --- use --- */

static Value known(uint64_t v, uint64_t unit) {
        return v == UINT64_MAX ? (Value){} : value_uint(v * unit);
}

static int add_usage(Table *t, pid_t pid, const KfdProcUsage *u) {
        Value *cells = table_add(t, TABLE_NO_PARENT);

        if (!cells)
                return -ENOMEM;
        cells[USE_PID] = value_uint((uint64_t) pid);
        fill_gpu(u->gpu_id, cells + USE_DEVICE, cells + USE_GPU, cells + USE_GFX);
        cells[USE_VRAM] = known(u->vram, 1);
        cells[USE_SDMA] = known(u->sdma_us, 1);
        cells[USE_CUS] = known(u->cu_occupancy, 1);
        cells[USE_EVICTED] = known(u->evicted_ms, 1000);
        cells[USE_KERNEL] = kernel_release();
        return 0;
}

int kernel_usage_show(const Ctl *c, const pid_t *pids, size_t n) {
        _cleanup_(table_done)
        Table t = TABLE_INIT(usage_columns);

        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ KfdProcUsage *usage = NULL;
                size_t n_gpus = 0;

                int r = kfd_proc_read_usage(ROOT, pids[i], &usage, &n_gpus);
                for (size_t k = 0; r >= 0 && k < n_gpus; k++)
                        r = add_usage(&t, pids[i], usage + k);
                if (r < 0)
                        return fail_process(pids[i], r);
        }
        return table_show(c, &t, NULL, NULL);
}
