/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An OpenCL program that uses all functions that the layer intercepts
 *
 *     conformance [CASE...]
 *
 * Its output has to be the same, byte for byte, without the layer, with it, and whatever the scheduler does meanwhile.
 */

#include "conformance.h"

static bool wanted(const char *name, int argc, char **argv) {
        for (int i = 1; i < argc; i++)
                if (strcmp(argv[i], name) == 0)
                        return true;
        return argc < 2;
}

int main(int argc, char **argv) {
        static const Case *const groups[] = {order_cases, data_cases, object_cases};

        test_open();
        for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
                for (const Case *c = groups[g]; c->name; c++)
                        if (wanted(c->name, argc, argv)) {
                                printf("[%s]\n", c->name);
                                (void) fflush(stdout); /* so that a hang has a name */
                                c->run();
                        }
        test_close();
        return 0;
}
