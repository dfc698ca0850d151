/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs a fuzz target without a fuzzer: once with each file of a folder, and with beginnings of the file of several
 * lengths
 *
 * Argument: the folder. A folder without files is a mistake.
 */

#include <dirent.h>
#include <stdio.h>

#include "common/macro.h"

#define SIZE_MAX_READ ((size_t) 1 << 20)
#define STEPS         16U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of its own size, so that a sanitizer notices reading past the end. */
static bool run_one(const uint8_t *data, size_t size) {
        _cleanup_free_ uint8_t *copy = malloc(MAX(size, (size_t) 1));

        if (!copy)
                return false;
        memcpy(copy, data, size);
        (void) LLVMFuzzerTestOneInput(copy, size);
        return true;
}

static bool run_file(const char *folder, const char *name) {
        _cleanup_free_ uint8_t *data = malloc(SIZE_MAX_READ);
        _cleanup_free_ char *path = NULL;

        if (!data || asprintf(&path, "%s/%s", folder, name) < 0)
                return false;
        FILE *f = fopen(path, "re");
        if (!f)
                return false;
        size_t n = fread(data, 1, SIZE_MAX_READ, f);
        bool ok = !ferror(f);
        (void) fclose(f);
        for (size_t i = 0; ok && i < STEPS; i++)
                ok = run_one(data, n * i / STEPS);
        return ok && run_one(data, n);
}

int main(int argc, char *argv[]) {
        unsigned n = 0;

        DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
        if (!d)
                return EXIT_FAILURE;
        for (struct dirent *e; (e = readdir(d));) {
                if (e->d_name[0] == '.')
                        continue;
                if (!run_file(argv[1], e->d_name)) {
                        fprintf(stderr, "%s/%s could not be run\n", argv[1], e->d_name);
                        (void) closedir(d);
                        return EXIT_FAILURE;
                }
                n++;
        }
        (void) closedir(d);
        printf("%u files\n", n);
        return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
