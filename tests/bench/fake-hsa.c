/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An HSA runtime that does nothing: libhsa-runtime64.so.1 for bench-doorbell, so that nothing but the layer is counted
 */

#include <stdint.h>

#include "common/macro.h"

void hsa_signal_store_screlease(uint64_t signal, int64_t value);
void hsa_signal_store_relaxed(uint64_t signal, int64_t value);
void hsa_signal_store_release(uint64_t signal, int64_t value);

_public_
void hsa_signal_store_screlease(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}

_public_
void hsa_signal_store_relaxed(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}

_public_
void hsa_signal_store_release(uint64_t signal, int64_t value) {
        __asm__ volatile("");
}
