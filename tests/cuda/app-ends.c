/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Green and primary contexts that end with launches in flight, or while others have them: see app.c
 */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "include/xsched/xsched.h"

#define PER_THREAD ((FakeStream) (uintptr_t) 2)
#define ROUNDS     6
#define CYCLES     40
#define LAUNCHES   1000
#define DEAD       10000
#define PATIENCE_S 10

/* --- what is in flight when a green context is destroyed --- */

/* Queues that the layer has. */
static unsigned long queues(void) {
        void *library = dlopen("libxsched.so.0", RTLD_LAZY | RTLD_NOLOAD);
        typeof(&xsched_get_counters) get =
                        library ? (typeof(get)) (uintptr_t) dlsym(library, "xsched_get_counters") : NULL;
        XschedCounters n = {.size = sizeof(n)};

        CHECK(get && get(&n) == 0);
        (void) dlclose(library);
        return n.queues;
}

/* The layer finds ends on a thread of its own. */
static unsigned long queues_come_to(unsigned long wanted) {
        time_t until = time(NULL) + PATIENCE_S;

        while (queues() != wanted && time(NULL) < until)
                (void) sched_yield();
        return queues();
}

void wait_at_host(void *userdata) {
        while (sem_wait(userdata) < 0)
                ;
}

static sem_t go_on;

/* Launches that are not begun before let_go(). */
static void launch_behind(FakeStream s, int n) {
        uint64_t p = memory();

        CHECK(cuLaunchHostFunc(s, wait_at_host, &go_on) == 0);
        for (int i = 0; i < n; i++)
                CHECK(launch_on(s, p, i, 0) == 0);
}

static void let_go(int n) {
        for (int i = 0; i < n; i++)
                CHECK(sem_post(&go_on) == 0);
}

/* On three streams, in one green context. */
static struct Context *destroyed_in_flight(int n) {
        struct Context *g = green_new(0);

        use(g);
        launch_behind(green_stream(g), n);
        launch_behind(NULL, n);
        launch_behind(PER_THREAD, n);
        CHECK(cuCtxSetCurrent(context) == 0);
        CHECK(cuGreenCtxDestroy(g) == 0);
        return g;
}

static void print_left(unsigned long events) {
        printf(" %ld %lu\n", (long) fake_cuda_events() - (long) events, fake_cuda_dead_calls());
}

/* Prints how many queues there are while launches are in flight whose green context is destroyed, and another one has
 * got the handles, is destroyed, and when they are complete; then how many events are left, and calls of the dead. */
static void in_flight(int n) {
        unsigned long events = fake_cuda_events();
        struct Context *g = destroyed_in_flight(n), *other = green_new(1);

        CHECK(other == g);
        printf("%lu", queues());
        use_all_streams(other, green_stream(other));
        printf(" %lu", queues());
        CHECK(cuGreenCtxDestroy(other) == 0);
        printf(" %lu", queues_come_to(3));
        let_go(3);
        printf(" %lu", queues_come_to(0));
        print_left(events);
}

static void case_in_flight(void) {
        in_flight(1);
        in_flight(LAUNCHES);
}

/* No event can be made to mark them. */
static void case_in_flight_unmarked(void) {
        fake_cuda_refuse_events(true);
        (void) destroyed_in_flight(1);
        printf("%lu\n", queues_come_to(0));
        fake_cuda_refuse_events(false);
        let_go(3);
        be_reset();
}

/* The primary context is reset, and so ends with what is in flight in it. Prints as above. */
static void case_in_flight_reset(void) {
        for (int round = 0; round < ROUNDS; round++) {
                (void) destroyed_in_flight(LAUNCHES);
                printf("%lu", queues_come_to(3));
                let_go(3);
                be_reset();
                printf(" %lu", queues_come_to(0));
                launch_some(NULL, memory(), 0);
                CHECK(cuCtxSynchronize() == 0);
                be_reset();
                print_left(0);
        }
}

/* The same, but the last user of the primary context ends it, which is another green one. */
static void case_in_flight_last(void) {
        struct Context *same, *last = green_new(0);

        CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0);
        (void) destroyed_in_flight(LAUNCHES);
        printf("%lu", queues());
        let_go(3);
        CHECK(cuGreenCtxDestroy(last) == 0);
        printf(" %lu", queues_come_to(0));
        CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
        print_left(0);
}

