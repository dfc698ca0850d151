/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Messages: the fields that reach the journal, the lines that reach the console, and which of the two is chosen
 *
 * sd_journal_sendv() is wrapped by the linker: what the journal would get is kept here.
 */

#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "service/base/log.h"
#include "service/base/messages.h"

static char sent[32768]; /* "\nFIELD=value\nFIELD=value\n" */
static unsigned n_sent;
static int send_result;

int __wrap_sd_journal_sendv(const struct iovec *iov, int n);
int __wrap_sd_journal_sendv(const struct iovec *iov, int n) {
        size_t used = 0;

        sent[used++] = '\n';
        for (int i = 0; i < n; i++) {
                assert_true(used + iov[i].iov_len + 2 < sizeof(sent));
                memcpy(sent + used, iov[i].iov_base, iov[i].iov_len);
                used += iov[i].iov_len;
                sent[used++] = '\n';
        }
        sent[used] = '\0';
        n_sent++;
        return send_result;
}

static void assert_sent(const char *field) {
        char line[256];
        (void) snprintf(line, sizeof(line), "\n%s\n", field);
        if (!strstr(sent, line))
                fail_msg("No field %s in:%s", field, sent);
}

static void assert_not_sent(const char *name) {
        char start[64];
        (void) snprintf(start, sizeof(start), "\n%s=", name);
        if (strstr(sent, start))
                fail_msg("Field %s in:%s", name, sent);
}

/* stderr is a file for the length of a test. */
static int real_stderr = -EBADF, file = -EBADF;

static int setup(void **state) {
        sent[0] = '\0';
        n_sent = 0;
        send_result = 0;
        (void) unsetenv("JOURNAL_STREAM");
        (void) fflush(stderr);
        real_stderr = dup(STDERR_FILENO);
        file = memfd_create("stderr", MFD_CLOEXEC);
        return real_stderr < 0 || file < 0 || dup2(file, STDERR_FILENO) < 0 ? -1 : 0;
}

static int teardown(void **state) {
        (void) dup2(real_stderr, STDERR_FILENO);
        real_stderr = safe_close(real_stderr);
        file = safe_close(file);
        log_set_max_level(LOG_INFO);
        return 0;
}

static const char *printed(void) {
        static char text[8192];

        (void) fflush(stderr);
        ssize_t n = pread(file, text, sizeof(text) - 1, 0);
        assert_true(n >= 0);
        text[n] = '\0';
        return text;
}

static void connect_stderr_to_journal(void) {
        struct stat st;
        char name[64];

        assert_return_code(fstat(STDERR_FILENO, &st), errno);
        (void) snprintf(name, sizeof(name), "%" PRIu64 ":%" PRIu64, (uint64_t) st.st_dev, (uint64_t) st.st_ino);
        assert_return_code(setenv("JOURNAL_STREAM", name, 1), errno);
}

static void test_fields(void **state) {
        log_set_target(LOG_TARGET_JOURNAL);
        int r = log_event(LOG_NOTICE, MESSAGE_CLIENT_GONE,
                        LOG_FIELDS(.client = 12, .queue = 34, .device = "pci:0000:65:00.0",
                                        .group = "/system.slice/train.service", .pid = 4711, .error = -EIO),
                        "Client %i went: %m", 12);
        assert_int_equal(r, -EIO);
        assert_int_equal(n_sent, 1);
        assert_sent("MESSAGE=Client 12 went: Input/output error");
        assert_sent("PRIORITY=5");
        assert_sent("SYSLOG_FACILITY=3");
        assert_sent("SYSLOG_IDENTIFIER=test-log");
        assert_sent("MESSAGE_ID=" MESSAGE_CLIENT_GONE);
        assert_sent("XSCHED_CLIENT=12");
        assert_sent("XSCHED_QUEUE=34");
        assert_sent("XSCHED_DEVICE=pci:0000:65:00.0");
        assert_sent("XSCHED_GROUP=/system.slice/train.service");
        assert_sent("OBJECT_PID=4711");
        assert_sent("ERRNO=5");
        assert_sent("CODE_FUNC=test_fields");
        assert_non_null(strstr(sent, "test-log.c\n"));
        assert_not_sent("CONFIG_FILE");
        assert_string_equal(printed(), "");
}

static void test_absent_fields_are_not_sent(void **state) {
        log_set_target(LOG_TARGET_JOURNAL);
        log_info("Plain");
        assert_sent("MESSAGE=Plain");
        assert_sent("PRIORITY=6");
        assert_not_sent("MESSAGE_ID");
        assert_not_sent("ERRNO");
        assert_not_sent("XSCHED_CLIENT");
        assert_not_sent("XSCHED_QUEUE");
        assert_not_sent("XSCHED_DEVICE");
        assert_not_sent("XSCHED_GROUP");
        assert_not_sent("OBJECT_PID");
}

/* A field that does not fit is left out whole, and the other fields stay. */
static void test_oversize_field(void **state) {
        char group[4 * PATH_MAX];

        memset(group, 'g', sizeof(group) - 1);
        group[sizeof(group) - 1] = '\0';
        log_set_target(LOG_TARGET_JOURNAL);
        (void) log_event(LOG_INFO, NULL, LOG_FIELDS(.group = group, .pid = 7), "%s", group);
        assert_not_sent("XSCHED_GROUP");
        assert_sent("OBJECT_PID=7");
        assert_non_null(strstr(sent, "\nMESSAGE=ggg"));
}

