/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Configuration files: every problem is named by file and line and costs that line only, and which files count
 */

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/conf-files.h"
#include "common/conf-parser.h"
#include "common/conf-types.h"
#include "common/time-util.h"
#include "shim/core/unit-section.h"

typedef struct Thing {
        int number;
        uint32_t count;
        uint64_t span;
        uint32_t usec;
        bool flag;
        char text[16], long_text[4096];
        uint64_t set;
} Thing;

static const Thing thing_defaults = {.number = -7, .count = 3, .span = NSEC_PER_SEC, .usec = 250, .text = "default"};

static const ConfItem thing_items[] = {
                CONF_ITEM("Number", conf_type_int, Thing, number, -10, 10),
                CONF_ITEM("Count", conf_type_uint, Thing, count, 1, 100),
                CONF_ITEM("Span", conf_type_nsec, Thing, span, NSEC_PER_USEC, 60 * NSEC_PER_SEC),
                CONF_ITEM("USec", conf_type_usec, Thing, usec, 0, NSEC_PER_SEC),
                CONF_ITEM("Flag", conf_type_bool, Thing, flag, 0, 0),
                CONF_ITEM("Text", conf_type_string, Thing, text, 0, 0),
                CONF_ITEM("LongText", conf_type_string, Thing, long_text, 0, 0),
};

typedef struct World {
        Thing plain, argued;
        char argument[128];
        unsigned n_opened;
        const Thing *last_good;

        char log[8192];
        unsigned n_problems;
} World;

static int open_plain(const char *argument, void *userdata, ConfTarget *ret) {
        World *w = userdata;

        assert_null(argument);
        w->n_opened++;
        *ret = (ConfTarget){.data = &w->plain,
                        .defaults = &thing_defaults,
                        .last_good = w->last_good,
                        .set = &w->plain.set,
                        .last_good_set = w->last_good ? w->last_good->set : 0};
        return 0;
}

static int open_argued(const char *argument, void *userdata, ConfTarget *ret) {
        World *w = userdata;

        if (streq(argument, "bad"))
                return -EINVAL;
        (void) snprintf(w->argument, sizeof(w->argument), "%s", argument);
        *ret = (ConfTarget){.data = &w->argued, .defaults = &thing_defaults};
        return 0;
}

static const ConfSection sections[] = {
                {.name = "Plain", .items = thing_items, .n_items = ELEMENTSOF(thing_items), .open = open_plain},
                {.name = "Argued",
                                .takes_argument = true,
                                .items = thing_items,
                                .n_items = ELEMENTSOF(thing_items),
                                .open = open_argued},
};

static void remember(const ConfProblem *p, void *userdata) {
        World *w = userdata;
        size_t n = strlen(w->log);

        (void) snprintf(w->log + n, sizeof(w->log) - n, "%c %s:%u %s\n", p->severity == CONF_ERROR ? 'E' : 'W', p->file,
                        p->line, p->message);
        w->n_problems++;
        assert_true(p->severity == CONF_ERROR ? p->error < 0 : p->error == 0);
}

static World world_new(void) {
        return (World){.plain = thing_defaults, .argued = thing_defaults};
}

static ConfContext context_of(World *w) {
        return (ConfContext){.sections = sections,
                        .n_sections = ELEMENTSOF(sections),
                        .userdata = w,
                        .report = remember,
                        .report_userdata = w};
}

static void parse_n(World *w, const char *text, size_t n) {
        ConfContext c = context_of(w);
        assert_int_equal(conf_parse_buffer(&c, "f", text, n), 0);
}

static void parse(World *w, const char *text) {
        parse_n(w, text, strlen(text));
}

