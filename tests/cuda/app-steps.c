/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A signal's handler jumps away at each single instruction of the layer: see app.c
 *
 * The processor traps after each instruction of a call, which gives the list of those that are in the layer. After that
 * the call is made again for each of them, with a breakpoint there. Where the layer has blocked signals no handler
 * would run, so none jumps.
 */

#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "app.h"

#define TRAP_FLAG  0x100
#define BREAKPOINT 0xCC
#define STEPS_MAX  8192U
#define PAGE       4096UL

static uintptr_t begin, end; /* of the layer's code */
static unsigned char *whole; /* a copy of it, which is kept: a thread may still be in the handler */
static pthread_t stepper;
static sigjmp_buf back;

static uintptr_t steps[STEPS_MAX];
static volatile unsigned n_steps;
static volatile bool records;

static unsigned char *volatile at; /* the breakpoint, NULL: there is none */
static unsigned char was;
static volatile unsigned left; /* times until it counts */
static volatile bool jumped;

static int find_layer(struct dl_phdr_info *info, size_t size, void *unused) {
        if (!strstr(info->dlpi_name, "libxsched-cuda"))
                return 0;
        for (unsigned i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_flags & PF_X) {
                        begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                        end = begin + info->dlpi_phdr[i].p_memsz;
                }
        return 1;
}

static bool may_handle(const ucontext_t *c) {
        return sigismember(&c->uc_sigmask, SIGUSR1) == 0;
}

static void record(const ucontext_t *c) {
        uintptr_t ip = (uintptr_t) c->uc_mcontext.gregs[REG_RIP];

        if (ip >= begin && ip < end && may_handle(c) && n_steps < STEPS_MAX)
                steps[n_steps++] = ip;
}

/* At the breakpoint. Another thread that comes there takes it away. */
static void hit(ucontext_t *c) {
        uintptr_t ip = (uintptr_t) --c->uc_mcontext.gregs[REG_RIP];
        unsigned char *code = at;

        if (ip != (uintptr_t) code) { /* it was taken away meanwhile, perhaps just before passed() has put it back */
                if (ip >= begin && ip < end)
                        *(unsigned char *) ip = whole[ip - begin];
                return;
        }
        *code = was;
        if (pthread_equal(pthread_self(), stepper) && (left-- > 0 || !may_handle(c))) {
                c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
                return;
        }
        at = NULL;
        if (!pthread_equal(pthread_self(), stepper))
                return;
        jumped = true;
        siglongjmp(back, 1);
}

/* Behind the breakpoint, whose instruction was made by itself. */
static void passed(ucontext_t *c) {
        unsigned char *code = at;

        c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        if (code)
                *code = BREAKPOINT;
}

static void trapped(int sig, siginfo_t *info, void *interrupted) {
        if (info->si_code == SI_KERNEL)
                hit(interrupted);
        else if (records)
                record(interrupted);
        else
                passed(interrupted);
}

typedef void (*What)(FakeStream s, uint64_t p);

static void record_steps(What what, FakeStream s, uint64_t p) {
        n_steps = 0;
        records = true;
        __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"i"(TRAP_FLAG) : "memory", "cc");
        what(s, p);
        __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" ::"i"(~TRAP_FLAG) : "memory", "cc");
        records = false;
}

static void jump_at(unsigned n, What what, FakeStream s, uint64_t p) {
        unsigned char *code = (unsigned char *) steps[n];

        left = 0;
        for (unsigned i = 0; i < n; i++)
                left += steps[i] == steps[n];
        jumped = false;
        was = *code;
        if (sigsetjmp(back, 1) == 0) {
                at = code;
                *code = BREAKPOINT;
                what(s, p);
        }
        at = NULL;
        *code = was;
}

static void launch_one(FakeStream s, uint64_t p) {
        (void) launch_on(s, p, 1, 0);
}

static void wait_for_it(FakeStream s, uint64_t p) {
        (void) cu.wait(s);
}

static void launch_and_wait(FakeStream s, uint64_t p) {
        (void) launch_on(s, p, 1, 0);
        (void) cu.wait(s);
}

static void launch_badly(FakeStream s, uint64_t p) {
        (void) cu.kernel(NULL, 1, 1, 1, N, 1, 1, 0, s, NULL, NULL);
}

static FakeStream used_stream(uint64_t p) {
        FakeStream s = stream();

        for (int k = 0; k < 5; k++) {
                CHECK(launch_on(s, p, k, 0) == 0);
                if (k == 2)
                        CHECK(cu.wait(s) == 0);
        }
        return s;
}

static unsigned jump_everywhere(What what) {
        static volatile unsigned i, n;
        uint64_t p = memory();
        FakeStream s = used_stream(p);

        n = 0;
        record_steps(what, s, p);
        CHECK(cuStreamDestroy_v2(s) == 0);
        for (i = 0; i < n_steps; i++) {
                s = used_stream(p);
                jump_at(i, what, s, p);
                n += jumped;
                /* From where the jump came: what was left is found here. */
                if (i % 2)
                        CHECK(launch_on(s, p, 1, 0) == 0);
                CHECK(cu.wait(s) == 0);
                CHECK(launch_on(s, p, 2, 0) == 0);
                CHECK(cuStreamDestroy_v2(s) == 0);
        }
        return n;
}

void case_steps(void) {
        static const What whats[] = {launch_one, wait_for_it, launch_and_wait, launch_badly};
        struct sigaction sa = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO}, before;

        (void) dl_iterate_phdr(find_layer, NULL);
        CHECK(begin < end);
        CHECK(mprotect((void *) (begin / PAGE * PAGE), end - begin / PAGE * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) ==
                        0);
        whole = malloc(end - begin);
        CHECK(whole);
        memcpy(whole, (const void *) begin, end - begin);
        CHECK(sigaction(SIGTRAP, &sa, &before) == 0);
        stepper = pthread_self();
        for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
                printf("%u\n", jump_everywhere(whats[i]));
        CHECK(sigaction(SIGTRAP, &before, NULL) == 0);
}
