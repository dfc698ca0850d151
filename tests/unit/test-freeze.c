/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Units that the service freezes, and others too: when their clients count as halted. The test is systemd and the
 * kernel.
 */

#include <stdio.h>

#include "service/base/systemd.h"
#include "service/enforce/freeze.h"
#include "service/settings/xsched-conf.h"
#include "tests/lib/deadline.h"
#include "tests/lib/scratch-root.h"
#include "tests/unit/arbiter-harness.h"

#define UNIT  "cold.service"
#define GROUP "/system.slice/" UNIT

struct UnitCall {
        bool thaw;
        unit_answered_t answered;
        void *userdata;
};

static UnitCall *asked; /* what systemd has not answered yet */

static int ask(bool thaw, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret) {
        assert_string_equal(unit, UNIT);
        assert_null(asked);
        asked = malloc(sizeof(*asked));
        assert_non_null(asked);
        *asked = (UnitCall){.thaw = thaw, .answered = answered, .userdata = userdata};
        *ret = asked;
        return 0;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_systemd_freeze(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret);
int __wrap_systemd_thaw(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret);
UnitCall *__wrap_unit_call_free(UnitCall *c);

int __wrap_systemd_freeze(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret) {
        return ask(false, unit, answered, userdata, ret);
}

int __wrap_systemd_thaw(Systemd *s, const char *unit, unit_answered_t answered, void *userdata, UnitCall **ret) {
        return ask(true, unit, answered, userdata, ret);
}

UnitCall *__wrap_unit_call_free(UnitCall *c) {
        if (c) {
                assert_ptr_equal(c, asked);
                asked = NULL;
                free(c);
        }
        return NULL;
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Answers the question that is open, which has to be to freeze or to thaw. */
static void answer(bool thaw, UnitAnswer a) {
        assert_non_null(asked);
        assert_int_equal(asked->thaw, thaw);
        asked->answered(a, a == UNIT_DONE ? NULL : "systemd says no", asked->userdata);
}

/* There is no root, so nobody is followed to the real cgroup of the test's process. */
static int directory(const char *cgroup, char **ret) {
        if (!*cgroup)
                return -ENOENT;
        return asprintf(ret, "%s%s", scratch_root(), cgroup) < 0 ? -ENOMEM : 0;
}

/* The kernel says that the unit's processes have stopped, or run again, whoever did it. */
static void set_stopped(bool stopped) {
        scratch_root_put(GROUP "/cgroup.events", "populated 1\nfrozen %d\n", stopped);
        scratch_root_put(GROUP "/below/cgroup.events", "populated 1\nfrozen %d\n", stopped);
}

typedef struct Fixture {
        Manager *m;
        Process p, below; /* in the unit, and in a cgroup below it */
        Queue *q;
        int systemd; /* only its address is used */
} Fixture;

static bool is_halted(const Fixture *f) {
        assert_int_equal(f->below.client->halted, f->p.client->halted);
        return f->p.client->halted;
}

static void settle(const Fixture *f) {
        while (manager_turn(f->m, 0) > 0)
                ;
}

/* The service hears of it by an event. */
static void until_halted(const Fixture *f, bool halted) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        while (f->p.client->halted != halted || f->below.client->halted != halted) {
                assert_true(now_ns() < end);
                assert_true(manager_turn(f->m, 10 * NSEC_PER_MSEC) >= 0);
        }
}

static void setup(Fixture *f, bool stopped) {
        scratch_root_clear();
        assert_int_equal(setenv("RUNTIME_DIRECTORY", scratch_root(), 1), 0);
        cgroup_directory_instead = directory;
        set_stopped(stopped);
        *f = (Fixture){.m = manager_make()};
        f->m->systemd = (Systemd *) &f->systemd;
        ((Class *) classes_find(&f->m->config->classes, "default"))->freeze = true;
        f->m->config->classes.any_freeze = true;
        manager_settings_changed(f->m);
        f->p = join(f->m, GROUP, 0);
        f->q = queue(&f->p, "d", 0);
        f->below = join(f->m, GROUP "/below", 0);
        assert_int_equal(is_halted(f), stopped);
}

static void suspend(Fixture *f, bool suspended) {
        group_set_suspended(f->p.client->group, suspended);
        arbiter_flush(f->m);
}

static void teardown(Fixture *f) {
        leave(&f->below);
        leave(&f->p);
        if (asked) /* a unit without clients is not to be frozen */
                answer(true, UNIT_DONE);
        assert_null(f->m->freezers);
        manager_free(f->m);
        assert_null(asked);
}

static void test_frozen_by_both(void **state) {
        Fixture f;

        setup(&f, true);
        suspend(&f, true);
        assert_false(is_halted(&f)); /* before systemd has answered */
        answer(false, UNIT_DONE);
        assert_true(group_is_frozen(f.p.client->group));
        assert_false(is_halted(&f));
        suspend(&f, false);
        assert_false(is_halted(&f));
        /* Whoever else froze it has not thawed it: the kernel has nothing new to tell. */
        answer(true, UNIT_DONE);
        assert_true(is_halted(&f));
        set_stopped(false);
        until_halted(&f, false);
        teardown(&f);
}

static void test_frozen_by_the_service(void **state) {
        Fixture f;

        setup(&f, false);
        suspend(&f, true);
        set_stopped(true);
        answer(false, UNIT_DONE);
        settle(&f);
        assert_false(is_halted(&f));
        suspend(&f, false);
        /* The answer may come before the kernel's event. */
        set_stopped(false);
        answer(true, UNIT_DONE);
        assert_false(is_halted(&f));
        settle(&f);
        assert_false(is_halted(&f));
        teardown(&f);
}

static void test_refused(void **state) {
        Fixture f;

        setup(&f, true);
        suspend(&f, true);
        assert_false(is_halted(&f));
        answer(false, UNIT_REFUSED);
        assert_true(is_halted(&f));
        set_stopped(false);
        until_halted(&f, false);
        suspend(&f, false);
        teardown(&f);
}

/* Another program thaws the unit: a process that registers says so. It is frozen again, and counts as the service's
 * meanwhile. When that fails, the others who freeze it count again. */
static void test_thawed_by_others(void **state) {
        Fixture f;

        setup(&f, false);
        suspend(&f, true);
        set_stopped(true);
        answer(false, UNIT_DONE);
        set_stopped(false);
        settle(&f);
        assert_false(is_halted(&f));
        Process other = join(f.m, GROUP, 0);
        set_stopped(true);
        settle(&f);
        assert_false(is_halted(&f));
        answer(false, UNIT_REFUSED);
        assert_true(is_halted(&f));
        assert_true(other.client->halted);
        leave(&other);
        teardown(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_frozen_by_both),
                        cmocka_unit_test(test_frozen_by_the_service),
                        cmocka_unit_test(test_refused),
                        cmocka_unit_test(test_thawed_by_others),
        };
        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
