/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The picture of the record: it shows the recorded times, whatever the names
 */

#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "tests/lib/unit.h"
#include "tools/xschedctl/plot-svg.h"
#include "tools/xschedctl/plot.h"

#define SEC UINT64_C(1000000)

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void set_names(PlotRecord *r, const char *const *names, size_t n) {
        r->groups = calloc(n + 1, sizeof(char *));
        r->groups[0] = strdup("");
        for (size_t i = 0; i < n; i++)
                r->groups[i + 1] = strdup(names[i]);
        r->n_groups = n + 1;
}

static void add(PlotRecord *r, const char *device, uint64_t begin, uint64_t end, size_t group,
                const uint64_t us[static _PLOT_TIME_MAX]) {
        PlotSample s = {.begin_us = begin, .end_us = end, .group = group};

        memcpy(s.us, us, sizeof(s.us));
        assert_int_equal(plot_record_device(r, device, &s.device), 0);
        assert_int_equal(plot_record_add(r, &s), 0);
}

#define TIMES(...) ((const uint64_t[_PLOT_TIME_MAX]){__VA_ARGS__})

/* Records two groups for ten seconds; the second group only in the first half. */
static void fill(PlotRecord *r) {
        static const char *const names[] = {"/online", "/batch"};

        set_names(r, names, ELEMENTSOF(names));
        for (uint64_t t = 0; t < 10; t++) {
                uint64_t batch = t < 5 ? SEC / 4 : 0;

                add(r, "gpu", t * SEC, (t + 1) * SEC, PLOT_NO_GROUP,
                                TIMES([PLOT_BUSY] = SEC / 2 + batch, [PLOT_DEVICE_KEPT] = SEC / 8));
                add(r, "gpu", t * SEC, (t + 1) * SEC, 1, TIMES([PLOT_RUN] = SEC / 2));
                if (batch > 0)
                        add(r, "gpu", t * SEC, (t + 1) * SEC, 2,
                                        TIMES([PLOT_RUN] = batch, [PLOT_WAIT] = 3 * SEC / 4, [PLOT_DRAIN] = SEC / 4,
                                                        [PLOT_SERVICE] = SEC / 8));
        }
        r->until_us = 10 * SEC;
}

static void test_bins(void **state) {
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        fill(&r);
        assert_int_equal(plot_make(&r, 0, 10 * SEC, 10, NULL, &p), 0);
        assert_int_equal(p.n_devices, 1);
        assert_int_equal(p.n_named, 2);
        assert_string_equal(p.named[0], "/online");
        assert_string_equal(p.named[1], "/batch");
        for (size_t i = 0; i < 10; i++) {
                const PlotCell *c = p.devices[0].bins + i;
                assert_near(c->run[0], 0.5);
                assert_near(c->run[1], i < 5 ? 0.25 : 0);
                assert_near(c->kept, 0.125);
                assert_near(c->waits[PLOT_WAIT_POLICY], i < 5 ? 0.375 : 0);
                assert_near(c->waits[PLOT_WAIT_DRAIN], i < 5 ? 0.25 : 0);
                assert_near(c->waits[PLOT_WAIT_SERVICE], i < 5 ? 0.125 : 0);
        }
        assert_near(p.devices[0].mean.run[1], 0.125);
        assert_near(plot_cell_run(&p.devices[0].mean), 0.625);
}

/* The sums are the same for any width of bins. */
static void test_bins_of_any_width(void **state) {
        _cleanup_(plot_record_done)
        PlotRecord r = {};

        fill(&r);
        for (size_t n = 1; n < 60; n++) {
                _cleanup_(plot_done)
                Plot p = {};
                double sum = 0;

                assert_int_equal(plot_make(&r, 0, 10 * SEC, n, NULL, &p), 0);
                for (size_t i = 0; i < n; i++)
                        sum += plot_cell_run(p.devices[0].bins + i) / (double) n;
                assert_near(sum, 0.625);
                assert_near(p.devices[0].mean.waits[PLOT_WAIT_DRAIN], 0.125);
        }
}

/* A frame that reaches over both ends of the window counts with its part inside. */
static void test_window(void **state) {
        static const char *const names[] = {"/a", "/b"};
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        set_names(&r, names, ELEMENTSOF(names));
        add(&r, "gpu", 0, 100 * SEC, 1, TIMES([PLOT_RUN] = 50 * SEC));
        add(&r, "gpu", 0, 40 * SEC, 2, TIMES([PLOT_RUN] = 40 * SEC));
        add(&r, "gpu", 60 * SEC, 90 * SEC, 2, TIMES([PLOT_RUN] = 30 * SEC));
        assert_int_equal(plot_make(&r, 40 * SEC, 60 * SEC, 20, NULL, &p), 0);
        assert_int_equal(p.n_named, 1);
        for (size_t i = 0; i < 20; i++)
                assert_near(plot_cell_run(p.devices[0].bins + i), 0.5);
}

