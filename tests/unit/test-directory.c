/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A directory that cannot be read to its end is not taken for a shorter one: each reader says that it failed
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>

#include "common/conf-files.h"
#include "common/directory.h"
#include "hal/kfd-proc.h"
#include "service/enforce/pause-record.h"
#include "tests/lib/scratch-root.h"
#include "tests/lib/unit.h"
#include "tools/host/host-scan.h"

#define PID 4711

/* How many entries are read before the disk fails. */
static unsigned n_good;

/* libc names its parameter otherwise. */
struct dirent *readdir(DIR *d) { /* NOLINT(readability-inconsistent-declaration-parameter-name) */
        static struct dirent *(*next)(DIR *);

        if (n_good == 0) {
                errno = EIO;
                return NULL;
        }
        n_good--;
        if (!next)
                *(void **) &next = dlsym(RTLD_NEXT, sizeof(off_t) == sizeof(long) ? "readdir" : "readdir64");
        return next(d);
}

static unsigned n_reported;

static void count(const ConfProblem *p, void *userdata) {
        n_reported++;
}

static int list_configuration(void) {
        const char *const dirs[] = {scratch_root(), NULL};
        const ConfContext c = {.report = count};
        _cleanup_(conf_files_done)
        ConfFiles files = CONF_FILES_NULL;

        n_reported = 0;
        int r = conf_files_list(dirs, "conf.d", ".conf", &c, &files);
        assert_int_equal(n_reported, r < 0);
        return r;
}

static int nothing(const char *name, void *userdata) {
        return 0;
}

static int list_records(void) {
        int dir = open(scratch_root(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(dir >= 0);
        int r = pause_record_each(dir, nothing, NULL);
        safe_close(dir);
        return r;
}

static int list_processes(void) {
        HostProcesses all = {0};
        int r = host_scan(&all);
        host_processes_done(&all);
        return r;
}

static int list_kfd(void) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n;
        return kfd_proc_list(scratch_root(), &pids, &n);
}

static int list_kfd_queues(void) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues queues = {};
        return kfd_proc_read_queues(scratch_root(), PID, &queues);
}

static int list_kfd_usage(void) {
        _cleanup_free_ KfdProcUsage *usage = NULL;
        size_t n;
        return kfd_proc_read_usage(scratch_root(), PID, &usage, &n);
}

static void test_every_reader(void **state) {
        static int (*const readers[])(void) = {
                        list_configuration, list_records, list_processes, list_kfd, list_kfd_queues, list_kfd_usage};

        scratch_root_put("/conf.d/a.conf", "[Scheduler]\n");
        scratch_root_put(KFD_PROC_PATH "/4711/queues/0/gpuid", "1");
        for (size_t i = 0; i < ELEMENTSOF(readers); i++) {
                n_good = UINT_MAX;
                assert_true(readers[i]() >= 0);
                for (unsigned n = 0; n < 3; n++) {
                        n_good = n;
                        assert_int_equal(readers[i](), -EIO);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_reader)};

        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
