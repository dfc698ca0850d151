/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For bench-cuda-launch.py: launches tiny kernels by libcuda's own functions
 *
 * Reads "finish N" and "pipelined N", and answers with the nanoseconds that N launches took, waited for one by one or
 * all together. "bystander N" launches each 20 ms until the input ends. At the end the results are checked, and the
 * layer's count of launches, if it is loaded: "counted".
 */

#include <inttypes.h>
#include <poll.h>

#include "common/time-util.h"
#include "tools/demo/cuda-driver.h"

#define BYSTANDER_MS 20

static CudaMemory memory;
static const uint32_t first = 0; /* is copied later */
static uint32_t expected;

static void launch(void) {
        cuda_scale(memory, 1, 3, 1);
        expected = 3 * expected + 1;
}

static uint64_t turn(bool pipelined, unsigned n) {
        uint64_t start = now_ns();

        for (unsigned i = 0; i < n; i++) {
                launch();
                if (!pipelined)
                        CUDA_CHECK(cuda.wait(cuda_stream));
        }
        CUDA_CHECK(cuda.wait(cuda_stream));
        return now_ns() - start;
}

static void stand_by(void) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

        do
                (void) turn(false, 1);
        while (poll(&input, 1, BYSTANDER_MS) == 0);
}

int main(void) {
        char line[64];
        uint32_t got;
        unsigned n;

        cuda_open();
        memory = cuda_put(&first, 1);
        (void) turn(true, 100);
        puts(cuda_device_name);
        (void) fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                if (startswith(line, "bystander"))
                        stand_by();
                else if (sscanf(line, "finish %u", &n) == 1)
                        printf("%" PRIu64 "\n", turn(false, n));
                else if (sscanf(line, "pipelined %u", &n) == 1)
                        printf("%" PRIu64 "\n", turn(true, n));
                (void) fflush(stdout);
        }
        cuda_get(&got, memory, 1);
        if (got != expected)
                cuda_die("the result is %u, not %u", got, expected);
        if (cuda_n_seen() >= 0 && cuda_n_seen() != (int64_t) cuda_n_launches)
                cuda_die("of %" PRIu64 " launches the layer has seen %" PRId64, cuda_n_launches, cuda_n_seen());
        return 0;
}
