/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Aliases of units on the disk
 */

#include <stdio.h>
#include <unistd.h>

#include "cgroup/unit-alias.h"
#include "tests/lib/scratch-root.h"
#include "tests/lib/unit.h"

static void link_to(const char *target, const char *name) {
        char path[512];

        (void) snprintf(path, sizeof(path), "%s%s", scratch_root(), name);
        assert_int_equal(symlink(target, path), 0);
}

/* Checks the unit's own name; `own` NULL: the name is no alias. */
static void expect(const char *name, const char *own) {
        char *found = NULL;

        int r = unit_alias(scratch_root(), name, &found);
        assert_int_equal(r, own ? 1 : 0);
        if (own)
                assert_string_equal(found, own);
        else
                assert_null(found);
        free(found);
}

static void test_aliases(void **state) {
        scratch_root_clear();
        scratch_root_put("/etc/systemd/system/", "%s", "");
        scratch_root_put("/usr/lib/systemd/system/real.service", "[Service]\n");
        scratch_root_put("/usr/lib/systemd/system/real@.service", "[Service]\n");
        scratch_root_put("/usr/lib/systemd/system/here.service", "[Service]\n");
        link_to("/usr/lib/systemd/system/real.service", "/etc/systemd/system/other.service");
        link_to("other.service", "/etc/systemd/system/third.service");
        link_to("real@.service", "/etc/systemd/system/other@.service");
        link_to("real@a.service", "/etc/systemd/system/single.service");
        link_to("/dev/null", "/etc/systemd/system/masked.service");
        link_to("/opt/linked.service", "/etc/systemd/system/linked.service");
        link_to("real.service", "/etc/systemd/system/kind.slice");
        link_to("round.service", "/etc/systemd/system/about.service");
        link_to("about.service", "/etc/systemd/system/round.service");
        link_to("here.service", "/usr/lib/systemd/system/over.service");
        scratch_root_put("/etc/systemd/system/over.service", "[Service]\n");

        expect("real.service", NULL);
        expect("other.service", "real.service");
        expect("third.service", "real.service");
        expect("other@x.service", "real@x.service");
        expect("other@.service", "real@.service");
        expect("real@x.service", NULL);
        expect("single.service", "real@a.service");
        expect("masked.service", NULL);
        expect("linked.service", NULL);
        expect("kind.slice", NULL);
        expect("over.service", NULL);  /* the administrator's own file */
        expect("about.service", NULL); /* after an even number of links */
        expect("none.service", NULL);
}

static void test_no_names(void **state) {
        char name[600];

        memset(name, 'x', sizeof(name));
        memcpy(name + sizeof(name) - 9, ".service", 9);
        expect(name, NULL);
        expect("", NULL);
        expect(".service", NULL);
        expect("job:1:x", NULL);
        expect("/system.slice/other.service", NULL);
        expect("../system/other.service", NULL);
        expect("@.service", NULL);
        expect("@x.service", NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_aliases),
                        cmocka_unit_test(test_no_names),
        };
        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