/* Two groups at once share the time; a sum above the whole counts as the whole. */
static void test_several_at_once(void **state) {
        static const char *const names[] = {"/a", "/b"};
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        set_names(&r, names, ELEMENTSOF(names));
        add(&r, "gpu", 0, SEC, PLOT_NO_GROUP, TIMES([PLOT_BUSY] = SEC / 2, [PLOT_DEVICE_KEPT] = SEC));
        add(&r, "gpu", 0, SEC, 1, TIMES([PLOT_RUN] = SEC / 2));
        add(&r, "gpu", 0, SEC, 2, TIMES([PLOT_RUN] = SEC / 2));
        assert_int_equal(plot_make(&r, 0, SEC, 1, NULL, &p), 0);
        assert_near(p.devices[0].bins[0].run[0], 0.25);
        assert_near(p.devices[0].bins[0].run[1], 0.25);
        assert_near(p.devices[0].bins[0].kept, 0.5);
}

static void test_many_groups(void **state) {
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};
        char texts[200][16];
        const char *names[200];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                snprintf(texts[i], sizeof(texts[i]), "/g%zu", i);
                names[i] = texts[i];
        }
        set_names(&r, names, ELEMENTSOF(names));
        add(&r, "gpu", 0, SEC, 0, TIMES([PLOT_RUN] = SEC / 2)); /* the others are never named, however much they ran */
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                add(&r, i % 2 ? "gpu" : "other", 0, SEC, i + 1, TIMES([PLOT_RUN] = 1000 + i));
        assert_int_equal(plot_make(&r, 0, SEC, 4, NULL, &p), 0);
        assert_int_equal(p.n_devices, 2);
        assert_int_equal(p.n_named, PLOT_NAMED_MAX);
        assert_string_equal(p.named[0], "/g199");
        assert_true(p.devices[0].mean.run[PLOT_NAMED_MAX] > 0.5);
        plot_done(&p);
        assert_int_equal(plot_make(&r, 0, SEC, 4, "other", &p), 0);
        assert_int_equal(p.n_devices, 1);
        assert_string_equal(p.named[0], "/g198");
        plot_done(&p);
        assert_int_equal(plot_make(&r, 0, SEC, 4, "none", &p), 0);
        assert_int_equal(p.n_devices, 0);
}

/* Rows that another kind of service might send. */
static void test_nonsense(void **state) {
        static const char *const names[] = {"/a"};
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        set_names(&r, names, ELEMENTSOF(names));
        add(&r, "gpu", SEC, SEC, 1, TIMES([PLOT_RUN] = SEC));
        add(&r, "gpu", 2 * SEC, SEC, 1, TIMES([PLOT_RUN] = SEC));
        add(&r, "gpu", 0, SEC, 7, TIMES([PLOT_RUN] = SEC));
        add(&r, "gpu", 0, SEC, 1, TIMES([PLOT_RUN] = UINT64_MAX, [PLOT_DRAIN] = UINT64_MAX));
        assert_int_equal(plot_make(&r, SEC, SEC, 4, NULL, &p), -EINVAL);
        assert_int_equal(plot_make(&r, 0, SEC, 0, NULL, &p), -EINVAL);
        assert_int_equal(plot_make(&r, 0, 3 * SEC, 3, NULL, &p), 0);
        assert_near(p.devices[0].bins[0].run[0], 1);
        assert_near(plot_cell_run(p.devices[0].bins + 1), 0);
        assert_near(p.devices[0].bins[0].waits[PLOT_WAIT_DRAIN], 0);
}

/* --- SVG --- */

static char *svg(const Plot *p) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        assert_int_equal(plot_print_svg(p, f), 0);
        assert_int_equal(fclose(f), 0);
        return text;
}

static size_t count(const char *text, const char *what) {
        size_t n = 0;

        for (; (text = strstr(text, what)); text += strlen(what))
                n++;
        return n;
}

