/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Channel groups and channels of a context of fake-cuda.c, made as libcuda makes them
 *
 * Only where /dev/nvidiactl can be opened, which is when fake-nvidiactl.c is preloaded. Without it streams work as they
 * like.
 */

#include <stdint.h>

typedef struct FakeChannels {
        uint32_t device; /* 0: none */
        uint32_t compute[4];
        unsigned n_streams;
} FakeChannels;

void fake_channels_start(FakeChannels *c, int gpu);
void fake_channels_end(FakeChannels *c);

/* Of a new stream; 0: none. */
uint32_t fake_channels_next(FakeChannels *c);

/* Returns when the channel has worked for `ns`. */
void fake_channels_run(uint32_t channel, uint64_t ns);