/* The primary context is reset whenever it can be, and retained and released, while green contexts of it end. */
static atomic_bool storm_ends;

static void *reset_main(void *userdata) {
        struct Context *same;

        for (int i = 0; !storm_ends; i++) {
                int r = i % 2 ? cuDevicePrimaryCtxReset_v2(1) : cuDevicePrimaryCtxRetain(&same, 1);
                CHECK(r == 0 || r == 800);
        }
        return NULL;
}

static void *storm_main(void *userdata) {
        for (int round = 0; round < CYCLES; round++) {
                struct Context *g = green_new(1);
                FakeStream s = green_stream(g);
                use(g);
                launch_some(round % 3 ? s : NULL, memory(), 50000);
                launch_some(round % 2 ? s : PER_THREAD, memory(), 20000);
                if (round % 4 == 0)
                        CHECK(cu.wait(s) == 0);
                CHECK(cuCtxSetCurrent(context) == 0);
                CHECK(cuGreenCtxDestroy(g) == 0);
        }
        return NULL;
}

/* Prints how many queues are left, and calls of the dead. */
static void case_storm(void) {
        pthread_t t[3], resets;

        CHECK(pthread_create(&resets, NULL, reset_main, NULL) == 0);
        for (int i = 0; i < 3; i++)
                CHECK(pthread_create(&t[i], NULL, storm_main, NULL) == 0);
        for (int i = 0; i < 3; i++)
                CHECK(pthread_join(t[i], NULL) == 0);
        storm_ends = true;
        CHECK(pthread_join(resets, NULL) == 0);
        printf("%lu %lu\n", queues_come_to(0), fake_cuda_dead_calls());
}

/* Launches where a destroyed green context is still current. */
static void case_dead(void) {
        for (int i = 0; i < DEAD; i++) {
                struct Context *g = green_new(0);
                use(g);
                CHECK(cuGreenCtxDestroy(g) == 0);
                CHECK(launch_on(NULL, 0, 1, 0) == 709);
                CHECK(launch_on(PER_THREAD, 0, 1, 0) == 709);
        }
        CHECK(cuCtxSetCurrent(context) == 0);
        launch_some(NULL, memory(), 0);
        CHECK(cuCtxSynchronize() == 0);
}

/* A program's stream has a launch in flight, and its green context is destroyed: see app.c. */
void be_destroyed(FakeStream s, struct Context *g) {
        await_line();
        CHECK(cu.wait(s) == 0);
        launch_behind(s, 1);
        CHECK(cuGreenCtxDestroy(g) == 0);
        puts("destroyed");
        fflush(stdout);
        await_line();
        let_go(1);
        while (getchar() != EOF)
                ;
}

/* --- a primary context that another thread has again before the call that ends it has returned --- */

static void *take_primary(void *userdata) {
        struct Context *same;

        CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
        CHECK(cuCtxSetCurrent(context) == 0);
        launch_behind(NULL, 1);
        launch_behind(stream(), 1);
        return NULL;
}

