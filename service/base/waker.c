/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Wakes threads that close files
 */

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"
#include "waker.h"

/* No other part of the service uses this signal. */
#define WAKE_SIGNAL SIGUSR2
#define WAKE_NS     (20L * 1000 * 1000)

#ifndef sigev_notify_thread_id
#        define sigev_notify_thread_id _sigev_un._tid
#endif

static void on_signal(int signal) {
        /* The signal only has to arrive. */
}

/* The handler does nothing, so a thread that gets the signal otherwise is not disturbed. */
static void prepare_signal(void) {
        const struct sigaction a = {.sa_handler = on_signal};

        (void) sigaction(WAKE_SIGNAL, &a, NULL);
}

void waker_init(Waker *w, bool is_aside) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WAKE_SIGNAL};
        sigset_t set;

        (void) pthread_once(&once, prepare_signal);
        e.sigev_notify_thread_id = gettid();
        (void) sigemptyset(&set);
        (void) sigaddset(&set, WAKE_SIGNAL);
        w->is_aside = is_aside;
        w->is_there = timer_create(CLOCK_MONOTONIC, &e, &w->timer) == 0 &&
                        pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0;
}

/* The timer repeats, because the first signal may come before the call that it is to interrupt. */
static void set_timer(const Waker *w, long ns) {
        const struct itimerspec t = {.it_value.tv_nsec = ns, .it_interval.tv_nsec = ns};

        if (w->is_there)
                (void) timer_settime(w->timer, 0, &t, NULL);
}

void waker_close(const Waker *w, int fd) {
        set_timer(w, WAKE_NS);
        /* By the system call itself: sanitizers know one descriptor table only, in which this number is another
         * file's. */
        if (w->is_aside)
                (void) syscall(SYS_close, fd);
        else
                safe_close(fd);
        set_timer(w, 0);
}
