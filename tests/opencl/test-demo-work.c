/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-demo notices a kernel that was lost, ran twice, ran out of order, or computed something else
 *
 * The linker puts our clEnqueueNDRangeKernel() in front of the loader's (--wrap), and that makes one mistake at a time.
 */

#define CL_TARGET_OPENCL_VERSION 120

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <CL/cl.h>
#include <cmocka.h>

#include "tools/demo/work.h"

#define N_KERNELS 6U
#define ROUNDS    500U

typedef enum Mistake {
        MISTAKE_NONE,
        MISTAKE_LOSE,
        MISTAKE_TWICE,
        MISTAKE_ROUNDS,
        MISTAKE_ERROR,
} Mistake;

static Mistake mistake;
static unsigned n_launches;

typedef cl_int (*enqueue_t)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                cl_uint, const cl_event *, cl_event *);

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset,
                const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset,
                const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *event);

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset,
                const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *event) {
        enqueue_t enqueue = __real_clEnqueueNDRangeKernel;
        bool now = n_launches++ == 3;
        cl_uint rounds = ROUNDS - 1;

        if (now && mistake == MISTAKE_LOSE)
                return CL_SUCCESS;
        if (now && mistake == MISTAKE_ERROR)
                return CL_OUT_OF_RESOURCES;
        if (now && mistake == MISTAKE_TWICE)
                (void) enqueue(queue, kernel, dim, offset, global, local, n_wait, wait, NULL);
        if (now && mistake == MISTAKE_ROUNDS)
                (void) clSetKernelArg(kernel, 4, sizeof(rounds), &rounds);
        return enqueue(queue, kernel, dim, offset, global, local, n_wait, wait, event);
}

void demo_complain(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        vprint_message(format, ap);
        va_end(ap);
        print_message("\n");
}

static void expect(Mistake m, const char *text) {
        _cleanup_(work_closep)
        Work *w = NULL;
        const char *error = "";

        mistake = MISTAKE_NONE;
        assert_return_code(work_open(NULL, 1, &w), 0);
        for (unsigned i = 0; i < 3; i++) {
                assert_return_code(work_run(w, N_KERNELS, ROUNDS, &error), 0);
                assert_return_code(work_check(w, &error), 0);
        }

        mistake = m;
        n_launches = 0;
        int r = work_run(w, N_KERNELS, ROUNDS, &error);
        if (r >= 0)
                r = work_check(w, &error);
        assert_true(n_launches > 3);
        if (m == MISTAKE_NONE)
                assert_return_code(r, 0);
        else {
                assert_int_equal(r, -EIO);
                assert_non_null(strstr(error, text));
        }
}

static void test_right(void **state) {
        expect(MISTAKE_NONE, NULL);
}

static void test_lost(void **state) {
        expect(MISTAKE_LOSE, "kernel 3 of the task ran 3 times and was launched 4 times");
}

static void test_twice(void **state) {
        expect(MISTAKE_TWICE, "kernel 3 of the task ran 5 times and was launched 4 times");
}

static void test_wrong(void **state) {
        expect(MISTAKE_ROUNDS, "wrong result: item 0");
}

static void test_error(void **state) {
        expect(MISTAKE_ERROR, "clEnqueueNDRangeKernel failed with error -5");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_right),
                        cmocka_unit_test(test_lost),
                        cmocka_unit_test(test_twice),
                        cmocka_unit_test(test_wrong),
                        cmocka_unit_test(test_error),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
