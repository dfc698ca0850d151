/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-metrics DEVICE: one measurement of one GPU, for xschedd
 *
 * A process of its own, because what it calls blocks, prints, and may crash: see hal/gpu-metrics.h. The answer goes to the standard output that
 * it was started with; what a library prints goes nowhere. --root=DIR has sysfs read below DIR, for tests.
 */

#include <fcntl.h>
#include <stdlib.h>

#include "common/macro.h"
#include "hal/gpu-metrics.h"

/* Our own standard output, out of the reach of others. */
static FILE *take_stdout(void) {
        int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (copy < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                return NULL;
        return fdopen(copy, "w");
}

/* From the maker's library; where it is not known whose the device is, from the one that knows it. */
static int read_library(const char *root, const PciAddress *a, GpuMetrics *m, char source[static 96]) {
        GpuVendor vendor = gpu_metrics_vendor(root, a);
        char of_nvml[96];
        int r = -ENODEV, q;

        if (vendor != GPU_VENDOR_NVIDIA) {
                r = gpu_metrics_read_rocm_smi(a, m, source);
                if (r >= 0 || vendor == GPU_VENDOR_AMD)
                        return r;
        }
        q = gpu_metrics_read_nvml(a, m, of_nvml);
        if (q < 0 && vendor != GPU_VENDOR_NVIDIA)
                return r;
        memcpy(source, of_nvml, sizeof(of_nvml));
        return q;
}

int main(int argc, char *argv[]) {
        const char *root = argc > 2 ? startswith(argv[1], "--root=") : NULL;
        GpuMetrics m = GPU_METRICS_NULL, from_sysfs;
        char library[96], source[128];
        PciAddress a;

        if (argc != (root ? 3 : 2) || pci_address_parse(argv[argc - 1], &a) < 0) {
                fprintf(stderr, "xsched-metrics is started by xschedd\n");
                return EXIT_FAILURE;
        }
        FILE *f = take_stdout();
        if (!f)
                return EXIT_FAILURE;
        int r = read_library(strempty(root), &a, &m, library);
        gpu_metrics_read_sysfs(strempty(root), &a, &from_sysfs);
        gpu_metrics_complete(&m, &from_sysfs);
        (void) snprintf(source, sizeof(source), r < 0 ? "sysfs; %s" : "%s", library);
        gpu_metrics_print(f, &m, source);
        return fclose(f) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
