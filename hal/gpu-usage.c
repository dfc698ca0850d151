/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long processes have used a GPU: from fdinfo, from KFD, or from NVML
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/parse-util.h"
#include "common/stream-util.h"
#include "common/time-util.h"
#include "hal/gpu-usage.h"
#include "hal/kfd-topology.h"
#include "nvml-usage.h"

#define FDINFO_MAX  4096U
#define CLIENTS_MAX 256U
#define NODES_MAX   256U

struct GpuUsage {
        char *root;
        PciAddress address;
        Nvml *nvml;        /* NULL: another source */
        uint32_t kfd_gpu;  /* 0: not KFD's */
        uint64_t since_ns; /* 0: before the first question */
        uint64_t engine_ns;
        bool has_engines; /* fdinfo has had counters */
        unsigned n_samples, n_busy;
};

/* --- fdinfo --- */

/* "drm-engine-gfx:\t123 ns" */
static bool parse_engine(const char *line, uint64_t *sum) {
        const char *rest = startswith(line, "drm-engine-");
        uint64_t ns;
        int used = 0;

        if (!rest || startswith(rest, "capacity-") || !(rest = strchr(rest, ':')))
                return false;
        if (sscanf(rest, ":%*[ \t]%19" SCNu64 " ns%n", &ns, &used) != 1 || used == 0)
                return false;
        *sum = ns > UINT64_MAX - *sum ? UINT64_MAX : *sum + ns;
        return true;
}

int gpu_usage_parse_fdinfo(const char *text, const PciAddress *a, uint64_t *ret_client, uint64_t *ret_ns) {
        uint64_t client = 0, ns = 0;
        bool is_device = false, has_client = false, has_engine = false;
        PciAddress of;

        for (const char *line = text; *line;) {
                char buf[256];
                size_t n = strcspn(line, "\n");

                (void) snprintf(buf, sizeof(buf), "%.*s", (int) MIN(n, sizeof(buf) - 1), line);
                if (sscanf(buf, "drm-pdev: %8" SCNx32 ":%2" SCNx32 ":%2" SCNx32 ".%1" SCNx32, &of.domain, &of.bus,
                                    &of.device, &of.function) == 4)
                        is_device = of.domain == a->domain && of.bus == a->bus && of.device == a->device &&
                                        of.function == a->function;
                else if (sscanf(buf, "drm-client-id: %19" SCNu64, &client) == 1)
                        has_client = true;
                else if (parse_engine(buf, &ns))
                        has_engine = true;
                line += n + (line[n] == '\n');
        }
        if (!is_device || !has_client || !has_engine)
                return 0;
        *ret_client = client;
        *ret_ns = ns;
        return 1;
}

static bool read_text(int dir, const char *name, char *buf, size_t size) {
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

        if (n < 0)
                return false;
        buf[n] = '\0';
        return true;
}

/* Counts each DRM client once. */
static bool sum_process(const GpuUsage *u, pid_t pid, uint64_t *sum) {
        uint64_t clients[CLIENTS_MAX], client, ns;
        char path[PATH_MAX], text[FDINFO_MAX];
        const struct dirent *e;
        size_t n_clients = 0;

        (void) snprintf(path, sizeof(path), "%s/proc/%i/fdinfo", u->root, (int) pid);
        _cleanup_(closedirp)
        DIR *d = opendir(path);
        while (d && (e = readdir(d))) {
                size_t i = 0;
                if (e->d_name[0] == '.' || !read_text(dirfd(d), e->d_name, text, sizeof(text)) ||
                                gpu_usage_parse_fdinfo(text, &u->address, &client, &ns) == 0)
                        continue;
                while (i < n_clients && clients[i] != client)
                        i++;
                if (i < n_clients || n_clients >= CLIENTS_MAX)
                        continue;
                clients[n_clients++] = client;
                *sum = ns > UINT64_MAX - *sum ? UINT64_MAX : *sum + ns;
        }
        return n_clients > 0;
}

static bool sum_engines(const GpuUsage *u, const pid_t *pids, size_t n, uint64_t *ret) {
        bool any = false;

        *ret = 0;
        for (size_t i = 0; i < n; i++)
                any |= sum_process(u, pids[i], ret);
        return any;
}

/* --- KFD --- */