static void take_primary_over(void) {
        pthread_t t;

        CHECK(pthread_create(&t, NULL, take_primary, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
}

/* Prints how many queues there are before that call, after it, and when what the other thread has launched has ended.
 */
static void taken_over(int (*end)(int device)) {
        for (int round = 0; round < 2; round++) {
                launch_some(NULL, memory(), 0);
                launch_some(PER_THREAD, memory(), 0);
                launch_some(stream(), memory(), 0);
                printf("%lu", queues());
                fake_cuda_on_primary_ended(take_primary_over);
                CHECK(end(0) == 0);
                printf(" %lu", queues_come_to(2));
                let_go(2);
                CHECK(cuCtxSynchronize() == 0);
                be_reset();
                printf(" %lu\n", queues_come_to(0));
        }
}

static void case_reset_taken_over(void) {
        taken_over(cuDevicePrimaryCtxReset_v2);
}

static void case_release_taken_over(void) {
        taken_over(cuDevicePrimaryCtxRelease_v2);
}

static void *reset_main_of(void *userdata) {
        CHECK(cuDevicePrimaryCtxReset_v2(0) == 0);
        return NULL;
}

static void reset_by_another(void) {
        pthread_t t;

        CHECK(pthread_create(&t, NULL, reset_main_of, NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
}

/* It ends before the layer has noted that this thread has got it. */
static int retain(int device) {
        struct Context *same;

        fake_cuda_on_id(reset_by_another);
        return cuDevicePrimaryCtxRetain(&same, device);
}

static void case_retain_taken_over(void) {
        taken_over(retain);
}

/* --- a call that ends a context, and that a handler jumps out of --- */

static sigjmp_buf back;

static void leave(int sig) {
        siglongjmp(back, 1);
}

static void raise_leave(void) {
        (void) raise(SIGUSR1);
}

static void leave_primary(int (*end)(int device)) {
        struct Context *same;

        fake_cuda_on_primary_ended(raise_leave);
        if (sigsetjmp(back, 1) == 0) {
                (void) end(0);
                CHECK(false);
        }
        CHECK(cuDevicePrimaryCtxRetain(&same, 0) == 0 && same == context);
}

static void leave_green(void) {
        struct Context *g = green_new(0);

        launch_behind(green_stream(g), 1);
        fake_cuda_on_green_destroyed(raise_leave);
        if (sigsetjmp(back, 1) == 0) {
                (void) cuGreenCtxDestroy(g);
                CHECK(false);
        }
        let_go(1);
}

/* Prints how many queues such a call leaves, how many there are while launches are in flight whose green context is
 * destroyed, and when they are complete, and calls of the dead. */
static void case_ends_left(void) {
        const struct sigaction leaves = {.sa_handler = leave};
        struct sigaction before;

        CHECK(sigaction(SIGUSR1, &leaves, &before) == 0);
        for (int i = 0; i < 3; i++) {
                launch_some(NULL, memory(), 0);
                launch_some(stream(), memory(), 0);
                if (i == 2)
                        leave_green();
                else
                        leave_primary(i == 0 ? cuDevicePrimaryCtxRelease_v2 : cuDevicePrimaryCtxReset_v2);
                CHECK(cuCtxSynchronize() == 0);
                printf("%lu ", queues_come_to(i == 2 ? 2 : 0));
                be_reset();
                (void) destroyed_in_flight(1);
                printf("%lu", queues_come_to(3));
                let_go(3);
                unsigned long left = queues_come_to(0);
                printf(" %lu %lu\n", left, fake_cuda_dead_calls());
        }
        CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

/* --- a stream that is asked --- */

static sem_t asked, stalled;

static bool wait_for(sem_t *s, long ms) {
        struct timespec until;
        int r;

        CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
        until.tv_sec += (until.tv_nsec + ms * 1000000) / 1000000000;
        until.tv_nsec = (until.tv_nsec + ms * 1000000) % 1000000000;
        while ((r = sem_timedwait(s, &until)) < 0 && errno == EINTR)
                ;
        return r == 0;
}

/* The thread that asks gets no CPU for longer than others wait for it. */
static void stall(void) {
        CHECK(sem_post(&asked) == 0);
        (void) wait_for(&stalled, 1000);
}

/* Prints how many streams were destroyed while another thread asked the driver about them. */
static void case_destroyed_when_asked(void) {
        unsigned long before = fake_cuda_dead_calls();
        FakeStream s = stream();
        uint64_t p = memory();

        CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&stalled, 0, 0) == 0);
        fake_cuda_on_query(stall);
        /* A launch that has an event, as samples have, is asked for by that. */
        for (bool is_asked = false; !is_asked; let_go(1)) {
                launch_some(s, p, 0);
                CHECK(cu.wait(s) == 0);
                launch_behind(s, 1);
                is_asked = wait_for(&asked, 200);
        }
        CHECK(cuStreamDestroy_v2(s) == 0);
        printf("%lu\n", fake_cuda_dead_calls() - before);
}

void case_end_special(const char *name) {
        static const struct {
                const char *name;
                void (*f)(void);
        } special[] = {
                        {"green-in-flight", case_in_flight},
                        {"green-in-flight-unmarked", case_in_flight_unmarked},
                        {"green-in-flight-reset", case_in_flight_reset},
                        {"green-in-flight-last", case_in_flight_last},
                        {"green-storm", case_storm},
                        {"green-dead", case_dead},
                        {"ends-left", case_ends_left},
                        {"destroyed-when-asked", case_destroyed_when_asked},
                        {"reset-taken-over", case_reset_taken_over},
                        {"retain-taken-over", case_retain_taken_over},
                        {"release-taken-over", case_release_taken_over},
        };

        for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
                if (strcmp(name, special[i].name) == 0)
                        special[i].f();
}
