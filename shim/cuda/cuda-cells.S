/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where each call goes on: cuda_next[]
 *
 * A cell leads to its lazy stub until its function has been looked up: a program that is linked with libcuda calls by
 * symbol, and nobody has asked dlsym() before.
 */

#ifndef __x86_64__
#error "only x86-64 has thunks so far"
#endif

        .text

        .set index, 0

        .macro cell name
        .p2align 4
lazy_\name:
        .cfi_startproc
        endbr64
        pushq   $index
        .cfi_adjust_cfa_offset 8
        jmp     lazy
        .cfi_endproc
        .pushsection .data.rel.cuda_next, "aw"
        .quad   lazy_\name
        .popsection
        .set index, index + 1
        .endm

        .pushsection .data.rel.cuda_next, "aw"
        .p2align 3
        .hidden cuda_next
        .globl  cuda_next
        .type   cuda_next, @object
cuda_next:
        .popsection

#define HOOKED(name)  cell name;
#define COUNTED(name) cell name;
#define HELPER(name)  cell name;
#include "shim/cuda/cuda-entries.h"
        cell dlsym

        .pushsection .data.rel.cuda_next, "aw"
        .size   cuda_next, . - cuda_next
        .popsection

        /* Below us on the stack: the index, then the return address. Arguments in registers are kept. */
        .type   lazy, @function
        .p2align 4
lazy:
        .cfi_startproc
        .cfi_adjust_cfa_offset 8
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        andq    $-16, %rsp
        subq    $192, %rsp
        movq    %rdi, 0(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movq    %rax, 48(%rsp)
        movaps  %xmm0, 64(%rsp)
        movaps  %xmm1, 80(%rsp)
        movaps  %xmm2, 96(%rsp)
        movaps  %xmm3, 112(%rsp)
        movaps  %xmm4, 128(%rsp)
        movaps  %xmm5, 144(%rsp)
        movaps  %xmm6, 160(%rsp)
        movaps  %xmm7, 176(%rsp)
        movq    8(%rbp), %rdi
        call    cuda_find_lazily
        movq    %rax, %r11
        movq    0(%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movq    48(%rsp), %rax
        movaps  64(%rsp), %xmm0
        movaps  80(%rsp), %xmm1
        movaps  96(%rsp), %xmm2
        movaps  112(%rsp), %xmm3
        movaps  128(%rsp), %xmm4
        movaps  144(%rsp), %xmm5
        movaps  160(%rsp), %xmm6
        movaps  176(%rsp), %xmm7
        leave
        .cfi_def_cfa %rsp, 16
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   lazy, . - lazy

        .section .note.GNU-stack, "", @progbits
