/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Answers that grow with what there is, made in steps: lists, texts, the whole tree of objects
 *
 * One is a walk over tables and what is to be said of each object. An answer beyond ANSWER_SIZE_MAX is an error: a bus ends the connection of who
 * sends what is longer than it lets pass, 32 MiB by default.
 */

#include <stdio.h>

#include "calls.h"
#include "walk.h"

#define ANSWER_SIZE_MAX (24U << 20)

typedef struct Answer Answer;

typedef struct AnswerOps {
        /* What is said before the first object of a table, of each object, and after the last of all tables: that sends the answer. `begin`
         * may be NULL. All return a negative errno, or about how many bytes they have added. */
        int (*begin)(Answer *a, WalkTable table);
        int (*object)(Answer *a, WalkTable table, void *object);
        int (*end)(Answer *a);

        WalkTable tables[_WALK_TABLE_MAX]; /* in this order */
        size_t n_tables;
} AnswerOps;

struct Answer {
        Manager *manager;
        const AnswerOps *ops;
        sd_bus_message *message; /* the call */
        sd_bus_message *reply;   /* where objects are appended to it, */
        char *text;              /* or a text, */
        size_t text_size;
        FILE *file; /* by this */
        const char *prefix;
        uint32_t n;   /* objects of this table so far */
        uint64_t sum; /* of whatever the ops add up */

        Walk walk;
        size_t table; /* the one that is walked, in `ops` */
        bool begun;
        size_t size;
};

/* What a method's handler returns. The first is for an array of `contents`, the second for a text; `prefix` is only kept. */
int answer_list(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *contents);
int answer_text(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *prefix);

/* For `end`: sends the list, or the text; finishes the text, which is then in a->text. */
int answer_send(Answer *a);
int answer_send_text(Answer *a);
int answer_finish_text(Answer *a);