static uint32_t find_kfd_gpu(const char *root, const PciAddress *a) {
        char path[PATH_MAX];
        KfdNode node;
        int r = 0;

        (void) snprintf(path, sizeof(path), "%s%s", root, KFD_TOPOLOGY_PATH);
        for (uint32_t i = 0; r != -ENOENT && i < NODES_MAX; i++) {
                r = kfd_topology_read(path, i, &node);
                if (r >= 0 && node.domain == a->domain && node.location == (a->bus << 8 | a->device << 3 | a->function))
                        return node.gpu_id;
        }
        return 0;
}

/* Returns a negative number when KFD does not tell. */
static int is_occupied(const GpuUsage *u, pid_t pid) {
        char path[PATH_MAX], text[32];
        uint64_t v;

        (void) snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/proc/%i/stats_%" PRIu32 "/cu_occupancy", u->root,
                        (int) pid, u->kfd_gpu);
        if (!read_text(AT_FDCWD, path, text, sizeof(text)))
                return -ENOENT;
        text[strcspn(text, "\n")] = '\0';
        int r = parse_uint64(text, 0, UINT64_MAX, &v);
        return r < 0 ? r : v > 0;
}

void gpu_usage_sample(GpuUsage *u, const pid_t *pids, size_t n) {
        bool known = false, busy = false;

        if (u->kfd_gpu == 0 || u->has_engines)
                return;
        for (size_t i = 0; i < n; i++) {
                int r = is_occupied(u, pids[i]);
                known |= r >= 0;
                busy |= r > 0;
        }
        u->n_samples += known;
        u->n_busy += busy;
}

/* --- */

static int read_kernel(GpuUsage *u, const pid_t *pids, size_t n, uint64_t span_ns, uint64_t *ret_ran_ns) {
        uint64_t engine_ns;

        if (sum_engines(u, pids, n, &engine_ns) && (u->has_engines || u->kfd_gpu == 0 || engine_ns > u->engine_ns)) {
                u->has_engines = true;
                *ret_ran_ns = ns_sub(engine_ns, u->engine_ns);
                u->engine_ns = engine_ns;
                return 0;
        }
        gpu_usage_sample(u, pids, n);
        if (u->n_samples == 0)
                return -ENODATA;
        *ret_ran_ns = span_ns / u->n_samples * u->n_busy;
        u->n_samples = u->n_busy = 0;
        return 0;
}

int gpu_usage_read(GpuUsage *u, const pid_t *pids, size_t n, uint64_t *ret_span_us, uint64_t *ret_ran_us) {
        uint64_t now = now_ns(), ran_ns = 0;

        if (u->nvml)
                return nvml_read(u->nvml, pids, n, ret_span_us, ret_ran_us);
        bool first = u->since_ns == 0;
        uint64_t span = first ? 0 : now - u->since_ns;
        if (first)
                (void) sum_engines(u, pids, n, &u->engine_ns);
        int r = read_kernel(u, pids, n, span, &ran_ns);
        if (r < 0)
                return r;
        u->since_ns = now;
        *ret_span_us = span / NSEC_PER_USEC;
        *ret_ran_us = MIN(ran_ns, span) / NSEC_PER_USEC;
        return 0;
}

GpuUsage *gpu_usage_free(GpuUsage *u) {
        if (!u)
                return NULL;
        nvml_free(u->nvml);
        free(u->root);
        free(u);
        return NULL;
}

/* Returns whether the GPU is a card of the DRM subsystem, whose drivers count by file. */
static bool is_drm(const char *root, const PciAddress *a) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path),
                        "%s/sys/bus/pci/devices/%04" PRIx32 ":%02" PRIx32 ":%02" PRIx32 ".%" PRIx32 "/drm", root,
                        a->domain, a->bus, a->device, a->function);
        return access(path, F_OK) == 0;
}

int gpu_usage_open(const char *root, const PciAddress *a, GpuUsage **ret, char ret_source[static 96]) {
        GpuUsage *u = calloc(1, sizeof(*u));

        if (!u || !(u->root = strdup(root))) {
                gpu_usage_free(u);
                return -ENOMEM;
        }
        u->address = *a;
        int r = nvml_open(a, &u->nvml);
        if (r < 0)
                u->kfd_gpu = find_kfd_gpu(root, a);
        if (r < 0 && u->kfd_gpu == 0 && !is_drm(root, a)) {
                gpu_usage_free(u);
                (void) snprintf(ret_source, 96, "no driver counts for processes (nvml: %s)", strerror(-r));
                return -ENODEV;
        }
        (void) snprintf(ret_source, 96, "%s", r >= 0 ? "nvml" : u->kfd_gpu != 0 ? "fdinfo, kfd" : "fdinfo");
        *ret = u;
        return 0;
}
