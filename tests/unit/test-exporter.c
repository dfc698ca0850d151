/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-exporter without its main(): labels, requests, the choice of series, expositions
 */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tests/lib/unit.h"
#include "tools/exporter/accept.h"
#include "tools/exporter/label.h"
#include "tools/exporter/render.h"

/* --- labels --- */

static char *label_text(const char *value) {
        char *text = NULL;
        size_t size = 0;

        FILE *f = open_memstream(&text, &size);
        assert_non_null(f);
        label_print(f, value);
        assert_int_equal(fclose(f), 0);
        return text;
}

static void assert_label(const char *value, const char *expected) {
        _cleanup_free_ char *text = label_text(value);

        assert_string_equal(text, expected);
}

static void labels(void **state) {
        assert_label("", "");
        assert_label("/system.slice/a.service", "/system.slice/a.service");
        assert_label("a\\b\"c\nd\te", "a\\\\b\\\"c\\nd\te");
        assert_label("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
        /* A lone continuation byte, a sequence without its end, overlong sequences, a surrogate, a code point beyond
         * the last. */
        assert_label("\x80", "\xef\xbf\xbd");
        assert_label("\xc3(", "\xef\xbf\xbd(");
        assert_label("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");
        assert_label("\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        assert_label("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        assert_label("\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        assert_label("x\xe2\x82", "x\xef\xbf\xbd\xef\xbf\xbd");
}

static void labels_that_are_long(void **state) {
        char a[LABEL_MAX + 100], b[LABEL_MAX + 100];

        memset(a, 'a', sizeof(a));
        a[LABEL_MAX] = '\0';
        assert_label(a, a);

        a[LABEL_MAX] = 'a';
        a[sizeof(a) - 1] = '\0';
        memcpy(b, a, sizeof(a));
        b[sizeof(b) - 2] = 'b';
        _cleanup_free_ char *of_a = label_text(a), *of_b = label_text(b);
        assert_int_equal(strlen(of_a), LABEL_MAX + 17);
        assert_int_equal(of_a[LABEL_MAX], '~');
        assert_true(!streq(of_a, of_b));
        assert_false(label_looks_same(a, b));
        assert_true(label_looks_same(a, a));
        a[LABEL_MAX] = '\0';
        assert_false(label_looks_same(a, b));
        assert_false(label_looks_same(b, a));

        /* No character is cut in two, nor an escape sequence: the limit counts bytes before escaping. */
        memset(b, 'b', sizeof(b));
        memcpy(b + LABEL_MAX - 1, "\xe2\x82\xac", 3);
        b[sizeof(b) - 1] = '\0';
        free(of_b);
        of_b = label_text(b);
        assert_int_equal(of_b[LABEL_MAX - 1], '~');
        memset(b, '"', sizeof(b) - 1);
        free(of_b);
        of_b = label_text(b);
        assert_int_equal(strlen(of_b), 2 * LABEL_MAX + 17);
        assert_memory_equal(of_b + (size_t) 2 * LABEL_MAX - 2, "\\\"~", 3);
}

/* --- what is asked for --- */

static void formats(void **state) {
        /* The Accept header of Prometheus 2.42. */
        static const char of_prometheus[] =
                        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        static const char *const open[] = {
                        "application/openmetrics-text",
                        "application/openmetrics-text;version=1.0.0",
                        "APPLICATION/OpenMetrics-Text; Version=1.0.0; q=0.3, text/plain;q=0.2",
                        "text/plain;q=0.5,application/openmetrics-text;q=0.5",
                        of_prometheus,
                        " , ,application/openmetrics-text ; q=1.000",
        };
        static const char *const text[] = {
                        "",
                        "*/*",
                        "text/html",
                        "text/plain;version=0.0.4",
                        "application/openmetrics-text;version=2.0.0",
                        "application/openmetrics-text;version=1.0.00",
                        "application/openmetrics-text;version=0.0.1",
                        "application/openmetrics-text;q=0",
                        "application/openmetrics-text;q=0.0",
                        "application/openmetrics-text;q=x",
                        "application/openmetrics-text;q=",
                        "application/openmetrics-text;q=12",
                        "application/openmetrics-textual",
                        "application/openmetrics-text;q=0.4,text/plain;q=0.5",
                        "application/openmetrics-text;q=0.4,*/*",
                        ";;;;,,,;q=1;q",
        };

        assert_int_equal(format_from_accept(NULL), FORMAT_TEXT);
        for (size_t i = 0; i < ELEMENTSOF(open); i++)
                assert_int_equal(format_from_accept(open[i]), FORMAT_OPENMETRICS);
        for (size_t i = 0; i < ELEMENTSOF(text); i++)
                assert_int_equal(format_from_accept(text[i]), FORMAT_TEXT);
}

/* --- what has series of its own --- */

static Snapshot *snapshot(size_t n_devices, size_t n_groups) {
        Snapshot *s = snapshot_new();

        assert_non_null(s);
        s->up = true;
        s->devices = calloc(n_devices + 1, sizeof(*s->devices));
        s->groups = calloc(n_groups + 1, sizeof(*s->groups));
        for (; s->n_devices < n_devices; s->n_devices++) {
                SnapshotDevice *d = s->devices + s->n_devices;
                *d = (SnapshotDevice){.utilisation = UINT32_MAX,
                                .memory = UNKNOWN,
                                .memory_used = UNKNOWN,
                                .temperature = NAN,
                                .power = NAN};
                assert_true(asprintf(&d->id, "test:%zu", s->n_devices) > 0);
        }
        for (; s->n_groups < n_groups; s->n_groups++) {
                SnapshotGroup *g = s->groups + s->n_groups;
                assert_true(asprintf(&g->name, "/system.slice/%zu.service", s->n_groups) > 0);
                g->device = strdup("test:0");
        }
        return s;
}

static void rename_group(Snapshot *s, size_t i, const char *before, size_t k, const char *after) {
        free(s->groups[i].name);
        assert_true(asprintf(&s->groups[i].name, "%s%zu%s", before, k, after) > 0);
}

static bool is_chosen(const Selection *s, const SnapshotGroup *g) {
        for (size_t i = 0; i < s->n_groups; i++)
                if (s->groups[i] == g)
                        return true;
        return false;
}

static size_t count_lines(const char *text) {
        size_t n = 0;

        for (const char *p = text; (p = strchr(p, '\n')); p++)
                n += p[1] != '#' && p[1] != '\0';
        return n;
}

/* Whatever the groups are, there are at most `max` series, and no count is lost. */
static void bounds(void **state) {
        static const size_t sizes[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {3, 30}, {1, 500}, {100, 3}, {500, 5000}};

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                for (size_t max = SERIES_MIN; max <= 8000; max *= 2) {
                        _cleanup_(snapshot_freep)
                        Snapshot *s = snapshot(sizes[i][0], sizes[i][1]);
                        _cleanup_free_ char *text = NULL;
                        char *reasons[200] = {NULL};
                        Selection chosen;
                        size_t size;

                        for (size_t k = 0; k + 1 < ELEMENTSOF(reasons); k++)
                                assert_true(asprintf(reasons + k, "reason %zu: so", k) > 0);
                        s->degraded = calloc(ELEMENTSOF(reasons), sizeof(char *));
                        memcpy(s->degraded, reasons, sizeof(reasons));
                        for (size_t k = 0; k < s->n_devices; k++) {
                                SnapshotHistogram *h = &s->devices[k].ready_to_run;
                                for (; h->n_bounds < 27; h->n_bounds++)
                                        h->bounds_us[h->n_bounds] = UINT64_C(1) << h->n_bounds;
                                s->devices[k].utilisation = 1;
                                s->devices[k].memory = s->devices[k].memory_used = 1;
                                s->devices[k].temperature = s->devices[k].power = 1;
                        }
                        s->n_clients = s->n_queues = s->n_edges = s->n_verdicts = s->n_wakeups = s->n_lease_expired = 1;
                        _cleanup_(others_freep)
                        Others *others = others_new();
                        assert_int_equal(selection_make(s, max, others, &chosen), 0);
                        assert_int_equal(chosen.n_devices + chosen.n_devices_left_out, s->n_devices);
                        assert_int_equal(chosen.n_groups + chosen.n_groups_left_out, s->n_groups);
                        assert_true(chosen.n_devices > 0 || s->n_devices == 0);
                        assert_true(chosen.n_groups > 0 || s->n_groups == 0);
                        assert_int_equal(render(s, &chosen, FORMAT_TEXT, &text, &size), 0);
                        assert_true(count_lines(text) <= max);
                        /* The room is used. */
                        if (chosen.n_groups_left_out > 0)
                                assert_true(count_lines(text) >= max - max / 3);
                        selection_done(&chosen);
                }
}

/* A user with a thousand groups does not keep out later users, but has the places that no other user wants. */
static void users_share(void **state) {
        const size_t n = 1000;
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot(1, n);
        Selection chosen;

        for (size_t i = 0; i < n - 2; i++)
                rename_group(s, i, "/user.slice/user-1000.slice/session-", i, ".scope");
        rename_group(s, n - 2, "/user.slice/user-1001.slice/session-", 1, ".scope");
        assert_int_equal(selection_make(s, 2000, NULL, &chosen), 0);
        assert_true(chosen.n_groups_left_out > 0);
        assert_true(is_chosen(&chosen, s->groups + n - 1));
        assert_true(is_chosen(&chosen, s->groups + n - 2));
        assert_true(is_chosen(&chosen, s->groups));
        size_t places = chosen.n_groups;
        selection_done(&chosen);

        for (size_t i = n / 10; i < n; i++)
                rename_group(s, i, "/system.slice/", i, ".service");
        for (size_t i = 0; i < n / 10; i++)
                rename_group(s, i, "job:", i, ":x");
        assert_int_equal(selection_make(s, 2000, NULL, &chosen), 0);
        assert_int_equal(chosen.n_groups, places);
        size_t jobs = 0;
        for (size_t i = 0; i < n / 10; i++)
                jobs += is_chosen(&chosen, s->groups + i);
        assert_int_equal(jobs, places / 4);
        selection_done(&chosen);
}

static void set(SnapshotGroup *g, uint64_t run) {
        g->counters[GROUP_RUN] = run;
}

/* The sums of the other groups only rise, by exactly what was added, whichever groups come, go, begin anew, or get a
 * place. */
static void others_count_up(void **state) {
        const size_t n = 200;
        _cleanup_(others_freep)
        Others *others = others_new();
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot(1, n);
        Selection chosen;

        for (size_t i = 0; i < n; i++)
                set(s->groups + i, 1000);
        assert_int_equal(selection_make(s, SERIES_MIN, others, &chosen), 0);
        size_t places = chosen.n_groups;
        assert_true(places < n - 10);
        assert_int_equal(chosen.other_groups.counters[GROUP_RUN], 0); /* earlier counts are left out */
        selection_done(&chosen);

        set(s->groups, 5000); /* this group has its own series */
        set(s->groups + n - 1, 1007);
        set(s->groups + n - 2, 3); /* this group began anew */
        assert_int_equal(selection_make(s, SERIES_MIN, others, &chosen), 0);
        assert_int_equal(chosen.other_groups.counters[GROUP_RUN], 7 + 3);
        selection_done(&chosen);

        /* One of the other groups goes, and one gets the place of a group that goes. */
        rename_group(s, n - 1, "/gone/", 0, "");
        set(s->groups + n - 1, 0);
        rename_group(s, 0, "/system.slice/", places, ".service");
        rename_group(s, places, "/new/", 0, "");
        set(s->groups, 1500);
        assert_int_equal(selection_make(s, SERIES_MIN, others, &chosen), 0);
        assert_true(is_chosen(&chosen, s->groups));
        assert_int_equal(chosen.other_groups.counters[GROUP_RUN], 10);
        selection_done(&chosen);

        /* A process that does not live long does not count at all. */
        assert_int_equal(selection_make(s, SERIES_MIN, NULL, &chosen), 0);
        assert_int_equal(chosen.other_groups.counters[GROUP_RUN], UNKNOWN);
        selection_done(&chosen);
}

/* Names that were made to look the same give no duplicate series, which would invalidate a whole text file. */
static void twins(void **state) {
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot(1, 3);
        char name[LABEL_MAX + 50];
        Selection chosen;

        memset(name, 'x', sizeof(name));
        name[sizeof(name) - 1] = '\0';
        for (size_t i = 0; i < 3; i++) {
                free(s->groups[i].name);
                s->groups[i].name = strdup(name);
        }
        free(s->groups[2].device);
        s->groups[2].device = strdup("test:1");
        assert_int_equal(selection_make(s, SERIES_DEFAULT, NULL, &chosen), 0);
        assert_int_equal(chosen.n_groups, 2);
        assert_ptr_equal(chosen.groups[1], s->groups + 2);
        selection_done(&chosen);
}

/* --- names of a hostile user --- */

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t n) {
        random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (random_state >> 33) % n;
}

/* A name of random bytes, above all those with a meaning in an exposition. */
static char *hostile_name(const char *prefix) {
        static const char *const parts[] = {"\"", "\\", "\n", "\"} 1\nxsched_up 0\n", "# EOF\n",
                        "# TYPE xsched_up counter\n", "{", "}", ",", "=", " ", "\r", "\t", "\x7f", "\xc3",
                        "\xe2\x80\xa8", "\xed\xa0\x80", "\xff", "(others)", "ä"};
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        fputs(prefix, f);
        for (uint64_t n = random_below(60); n > 0; n--)
                if (random_below(2) == 0)
                        fputs(parts[random_below(ELEMENTSOF(parts))], f);
                else
                        fputc((int) (1 + random_below(255)), f);
        assert_int_equal(fclose(f), 0);
        return text;
}

/* Parses a label's value from behind its first quotation mark. NULL: it does not end as one. */
static const char *parse_value(const char *p) {
        for (; *p != '"'; p++) {
                if (*p == '\\' && *++p != '\\' && *p != '"' && *p != 'n')
                        return NULL;
                if (*p == '\0' || *p == '\n')
                        return NULL;
        }
        return p + 1;
}

/* Parses name{label="value",...} number, and checks that no value ends early. Returns where the number begins. */
static const char *parse_sample(const char *p) {
        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
        if (*p == '{')
                do {
                        p++;
                        p += strspn(p, "abcdefghijklmnopqrstuvwxyz_");
                        assert_true(p[0] == '=' && p[1] == '"');
                        p = parse_value(p + 2);
                        assert_non_null(p);
                } while (*p == ',');
        if (*p == '}')
                p++;
        assert_int_equal(*p, ' ');
        return p + 1;
}

static int compare_lines(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Checks that every line is one of ours, and that no series appears twice. */
static void check_lines(char *text, size_t max) {
        char **series = calloc(max, sizeof(*series));
        size_t n = 0;
        char *rest;

        assert_non_null(series);
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
                if (line[0] == '#')
                        continue;
                assert_true(n < max);
                assert_memory_equal(line, "xsched_", 7);
                char *value = line + (parse_sample(line) - line), *end;
                (void) strtod(value, &end);
                assert_true(end > value && *end == '\0');
                value[-1] = '\0';
                series[n++] = line;
        }
        qsort(series, n, sizeof(*series), compare_lines);
        for (size_t i = 1; i < n; i++)
                assert_string_not_equal(series[i - 1], series[i]);
        free(series);
}

static void hostile_names(void **state) {
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot(3, 2000);

        for (size_t i = 0; i < s->n_groups; i++) {
                SnapshotGroup *g = s->groups + i;

                free(g->name);
                g->name = hostile_name(i % 2 == 0 ? "/user.slice/" : "job:");
                g->class = hostile_name("");
                g->unit = hostile_name("");
                g->container = hostile_name("");
                g->pod = hostile_name("");
                g->slurm_job = hostile_name("");
                g->held_reason = hostile_name("");
        }
        for (size_t i = 0; i < s->n_devices; i++)
                s->devices[i].name = hostile_name("");
        for (size_t max = SERIES_MIN; max <= SERIES_DEFAULT; max += SERIES_DEFAULT - SERIES_MIN)
                for (Format f = 0; f < _FORMAT_MAX; f++) {
                        _cleanup_free_ char *text = NULL;
                        Selection chosen;
                        size_t size;

                        assert_int_equal(selection_make(s, max, NULL, &chosen), 0);
                        assert_int_equal(render(s, &chosen, f, &text, &size), 0);
                        assert_int_equal(strlen(text), size);
                        assert_null(strstr(text, "\nxsched_up 0"));
                        check_lines(text, max);
                        selection_done(&chosen);
                }
}

/* --- expositions --- */

static Snapshot *example(void) {
        Snapshot *s = snapshot(1, 1);
        SnapshotDevice *d = s->devices;
        SnapshotGroup *g = s->groups;

        s->version = strdup("1.2");
        s->degraded = calloc(4, sizeof(char *));
        s->degraded[0] = strdup("configuration: 1 problem");
        s->degraded[1] = strdup("configuration: another");
        s->degraded[2] = strdup("all is lost");
        s->n_clients = 2;
        s->n_queues = 3;
        s->n_edges = 4;
        s->n_verdicts = 5;
        s->n_wakeups = 6;
        s->n_lease_expired = 7;
        s->seconds = 0.25;
        s->decision = (SnapshotHistogram){
                        .n_bounds = 2, .bounds_us = {1, 67108864}, .counts = {1, 2}, .sum_us = 1500001, .count = 3};
        d->name = strdup("A \"GPU\"");
        d->backend = strdup("kfd");
        d->policy = strdup("tree");
        d->n_entities = 1;
        d->n_ready = 1;
        d->n_queues = 3;
        for (size_t i = 0; i < ELEMENTSOF(d->counters); i++)
                d->counters[i] = 1000000 * (i + 1) + 1;
        d->counters[DEVICE_KEPT] = UNKNOWN;
        d->utilisation = 37;
        d->memory = UINT64_C(64) << 30;
        d->temperature = 61.5;
        g->class = strdup("batch");
        g->unit = strdup("0.service");
        g->pod = strdup("");
        g->held_reason = strdup("share");
        g->priority = -50;
        g->weight = 100;
        g->n_clients = 2;
        g->n_queues = 3;
        g->n_held = 1;
        g->held_us = 1234567;
        for (size_t i = 0; i < ELEMENTSOF(g->counters); i++)
                g->counters[i] = 10 * i;
        return s;
}

#define GROUP_LABELS "group=\"/system.slice/0.service\",device=\"test:0\",class=\"batch\",unit=\"0.service\""

static void expositions(void **state) {
        static const char *const both[] = {
                        "xsched_up 1\n",
                        "xsched_build_info{version=\"1.2\"} 1\n",
                        "xsched_degraded{reason=\"configuration\"} 1\nxsched_degraded{reason=\"all is lost\"} 1\n#",
                        "xsched_degraded_reasons 3\n",
                        "xsched_lease_expirations_total 7\n",
                        "xsched_decision_seconds_bucket{le=\"1e-06\"} 1\n"
                        "xsched_decision_seconds_bucket{le=\"67.108864\"} 2\n"
                        "xsched_decision_seconds_bucket{le=\"+Inf\"} 3\n"
                        "xsched_decision_seconds_sum 1.500001\n"
                        "xsched_decision_seconds_count 3\n",
                        "xsched_device_info{device=\"test:0\",name=\"A "
                        "\\\"GPU\\\"\",backend=\"kfd\",policy=\"tree\"} 1\n",
                        "xsched_device_busy_seconds_total{device=\"test:0\"} 1.000001\n",
                        "xsched_device_preemptions_total{device=\"test:0\"} 4000001\n",
                        "xsched_device_utilisation_ratio{device=\"test:0\"} 0.37\n",
                        "xsched_device_memory_bytes{device=\"test:0\"} 6.87194767e+10\n",
                        "xsched_device_temperature_celsius{device=\"test:0\"} 61.5\n",
                        "xsched_group_run_seconds_total{" GROUP_LABELS "} 0.000000\n",
                        "xsched_group_run_source{" GROUP_LABELS ",source=\"tracked\"} 1\n",
                        "xsched_group_wait_seconds_total{" GROUP_LABELS "} 0.000020\n",
                        "xsched_group_preemptions_total{" GROUP_LABELS "} 50\n",
                        "xsched_group_held{" GROUP_LABELS "} 1\n",
                        "xsched_group_held_seconds{" GROUP_LABELS ",reason=\"share\"} 1.234567\n",
                        "xsched_group_priority{" GROUP_LABELS "} -50\n",
                        "xsched_exporter_collect_seconds 0.25\n",
        };
        static const char *const neither[] = {"xsched_device_kept_seconds_total{", "power_watts{", "pod=", "(others)"};
        static const char *const open[] = {
                        "# TYPE xsched_edges counter\n",
                        "# UNIT xsched_group_run_seconds seconds\n",
                        "# TYPE xsched_build info\n",
        };
        static const char *const classic[] = {
                        "# TYPE xsched_edges_total counter\n",
                        "# TYPE xsched_build_info gauge\n",
        };
        _cleanup_(snapshot_freep)
        Snapshot *s = example();
        Selection chosen;

        assert_int_equal(selection_make(s, SERIES_DEFAULT, NULL, &chosen), 0);
        for (Format f = 0; f < _FORMAT_MAX; f++) {
                _cleanup_free_ char *text = NULL;
                size_t size = 0;

                assert_int_equal(render(s, &chosen, f, &text, &size), 0);
                assert_int_equal(strlen(text), size);
                for (size_t i = 0; i < ELEMENTSOF(both); i++)
                        if (!strstr(text, both[i]))
                                fail_msg("no %s in:\n%s", both[i], text);
                for (size_t i = 0; i < ELEMENTSOF(neither); i++)
                        assert_null(strstr(text, neither[i]));
                for (size_t i = 0; i < ELEMENTSOF(open); i++)
                        assert_int_equal(!!strstr(text, open[i]), f == FORMAT_OPENMETRICS);
                for (size_t i = 0; i < ELEMENTSOF(classic); i++)
                        assert_int_equal(!!strstr(text, classic[i]), f == FORMAT_TEXT);
                assert_int_equal(endswith(text, "\n# EOF\n"), f == FORMAT_OPENMETRICS);
                assert_int_equal(!!strstr(text, "# UNIT"), f == FORMAT_OPENMETRICS);
        }
        selection_done(&chosen);
}

/* The service did not answer: the exposition tells that and has no series of the service. */
static void nobody_there(void **state) {
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot_new();
        _cleanup_free_ char *text = NULL;
        Selection chosen;
        size_t size;

        assert_int_equal(selection_make(s, SERIES_DEFAULT, NULL, &chosen), 0);
        assert_int_equal(render(s, &chosen, FORMAT_TEXT, &text, &size), 0);
        assert_non_null(strstr(text, "\nxsched_up 0\n"));
        assert_null(strstr(text, "xsched_clients"));
        assert_null(strstr(text, "xsched_group_run"));
        selection_done(&chosen);
}

/* Writes an exposition with each kind of metric, for promtool. */
static int write_example(void) {
        Snapshot *s = example();
        char *text = NULL;
        Selection chosen;
        size_t size;

        s->host.known = true;
        if (selection_make(s, SERIES_DEFAULT, NULL, &chosen) < 0 || render(s, &chosen, FORMAT_TEXT, &text, &size) < 0)
                return EXIT_FAILURE;
        (void) fwrite(text, 1, size, stdout);
        free(text);
        selection_done(&chosen);
        snapshot_free(s);
        return EXIT_SUCCESS;
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test(labels),
                cmocka_unit_test(labels_that_are_long),
                cmocka_unit_test(formats),
                cmocka_unit_test(bounds),
                cmocka_unit_test(users_share),
                cmocka_unit_test(others_count_up),
                cmocka_unit_test(twins),
                cmocka_unit_test(hostile_names),
                cmocka_unit_test(expositions),
                cmocka_unit_test(nobody_there),
};

int main(int argc, char *argv[]) {
        if (argc > 1 && streq(argv[1], "--example"))
                return write_example();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
