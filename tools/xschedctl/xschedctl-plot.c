/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * plot: draws where the time of the devices went in the last minutes
 */

#include <time.h>
#include <unistd.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "common/whole-file.h"
#include "plot-svg.h"
#include "plot-text.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/object.h"
#include "tools/shared/terminal.h"
#include "tools/xschedctl/xschedctl-plot.h"
#include "tools/xschedctl/xschedctl.h"

#define SVG_BINS_MAX 180U
#define LABELS_WIDTH 46U
#define BIN_MIN_US   1000000U
#define SPAN_MAX_US  (UINT64_C(15) * 60 * 1000000)

/* --- the record --- */

static int read_groups(sd_bus_message *m, PlotRecord *r, PlotSample *s) {
        int k = sd_bus_message_enter_container(m, 'a', "(uttttt)");

        while (k >= 0) {
                uint32_t group;

                k = sd_bus_message_read(m, "(uttttt)", &group, &s->us[PLOT_RUN], &s->us[PLOT_KEPT], &s->us[PLOT_WAIT],
                                &s->us[PLOT_DRAIN], &s->us[PLOT_SERVICE]);
                if (k <= 0)
                        break;
                s->group = group;
                k = plot_record_add(r, s);
        }
        return k < 0 ? k : sd_bus_message_exit_container(m);
}

static int read_devices(sd_bus_message *m, PlotRecord *r, uint64_t begin_us, uint64_t end_us) {
        int k = sd_bus_message_enter_container(m, 'a', "(sttta(uttttt))");

        while (k >= 0) {
                PlotSample s = {.begin_us = begin_us, .end_us = end_us, .group = PLOT_NO_GROUP};
                const char *id;

                k = sd_bus_message_enter_container(m, 'r', "sttta(uttttt)");
                if (k <= 0)
                        break;
                k = sd_bus_message_read(m, "sttt", &id, &s.us[PLOT_BUSY], &s.us[PLOT_DEVICE_KEPT], &s.us[PLOT_IDLE]);
                if (k >= 0)
                        k = plot_record_device(r, id, &s.device);
                if (k >= 0)
                        k = plot_record_add(r, &s);
                if (k >= 0)
                        k = read_groups(m, r, &s);
                if (k >= 0)
                        k = sd_bus_message_exit_container(m);
        }
        return k < 0 ? k : sd_bus_message_exit_container(m);
}

static int read_frames(sd_bus_message *m, PlotRecord *r) {
        int k = sd_bus_message_enter_container(m, 'a', "(tta(sttta(uttttt)))");

        while (k >= 0) {
                uint64_t begin_us, end_us;

                k = sd_bus_message_enter_container(m, 'r', "tta(sttta(uttttt))");
                if (k <= 0)
                        break;
                k = sd_bus_message_read(m, "tt", &begin_us, &end_us);
                if (k >= 0)
                        k = read_devices(m, r, begin_us, end_us);
                if (k >= 0)
                        k = sd_bus_message_exit_container(m);
        }
        return k < 0 ? k : sd_bus_message_exit_container(m);
}

static int read_names(sd_bus_message *m, PlotRecord *r) {
        int k = sd_bus_message_read_strv(m, &r->groups);

        while (k >= 0 && r->groups && r->groups[r->n_groups])
                r->n_groups++;
        return k;
}

int record_fetch(Ctl *c, uint64_t since_us, sd_bus_error *e, PlotRecord *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        PlotRecord r = {};

        int k = ctl_call_method(c, NULL, NULL, "GetRecord", e, &reply, "tt", since_us, UINT64_C(0));
        if (k >= 0)
                k = sd_bus_message_read(reply, "t", &r.until_us);
        if (k >= 0)
                k = read_frames(reply, &r);
        if (k >= 0)
                k = read_names(reply, &r);
        if (k < 0) {
                plot_record_done(&r);
                return k;
        }
        *ret = r;
        return 0;
}

/* --- since when --- */

