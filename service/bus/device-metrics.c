/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Current metrics of devices, measured by a child
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "bus-util.h"
#include "device-metrics.h"
#include "hal/gpu-metrics.h"
#include "service/base/log.h"
#include "service/base/metrics-child.h"

#define WAITING_MAX 64U
#define OUTPUT_MAX  4096U

struct DeviceMetrics {
        Device *device;
        GpuMetrics last;
        char *source;         /* NULL: never measured */
        uint64_t measured_at; /* ns */

        sd_event_source *child, *timeout; /* of the measurement under way */
        int output;
        sd_bus_message *waiting[WAITING_MAX];
        size_t n_waiting;
};

/* --- answers --- */

static int append_u64(sd_bus_message *reply, const char *key, uint64_t v) {
        return v == UINT64_MAX ? 0 : sd_bus_message_append(reply, "{sv}", key, "t", v);
}

static int append_known(const DeviceMetrics *m, sd_bus_message *reply) {
        const GpuMetrics *g = &m->last;
        int r = 0;

        if (g->utilisation != UINT32_MAX)
                r = sd_bus_message_append(reply, "{sv}", "Utilisation", "u", g->utilisation);
        if (r >= 0)
                r = append_u64(reply, "VRAMTotal", g->vram_total);
        if (r >= 0)
                r = append_u64(reply, "VRAMUsed", g->vram_used);
        if (r >= 0 && g->temperature_mc != INT32_MAX)
                r = sd_bus_message_append(reply, "{sv}", "Temperature", "d", (double) g->temperature_mc / 1000);
        if (r >= 0 && g->power_uw != UINT64_MAX)
                r = sd_bus_message_append(reply, "{sv}", "Power", "d", (double) g->power_uw / 1e6);
        if (r >= 0)
                r = sd_bus_message_append(reply, "{sv}{sv}", "Source", "s", m->source, "MeasuredUSec", "t",
                                m->measured_at / NSEC_PER_USEC);
        return r;
}

int device_append_metrics(const Device *d, sd_bus_message *reply) {
        int r = sd_bus_message_open_container(reply, 'a', "{sv}");
        if (r >= 0 && d->metrics && d->metrics->source)
                r = append_known(d->metrics, reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int send_metrics(const Device *d, sd_bus_message *call) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;

        int r = sd_bus_message_new_method_return(call, &reply);
        if (r >= 0)
                r = device_append_metrics(d, reply);
        return r < 0 ? r : sd_bus_send(NULL, reply, NULL);
}

static void answer_waiting(DeviceMetrics *m, int error) {
        for (size_t i = 0; i < m->n_waiting; i++) {
                int r = error;
                if (r >= 0)
                        r = send_metrics(m->device, m->waiting[i]);
                if (r < 0)
                        (void) sd_bus_reply_method_errno(m->waiting[i], r, NULL);
                sd_bus_message_unref(m->waiting[i]);
        }
        m->n_waiting = 0;
}

/* --- the child --- */

/* Freeing the source of a living child kills and reaps it. */
static void stop(DeviceMetrics *m) {
        m->child = sd_event_source_disable_unref(m->child);
        m->timeout = sd_event_source_disable_unref(m->timeout);
        m->output = safe_close(m->output);
}

static int take_output(DeviceMetrics *m) {
        char text[OUTPUT_MAX];
        const char *source;

        /* The child has ended, and its answer fits into the pipe. */
        ssize_t n = read(m->output, text, sizeof(text) - 1);
        if (n < 0)
                return negative_errno();
        text[n] = '\0';
        GpuMetrics g;
        int r = gpu_metrics_parse(text, &g, &source);
        if (r < 0)
                return r;
        char *copy = strdup(source);
        if (!copy)
                return -ENOMEM;
        free(m->source);
        m->source = copy;
        m->last = g;
        m->measured_at = now_ns();
        return 0;
}

static int on_child(sd_event_source *source, const siginfo_t *si, void *userdata) {
        DeviceMetrics *m = userdata;

        int r = si->si_code == CLD_EXITED && si->si_status == EXIT_SUCCESS ? take_output(m) : -EIO;
        if (r < 0)
                log_debug_errno(r, "The measurement of %s failed: %m", m->device->id);
        stop(m);
        answer_waiting(m, r);
        return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        DeviceMetrics *m = userdata;

        stop(m);
        answer_waiting(m, -ETIMEDOUT);
        return 0;
}

static int watch(DeviceMetrics *m, pid_t pid) {
        sd_event *e = m->device->manager->event;

        int r = sd_event_add_child(e, &m->child, pid, WEXITED, on_child, m);
        if (r < 0) {
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
                return r;
        }
        r = sd_event_source_set_child_process_own(m->child, true);
        if (r >= 0)
                r = sd_event_add_time_relative(
                                e, &m->timeout, CLOCK_MONOTONIC, METRICS_TIMEOUT_NS / NSEC_PER_USEC, 0, on_timeout, m);
        return r;
}

static int start(DeviceMetrics *m) {
        int ends[2];
        pid_t pid = 0;

        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
                return negative_errno();
        _cleanup_close_ int theirs = ends[1];
        m->output = ends[0];
        int r = metrics_spawn(NULL, m->device->id, -1, theirs, &pid);
        if (r >= 0)
                r = watch(m, pid);
        if (r < 0)
                stop(m);
        return r;
}

/* --- */

DeviceMetrics *device_metrics_free(DeviceMetrics *m) {
        if (!m)
                return NULL;
        stop(m);
        answer_waiting(m, -ENODEV);
        free(m->source);
        free(m);
        return NULL;
}

static int metrics_get(Device *d, DeviceMetrics **ret) {
        if (!d->metrics) {
                d->metrics = calloc(1, sizeof(*d->metrics));
                if (!d->metrics)
                        return -ENOMEM;
                *d->metrics = (DeviceMetrics){.device = d, .output = -EBADF};
        }
        *ret = d->metrics;
        return 0;
}

int device_measure(Device *d, sd_bus_message *message, sd_bus_error *error) {
        DeviceMetrics *m;
        PciAddress a;

        if (pci_address_parse(d->id, &a) < 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_NOT_SUPPORTED, "%s is not known by a PCI address", d->id);
        int r = metrics_get(d, &m);
        if (r < 0)
                return r;
        if (m->source && ns_sub(now_ns(), m->measured_at) < METRICS_FRESH_NS)
                return send_metrics(d, message);
        if (m->n_waiting >= WAITING_MAX)
                return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED, "Too many wait already");
        if (!m->child) {
                r = start(m);
                if (r < 0)
                        return sd_bus_error_set_errnof(error, r, "The measurement could not be started: %m");
        }
        m->waiting[m->n_waiting++] = sd_bus_message_ref(message);
        return 1;
}
