/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Measurements of a GPU from sysfs, and their text form
 */

#include "hal/gpu-metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>

#include "common/macro.h"
#include "common/parse-util.h"
#include "common/stream-util.h"

void gpu_metrics_complete(GpuMetrics *m, const GpuMetrics *other) {
        if (m->utilisation == UINT32_MAX)
                m->utilisation = other->utilisation;
        if (m->temperature_mc == INT32_MAX)
                m->temperature_mc = other->temperature_mc;
        /* Take both from one source, because values of two sources need not match. */
        if (m->vram_total == UINT64_MAX || m->vram_used == UINT64_MAX) {
                m->vram_total = other->vram_total;
                m->vram_used = other->vram_used;
        }
        if (m->power_uw == UINT64_MAX)
                m->power_uw = other->power_uw;
}

int pci_address_parse(const char *device_id, PciAddress *ret) {
        const char *text = startswith(device_id, "pci:");
        PciAddress a;
        int used = 0;

        if (!text ||
                        sscanf(text, "%8" SCNx32 ":%2" SCNx32 ":%2" SCNx32 ".%1" SCNx32 "%n", &a.domain, &a.bus,
                                        &a.device, &a.function, &used) != 4 ||
                        text[used] != '\0')
                return -EINVAL;
        *ret = a;
        return 0;
}

/* --- sysfs --- */

/* Returns INT64_MIN when the value is unknown. */
static int64_t read_number(const char *directory, const char *name) {
        _cleanup_(fclosep)
        FILE *f = NULL;
        char path[PATH_MAX], text[32];
        int64_t v;

        int n = snprintf(path, sizeof(path), "%s/%s", directory, name);
        if (n < 0 || (size_t) n >= sizeof(path))
                return INT64_MIN;
        f = fopen(path, "re");
        if (!f || !fgets(text, sizeof(text), f))
                return INT64_MIN;
        text[strcspn(text, "\n")] = '\0';
        return parse_int64(text, INT64_MIN + 1, INT64_MAX, &v) < 0 ? INT64_MIN : v;
}

static uint64_t read_u64(const char *directory, const char *name) {
        int64_t v = read_number(directory, name);

        return v < 0 ? UINT64_MAX : (uint64_t) v;
}

/* Only the device's directory tells which hwmon belongs to it. */
static void read_hwmon(const char *device, GpuMetrics *m) {
        const struct dirent *e;
        _cleanup_(closedirp)
        DIR *d = NULL;
        char path[PATH_MAX];

        int n = snprintf(path, sizeof(path), "%s/hwmon", device);
        d = n < 0 || (size_t) n >= sizeof(path) ? NULL : opendir(path);
        while (d && (e = readdir(d))) {
                if (!startswith(e->d_name, "hwmon"))
                        continue;
                n = snprintf(path, sizeof(path), "%s/hwmon/%s", device, e->d_name);
                if (n < 0 || (size_t) n >= sizeof(path))
                        continue;
                int64_t temperature = read_number(path, "temp1_input");
                if (temperature > INT32_MIN && temperature < INT32_MAX)
                        m->temperature_mc = (int32_t) temperature;
                m->power_uw = read_u64(path, "power1_average");
                if (m->power_uw == UINT64_MAX)
                        m->power_uw = read_u64(path, "power1_input"); /* newer GPUs have no mean */
        }
}

static bool print_directory(const char *root, const PciAddress *a, uint32_t function, char ret[static PATH_MAX]) {
        int n = snprintf(ret, PATH_MAX, "%s/sys/bus/pci/devices/%04" PRIx32 ":%02" PRIx32 ":%02" PRIx32 ".%" PRIx32,
                        root, a->domain, a->bus, a->device, function);

        return n > 0 && n < PATH_MAX;
}

/* Finds the device's directory. KFD numbers the partitions of one GPU (MI300X in CPX) by the function, but the PCI bus
 * has only the whole GPU, as function 0. */