/* "14:05", "14:05:30", "2026-11-22 14:05": the time of day, as microseconds since 1970. */
static int parse_time(const char *s, int64_t *ret) {
        static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%H:%M:%S", "%H:%M"};
        time_t now = time(NULL);

        for (size_t i = 0; i < ELEMENTSOF(formats); i++) {
                struct tm tm = {};

                (void) localtime_r(&now, &tm);
                tm.tm_sec = 0;
                tm.tm_isdst = -1;
                const char *end = strptime(s, formats[i], &tm);
                if (!end || *end)
                        continue;
                time_t t = mktime(&tm);
                if (t == (time_t) -1)
                        return -EINVAL;
                if (i >= 2 && t > now) /* yesterday's */
                        t -= 86400;
                *ret = (int64_t) t * 1000000;
                return 0;
        }
        return -EINVAL;
}

static int64_t realtime_us(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_REALTIME, &ts);
        return (int64_t) (timespec_to_ns(&ts) / NSEC_PER_USEC);
}

/* Parses how long before now the plot begins. Returns an exit status. */
static int parse_since(const char *s, uint64_t *ret) {
        int64_t at, now = realtime_us();
        uint64_t ns;

        if (parse_nsec(s[0] == '-' ? s + 1 : s, &ns) >= 0 && ns > 0 && ns != NSEC_INFINITY) {
                *ret = MAX(ns / NSEC_PER_USEC, UINT64_C(1));
                return 0;
        }
        if (parse_time(s, &at) < 0)
                return ctl_fail("--since=%s: neither a time span, like 5min, nor a time, like 14:05", s);
        if (at >= now)
                return ctl_fail("--since=%s: that is yet to come", s);
        *ret = (uint64_t) (now - at);
        return 0;
}

/* --- drawing --- */

static size_t choose_bins(uint64_t span_us, size_t max) {
        return CLAMP((size_t) (span_us / BIN_MIN_US), (size_t) 1, max);
}

/* Unknown names stay "". */
static void name_devices(const Snapshot *s, Plot *p) {
        for (size_t i = 0; i < p->n_devices; i++) {
                const Object *d = snapshot_find_by_name(s, OBJECT_DEVICE, p->devices[i].id);
                if (d)
                        p->devices[i].name = object_get_string(d, "Name");
        }
}

/* Writes the SVG, to a file as a whole or not at all. Returns an exit status. */
static int write_svg(const Plot *p, const char *output) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return ctl_fail("out of memory");
        int r = plot_print_svg(p, f);
        if (fclose(f) != 0 || r < 0)
                return ctl_fail("out of memory");
        if (!output || streq(output, "-")) {
                fwrite(text, 1, size, stdout);
                return 0; /* main() flushes, and says what failed */
        }
        r = whole_file_write(output, text, size, WHOLE_FILE_KEEP);
        return r < 0 ? ctl_fail("cannot write %s: %s", output, strerror(-r)) : 0;
}

static int write_text(const Ctl *c, const Plot *p) {
        size_t width = terminal_width(c);
        char span[64];

        pager_open(c);
        printf("The last %s, until now; a column is %s.\n\n", format_usec(span, sizeof(span), p->end_us - p->begin_us),
                        format_usec((char[64]){""}, 64, (p->end_us - p->begin_us) / p->n_bins));
        int r = plot_print_text(p, stdout, width);
        if (p->n_devices == 0)
                printf("Nothing was recorded.\n");
        pager_close();
        return r < 0 ? ctl_fail("cannot print: %s", strerror(-r)) : 0;
}

static void print_json_times(Json *j, const PlotSample *s, const char *const *keys, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const Value v = value_uint(s->us[i]);
                json_value(j, keys[i], &v);
        }
}

