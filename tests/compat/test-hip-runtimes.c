/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two libraries of a process, each with a HIP runtime of its own: each gets its own through the layer. And without any,
 * HIP's functions say so.
 */

#include <dlfcn.h>

#include "common/macro.h"
#include "fake-hip.h"
#include "tests/lib/unit.h"

HipResult hipGraphLaunch(void *graph, HipStream stream);
HipResult hipStreamSynchronize(HipStream stream);

static char **users;

static void test_without_a_runtime(void **state) {
        assert_int_equal(hipGraphLaunch(NULL, NULL), HIP_RESULT_NOT_SUPPORTED);
        assert_int_equal(hipStreamSynchronize(NULL), HIP_RESULT_NOT_SUPPORTED);
}

static void test_each_its_own(void **state) {
        unsigned (*launch[2])(void);

        for (size_t i = 0; i < ELEMENTSOF(launch); i++) {
                void *user = dlopen(users[i], RTLD_NOW | RTLD_LOCAL);
                assert_non_null(user);
                launch[i] = (unsigned (*)(void))(uintptr_t) dlsym(user, "hip_user_launch");
                assert_non_null(launch[i]);
        }
        for (size_t i = 0; i < 6; i++)
                assert_int_equal(launch[i % 2](), 1);
        assert_null(dlerror());
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_without_a_runtime),
                        cmocka_unit_test(test_each_its_own),
        };

        users = argv + 1;
        return argc == 3 ? cmocka_run_group_tests(tests, NULL, NULL) : EXIT_FAILURE;
}