static void test_svg(void **state) {
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        fill(&r);
        assert_int_equal(plot_make(&r, 0, 10 * SEC, 10, NULL, &p), 0);
        p.realtime_us = 1700000000 * (int64_t) SEC;
        _cleanup_free_ char *text = svg(&p);
        assert_non_null(strstr(text, "2023-11-14 22:13:20"));
        assert_int_equal(count(text, "class=\"a\""), 6); /* two groups, kept, three kinds of waiting */
        /* The group that ran half of the time throughout is a rectangle half as high as the whole. The other group is
         * drawn on top of it. */
        assert_non_null(strstr(text, "fill=\"#0072b2\" d=\"M48 65H648M48 130")
                                        ?: strstr(text, "d=\"M48 65H648H648V130H48Z\""));
        assert_non_null(strstr(text, "fill=\"#e69f00\" d=\"M48 32.5H348V65H648"));
        assert_non_null(strstr(text, ">50% /online<"));
        assert_non_null(strstr(text, ">12.5% /batch<"));
        assert_null(strstr(text, "http://www.w3.org/1999")); /* no links */
        assert_null(strstr(text, "@import"));
        assert_in_range(strlen(text), 1000, 12000);
}

static void test_svg_of_nothing(void **state) {
        Plot p = {.end_us = SEC, .n_bins = 1};
        _cleanup_free_ char *text = svg(&p);

        assert_non_null(strstr(text, "nothing was recorded"));
        assert_true(endswith(text, "</svg>\n"));
}

/* The SVG file is small, however long the record is. */
static void test_svg_size(void **state) {
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};
        char texts[20][16];
        const char *names[20];
        unsigned seed = 1;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                snprintf(texts[i], sizeof(texts[i]), "/g%zu", i);
                names[i] = texts[i];
        }
        set_names(&r, names, ELEMENTSOF(names));
        for (uint64_t t = 0; t < 900; t++)
                for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                        seed = seed * 1103515245 + 12345;
                        add(&r, "gpu", t * SEC, (t + 1) * SEC, i + 1,
                                        TIMES([PLOT_RUN] = seed % (SEC / 20), [PLOT_WAIT] = seed % SEC));
                }
        assert_int_equal(plot_make(&r, 0, 900 * SEC, 180, NULL, &p), 0);
        _cleanup_free_ char *text = svg(&p);
        assert_in_range(strlen(text), 10000, 60000);
}

static void test_hostile_names(void **state) {
        static const char *const names[] = {
                        "</text><script>alert(1)</script>",
                        "\" onload='x' & ]]> &amp; <!--",
                        "\x01\x1b[31m\x7f\xc2\x9b bell\a",
                        "\xff\xfe\xc0\xaf\xed\xa0\x80\xf5\x80\x80\x80 broken \xe2\x82",
                        "\xe2\x80\xae gpj.exe \xef\xbf\xbf",
                        ("/system.slice/\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"
                         "-and-a-name-that-is-much-too-long-to-stand-in-the-legend.service"),
        };
        _cleanup_(plot_record_done)
        PlotRecord r = {};
        _cleanup_(plot_done)
        Plot p = {};

        set_names(&r, names, ELEMENTSOF(names));
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                add(&r, "gpu", 0, SEC, i + 1, TIMES([PLOT_RUN] = SEC / 10));
        assert_int_equal(plot_make(&r, 0, SEC, 1, NULL, &p), 0);
        p.devices[0].name = "<&>\"'\x02";
        _cleanup_free_ char *text = svg(&p);
        assert_null(strstr(text, "<script"));
        assert_null(strstr(text, "<!--"));
        assert_null(strstr(text, "onload='"));
        assert_null(strstr(text, "&amp;"));
        assert_null(strstr(text, "\xe2\x80\xae"));
        assert_null(strstr(text, "\xef\xbf\xbf"));
        assert_null(strstr(text, "\xed\xa0"));
        for (const char *c = text; *c; c++)
                assert_true((unsigned char) *c >= 0x20 || *c == '\n');
        assert_int_equal(mbstowcs(NULL, text, 0) == (size_t) -1, false);
        assert_non_null(strstr(text, "&#60;/text&#62;"));
        assert_non_null(strstr(text, "\xe2\x80\xa6")); /* the long one is shortened where it is seen, */
        assert_non_null(strstr(text,
                        "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"
                        "-and-a-name-that-is-much-too-long-to-stand-in-the-legend"));

        /* The file for the caller's parser. */
        const char *file = getenv("PLOT_SVG");
        FILE *f = file ? fopen(file, "w") : NULL;
        if (f) {
                fputs(text, f);
                assert_int_equal(fclose(f), 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_bins),
                        cmocka_unit_test(test_bins_of_any_width),
                        cmocka_unit_test(test_window),
                        cmocka_unit_test(test_several_at_once),
                        cmocka_unit_test(test_many_groups),
                        cmocka_unit_test(test_nonsense),
                        cmocka_unit_test(test_svg),
                        cmocka_unit_test(test_svg_of_nothing),
                        cmocka_unit_test(test_svg_size),
                        cmocka_unit_test(test_hostile_names),
        };

        (void) setenv("TZ", "UTC", 1);
        (void) setlocale(LC_ALL, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
