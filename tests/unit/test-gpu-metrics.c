/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A GPU's metrics: read from a directory in place of sysfs, and written as text
 */

#include <stdio.h>

#include "common/macro.h"
#include "hal/gpu-metrics.h"
#include "tests/lib/scratch-root.h"
#include "tests/lib/unit.h"

#define DEVICE "/sys/bus/pci/devices/0000:65:00.0"

static const PciAddress address = {0, 0x65, 0, 0};

static void addresses(void **state) {
        static const char *const wrong[] = {
                        "", "pci:", "opencl:pocl:0", "pci:0000:65:00", "pci:0000:65:00.0x", "0000:65:00.0"};
        PciAddress a = {1, 2, 3, 4};

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                assert_int_equal(pci_address_parse(wrong[i], &a), -EINVAL);
        assert_int_equal(a.device, 3);
        assert_int_equal(pci_address_parse("pci:0001:c3:1f.7", &a), 0);
        assert_int_equal(a.domain, 1);
        assert_int_equal(a.bus, 0xc3);
        assert_int_equal(a.device, 0x1f);
        assert_int_equal(a.function, 7);
}

static void assert_unknown(const GpuMetrics *m) {
        assert_memory_equal(m, &GPU_METRICS_NULL, sizeof(*m));
}

static void sysfs(void **state) {
        GpuMetrics m;

        gpu_metrics_read_sysfs(scratch_root(), &address, &m);
        assert_unknown(&m);

        scratch_root_put(DEVICE "/gpu_busy_percent", "101\n");
        scratch_root_put(DEVICE "/mem_info_vram_total", "many\n");
        scratch_root_put(DEVICE "/mem_info_vram_used", "-1\n");
        scratch_root_put(DEVICE "/hwmon/hwmon3/temp1_input", "%s", "");
        scratch_root_put(DEVICE "/hwmon/other/temp1_input", "1000\n");
        gpu_metrics_read_sysfs(scratch_root(), &address, &m);
        assert_unknown(&m);

        scratch_root_put(DEVICE "/gpu_busy_percent", "42\n");
        scratch_root_put(DEVICE "/mem_info_vram_total", "17163091968\n");
        scratch_root_put(DEVICE "/mem_info_vram_used", "1234567\n");
        scratch_root_put(DEVICE "/hwmon/hwmon3/temp1_input", "-2500\n");
        scratch_root_put(DEVICE "/hwmon/hwmon3/power1_input", "99000000\n");
        gpu_metrics_read_sysfs(scratch_root(), &address, &m);
        assert_int_equal(m.utilisation, 42);
        assert_int_equal(m.vram_total, 17163091968);
        assert_int_equal(m.vram_used, 1234567);
        assert_int_equal(m.temperature_mc, -2500);
        assert_int_equal(m.power_uw, 99000000);
        scratch_root_put(DEVICE "/hwmon/hwmon3/power1_average", "88000000\n");
        gpu_metrics_read_sysfs(scratch_root(), &address, &m);
        assert_int_equal(m.power_uw, 88000000);
}

/* A partition of a GPU has no address of its own on the bus; a function with an address is a device of its own. */
static void partition(void **state) {
        const PciAddress of_partition = {0, 0x65, 0, 5}, function = {0, 0x65, 0, 1}, nobody = {0, 0x66, 0, 5};
        GpuMetrics m;

        scratch_root_put(DEVICE "/vendor", "0x1002\n");
        scratch_root_put(DEVICE "/gpu_busy_percent", "43\n");
        scratch_root_put("/sys/bus/pci/devices/0000:65:00.1/gpu_busy_percent", "7\n");
        gpu_metrics_read_sysfs(scratch_root(), &of_partition, &m);
        assert_int_equal(m.utilisation, 43);
        assert_int_equal(gpu_metrics_vendor(scratch_root(), &of_partition), GPU_VENDOR_AMD);
        gpu_metrics_read_sysfs(scratch_root(), &function, &m);
        assert_int_equal(m.utilisation, 7);
        gpu_metrics_read_sysfs(scratch_root(), &nobody, &m);
        assert_unknown(&m);
        assert_int_equal(gpu_metrics_vendor(scratch_root(), &nobody), GPU_VENDOR_UNKNOWN);
}

static void completion(void **state) {
        GpuMetrics m = GPU_METRICS_NULL;
        const GpuMetrics other = {
                        .utilisation = 3, .temperature_mc = 4, .vram_total = 5, .vram_used = 6, .power_uw = 7};

        m.utilisation = 1;
        m.vram_used = 1; /* used memory without a total is ignored */
        gpu_metrics_complete(&m, &other);
        assert_int_equal(m.utilisation, 1);
        assert_int_equal(m.temperature_mc, 4);
        assert_int_equal(m.vram_total, 5);
        assert_int_equal(m.vram_used, 6);
        assert_int_equal(m.power_uw, 7);
}

static void written_and_read(void **state) {
        const GpuMetrics all = {
                        .utilisation = 100, .temperature_mc = -1, .vram_total = 1, .vram_used = 0, .power_uw = 2};
        const GpuMetrics samples[] = {all, GPU_METRICS_NULL};

        for (size_t i = 0; i < ELEMENTSOF(samples); i++) {
                const char *source;
                char *text = NULL;
                size_t size = 0;
                GpuMetrics m;

                FILE *f = open_memstream(&text, &size);
                assert_non_null(f);
                gpu_metrics_print(f, samples + i, "sysfs; rocm-smi: not found");
                assert_int_equal(fclose(f), 0);
                assert_int_equal(gpu_metrics_parse(text, &m, &source), 0);
                assert_memory_equal(&m, samples + i, sizeof(m));
                assert_string_equal(source, "sysfs; rocm-smi: not found");
                free(text);
        }
}

/* A broken child may send any bytes. */
static void what_no_child_says(void **state) {
        static const char *const wrong[] = {
                        "",
                        "utilisation=1\n",
                        "source=x\nutilisation=101\n",
                        "source=x\nutilisation\n",
                        "source=x\ntemperature_mc=99999999999\n",
                        "source=x\nvram_used=18446744073709551615\n",
                        "source=x\npower_uw=-1\n",
        };
        const char *source = "untouched";
        GpuMetrics m = GPU_METRICS_NULL;
        char text[128];

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                (void) snprintf(text, sizeof(text), "%s", wrong[i]);
                assert_int_equal(gpu_metrics_parse(text, &m, &source), -EBADMSG);
        }
        assert_string_equal(source, "untouched");
        assert_unknown(&m);
        (void) snprintf(text, sizeof(text), "source=x\nsomething_new=1\n");
        assert_int_equal(gpu_metrics_parse(text, &m, &source), 0);
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test(addresses),
                cmocka_unit_test(sysfs),
                cmocka_unit_test(partition),
                cmocka_unit_test(completion),
                cmocka_unit_test(written_and_read),
                cmocka_unit_test(what_no_child_says),
};

int main(void) {
        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
