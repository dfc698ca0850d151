/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Counting thunks, and dlsym()
 *
 * A thunk changes no register with an argument, and leaves the stack as it is: whatever the arguments are, the function
 * behind it finds them, and its caller sees no frame of ours.
 */

        .text

        .set index, 0

        .macro skipped
        .set index, index + 1
        .endm

        .macro counted name
        .globl  \name
        .type   \name, @function
        .hidden cuda_hook_\name
        .globl  cuda_hook_\name
        .type   cuda_hook_\name, @function
        .p2align 4
\name:
cuda_hook_\name:
        .cfi_startproc
        endbr64
        lock incq cuda_counts + 8 * index(%rip)
        jmp     *cuda_next + 8 * index(%rip)
        .cfi_endproc
        .size   \name, . - \name
        .size   cuda_hook_\name, . - cuda_hook_\name
        .set index, index + 1
        .endm

#define HOOKED(name)  skipped;
#define COUNTED(name) counted name;
#define HELPER(name)  skipped;
#include "shim/cuda/cuda-entries.h"

        /* In front of functions that are not in the list: cuda-unknown.c gives them out. 32 bytes each. The last ones
         * are for what begins a capture. */
        .set index_of_dlsym, index
        .hidden cuda_unknown_thunks
        .globl  cuda_unknown_thunks
        .type   cuda_unknown_thunks, @function
        .p2align 5
cuda_unknown_thunks:
        .set unknown, 0
        .rept 16
        .p2align 5
        .cfi_startproc
        endbr64
        lock incq cuda_unknown_counts + 8 * unknown(%rip)
        jmp     *cuda_unknown_next + 8 * unknown(%rip)
        .cfi_endproc
        .set unknown, unknown + 1
        .endr
        .rept 4
        .p2align 5
        .cfi_startproc
        endbr64
        call    mark_tails
        lock incl cuda_n_captures(%rip)
        lock incq cuda_unknown_counts + 8 * unknown(%rip)
        jmp     *cuda_unknown_next + 8 * unknown(%rip)
        .cfi_endproc
        .set unknown, unknown + 1
        .endr
        .p2align 5
        .size   cuda_unknown_thunks, . - cuda_unknown_thunks

        /* Calls cuda_track_mark_tails() unless there is a capture, and keeps all registers that can hold arguments. */
        .type   mark_tails, @function
        .p2align 4
mark_tails:
        .cfi_startproc
        cmpl    $0, cuda_n_captures(%rip)
        jne     1f
        .irp    register, rax, rdi, rsi, rdx, rcx, r8, r9, r10
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .endr
        subq    $128, %rsp
        .cfi_adjust_cfa_offset 128
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        movups  %xmm\n, 16 * \n(%rsp)
        .endr
        call    cuda_track_mark_tails
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        movups  16 * \n(%rsp), %xmm\n
        .endr
        addq    $128, %rsp
        .cfi_adjust_cfa_offset -128
        .irp    register, r10, r9, r8, rcx, rdx, rsi, rdi, rax
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .endr
1:      ret
        .cfi_endproc
        .size   mark_tails, . - mark_tails

        /* Who asks by RTLD_NEXT (-1), or by RTLD_DEFAULT (0) for what is not libcuda's, is known by his return
         * address, so he gets the next one, which is in the last cell. By RTLD_DEFAULT for what is libcuda's, too, if
         * we do not find it. */
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        cmpq    $-1, %rdi
        je      1f
        testq   %rdi, %rdi
        jne     2f
        cmpb    $'c', (%rsi)
        jne     1f
        cmpb    $'u', 1(%rsi)
        jne     1f
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        movq    %rsi, %rdi
        movq    8(%rsp), %rsi
        call    cuda_dlsym_default
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        xorl    %edi, %edi
        testb   %dl, %dl
        je      1f
        ret
2:      jmp     cuda_dlsym
1:      jmp     *cuda_next + 8 * index_of_dlsym(%rip)
        .cfi_endproc
        .size   dlsym, . - dlsym

        .section .note.GNU-stack, "", @progbits
