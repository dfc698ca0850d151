/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer under a driver whose calls fail
 */

#include "common/macro.h"
#include "shim-kfd.h"

/* Each call of a batch fails in turn, before and after it has done its work: no queue is held then, and the service is
 * told of the lower level. */
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

/* A release is tried until it works. */
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

/* A hold fails, the undo of it fails, and the service has gone: no verdict comes any more, and the queues run. */
static void fail_rollback(const char *error, int count, const char *how) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        dispatch(a, 20, SHORT_NS);
        dispatch(b, 20, SHORT_NS);
        fail_updates(error, count, 1, how);
        for (uint32_t i = 0; i < 2; i++) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        finish(a);
        finish(b);
}

static void case_fail_rollback(void) {
        fail_rollback("5", 4, "");
}

static void case_fail_rollback_late(void) {
        fail_rollback("5", 4, ":late");
}

static void case_fail_rollback_gone(void) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        dispatch(a, 20, SHORT_NS);
        dispatch(b, 20, SHORT_NS);
        hold_all(2);
        fail_updates("62", 6, 0, ":late");
        fake_client_hang_up(client);
        finish(a);
        finish(b);
}

/* A queue that follows held ones is released in the end, although it has no verdict of its own. */
static void case_fail_follower(void) {
        start(GFX90A);
        AqlQueue *a = queue();

        hold_all(1);
        fake_scheduler_disown(s);
        AqlQueue *b = bare_queue(), *c = bare_queue();
        dispatch(b, 5, SHORT_NS);
        dispatch(c, 5, SHORT_NS);
        CHECK(stands_still(b) && aql_queue_executed(b) == 0);
        fail_updates("5", 7, 0, "");
        CHECK(aql_queue_destroy(a) == 0);
        finish(b);
        finish(c);
}

/* An error of one GPU does not affect the other. */
static void case_fail_one_gpu(void) {
        AqlDevice other;
        AqlQueue *b;
        start(GFX90A);
        AqlQueue *a = queue();

        CHECK(aql_device_open(GFX1100, &other) == 0);
        CHECK(aql_queue_create(&other, &(AqlOptions){}, &b) == 0);
        CHECK(scheduler_until(s, n_registered() == 2));
        hold(1, NSEC_INFINITY);
        CHECK(poll_until(is_applied(1)));
        dispatch(b, 5, SHORT_NS);
        fail_updates("5", 1, 0, "");
        hold(0, NSEC_INFINITY);
        CHECK(scheduler_until(s, client->n_gone == 1 && n_registered() == 2));
        dispatch(a, 5, SHORT_NS);
        finish(a);
        CHECK(stands_still(b) && aql_queue_executed(b) == 0);
        run_all(2);
        finish(b);
}

/* The hardware does not answer: the call fails, and the queue is gone all the same. Its number is used again. */
static void case_fail_destroy(void) {
        char text[64];
        start(GFX90A);
        AqlQueue *a = queue();
        uint32_t id = aql_queue_id(a);

        hold_all(1);
        (void) snprintf(text, sizeof(text), "%d:62:1:0:late", KFD_NR_DESTROY_QUEUE);
        CHECK(kfdsim_fail(text) == 0);
        CHECK(aql_queue_destroy(a) < 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
        AqlQueue *b = queue();
        CHECK(aql_queue_id(b) == id);
        dispatch(b, 5, SHORT_NS);
        finish(b);
}

/* A queue that the driver does not know does not keep others from being held. */
static void case_lost(void) {
        KfdCreateQueue a;
        KfdDestroyQueue d;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, n_registered() == 1));
        AqlQueue *q = queue();
        d.queue_id = a.queue_id;
        CHECK(kfdsim_ioctl(r.fd, KFD_IOC_DESTROY_QUEUE, &d) == 0); /* past everybody */
        hold_all(2);
        dispatch(q, 5, SHORT_NS);
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        run_all(2);
        finish(q);
        CHECK(s->level == LEVEL_INTERRUPT);
}

/* After the application's own call has failed, the driver may have either the old or the new values: the next verdict
 * settles it. */
static void case_fail_update(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        CHECK(aql_queue_update(q, 0) == 0);
        fail_updates("5", 1, 0, ":late");
        CHECK(aql_queue_update(q, 100) < 0);
        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        CHECK(aql_queue_update(q, 100) == 0);
        run_all(1);
        finish(q);
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
                        CASE(fail_rollback),
                        CASE(fail_rollback_late),
                        CASE(fail_rollback_gone),
                        CASE(fail_follower),
                        CASE(fail_one_gpu),
                        CASE(fail_destroy),
                        CASE(fail_update),
                        CASE(lost),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
