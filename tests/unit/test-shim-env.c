/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The environment variables that a program gets where there is an AMD GPU
 */

#include <stdlib.h>
#include <unistd.h>

#include "common/macro.h"
#include "config.h"
#include "tests/lib/unit.h"
#include "tools/shared/shim-env.h"

#define SHIM XSCHED_PKGLIBDIR "/libxsched-kfd.so"
#define TOOL XSCHED_PKGLIBDIR "/libxsched-hsa.so"

static bool has_kfd;

int __wrap_access(const char *path, int mode);

/* Plays a system with the files that are installed. */
int __wrap_access(const char *path, int mode) {
        bool there = streq(path, "/dev/kfd") ? has_kfd : startswith(path, XSCHED_PKGLIBDIR) != NULL;

        if (!there)
                errno = ENOENT;
        return there ? 0 : -1;
}

static const char *tools_with(const char *before, ShimMode mode) {
        assert_int_equal(unsetenv("LD_PRELOAD"), 0);
        assert_int_equal(before ? setenv(SHIM_HSA_TOOLS, before, 1) : unsetenv(SHIM_HSA_TOOLS), 0);
        assert_int_equal(shim_setenv(mode), 0);
        return strempty(getenv(SHIM_HSA_TOOLS));
}

static void test_tool(void **state) {
        has_kfd = true;
        assert_string_equal(tools_with(NULL, SHIM_LAYER), TOOL);
        assert_string_equal(getenv("LD_PRELOAD"), SHIM);
        assert_string_equal(tools_with("", SHIM_PRELOAD), TOOL);
        assert_string_equal(tools_with("/elsewhere/libxsched-hsa.so", SHIM_LAYER), TOOL); /* another copy */
        assert_string_equal(tools_with(NULL, SHIM_NONE), "");
}

/* Tools of the user stay as they are. */
static void test_gives_way(void **state) {
        static const char *const others[] = {
                        "librocprofiler64.so",
                        "/x/libxsched-hsa.so librocprofiler64.so",
                        "librocprofiler64.so /x/libxsched-hsa.so",
                        "/x/nolibxsched-hsa.so",
                        "/x/libxsched-hsa.so.1",
        };

        has_kfd = true;
        for (size_t i = 0; i < ELEMENTSOF(others); i++) {
                assert_false(shim_is_only_tool(others[i]));
                assert_string_equal(tools_with(others[i], SHIM_LAYER), others[i]);
                assert_string_equal(getenv("LD_PRELOAD"), SHIM);
        }
        assert_true(shim_is_only_tool(TOOL));
}

static void test_no_gpu(void **state) {
        has_kfd = false;
        assert_string_equal(tools_with(NULL, SHIM_LAYER), "");
        assert_null(getenv("LD_PRELOAD"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_tool),
                        cmocka_unit_test(test_gives_way),
                        cmocka_unit_test(test_no_gpu),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
