/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prints the functions that run from the ready edge of a client to the verdict that holds another one
 *
 * Built by hot-path.py, by which the compiler calls the two functions below at each begin and end of a function.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "arbiter-harness.h"
#include "common/macro.h"

#define FUNCTIONS_MAX 4096U
#define NOT_COUNTED   __attribute__((no_instrument_function))

static bool counting;
static void *functions[FUNCTIONS_MAX];
static size_t n_functions;

/* NOLINTBEGIN(bugprone-reserved-identifier): the compiler's names */
NOT_COUNTED void __cyg_profile_func_enter(void *function, void *caller);
NOT_COUNTED void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller) {
        if (!counting || n_functions == FUNCTIONS_MAX)
                return;
        for (size_t i = 0; i < n_functions; i++)
                if (functions[i] == function)
                        return;
        functions[n_functions++] = function;
}

void __cyg_profile_func_exit(void *function, void *caller) {
}
/* NOLINTEND(bugprone-reserved-identifier) */

int main(void) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);

        begin(l);
        counting = true;
        begin(h);
        counting = false;
        if (!held(l))
                return EXIT_FAILURE;
        for (size_t i = 0; i < n_functions; i++) {
                Dl_info info;

                if (dladdr(functions[i], &info))
                        (void) printf("%#zx\n", (size_t) ((char *) functions[i] - (char *) info.dli_fbase));
        }
        leave(&high);
        leave(&low);
        manager_free(m);
        return EXIT_SUCCESS;
}
