/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Crowds
 */

#include <sys/socket.h>
#include <time.h>
#include <utlist.h>

#include "crowd.h"
#include "user.h"

/* CROWD_LONG_NS is ten times what such a call takes. A call may also seem long because the service lost the CPU: after
 * one long call the user's next calls are measured by CPU time. An interrupt counts there, too, so one long call proves
 * nothing, and the mean of two decides. */
#define CROWD_LONG_NS     (50 * NSEC_PER_USEC)
#define CROWD_LONG_MAX_NS (160 * NSEC_PER_USEC)
#define CROWD_MEAN_WEIGHT 4
#define CROWD_SUSPECTED   32U

/* A user may use a hundredth of a CPU in long calls, and 5 ms at once. */
#define CROWD_COST     UINT64_C(100)
#define CROWD_ROOM_NS  (500 * NSEC_PER_MSEC)
#define CROWD_DEBT_MAX (600 * NSEC_PER_SEC)

static uint64_t cpu_ns(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

bool crowd_begin(Crowd *t, Client *c) {
        uint64_t now = now_ns();

        if (unlikely(!bucket_has_credit(c->user->budgets + USER_SLOW, now, CROWD_ROOM_NS)))
                return false;
        *t = (Crowd){
                        .client = c,
                        .start = now,
                        .cpu_start = c->user->n_suspected > 0 ? cpu_ns() : 0,
        };
        return true;
}

/* Adds a long call. Returns the time that is charged to the user; 0 while the client may not be the cause. */
static uint64_t user_owes(User *u, uint64_t took) {
        u->call_ns += MIN(took, CROWD_LONG_MAX_NS) / CROWD_MEAN_WEIGHT;
        u->call_ns -= MIN(u->call_ns / CROWD_MEAN_WEIGHT, u->call_ns);
        if (took > CROWD_LONG_NS) {
                u->n_suspected = CROWD_SUSPECTED;
                u->owed_ns += took;
        } else if (--u->n_suspected == 0)
                u->owed_ns = 0;
        return u->call_ns > CROWD_LONG_NS ? TAKE_GENERIC(u->owed_ns, 0) : 0;
}

void crowd_end(Crowd *t) {
        Client *c = t->client;
        Bucket *b = c->user->budgets + USER_SLOW;
        uint64_t now = now_ns();

        if (t->cpu_start == 0) {
                if (unlikely(now - t->start > CROWD_LONG_NS))
                        c->user->n_suspected = CROWD_SUSPECTED;
                return;
        }
        uint64_t due = user_owes(c->user, cpu_ns() - t->cpu_start);
        if (due == 0)
                return;
        bucket_take(b, now, MIN(due * CROWD_COST, CROWD_DEBT_MAX));
        if (c->condemned || bucket_has_credit(b, now, CROWD_ROOM_NS))
                return;
        c->condemned = true;
        LL_PREPEND2(c->manager->condemned, c, condemned_next);
}

bool crowd_is_in_debt(Manager *m, uid_t uid) {
        const User *u = user_find(m, uid);

        return u && !bucket_has_credit(u->budgets + USER_SLOW, now_ns(), CROWD_ROOM_NS);
}

void crowd_forget(Client *c) {
        if (!c->condemned)
                return;
        c->condemned = false;
        LL_DELETE2(c->manager->condemned, c, condemned_next);
}

void client_notify(Client *c) {
        static const char look = 'l';
        Crowd t;

        if (!crowd_begin(&t, c))
                return;
        (void) send(c->lifeline, &look, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        crowd_end(&t);
}
