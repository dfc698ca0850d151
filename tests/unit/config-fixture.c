/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Configuration files in a folder of the test's own
 */

#include <config.h>

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/config-fixture.h"

char *root;
char problems[CONFIG_PROBLEMS_MAX];
unsigned n_problems;

void remember(const ConfProblem *p, void *userdata) {
        size_t n = strlen(problems);
        const char *file = startswith(p->file, root) ?: p->file;

        (void) snprintf(problems + n, sizeof(problems) - n, "%s:%u: %s\n", file, p->line, p->message);
        n_problems++;
}

static void make_parents(char *path) {
        for (char *p = path + 1; (p = strchr(p, '/')); p++) {
                *p = '\0';
                if (mkdir(path, 0700) < 0)
                        assert_int_equal(errno, EEXIST);
                *p = '/';
        }
}

void path_of(char *buf, size_t size, const char *name) {
        assert_true(snprintf(buf, size, "%s%s", root, name) < (int) size);
}

void put(const char *name, const char *text) {
        char path[1024];
        path_of(path, sizeof(path), name);
        make_parents(path);
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

void put_link(const char *name, const char *target) {
        char path[1024];
        path_of(path, sizeof(path), name);
        make_parents(path);
        assert_return_code(symlink(target, path), errno);
}

void take_away(const char *name) {
        char path[1024];
        path_of(path, sizeof(path), name);
        assert_return_code(remove(path), errno);
}

int try_load(const Config *last_good, Config **ret) {
        const ConfigPaths paths = {0};

        problems[0] = '\0';
        n_problems = 0;
        return config_load(&paths, last_good, remember, NULL, ret);
}

Config *load(const Config *last_good) {
        Config *c = NULL;
        assert_int_equal(try_load(last_good, &c), 0);
        assert_int_equal(c->n_problems, n_problems);
        return c;
}

int config_setup(void **state) {
        char template[] = "/tmp/xsched-test-config-XXXXXX";
        if (!mkdtemp(template))
                return -1;
        root = strdup(template);
        return root ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        return remove(path);
}

int config_teardown(void **state) {
        int r = nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(root);
        root = NULL;
        return r;
}

void assert_same_device(const DeviceConfig *a, const DeviceConfig *b) {
        assert_ptr_equal(a->policy, b->policy);
        assert_int_equal(a->params.concurrency, b->params.concurrency);
        assert_int_equal(a->params.timeslice_ns, b->params.timeslice_ns);
        assert_int_equal(a->params.starve_ns, b->params.starve_ns);
        assert_int_equal(a->params.starve_run_ns, b->params.starve_run_ns);
        assert_int_equal(a->params.linger_ns, b->params.linger_ns);
        assert_int_equal(a->params.threshold, b->params.threshold);
        assert_int_equal(a->tuning.budget_us, b->tuning.budget_us);
        assert_int_equal(a->tuning.lead_us, b->tuning.lead_us);
        assert_int_equal(a->tuning.busy_poll_ns, b->tuning.busy_poll_ns);
        assert_int_equal(a->tuning.cpu_latency_ns, b->tuning.cpu_latency_ns);
        assert_int_equal(a->tuning.preemption, b->tuning.preemption);
        assert_int_equal(a->tuning.adaptive, b->tuning.adaptive);
        assert_int_equal(a->tuning.allow_mes, b->tuning.allow_mes);
}

void assert_defaults(const Config *c) {
        DeviceConfig expected = {.policy = policy_all[0],
                        .params = POLICY_CONFIG_DEFAULT,
                        .tuning = {.budget_us = 200, .lead_us = 20, .cpu_latency_ns = NSEC_INFINITY, .adaptive = true}};

        expected.params.threshold = 0;
        assert_same_device(&c->device, &expected);
        assert_int_equal(c->limits.clients_per_user, 4096);
        assert_int_equal(c->limits.queues_per_user, 16384);
        assert_int_equal(c->limits.queues_per_client, 1024);
        assert_int_equal(c->limits.jobs_per_user, 1024);
        assert_int_equal(c->limits.devices_per_user, 128);
        assert_int_equal(c->log_level, LOG_INFO);
        assert_int_equal(c->log_target, LOG_TARGET_AUTO);
}
