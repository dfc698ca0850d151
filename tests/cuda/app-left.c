/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches that are left before the driver has made them, and launches within launches: see app.c
 */

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "app.h"

#define ROUNDS 24

/* The address sanitizer takes the frames of a thread that has ended within calls for frames of the next thing on that
 * stack, and the thread sanitizer adds clean-ups to the layer's way to the unwinder. Nor does that let a handler call
 * what allocates memory, as a launch does. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define THREADS_END 0
#else
#        define THREADS_END 8
#endif
#ifdef __SANITIZE_THREAD__
#        define HANDLERS_LAUNCH false
#else
#        define HANDLERS_LAUNCH true
#endif

unsigned long n_left;

static sigjmp_buf back;
static _Thread_local void (*in_launch)(void);
static FakeStream inner_stream;
static uint64_t inner_numbers;

/* Called in the driver. */
static void on_launch(void) {
        void (*f)(void) = in_launch;

        in_launch = NULL;
        if (f)
                f();
}

static void leave(int sig) {
        siglongjmp(back, 1);
}

static void raise_leave(void) {
        n_left++;
        (void) raise(SIGUSR1);
}

static void launch_within(int sig) {
        CHECK(launch_on(inner_stream, inner_numbers, 5, 0) == 0);
}

static void raise_launch(void) {
        if (HANDLERS_LAUNCH)
                (void) raise(SIGUSR2);
        else
                launch_within(0);
}

static void end_by_cancellation(void) {
        n_left++;
        CHECK(pthread_cancel(pthread_self()) == 0);
        pthread_testcancel();
}

static void end_by_exit(void) {
        n_left++;
        pthread_exit(NULL);
}

/* Every third launch is left. */
static void launch_and_leave(FakeStream s, uint64_t p) {
        static volatile int i;

        i = 0;
        (void) sigsetjmp(back, 1);
        while (i < ROUNDS) {
                int k = i++;
                in_launch = k % 3 == 2 ? raise_leave : NULL;
                CHECK(launch_on(s, p, k, k % 8 == 0 ? 200000 : 0) == 0);
        }
        in_launch = NULL;
}

