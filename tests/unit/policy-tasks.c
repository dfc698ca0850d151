/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Pieces of work under a policy; see policy-tasks.h.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-tasks.h"

Task *tasks_add(Tasks *s, uint64_t arrive_ns, uint64_t work_ns, PolicySettings settings) {
        Task *t = &s->t[s->n++];

        assert_true(s->n <= TASKS_MAX);
        *t = (Task){.arrive_ns = arrive_ns, .work_ns = work_ns, .settings = settings, .next_ns = NSEC_INFINITY};
        return t;
}

static void tasks_begin(Tasks *s) {
        s->begin_ns = s->h->now_ns;
        memset(s->line, '.', sizeof(s->line));
        s->line[0][TIMELINE_MAX] = s->line[1][TIMELINE_MAX] = 0;
        for (size_t i = 0; i < s->n; i++) {
                s->t[i].job = harness_add_below(s->h, s->t[i].node, s->t[i].settings);
                s->t[i].next_ns = s->begin_ns + s->t[i].arrive_ns;
        }
        harness_dispatch(s->h);
}

static bool runs(const Task *t) {
        return t->left_ns > 0 && job_runs(t->job);
}

static uint64_t next_event(const Tasks *s, uint64_t end_ns) {
        uint64_t next = MIN(end_ns, s->h->wake_ns);

        for (size_t i = 0; i < s->n; i++) {
                const Task *t = &s->t[i];

                next = MIN(next, t->next_ns);
                if (runs(t))
                        next = MIN(next, s->h->now_ns + t->left_ns);
        }
        return next;
}

/* A millisecond of the timeline shows the task that ran at its middle. */
static void draw(Tasks *s, uint64_t from_ns, uint64_t to_ns) {
        for (uint64_t ms = (from_ns - s->begin_ns) / NSEC_PER_MSEC; ms < TIMELINE_MAX; ms++) {
                uint64_t at = s->begin_ns + ms * NSEC_PER_MSEC + NSEC_PER_MSEC / 2;
                size_t place = 0;

                if (at >= to_ns)
                        return;
                if (at < from_ns)
                        continue;
                for (size_t i = 0; i < s->n && place < 2; i++)
                        if (runs(&s->t[i]))
                                s->line[place++][ms] = (char) ('a' + i);
        }
}

static void pass(Tasks *s, uint64_t to_ns) {
        uint64_t ns = to_ns - s->h->now_ns;

        draw(s, s->h->now_ns, to_ns);
        for (size_t i = 0; i < s->n; i++)
                if (runs(&s->t[i])) {
                        s->t[i].left_ns -= ns;
                        s->t[i].ran_ns += ns;
                }
        harness_pass(s->h, ns);
}

/* The task's node has a name, and no other job below it. */
static void task_restarts(Tasks *s, Task *t) {
        PolicyNodeSettings settings = t->node->settings;
        HarnessNode *parent = t->node->parent;

        harness_remove(t->job);
        harness_remove_node(t->node);
        t->node = harness_add_node(s->h, parent, settings);
        t->job = harness_add_below(s->h, t->node, t->settings);
}

static void task_ends(Tasks *s, Task *t) {
        uint64_t now = s->h->now_ns;

        t->done_ns = now;
        t->n_done++;
        t->longest_ns = MAX(t->longest_ns, now - t->came_ns);
        t->next_ns = t->pause_ns > 0 ? now + t->pause_ns : NSEC_INFINITY;
        harness_idle(t->job);
        if (t->restarts)
                task_restarts(s, t);
}

static void task_comes(Tasks *s, Task *t) {
        t->came_ns = s->h->now_ns;
        t->next_ns = NSEC_INFINITY;
        t->left_ns = t->work_ns;
        harness_ready(t->job);
}

void tasks_run(Tasks *s, uint64_t ns) {
        uint64_t end_ns = s->h->now_ns + ns;

        if (s->begin_ns == 0)
                tasks_begin(s);
        for (size_t i = 0; i < 2; i++)
                s->line[i][MIN((s->h->now_ns - s->begin_ns) / NSEC_PER_MSEC, (uint64_t) TIMELINE_MAX - 1)] = '.';
        while (s->h->now_ns < end_ns) {
                pass(s, next_event(s, end_ns));
                for (size_t i = 0; i < s->n; i++)
                        if (s->t[i].job->ready && s->t[i].left_ns == 0)
                                task_ends(s, &s->t[i]);
                for (size_t i = 0; i < s->n; i++)
                        if (s->t[i].next_ns <= s->h->now_ns)
                                task_comes(s, &s->t[i]);
                harness_dispatch(s->h);
                if (s->look)
                        s->look(s);
        }
        for (size_t i = 0; i < 2; i++)
                s->line[i][MIN((end_ns - s->begin_ns) / NSEC_PER_MSEC, (uint64_t) TIMELINE_MAX)] = 0;
}
