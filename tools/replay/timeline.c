/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Draws when each tenant ran and waited, as SVG and as a trace
 *
 * The picture has a line for each tenant. Its time is cut into columns, and a column is as dark as the part of it in
 * which the tenant ran, above, or waited, below. The trace is in the Trace Event Format, which Perfetto and Chrome
 * read: a device is a process there, and a tenant a thread.
 */

#include <inttypes.h>

#include "common/json-add.h"
#include "outcome.h"
#include "timeline.h"

enum {
        LEFT = 320,
        COLUMNS = 600,
        TOP = 40,
        LINE = 22,
        HALF = 9,
        LINES_MAX = 200,
};

static const char run_color[] = "#0072b2", wait_color[] = "#d55e00";

typedef struct Line {
        float run[COLUMNS], wait[COLUMNS]; /* parts of a column */
} Line;

/* Leaves out of names what XML and terminals would interpret. */
static void print_name(FILE *f, const char *s) {
        for (; *s; s++)
                if (strchr("<>&\"'", *s))
                        fprintf(f, "&#%d;", *s);
                else if ((unsigned char) *s < 0x20 || (unsigned char) *s >= 0x7f)
                        fputc('?', f);
                else
                        fputc(*s, f);
}

static void print_tenant(FILE *f, const Tenant *t) {
        print_name(f, t->device);
        fputc(' ', f);
        print_name(f, t->group);
        if (t->pid > 0)
                fprintf(f, " %" PRIu64, t->pid);
        if (t->queue > 0)
                fprintf(f, " queue:%" PRIu64, t->queue);
}

static void add(float *columns, double begin, double end) {
        for (size_t i = (size_t) begin; i < COLUMNS && (double) i < end; i++) {
                double from = begin > (double) i ? begin : (double) i;
                double to = end < (double) i + 1 ? end : (double) i + 1;

                columns[i] += (float) (to - from);
        }
}

static void fill(const Outcome *o, Line *lines, size_t n) {
        double span = (double) MAX(ns_sub(o->end_ns, o->begin_ns), UINT64_C(1));

        for (size_t i = 0; i < o->n_intervals; i++) {
                const Interval *v = o->intervals + i;

                if (v->tenant >= n)
                        continue;
                add(v->ran ? lines[v->tenant].run : lines[v->tenant].wait,
                                (double) ns_sub(v->begin_ns, o->begin_ns) * COLUMNS / span,
                                (double) ns_sub(v->end_ns, o->begin_ns) * COLUMNS / span);
        }
}

/* Draws neighbours of the same shade as one. */
static void print_half(FILE *f, const float *columns, int y, const char *color) {
        for (size_t i = 0, k; i < COLUMNS; i = k) {
                int tenths = (int) (columns[i] * 10 + 0.5F);

                for (k = i + 1; k < COLUMNS && (int) (columns[k] * 10 + 0.5F) == tenths; k++)
                        ;
                if (tenths > 0)
                        fprintf(f,
                                        "<rect x=\"%zu\" y=\"%d\" width=\"%zu\" height=\"%d\" fill=\"%s\" "
                                        "fill-opacity=\"%.1f\"/>\n",
                                        LEFT + i, y, k - i, HALF, color, MIN(tenths, 10) / 10.0);
        }
}

static void print_lines(const Outcome *o, const Line *lines, size_t n, FILE *f) {
        const Tenant *t, *next;

        HASH_ITER(hh, o->tenants, t, next) {
                int y = TOP + (int) t->place * LINE;

                if (t->place >= n)
                        break;
                fprintf(f, "<text x=\"8\" y=\"%d\">", y + 13);
                print_tenant(f, t);
                fputs("</text>\n", f);
                print_half(f, lines[t->place].run, y, run_color);
                print_half(f, lines[t->place].wait, y + HALF, wait_color);
        }
}

int outcome_print_svg(const Outcome *o, FILE *f) {
        size_t all = HASH_COUNT(o->tenants), n = MIN(all, (size_t) LINES_MAX);
        int height = TOP + (int) n * LINE + 28;
        _cleanup_free_ Line *lines = calloc(n + 1, sizeof(*lines));

        if (!lines)
                return -ENOMEM;
        fill(o, lines, n);
        fprintf(f,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                        "font-family=\"sans-serif\" font-size=\"11\">\n"
                        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                        "<text x=\"8\" y=\"20\">%zu of %zu tenants</text>\n"
                        "<rect x=\"%d\" y=\"11\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"20\">ran"
                        "</text>\n"
                        "<rect x=\"%d\" y=\"11\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
                        "y=\"20\">waited</text>\n",
                        LEFT + COLUMNS + 20, height, n, all, LEFT, run_color, LEFT + 16, LEFT + 60, wait_color,
                        LEFT + 76);
        print_lines(o, lines, n, f);
        fprintf(f,
                        "<text x=\"%d\" y=\"%d\">0</text>"
                        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3f s</text>\n</svg>\n",
                        LEFT, height - 10, LEFT + COLUMNS, height - 10,
                        (double) ns_sub(o->end_ns, o->begin_ns) / (double) NSEC_PER_SEC);
        return 0;
}

