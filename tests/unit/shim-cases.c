/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched in a process: helpers of the cases
 */

#include <sys/prctl.h>

#include "shim-cases.h"

FakeScheduler *scheduler(void) {
        FakeScheduler *s = fake_scheduler_new(bus.address);

        fake_scheduler_own(s);
        return s;
}

XschedQueue *queue(XschedQueueInfo info) {
        XschedQueue *q = NULL;

        info.size = sizeof(info);
        info.device = info.device ?: "pci:0000:65:00.0";
        info.backend = info.backend ?: "test";
        CHECK(xsched_queue_new(&info, &q) == 0);
        CHECK(q);
        return q;
}

XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c;
}

XschedQueue *attached_queue(FakeScheduler *s, XschedQueueInfo info) {
        uint64_t before = counters().queues;
        XschedQueue *q = queue(info);

        CHECK(scheduler_until(s, counters().queues == before + 1));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        return q;
}

static void *launcher_main(void *p) {
        Launcher *l = p;

        atomic_store(&l->began, xsched_queue_begin(l->queue));
        return NULL;
}

void launch(Launcher *l, XschedQueue *q) {
        *l = (Launcher){.queue = q, .began = -1};
        CHECK(pthread_create(&l->thread, NULL, launcher_main, l) == 0);
}

bool maps_say(const char *words) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        bool found = false;
        FILE *f = fopen("/proc/self/maps", "re");

        CHECK(f);
        while (!found && getline(&line, &size, f) > 0)
                found = strstr(line, words);
        (void) fclose(f);
        return found;
}

bool has_waiters(FakeClient *c, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(c->f, slot)->waiters) == n;
}

XschedQueue *launch_held(FakeScheduler *s, Launcher *l) {
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){});

        fake_hold(s->clients[0].f, 0, NSEC_INFINITY);
        launch(l, q);
        CHECK(poll_until(has_waiters(&s->clients[0], 0, 1)));
        return q;
}

_Atomic int destroyed;

void count_destroy(void *userdata) {
        atomic_fetch_add(&destroyed, *(int *) userdata);
}

_Atomic int drains;
char drain_thread[32];

void count_drain(XschedQueue *q, void *userdata) {
        (void) prctl(PR_GET_NAME, drain_thread);
        atomic_fetch_add(&drains, 1);
}

/* --- running the cases --- */

int run_cases(const BusCase *cases, size_t n, int argc, char *argv[]) {
        const char *self[] = {argv[0], NULL};

        CHECK(setenv("XSCHED_JOB", "token", true) == 0);
        CHECK(setenv("XSCHED_CLASS", "batch", true) == 0);
        CHECK(setenv("XSCHED_PRIORITY", "-7", true) == 0);
        CHECK(setenv("XSCHED_WEIGHT", "50", true) == 0);
        return bus_cases_run(cases, n, self, argv[1]);
}
