/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer under a driver whose calls fail
 */

#include "common/macro.h"
#include "shim-kfd.h"

/* At each call of a batch, before and after it has done its work: nobody is held then, and the level is known to be lower. */
static void fail_hold(const char *error, int skip, const char *how) {
        AqlQueue *q[3];

        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                q[i] = queue();
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                dispatch(q[i], 20, SHORT_NS);
        fail_updates(error, 1, skip, how);
        for (uint32_t i = 0; i < ELEMENTSOF(q); i++) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        CHECK(scheduler_until(s, client->n_gone == ELEMENTSOF(q) && client->n_queues == ELEMENTSOF(q)));
        CHECK(s->level == LEVEL_GATE);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                finish(q[i]);
}

static void case_interrupted(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        for (int late = 0; late < 2; late++) {
                dispatch(q, 20, SHORT_NS);
                fail_updates("4", 3, 0, late ? ":late" : "");
                hold_all(1);
                CHECK(stands_still(q));
                fail_updates("4", 3, 0, late ? ":late" : "");
                run_all(1);
                finish(q);
        }
        CHECK(s->level == LEVEL_INTERRUPT);
}

static void case_fail_first(void) {
        start(GFX90A);
        fail_hold("5", 0, "");
}

static void case_fail_second(void) {
        start(GFX90A);
        fail_hold("62", 1, ":late");
}

static void case_fail_last(void) {
        start(GFX90A);
        fail_hold("13", 2, ":late");
}

static void case_fail_hang(void) {
        start(GFX90A);
        fail_hold("hang", 1, "");
}

/* Letting go is tried until it works. */
static void fail_release(int skip, const char *how) {
        AqlQueue *a = queue(), *b = queue();

        dispatch(a, 20, SHORT_NS);
        dispatch(b, 20, SHORT_NS);
        hold_all(2);
        fail_updates("62", 3, skip, how);
        run_all(2);
        finish(a);
        finish(b);
}

static void case_fail_release(void) {
        start(GFX90A);
        fail_release(0, "");
}

static void case_fail_release_late(void) {
        start(GFX90A);
        fail_release(1, ":late");
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(interrupted),
                        CASE(fail_first),
                        CASE(fail_second),
                        CASE(fail_last),
                        CASE(fail_hang),
                        CASE(fail_release),
                        CASE(fail_release_late),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