static void test_values(void **state) {
        World w = world_new();

        parse(&w,
                        "\xef\xbb\xbf# comment\n"
                        "; another\r\n"
                        "\n"
                        "[Plain]\n"
                        "Number=-10\n"
                        "  Count = 100 \r\n"
                        "\tSpan=\t1.5ms ; a comment\n"
                        "USec=3us\n"
                        "Flag=yes\n"
                        "Text=a = b; c\n"
                        "[X-Other]\n"
                        "Whatever=1\n"
                        "[Argued   some:thing [0-9]]\n"
                        "Count=9\n"
                        "X-Mine=1");
        assert_string_equal(w.log, "");
        assert_int_equal(w.plain.number, -10);
        assert_int_equal(w.plain.count, 100);
        assert_int_equal(w.plain.span, 1500 * NSEC_PER_USEC);
        assert_int_equal(w.plain.usec, 3);
        assert_true(w.plain.flag);
        assert_string_equal(w.plain.text, "a = b; c");
        assert_int_equal(w.plain.set, 0x3f);
        assert_int_equal(w.argued.count, 9);
        assert_string_equal(w.argument, "some:thing [0-9]");
}

static void test_long_section(void **state) {
        World w = world_new();

        parse(&w, "[Argued 0123456789012345678901234567890123456789012345678901234567890123456789]\nCount=9\n");
        assert_string_equal(w.log, "");
        assert_string_equal(w.argument, "0123456789012345678901234567890123456789012345678901234567890123456789");
        assert_int_equal(w.argued.count, 9);
}

static void test_problems_have_lines(void **state) {
        World w = world_new();

        parse(&w,
                        "Count=1\n"                   /* 1 */
                        "[Plain]\n"                   /* 2 */
                        "Count=nine\n"                /* 3 */
                        "Count=101\n"                 /* 4 */
                        "Span=5parsecs\n"             /* 5 */
                        "Span=2h\n"                   /* 6 */
                        "USec=1ns\n"                  /* 7 */
                        "Flag=perhaps\n"              /* 8 */
                        "Text=much too long to fit\n" /* 9 */
                        "Text=\x1b[31m\n"             /* 10 */
                        "Colour=red\n"                /* 11 */
                        "count=5\n"                   /* 12 */
                        "just words\n"                /* 13 */
                        "Key ; comment = 1\n"         /* 14 */
                        "Count=5\n"                   /* 15 */
                        "[Nowhere]\n"                 /* 16 */
                        "Count=6\n"                   /* 17 */
                        "[Plain\n"                    /* 18 */
                        "Count=7\n"                   /* 19 */
                        "[Argued bad]\n"              /* 20 */
                        "Count=8\n"                   /* 21 */
                        "[Argued]\n"                  /* 22 */
                        "[PlainX]\n"                  /* 23 */
                        "[Plain]\n"                   /* 24 */
                        "Number=\n"                   /* 25: not a problem */
                        "Count: 5=5\n");              /* 26 */
        assert_string_equal(w.log,
                        "E f:1 Count= stands before any section, ignored\n"
                        "E f:3 Count=nine is not a whole number, 0 or greater, ignored\n"
                        "E f:4 Count=101 is out of range (1 to 100), ignored\n"
                        "E f:5 Span=5parsecs is not a time span (\"250us\", \"5ms\", \"1min 30s\"), ignored\n"
                        "E f:6 Span=2h is out of range (1us to 1min), ignored\n"
                        "E f:7 USec=1ns is not a time span in whole microseconds (\"250us\", \"1ms\"), ignored\n"
                        "E f:8 Flag=perhaps is not a boolean (yes or no), ignored\n"
                        "E f:9 Text=much too long to fit is not printable UTF-8 text that fits, ignored\n"
                        "E f:10 Text=\x1b[31m is not printable UTF-8 text that fits, ignored\n"
                        "W f:11 Unknown key Colour= in section [Plain], ignored\n"
                        "W f:12 Unknown key count= in section [Plain], ignored\n"
                        "E f:13 Not a Key=value line, ignored\n"
                        "E f:14 Not a Key=value line, ignored\n"
                        "W f:16 Unknown section [Nowhere], ignored\n"
                        "E f:18 Section header without ']', section ignored\n"
                        "E f:20 Invalid section [Argued bad], ignored: Invalid argument\n"
                        "W f:22 Unknown section [Argued], ignored\n"
                        "W f:23 Unknown section [PlainX], ignored\n"
                        "E f:26 Not a Key=value line, ignored\n");
        assert_int_equal(w.plain.count, 5);
        assert_int_equal(w.plain.span, thing_defaults.span);
        assert_string_equal(w.plain.text, "default");
        assert_int_equal(w.argued.count, thing_defaults.count);
}

