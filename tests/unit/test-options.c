/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The command line of xschedd
 *
 * Argument: the source of the manual page.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/macro.h"
#include "service/settings/options.h"

static char out[8192], err[8192];
static const char *manual;

static void take_output(int fd, int real, int to, char *buf, size_t size) {
        ssize_t n = pread(fd, buf, size - 1, 0);
        buf[n > 0 ? n : 0] = '\0';
        (void) dup2(real, to);
        safe_close(real);
        safe_close(fd);
}

/* Parses "xschedd ARG..."; its output is in `out` and `err`. */
static int parse(Options *o, const char *a, const char *b) {
        char *argv[] = {(char *) "xschedd", (char *) a, (char *) b, NULL};
        int out_fd = memfd_create("out", MFD_CLOEXEC), err_fd = memfd_create("err", MFD_CLOEXEC);

        (void) fflush(stdout);
        int real_out = dup(STDOUT_FILENO), real_err = dup(STDERR_FILENO);
        assert_true(dup2(out_fd, STDOUT_FILENO) >= 0 && dup2(err_fd, STDERR_FILENO) >= 0);
        int r = options_parse(1 + !!a + !!b, argv, o);
        (void) fflush(stdout);
        (void) fflush(stderr);
        take_output(out_fd, real_out, STDOUT_FILENO, out, sizeof(out));
        take_output(err_fd, real_err, STDERR_FILENO, err, sizeof(err));
        return r;
}

static unsigned lines(const char *s) {
        unsigned n = 0;
        for (; *s; s++)
                n += *s == '\n';
        return n;
}

static void test_defaults(void **state) {
        Options o;

        assert_int_equal(parse(&o, NULL, NULL), 1);
        assert_int_equal(o.bus, BUS_SYSTEM);
        assert_string_equal(o.socket, "/run/xschedd-client/socket");
        assert_int_equal(parse(&o, "--socket=", NULL), 1);
        assert_null(o.socket);
        assert_int_equal(parse(&o, "--bus-address=x", NULL), 1);
        assert_null(o.socket);
        assert_int_equal(parse(&o, "--socket=/x", "--bus-address=x"), 1);
        assert_string_equal(o.socket, "/x");
        assert_int_equal(parse(&o, NULL, NULL), 1);
        assert_null(o.config_file);
        assert_null(o.classes_dir);
        assert_int_equal(o.log_level, -1);
        assert_int_equal(o.log_target, -1);
        assert_string_equal(out, "");
        assert_string_equal(err, "");
}

static void test_values(void **state) {
        Options o;

        assert_int_equal(parse(&o, "--config=/a/b", "--session"), 1);
        assert_string_equal(o.config_file, "/a/b");
        assert_int_equal(o.bus, BUS_SESSION);
        assert_int_equal(parse(&o, "--bus-address=unix:path=/x", "--log-level=debug"), 1);
        assert_int_equal(o.bus, BUS_ADDRESS);
        assert_string_equal(o.bus_address, "unix:path=/x");
        assert_int_equal(o.log_level, LOG_DEBUG);
        assert_int_equal(parse(&o, "--bus-address=unix:path=/x", "--system"), 1);
        assert_int_equal(o.bus, BUS_SYSTEM); /* the last counts */
        assert_int_equal(parse(&o, "--log-target=console", "--classes-dir=/c"), 1);
        assert_int_equal(o.log_target, LOG_TARGET_CONSOLE);
        assert_string_equal(o.classes_dir, "/c");

        assert_return_code(setenv("XSCHED_CLASSES_DIR", "/e", 1), errno);
        assert_int_equal(parse(&o, NULL, NULL), 1);
        assert_string_equal(o.classes_dir, "/e");
        assert_int_equal(parse(&o, "--classes-dir=/c", NULL), 1);
        assert_string_equal(o.classes_dir, "/c");
        assert_return_code(unsetenv("XSCHED_CLASSES_DIR"), errno);
}

static void test_said(void **state) {
        Options o;

        assert_int_equal(parse(&o, "--help", "--nonsense-after-it-is-not-looked-at"), 0);
        assert_non_null(strstr(out, "--bus-address=ADDR"));
        assert_string_equal(err, "");
        assert_int_equal(parse(&o, "--version", NULL), 0);
        assert_non_null(startswith(out, "xschedd "));
        assert_int_equal(lines(out), 1);
}

/* One line on stderr, nothing on stdout, and the options untouched. */
static void test_refused(void **state) {
        static const char *const bad[] = {"--nonsense", "--config", "--log-level=loud", "--log-target=printer", "-x",
                        "argument", "--help=yes"};

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                Options o = {.log_level = 77};
                assert_int_equal(parse(&o, bad[i], NULL), -EINVAL);
                assert_string_equal(out, "");
                assert_int_equal(lines(err), 1);
                assert_int_equal(o.log_level, 77);
        }
}

/* The next "--name" at or after s, without the dashes; NULL when there is none. */
static const char *next_option(const char *s, char *name, size_t size) {
        s = strstr(s, "--");
        if (!s)
                return NULL;
        size_t n = strspn(s + 2, "abcdefghijklmnopqrstuvwxyz-");
        assert_true(n > 0 && n < size);
        memcpy(name, s + 2, n);
        name[n] = '\0';
        return s + 2 + n;
}

static void test_manual_page(void **state) {
        _cleanup_free_ char *page = NULL;
        char name[64], expected[128];
        size_t room = 0;
        unsigned n_help = 0, n_page = 0;
        Options o;

        FILE *f = fopen(manual, "re");
        assert_non_null(f);
        assert_true(getdelim(&page, &room, '\0', f) > 0); /* no NUL in it, so all of it */
        (void) fclose(f);

        char *options = strstr(page, "\n# OPTIONS\n"), *end = options ? strstr(options + 1, "\n# ") : NULL;
        if (!end) {
                fail_msg("The manual page has no section OPTIONS");
                return;
        }
        *end = '\0';

        assert_int_equal(parse(&o, "--help", NULL), 0);
        for (const char *s = out; (s = next_option(s, name, sizeof(name))); n_help++) {
                (void) snprintf(expected, sizeof(expected), "*--%s*", name);
                if (!strstr(options, expected))
                        fail_msg("--%s is in --help and not in the manual page", name);
        }
        for (char *line = strtok(options, "\n"); line; line = strtok(NULL, "\n"))
                for (const char *s = line[0] == '*' ? line : ""; (s = next_option(s, name, sizeof(name))); n_page++) {
                        (void) snprintf(expected, sizeof(expected), "--%s", name);
                        if (!strstr(out, expected))
                                fail_msg("--%s is in the manual page and not in --help", name);
                }
        assert_true(n_help >= 9);
        assert_int_equal(n_help, n_page);
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_defaults),
                        cmocka_unit_test(test_values),
                        cmocka_unit_test(test_said),
                        cmocka_unit_test(test_refused),
                        cmocka_unit_test(test_manual_page),
        };
        if (argc != 2)
                return EXIT_FAILURE;
        manual = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
