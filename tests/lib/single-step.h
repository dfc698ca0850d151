/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Between these two each instruction of this thread is followed by SIGTRAP, but for those of the signal's handler */

#ifdef __x86_64__

static inline __attribute__((always_inline)) void single_step_begin(void) {
        __asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; add $128, %%rsp" ::: "memory", "cc");
}

static inline __attribute__((always_inline)) void single_step_end(void) {
        __asm__ volatile("sub $128, %%rsp; pushfq; andq $-0x101, (%%rsp); popfq; add $128, %%rsp" ::: "memory", "cc");
}

#endif