void leave_one(FakeStream s, uint64_t p) {
        struct sigaction leaves = {.sa_handler = leave}, before;

        fake_cuda_on_launch(on_launch);
        CHECK(sigaction(SIGUSR1, &leaves, &before) == 0);
        if (sigsetjmp(back, 1) == 0) {
                in_launch = raise_leave;
                (void) launch_on(s, p, 1, 0);
        }
        CHECK(n_left == 1);
        CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

void await_line(void) {
        while (getchar() != '\n')
                ;
}

/* A launch is left while it waits at the gate; another one is made. */
void leave_the_gate(FakeStream s, uint64_t p) {
        struct sigaction sa = {.sa_handler = leave};

        await_line();
        CHECK(cu.wait(s) == 0);
        CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
        puts("waits");
        fflush(stdout);
        await_line();
        if (sigsetjmp(back, 1) == 0)
                (void) launch_on(s, p, 1, 0);
        puts("jumped");
        fflush(stdout);
        await_line();
        CHECK(launch_on(s, p, 1, 0) == 0);
        CHECK(cu.wait(s) == 0);
        puts("done");
        fflush(stdout);
        while (getchar() != EOF)
                ;
}

/* --- jumps out of the layer, right behind a lock that it has taken --- */

static void use_all(FakeStream s) {
        uint64_t p = memory();
        unsigned expected = 0;

        for (int i = 0; i < 12; i++) {
                CHECK(launch_on(s, p, i, 0) == 0);
                expected = expected * 3 + (unsigned) i;
                if (i % 4 == 3)
                        CHECK(cu.wait(s) == 0);
        }
        capture_and_run(s, p, 4);
        CHECK(cu.wait(s) == 0);
        CHECK(*(unsigned *) (uintptr_t) p == expected * 3 + 4);
        CHECK(cuCtxSynchronize() == 0);
}

static void *use_all_main(void *userdata) {
        CHECK(cuCtxSetCurrent(context) == 0);
        use_all(userdata);
        FakeStream s = stream();
        use_all(s);
        CHECK(cuStreamDestroy_v2(s) == 0);
        return NULL;
}

/* A handler jumps behind the n-th lock. After that everything works, on this thread and on another one, with the stream
 * that the jump came from and with others. Returns false when there were fewer locks. */
static bool jump_behind(unsigned (*jump_at_lock)(unsigned n), unsigned n) {
        static FakeStream s;
        pthread_t t;

        s = stream();
        jump_at_lock(n);
        if (sigsetjmp(back, 1) == 0) {
                use_all(s);
                FakeStream other = stream();
                use_all(other);
                CHECK(cuStreamDestroy_v2(other) == 0);
        }
        bool jumped = jump_at_lock(0) == 0;
        end_capture(s);
        use_all(s); /* from where the jump came: what was left is found there */
        use_all_main(s);
        CHECK(pthread_create(&t, NULL, use_all_main, s) == 0);
        CHECK(pthread_join(t, NULL) == 0);
        use_all_main(s);
        CHECK(cuStreamDestroy_v2(s) == 0);
        return jumped;
}

void case_locks(void) {
        struct sigaction leaves = {.sa_handler = leave}, before;
        unsigned (*jump_at_lock)(unsigned n) = (unsigned (*)(unsigned))(uintptr_t) dlsym(RTLD_DEFAULT, "jump_at_lock");
        unsigned n = 0;

        CHECK(jump_at_lock);
        CHECK(sigaction(SIGUSR1, &leaves, &before) == 0);
        while (jump_behind(jump_at_lock, n + 1))
                n++;
        CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
        printf("%u\n", n);
}

/* A handler launches while the thread launches. */
static void launch_within_launches(FakeStream s, uint64_t p) {
        inner_stream = s;
        inner_numbers = p;
        for (int i = 0; i < ROUNDS; i++) {
                in_launch = i % 3 == 2 ? raise_launch : NULL;
                CHECK(launch_on(s, p, i, i % 8 == 0 ? 200000 : 0) == 0);
        }
}

/* A launch is no point of cancellation, also when it is the first of the process. */
static void *cancelled_main(void *userdata) {
        bool *made = userdata;

        CHECK(cuCtxSetCurrent(context) == 0);
        FakeStream s = stream();
        uint64_t p = memory();
        CHECK(pthread_cancel(pthread_self()) == 0);
        *made = launch_on(s, p, 1, 0) == 0;
        CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
        return NULL;
}

void case_cancelled(void) {
        bool made = false;
        pthread_t t;

        CHECK(pthread_create(&t, NULL, cancelled_main, &made) == 0);
        CHECK(pthread_join(t, NULL) == 0);
        printf("cancelled made %d\n", made);
}

typedef struct Ending {
        FakeStream s;
        uint64_t p;
        void (*how)(void);
} Ending;

static void *ending_main(void *userdata) {
        const Ending *e = userdata;

        CHECK(cuCtxSetCurrent(context) == 0);
        for (int i = 0; i < 5; i++)
                CHECK(launch_on(e->s, e->p, i, 0) == 0);
        in_launch = e->how;
        CHECK(launch_on(e->s, e->p, 1, 0) == 0);
        return (void *) 1; /* not reached */
}

static void end_threads(FakeStream s, uint64_t p) {
        void (*const how[])(void) = {end_by_cancellation, end_by_exit};

        for (int i = 0; i < THREADS_END; i++) {
                Ending e = {s, p, how[i % 2]};
                pthread_t t;
                void *r;
                CHECK(pthread_create(&t, NULL, ending_main, &e) == 0);
                CHECK(pthread_join(t, &r) == 0);
                CHECK(r == (i % 2 ? NULL : PTHREAD_CANCELED));
        }
}

void case_left(void) {
        struct sigaction leaves = {.sa_handler = leave}, launches = {.sa_handler = launch_within}, before[2];
        stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, stack_before;
        FakeStream s = stream();
        uint64_t p = memory();

        fake_cuda_on_launch(on_launch);
        CHECK(sigaction(SIGUSR1, &leaves, &before[0]) == 0);
        CHECK(sigaction(SIGUSR2, &launches, &before[1]) == 0);
        launch_and_leave(s, p);
        printf("left %08x\n", sum(p, s));
        launch_within_launches(s, p);
        printf("within %08x\n", sum(p, s));
        CHECK(sigaltstack(&stack, &stack_before) == 0);
        launches.sa_flags = SA_ONSTACK;
        CHECK(sigaction(SIGUSR2, &launches, NULL) == 0);
        launch_within_launches(s, p);
        printf("within, on another stack %08x\n", sum(p, s));
        CHECK(sigaltstack(&stack_before, NULL) == 0);
        end_threads(s, p);
        printf("ended %08x\n", sum(p, s));
        CHECK(sigaction(SIGUSR1, &before[0], NULL) == 0);
        CHECK(sigaction(SIGUSR2, &before[1], NULL) == 0);
        fake_cuda_on_launch(NULL);
        free(stack.ss_sp);
}