static void test_long_and_binary_lines(void **state) {
        World w = world_new();
        char text[8192];
        int n = snprintf(text, sizeof(text),
                        "[Plain]\nText=%0*d\nLongText=%0*d\nCount=4\nCount=5%c\nNumber=%*d\nText=end", 1500, 0, 4095, 7,
                        '\0', 1500, 1);

        parse_n(&w, text, (size_t) n);
        assert_int_equal(w.n_problems, 2);
        assert_non_null(strstr(w.log, "E f:2 Text=0000"));
        assert_non_null(strstr(w.log, "E f:5 Line with a NUL byte, ignored"));
        assert_int_equal(strlen(w.plain.long_text), 4095);
        assert_int_equal(w.plain.long_text[4094], '7');
        assert_int_equal(w.plain.count, 4);
        assert_int_equal(w.plain.number, 1);
        assert_string_equal(w.plain.text, "end"); /* no newline at the end of the file */
}

/* As in systemd.syntax(7). Problems are reported where the line begins. */
static void test_continuation(void **state) {
        World w = world_new();

        parse(&w,
                        "[Plain]\n"           /* 1 */
                        "# no comment \\\n"   /* 2: goes on */
                        "Count=\\\r\n"        /* 3 */
                        "; in between\n"      /* 4 */
                        "  # and again \\\n"  /* 5 */
                        "\t9\r\n"             /* 6 */
                        "Text=a\\\n"          /* 7 */
                        "b\\\n"               /* 8 */
                        "c\n"                 /* 9 */
                        "LongText=back\\\\\n" /* 10: the backslash is escaped */
                        "Number=\\\n"         /* 11 */
                        "\n"                  /* 12: ends it */
                        "Flag=yes\n"          /* 13 */
                        "Span=\\\n"           /* 14 */
                        "5\\\n"               /* 15 */
                        "parsecs\n"           /* 16 */
                        "Span=5ms\\ \n"       /* 17: does not end in it */
                        "[Argued \\\n"        /* 18 */
                        "x]\n"                /* 19 */
                        "Count=8 ; a \\\n"    /* 20 */
                        "comment\n"           /* 21 */
                        "Number=3\\");        /* 22 */
        assert_string_equal(w.log,
                        "E f:14 Span=5 parsecs is not a time span (\"250us\", \"5ms\", \"1min 30s\"), ignored\n"
                        "E f:17 Span=5ms\\ is not a time span (\"250us\", \"5ms\", \"1min 30s\"), ignored\n");
        assert_int_equal(w.plain.count, 9);
        assert_string_equal(w.plain.text, "a b c");
        assert_string_equal(w.plain.long_text, "back\\\\");
        assert_int_equal(w.plain.number, -7);
        assert_true(w.plain.flag);
        assert_string_equal(w.argument, "x");
        assert_int_equal(w.argued.count, 8);
        assert_int_equal(w.argued.number, 3);
}

/* What libxsched reads of a user's unit has the same syntax. */
static void test_unit_section(void **state) {
        char text[2048];
        UnitSection s;

        (void) snprintf(text, sizeof(text),
                        "[Service]\nExecStart=a \\\n[X-XSched]\nWeight=1\n"
                        "[X-XSched]\nWeight=\\\n# why\n  %*d\nPriority = 3 \\\n\nNo\nMax=5%%\\",
                        1500, 20);
        unit_section_init(&s, text);
        assert_string_equal(unit_section_next(&s), "Weight=20");
        assert_string_equal(unit_section_next(&s), "Priority=3");
        assert_string_equal(unit_section_next(&s), "Max=5%");
        assert_null(unit_section_next(&s));
}