static bool find_directory(const char *root, const PciAddress *a, char ret[static PATH_MAX]) {
        if (!print_directory(root, a, a->function, ret))
                return false;
        return a->function == 0 || access(ret, F_OK) >= 0 || print_directory(root, a, 0, ret);
}

void gpu_metrics_read_sysfs(const char *root, const PciAddress *a, GpuMetrics *ret) {
        GpuMetrics m = GPU_METRICS_NULL;
        char path[PATH_MAX];

        if (find_directory(root, a, path)) {
                uint64_t busy = read_u64(path, "gpu_busy_percent");
                if (busy <= 100)
                        m.utilisation = (uint32_t) busy;
                m.vram_total = read_u64(path, "mem_info_vram_total");
                m.vram_used = read_u64(path, "mem_info_vram_used");
                read_hwmon(path, &m);
        }
        *ret = m;
}

GpuVendor gpu_metrics_vendor(const char *root, const PciAddress *a) {
        _cleanup_(fclosep)
        FILE *f = NULL;
        char directory[PATH_MAX], path[PATH_MAX], text[32];

        if (!find_directory(root, a, directory))
                return GPU_VENDOR_UNKNOWN;
        int n = snprintf(path, sizeof(path), "%s/vendor", directory);
        if (n < 0 || (size_t) n >= sizeof(path))
                return GPU_VENDOR_UNKNOWN;
        f = fopen(path, "re");
        if (!f || !fgets(text, sizeof(text), f))
                return GPU_VENDOR_UNKNOWN;
        text[strcspn(text, "\n")] = '\0';
        return streq(text, "0x1002") ? GPU_VENDOR_AMD : streq(text, "0x10de") ? GPU_VENDOR_NVIDIA : GPU_VENDOR_UNKNOWN;
}

/* --- as text --- */

void gpu_metrics_print(FILE *f, const GpuMetrics *m, const char *source) {
        fprintf(f, "source=%s\n", source);
        if (m->utilisation != UINT32_MAX)
                fprintf(f, "utilisation=%" PRIu32 "\n", m->utilisation);
        if (m->temperature_mc != INT32_MAX)
                fprintf(f, "temperature_mc=%" PRId32 "\n", m->temperature_mc);
        if (m->vram_total != UINT64_MAX)
                fprintf(f, "vram_total=%" PRIu64 "\n", m->vram_total);
        if (m->vram_used != UINT64_MAX)
                fprintf(f, "vram_used=%" PRIu64 "\n", m->vram_used);
        if (m->power_uw != UINT64_MAX)
                fprintf(f, "power_uw=%" PRIu64 "\n", m->power_uw);
}

static int take_line(const char *key, const char *value, GpuMetrics *m) {
        uint64_t u;
        int64_t i;
        int r = 0;

        if (streq(key, "utilisation")) {
                r = parse_uint64(value, 0, 100, &u);
                m->utilisation = r < 0 ? m->utilisation : (uint32_t) u;
        } else if (streq(key, "temperature_mc")) {
                r = parse_int64(value, -1000000, 1000000, &i);
                m->temperature_mc = r < 0 ? m->temperature_mc : (int32_t) i;
        } else if (streq(key, "vram_total"))
                r = parse_uint64(value, 0, UINT64_MAX - 1, &m->vram_total);
        else if (streq(key, "vram_used"))
                r = parse_uint64(value, 0, UINT64_MAX - 1, &m->vram_used);
        else if (streq(key, "power_uw"))
                r = parse_uint64(value, 0, UINT64_MAX - 1, &m->power_uw);
        return r;
}

int gpu_metrics_parse(char *text, GpuMetrics *ret, const char **ret_source) {
        GpuMetrics m = GPU_METRICS_NULL;
        const char *source = NULL;
        char *save = NULL;

        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                char *value = strchr(line, '=');
                if (!value)
                        return -EBADMSG;
                *value++ = '\0';
                if (streq(line, "source"))
                        source = value;
                else if (take_line(line, value, &m) < 0)
                        return -EBADMSG;
        }
        if (!source)
                return -EBADMSG;
        *ret = m;
        *ret_source = source;
        return 0;
}