static void print_json_sample(Json *j, const PlotRecord *r, const PlotSample *s) {
        static const char *const group[_PLOT_TIME_MAX] = {"run_usec", "kept_usec", "wait_usec", "drain_wait_usec",
                        "service_wait_usec"},
                                 *const device[_PLOT_USE_MAX] = {"busy_usec", "kept_usec", "idle_usec"};
        const Value begin = value_uint(s->begin_us), end = value_uint(s->end_us);
        Value id = value_string(s->device < r->n_devices ? r->devices[s->device] : ""),
              name = s->group < r->n_groups ? value_string(s->group > 0 ? r->groups[s->group] : "") : (Value){};

        json_begin(j, NULL, '{');
        json_value(j, "begin_usec", &begin);
        json_value(j, "end_usec", &end);
        json_value(j, "device", &id);
        json_value(j, "group", &name);
        if (s->group == PLOT_NO_GROUP)
                print_json_times(j, s, device, ELEMENTSOF(device));
        else
                print_json_times(j, s, group, ELEMENTSOF(group));
        (void) json_end(j);
        value_done(&id);
        value_done(&name);
}

static int write_json(const Ctl *c, const PlotRecord *r) {
        Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
        const Value until = value_uint(r->until_us);

        json_begin(&j, NULL, '{');
        json_value(&j, "until_usec", &until);
        json_begin(&j, "samples", '[');
        for (size_t i = 0; i < r->n_samples; i++)
                if (!c->device || streq(r->devices[r->samples[i].device], c->device))
                        print_json_sample(&j, r, r->samples + i);
        (void) json_end(&j);
        int k = json_end(&j);
        return k < 0 ? ctl_fail("cannot print: %s", strerror(-k)) : 0;
}

/* An exit status. */
static int draw(const Ctl *c, const PlotRecord *r, const Snapshot *s, uint64_t span_us, bool text) {
        size_t width = terminal_width(c),
               max = !text                          ? SVG_BINS_MAX
                        : width > LABELS_WIDTH + 10 ? width - LABELS_WIDTH
                                                    : 10;
        uint64_t begin = r->until_us > span_us ? r->until_us - span_us : 0;
        _cleanup_(plot_done)
        Plot p = {};

        int k = plot_make(r, begin, r->until_us, choose_bins(span_us, max), c->device, &p);
        if (k < 0)
                return ctl_fail("cannot draw: %s", strerror(-k));
        p.realtime_us = realtime_us() - (int64_t) r->until_us;
        name_devices(s, &p);
        return text ? write_text(c, &p) : write_svg(&p, c->output);
}

/* Returns an exit status. The record may know a device that has gone. */
static int check_device(const Ctl *c, const PlotRecord *r, const Snapshot *s) {
        if (!c->device || snapshot_find_by_name(s, OBJECT_DEVICE, c->device))
                return 0;
        for (size_t i = 0; i < r->n_devices; i++)
                if (streq(r->devices[i], c->device))
                        return 0;
        return ctl_fail("%s: no such device", c->device);
}

int verb_plot(Ctl *c, int argc, char *argv[]) {
        bool text = !c->output && c->json == JSON_OFF && isatty(STDOUT_FILENO);
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(plot_record_done)
        PlotRecord record = {};
        _cleanup_(snapshot_done)
        Snapshot s = {};
        uint64_t span_us = SPAN_MAX_US;
        int r;

        if (c->json != JSON_OFF && c->output)
                return ctl_fail("--output= is for a picture, --json= for what it is made of");
        r = c->since ? parse_since(c->since, &span_us) : 0;
        if (r == 0)
                r = ctl_connect(c);
        if (r != 0)
                return r;
        r = snapshot_fetch(c, &error, &s);
        if (r >= 0)
                r = record_fetch(c, UINT64_MAX, &error, &record);
        if (r >= 0) {
                uint64_t until = record.until_us;

                span_us = MIN(span_us, SPAN_MAX_US);
                plot_record_done(&record);
                r = record_fetch(c, until > span_us ? until - span_us : 0, &error, &record);
        }
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);
        r = check_device(c, &record, &s);
        if (r != 0)
                return r;
        return c->json != JSON_OFF ? write_json(c, &record) : draw(c, &record, &s, span_us, text);
}