static void test_empty_resets(void **state) {
        World w = world_new();

        parse(&w, "[Plain]\nCount=50\nText=other\nNumber=1\nCount=\nText =\n");
        assert_string_equal(w.log, "");
        assert_int_equal(w.plain.count, thing_defaults.count);
        assert_string_equal(w.plain.text, "default");
        assert_int_equal(w.plain.number, 1);
        assert_int_equal(w.plain.set, 1);
}

static void test_last_good(void **state) {
        World before = world_new(), w = world_new();

        parse(&before, "[Plain]\nCount=50\nNumber=5\n");
        w.last_good = &before.plain;
        parse(&w,
                        "[Plain]\n"
                        "Count=40\n"
                        "Count=oops\n" /* in force: 50, not what another file said a moment ago */
                        "Number=oops\n"
                        "Number=6\n" /* corrected further down */
                        "Flag=oops\n"
                        "Text=oops oops oops oops\n");
        assert_int_equal(w.n_problems, 4);
        assert_int_equal(w.plain.count, 50);
        assert_int_equal(w.plain.number, 6);
        assert_false(w.plain.flag);
        assert_string_equal(w.plain.text, "default"); /* was never given: nothing to keep */
        assert_int_equal(w.plain.set, 3);
}

/* --- files --- */

static char *directory;

static void path_of(char *buf, size_t size, const char *name) {
        (void) snprintf(buf, size, "%s/%s", directory, name);
}

static void make_dir(const char *name) {
        char path[512];
        path_of(path, sizeof(path), name);
        assert_return_code(mkdir(path, 0700), errno);
}