static void test_change(void **state) {
        const LogCaller root = {.pid = 8, .unit = "a.service", .group = "/system.slice/a.service"};

        log_set_target(LOG_TARGET_JOURNAL);
        (void) log_event(LOG_INFO, NULL, LOG_FIELDS(.caller = &root, .key = "Class", .old = "", .new = "batch"),
                        "changed");
        assert_sent("XSCHED_CALLER_UID=0");
        assert_sent("XSCHED_CALLER_PID=8");
        assert_sent("XSCHED_CALLER_UNIT=a.service");
        assert_sent("XSCHED_CALLER_GROUP=/system.slice/a.service");
        assert_sent("XSCHED_KEY=Class");
        assert_sent("XSCHED_OLD=");
        assert_sent("XSCHED_NEW=batch");

        (void) log_event(LOG_INFO, NULL, LOG_FIELDS(.pid = 1), "no change");
        assert_not_sent("XSCHED_CALLER_UID");
        assert_not_sent("XSCHED_OLD");
}

/* A caller that changes something is named also if its cgroup has a long path. */
static void test_change_with_long_paths(void **state) {
        char path[PATH_MAX];

        memset(path, 'g', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        const LogCaller alice = {.uid = 1000, .pid = 8, .unit = path, .group = path};
        log_set_target(LOG_TARGET_JOURNAL);
        (void) log_event(LOG_INFO, NULL,
                        LOG_FIELDS(.caller = &alice, .group = path, .device = path, .key = "Weight", .old = "1",
                                        .new = "2"),
                        "changed");
        assert_sent("XSCHED_CALLER_UID=1000");
        assert_sent("XSCHED_CALLER_PID=8");
        assert_sent("XSCHED_KEY=Weight");
        assert_sent("XSCHED_OLD=1");
        assert_sent("XSCHED_NEW=2");
}

static void test_levels(void **state) {
        log_set_target(LOG_TARGET_JOURNAL);
        log_set_max_level(LOG_WARNING);
        log_notice("hidden");
        assert_int_equal(log_notice_errno(-EPERM, "hidden"), -EPERM);
        assert_int_equal(n_sent, 0);
        log_warning("seen");
        assert_int_equal(n_sent, 1);
        log_set_max_level(99);
        assert_int_equal(log_get_max_level(), LOG_DEBUG);
        log_debug("seen");
        assert_int_equal(n_sent, 2);
}

static void test_errno_survives(void **state) {
        log_set_target(LOG_TARGET_CONSOLE);
        errno = ENXIO;
        assert_int_equal(log_error_errno(-EPERM, "Failed: %m"), -EPERM);
        assert_int_equal(errno, ENXIO);
        assert_string_equal(printed(), "Failed: Operation not permitted\n");
}

static void test_console(void **state) {
        log_set_target(LOG_TARGET_AUTO);
        assert_int_equal(log_get_target(), LOG_TARGET_CONSOLE);
        log_warning("first\nstill first");
        log_info("second");
        assert_string_equal(printed(), "first still first\nsecond\n");
        assert_int_equal(n_sent, 0);
}

static void test_console_under_systemd(void **state) {
        connect_stderr_to_journal();
        log_set_target(LOG_TARGET_CONSOLE);
        log_warning("one");
        log_error("two");
        assert_string_equal(printed(), "<4>one\n<3>two\n");
        assert_int_equal(n_sent, 0);
}

static void test_auto_under_systemd(void **state) {
        connect_stderr_to_journal();
        log_set_target(LOG_TARGET_AUTO);
        assert_int_equal(log_get_target(), LOG_TARGET_JOURNAL);
        log_warning("one");
        assert_int_equal(n_sent, 1);
        assert_string_equal(printed(), "");

        /* The inherited variable is of another journal stream, and our stderr goes to a file. */
        assert_return_code(setenv("JOURNAL_STREAM", "8:1", 1), errno);
        log_set_target(LOG_TARGET_AUTO);
        assert_int_equal(log_get_target(), LOG_TARGET_CONSOLE);
}

static void test_journal_that_does_not_answer(void **state) {
        log_set_target(LOG_TARGET_JOURNAL);
        send_result = -ENOENT;
        log_warning("not lost");
        assert_int_equal(n_sent, 1);
        assert_string_equal(printed(), "not lost\n");
}

static void test_names(void **state) {
        for (int level = LOG_EMERG; level <= LOG_DEBUG; level++) {
                char digit[2] = {(char) ('0' + level), '\0'};
                assert_int_equal(log_level_from_string(log_level_to_string(level)), level);
                assert_int_equal(log_level_from_string(digit), level);
        }
        assert_int_equal(log_level_from_string("8"), -EINVAL);
        assert_int_equal(log_level_from_string("33"), -EINVAL);
        assert_int_equal(log_level_from_string(""), -EINVAL);
        assert_int_equal(log_level_from_string("warn"), -EINVAL);
        assert_null(log_level_to_string(8));
        assert_null(log_level_to_string(-1));
        for (LogTarget t = 0; t < _LOG_TARGET_MAX; t++)
                assert_int_equal(log_target_from_string(log_target_to_string(t)), t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_fields, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_absent_fields_are_not_sent, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_oversize_field, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_change, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_change_with_long_paths, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_errno_survives, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_console, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_console_under_systemd, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_auto_under_systemd, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_journal_that_does_not_answer, setup, teardown),
                        cmocka_unit_test(test_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