/* --- the trace --- */

/* json-c writes each event; the array around them is written as it goes, for there may be millions. */
typedef struct Events {
        FILE *f;
        size_t n;
} Events;

/* Microseconds, with three digits after the point. */
static json_object *new_time(uint64_t ns) {
        char text[32];

        (void) snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64, ns / NSEC_PER_USEC, ns % NSEC_PER_USEC);
        return json_object_new_double_s((double) ns / (double) NSEC_PER_USEC, text);
}

/* `tenant` 0: the event is the device's. */
static json_object *event_new(const char *phase, const char *name, size_t device, size_t tenant) {
        json_object *o = json_object_new_object();

        if (!o)
                return NULL;
        int r = json_add(o, "ph", json_object_new_string(phase));
        r = r < 0 ? r : json_add(o, "name", json_object_new_string(name));
        r = r < 0 ? r : json_add(o, "pid", json_object_new_uint64(device));
        if (r >= 0 && tenant > 0)
                r = json_add(o, "tid", json_object_new_uint64(tenant));
        if (r < 0) {
                json_object_put(o);
                return NULL;
        }
        return o;
}

/* Takes the event. `r` < 0: it is incomplete. */
static int event_print(Events *e, json_object *event, int r) {
        const char *text = r < 0 ? NULL : json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN);

        if (text)
                fprintf(e->f, "%s%s", e->n++ > 0 ? ",\n" : "", text);
        else if (r >= 0)
                r = -ENOMEM;
        json_object_put(event);
        return r;
}

static int print_named(Events *e, const char *what, size_t device, size_t tenant, const char *name) {
        json_object *event = event_new("M", what, device, tenant), *args = json_object_new_object();

        int r = args ? json_add(args, "name", json_object_new_string(name)) : -ENOMEM;
        if (!event || r < 0) {
                json_object_put(args);
                json_object_put(event);
                return -ENOMEM;
        }
        return event_print(e, event, json_add(event, "args", args));
}

/* Numbers devices by the place of their first tenant. */
static size_t device_place(const Outcome *o, const Tenant *of) {
        const Tenant *t, *next;

        HASH_ITER(hh, o->tenants, t, next)
                if (streq(t->device, of->device))
                        return t->place + 1;
        return 0;
}

static int print_names(const Outcome *o, size_t *devices, Events *e) {
        const Tenant *t, *next;
        char name[64];
        int r = 0;

        HASH_ITER(hh, o->tenants, t, next) {
                devices[t->place] = device_place(o, t);
                r = MIN(r, print_named(e, "process_name", devices[t->place], 0, t->device));
                (void) snprintf(name, sizeof(name), " %" PRIu64 " %" PRIu64, t->pid, t->queue);
                _cleanup_free_ char *text = NULL;
                if (asprintf(&text, "%s%s", t->group, t->pid > 0 ? name : "") < 0)
                        return -ENOMEM;
                r = MIN(r, print_named(e, "thread_name", devices[t->place], t->place + 1, text));
        }
        return r;
}

static int print_interval(Events *e, const Interval *v, size_t device, uint64_t begin_ns) {
        json_object *event = event_new("X", v->ran ? "run" : "wait", device, v->tenant + 1);

        if (!event)
                return -ENOMEM;
        int r = json_add(event, "ts", new_time(ns_sub(v->begin_ns, begin_ns)));
        return event_print(e, event, r < 0 ? r : json_add(event, "dur", new_time(v->end_ns - v->begin_ns)));
}

int outcome_print_trace(const Outcome *o, FILE *f) {
        _cleanup_free_ size_t *devices = calloc(HASH_COUNT(o->tenants) + 1, sizeof(*devices));
        Events e = {.f = f};

        if (!devices)
                return -ENOMEM;
        fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", f);
        int r = print_names(o, devices, &e);
        for (size_t i = 0; i < o->n_intervals; i++)
                r = MIN(r, print_interval(&e, o->intervals + i, devices[o->intervals[i].tenant], o->begin_ns));
        fputs("\n]}\n", f);
        return r;
}
