/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The drivers' counters: files of fdinfo, and KFD's tree
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/gpu-usage.h"
#include "tests/lib/unit.h"

static const PciAddress gpu = {.bus = 0x65};

static void check_fdinfo(const char *text, int expected, uint64_t client, uint64_t ns) {
        uint64_t c = 0, t = 0;

        assert_int_equal(gpu_usage_parse_fdinfo(text, &gpu, &c, &t), expected);
        assert_int_equal(c, client);
        assert_int_equal(t, ns);
}

static void test_fdinfo(void **state) {
        /* The format of the kernel's Documentation/gpu/drm-usage-stats.rst. */
        check_fdinfo("pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t55\ndrm-pdev:\t0000:65:00.0\n"
                     "drm-engine-gfx:\t100 ns\ndrm-engine-compute:\t23 ns\ndrm-engine-capacity-compute:\t4\n"
                     "drm-memory-vram:\t7 KiB\n",
                        1, 55, 123);
        check_fdinfo("drm-client-id:\t55\ndrm-pdev:\t0000:66:00.0\ndrm-engine-gfx:\t100 ns\n", 0, 0, 0);
        check_fdinfo("drm-client-id:\t55\ndrm-pdev:\t0000:65:00.0\n", 0, 0, 0);
        check_fdinfo("drm-pdev:\t0000:65:00.0\ndrm-engine-gfx:\t100 ns\n", 0, 0, 0);
        check_fdinfo("", 0, 0, 0);
        check_fdinfo("pos:\t0\nflags:\t02\n", 0, 0, 0);
        check_fdinfo("drm-client-id:\t1\ndrm-pdev:\t0000:65:00.0\ndrm-engine-gfx:\t9999999999999999999 ns\n"
                     "drm-engine-a:\t9999999999999999999 ns\n",
                        1, 1, UINT64_MAX);
        check_fdinfo("drm-client-id:\t1\ndrm-pdev:\t0000:65:00.0\ndrm-engine-gfx:\t-5 MiB\ndrm-engine-:\t x\n", 0, 0,
                        0);
}

static void put(const char *root, const char *path, const char *text) {
        char full[512];

        (void) snprintf(full, sizeof(full), "%s/%s", root, path);
        for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
                *p = '\0';
                (void) mkdir(full, 0700);
                *p = '/';
        }
        FILE *f = fopen(full, "we");
        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

#define NODE "sys/devices/virtual/kfd/kfd/topology/nodes/0/"

static void test_kfd(void **state) {
        char root[] = "/tmp/test-gpu-usage-XXXXXX", source[96], command[64];
        const pid_t pids[] = {10, 11};
        uint64_t span, ran;
        GpuUsage *u;

        assert_non_null(mkdtemp(root));
        assert_int_equal(gpu_usage_open(root, &gpu, &u, source), -ENODEV);
        put(root, NODE "gpu_id", "777\n");
        put(root, NODE "properties", "simd_count 8\nlocation_id 25856\ndomain 0\n");
        assert_int_equal(gpu_usage_open(root, &gpu, &u, source), 0);
        assert_string_equal(source, "fdinfo, kfd");
        assert_int_equal(gpu_usage_read(u, pids, 2, &span, &ran), -ENODATA);

        /* Points: one in four. */
        put(root, "sys/class/kfd/kfd/proc/10/stats_777/cu_occupancy", "0\n");
        put(root, "sys/class/kfd/kfd/proc/11/stats_777/cu_occupancy", "0\n");
        assert_int_equal(gpu_usage_read(u, pids, 2, &span, &ran), 0);
        assert_int_equal(span, 0);
        gpu_usage_sample(u, pids, 2);
        gpu_usage_sample(u, pids, 2);
        put(root, "sys/class/kfd/kfd/proc/11/stats_777/cu_occupancy", "64\n");
        gpu_usage_sample(u, pids, 2);
        put(root, "sys/class/kfd/kfd/proc/11/stats_777/cu_occupancy", "0\n");
        (void) usleep(2000);
        assert_int_equal(gpu_usage_read(u, pids, 2, &span, &ran), 0);
        assert_true(span >= 2000 && ran >= span / 4 - 2 && ran <= span / 4 + 2);

        /* The kernel's exact counters go first, each client counts once, and never for longer than the time that
         * passed. */
        put(root, "proc/10/fdinfo/3", "drm-client-id:\t5\ndrm-pdev:\t0000:65:00.0\ndrm-engine-compute:\t1000000 ns\n");
        put(root, "proc/10/fdinfo/4", "drm-client-id:\t5\ndrm-pdev:\t0000:65:00.0\ndrm-engine-compute:\t1000000 ns\n");
        (void) usleep(2000);
        assert_int_equal(gpu_usage_read(u, pids, 2, &span, &ran), 0);
        assert_int_equal(ran, 1000);
        put(root, "proc/10/fdinfo/4",
                        "drm-client-id:\t6\ndrm-pdev:\t0000:65:00.0\ndrm-engine-compute:\t900000000000 ns\n");
        assert_int_equal(gpu_usage_read(u, pids, 2, &span, &ran), 0);
        assert_int_equal(ran, span);
        gpu_usage_free(u);
        (void) snprintf(command, sizeof(command), "rm -r %s", root);
        assert_int_equal(system(command), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_fdinfo),
                        cmocka_unit_test(test_kfd),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
