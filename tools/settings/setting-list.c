/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prints the settings, one a line, its columns between tabs: what the manual page and the completions are made from
 *
 * It runs while xsched is built, and is not installed. The columns: the name in files, the name in xschedctl, who has
 * it ("anybody" or "groups"), what a value has to be, the default, what counts as lower, and whether slices hand it
 * down ("from above" or "own").
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/setting-rows.h"
#include "common/time-util.h"
#include "policy/policy.h"

/* The column LOWERS in words. */
#define WORDS_SMALLER       "a smaller one"
#define WORDS_SMALLER_LIMIT "a smaller one; none is the largest"
#define WORDS_LATER         "a later one; none is the latest"
#define WORDS_FURTHER       "one that reaches further"
#define WORDS_EXACTER       "_exact_"
#define WORDS_YES           "_yes_"
#define WORDS_NO            "_no_"
#define WORDS_UNUSED        "any, without _Max=_ and _Min=_"
#define WORDS_NEVER         "what its settings lower"

#define WORDS_ANYBODY    "anybody"
#define WORDS_GROUPS     "groups"
#define WORDS_FROM_ABOVE "yes"
#define WORDS_OWN        "no"

/* Print the default as people write it, by TYPE. A type with names has the first name, "auto", as its default; a class
 * has none. */
#define DEFAULT_INT(usual)        printf("%" PRIi64, (int64_t) (usual))
#define DEFAULT_UINT(usual)       printf("%" PRIu64, (uint64_t) (usual))
#define DEFAULT_PERCENT(usual)    printf("%" PRIu64, (uint64_t) (usual))
#define DEFAULT_LIMIT(usual)      DEFAULT_PERCENT(usual)
#define DEFAULT_USEC(usual)       printf("%" PRIu64 "ms", (uint64_t) (usual) *NSEC_PER_USEC / NSEC_PER_MSEC)
#define DEFAULT_BOOL(usual)       printf("%s", (usual) ? "yes" : "no")
#define DEFAULT_PREEMPTION(usual) printf("auto")
#define DEFAULT_ACCOUNTING(usual) printf("auto")
#define DEFAULT_CLASS(usual)      printf("none")

#define PRINT(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, HOME, range)                \
        printf(#Name "\t" #name "\t" WORDS_##WHOSE "\t%s\t", range);                                                   \
        DEFAULT_##TYPE(usual);                                                                                         \
        printf("\t" WORDS_##LOWERS "\t" WORDS_##INHERITS "\n");

int main(void) {
        SETTING_ROWS(PRINT, )
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
