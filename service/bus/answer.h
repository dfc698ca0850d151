/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Answers that grow with what there is, made in steps: lists, texts, the whole tree of objects
 *
 * One is a walk over tables and what is to be said of each object. An answer beyond ANSWER_SIZE_MAX is an error: a bus
 * ends the connection of who sends what is longer than it lets pass, 32 MiB by default.
 *
 * What is done in one go all the same is what sd-bus does with a message as a whole: to move its pages when a list
 * grows, and to give them back when the bus has taken it, some 20 µs for each MB of what took 10 ms and more to make.
 * Its socket takes 128 KiB at a time (calls.c).
 */

#include <stdio.h>

#include "calls.h"
#include "common/parse-util.h"
#include "service/core/walk.h"

#define ANSWER_SIZE_MAX (24U << 20)

typedef struct Answer Answer;

typedef struct AnswerOps {
        /* What is said before the first object of a table, of each object, and after the last of all tables: that sends
         * the answer. `begin` may be NULL. All return a negative errno; the first two, for a list, about how many bytes
         * they have added. */
        int (*begin)(Answer *a, WalkTable table);
        int (*object)(Answer *a, WalkTable table, void *object);
        int (*end)(Answer *a);

        WalkTable tables[_WALK_ON_BUS_MAX]; /* in this order */
        size_t n_tables;
} AnswerOps;

/* A text is made in pieces, so that no step takes as long as all of it: nothing is moved when it grows, and when it is
 * there it is copied piece by piece to where it is sent from. */
typedef struct TextPiece TextPiece;
typedef struct AnswerText {
        TextPiece *pieces; /* list: what is not copied yet */
        size_t size;       /* of the whole */
        Utf8Check check;
        bool ended;
        bool as_memfd;
        int fd;      /* the memfd */
        char *space; /* in the reply */
        size_t n;    /* what is there */
} AnswerText;

struct Answer {
        Manager *manager;
        const AnswerOps *ops;
        sd_bus_message *message; /* the call */
        sd_bus_message *reply;   /* where objects are appended to it, */
        FILE *file;              /* or they are written to this */
        const char *prefix;
        uint32_t n;   /* objects of this table so far */
        uint64_t sum; /* of whatever the ops add up */

        Walk walk;
        size_t table; /* the one that is walked, in `ops` */
        bool begun;
        size_t size;
        AnswerText text;
};

/* What a method's handler returns. The first is for an array of `contents`, the second for a text, the third for one in
 * a memfd; `prefix` is only kept. */
int answer_list(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *contents);
int answer_text(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *prefix);
int answer_memfd(Manager *m, sd_bus_message *message, const AnswerOps *ops);

/* For `end`: sends the list, or begins to send the text. */
int answer_send(Answer *a);
int answer_send_text(Answer *a);
