/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any text as a file of /proc/PID/fdinfo
 */

#include "hal/gpu-usage.h"
#include "tests/fuzz/fuzz-settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const PciAddress a = {.bus = 0x65};
        uint64_t client = 7, ns = 7;
        _cleanup_free_ char *text = malloc(size + 1);

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        int r = gpu_usage_parse_fdinfo(text, &a, &client, &ns);
        require(r == 0 || r == 1);
        require(r == 1 || (client == 7 && ns == 7));
        require(r == 0 || (strstr(text, "drm-pdev:") && strstr(text, "drm-engine-") && strstr(text, "drm-client-id:")));
        return 0;
}