static void write_file(const char *name, const char *text) {
        char path[512];
        path_of(path, sizeof(path), name);
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void make_link(const char *target, const char *name) {
        char path[512];
        path_of(path, sizeof(path), name);
        assert_return_code(symlink(target, path), errno);
}

static int setup(void **state) {
        char template[] = "/tmp/xsched-test-conf-XXXXXX";
        if (!mkdtemp(template))
                return -1;
        directory = strdup(template);
        return directory ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        return remove(path);
}

static int teardown(void **state) {
        int r = nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(directory);
        return r;
}

/* The paths found, without the directory, in one line. */
static int list(World *w, char *buf, size_t size) {
        _cleanup_(conf_files_done)
        ConfFiles files = CONF_FILES_NULL;
        ConfContext c = context_of(w);
        char etc[512], run[512], usr[512];
        const char *const dirs[] = {etc, run, usr, NULL};

        path_of(etc, sizeof(etc), "etc");
        path_of(run, sizeof(run), "run");
        path_of(usr, sizeof(usr), "usr");
        int r = conf_files_list(dirs, "d", ".conf", &c, &files);
        buf[0] = '\0';
        for (size_t i = 0; i < files.n; i++) {
                size_t n = strlen(buf);
                (void) snprintf(buf + n, size - n, "%s%s", i > 0 ? " " : "", files.paths[i] + strlen(directory) + 1);
        }
        return r;
}

static void test_files(void **state) {
        World w = world_new();
        char found[1024];

        assert_int_equal(list(&w, found, sizeof(found)), 0); /* no directory is no files */
        assert_string_equal(found, "");

        make_dir("etc");
        make_dir("etc/d");
        make_dir("run");
        make_dir("run/d");
        make_dir("usr");
        make_dir("usr/d");
        write_file("usr/d/50-b.conf", "x");
        write_file("usr/d/10-a.conf", "x");
        write_file("usr/d/90-masked.conf", "x");
        write_file("usr/d/91-emptied.conf", "x");
        write_file("usr/d/60-c.conf", "x");
        write_file("run/d/50-b.conf", "x");
        write_file("run/d/60-c.conf", "x");
        write_file("etc/d/60-c.conf", "x");
        write_file("etc/d/20-d.conf", "x");
        write_file("etc/d/.hidden.conf", "x");
        write_file("etc/d/20-d.conf.bak", "x");
        write_file("etc/d/.conf", "x");
        make_link("/dev/null", "etc/d/90-masked.conf");
        write_file("run/d/91-emptied.conf", "");

        assert_int_equal(list(&w, found, sizeof(found)), 0);
        assert_string_equal(found, "usr/d/10-a.conf etc/d/20-d.conf run/d/50-b.conf etc/d/60-c.conf");
        assert_string_equal(w.log, "");
}

static void test_files_that_cannot_be_read(void **state) {
        World w = world_new();
        char found[1024], fifo[512], other[512];

        make_dir("etc");
        make_dir("etc/d");
        write_file("etc/d/50-good.conf", "x");
        /* One after the other: the order in which a directory lists them is its own. */
        make_dir("etc/d/40-dir.conf");
        assert_int_equal(list(&w, found, sizeof(found)), -EISDIR);
        path_of(other, sizeof(other), "etc/d/40-dir.conf");
        assert_return_code(remove(other), errno);
        make_link("nowhere", "etc/d/30-dangling.conf");
        assert_int_equal(list(&w, found, sizeof(found)), -ENOLINK);
        assert_non_null(strstr(w.log,
                        "etc/d/30-dangling.conf:0 Not read, as it is a link to nowhere, where there is no file\n"));
        path_of(other, sizeof(other), "etc/d/30-dangling.conf");
        assert_return_code(remove(other), errno);
        path_of(fifo, sizeof(fifo), "etc/d/20-fifo.conf");
        assert_return_code(mkfifo(fifo, 0600), errno);
        assert_int_equal(list(&w, found, sizeof(found)), -EBADF);
        assert_int_equal(w.n_problems, 3);

        /* Nor can what is in the place of a directory; what is wrong with the one above is heard of elsewhere. */
        make_dir("run");
        make_link("nowhere", "run/d");
        write_file("usr", "");
        assert_true(list(&w, found, sizeof(found)) < 0);
        assert_string_equal(found, "etc/d/50-good.conf");
        assert_int_equal(w.n_problems, 5);
        make_dir("etc/d/40-dir.conf");
        make_link("nowhere", "etc/d/30-dangling.conf");
        assert_true(list(&w, found, sizeof(found)) < 0);
        assert_string_equal(found, "etc/d/50-good.conf");
        assert_int_equal(w.n_problems, 9);

        /* The other end of the FIFO is never opened: must not hang. */
        ConfContext c = context_of(&w);
        assert_int_equal(conf_parse_file(&c, fifo), -EBADF);
        path_of(fifo, sizeof(fifo), "etc");
        assert_int_equal(conf_parse_file(&c, fifo), -EISDIR);
        path_of(fifo, sizeof(fifo), "run/d");
        assert_int_equal(conf_parse_file(&c, fifo), -ENOLINK);
        path_of(fifo, sizeof(fifo), "run/d/none");
        assert_int_equal(conf_parse_file(&c, fifo), -ENOLINK);
        path_of(fifo, sizeof(fifo), "none/none");
        unsigned before = w.n_problems;
        assert_int_equal(conf_parse_file(&c, fifo), -ENOENT);
        assert_int_equal(w.n_problems, before);
}

static void test_parse_file(void **state) {
        World w = world_new();
        char path[512];

        write_file("f.conf", "[Plain]\nCount=17\nBad\n");
        path_of(path, sizeof(path), "f.conf");
        ConfContext c = context_of(&w);
        assert_int_equal(conf_parse_file(&c, path), 0);
        assert_int_equal(w.plain.count, 17);
        assert_non_null(strstr(w.log, path));
        assert_non_null(strstr(w.log, ":3 "));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_values),
                        cmocka_unit_test(test_long_section),
                        cmocka_unit_test(test_problems_have_lines),
                        cmocka_unit_test(test_long_and_binary_lines),
                        cmocka_unit_test(test_continuation),
                        cmocka_unit_test(test_unit_section),
                        cmocka_unit_test(test_empty_resets),
                        cmocka_unit_test(test_last_good),
                        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_files_that_cannot_be_read, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_parse_file, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
