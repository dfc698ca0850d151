/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Answer: a reply that grows with the number of objects, made in steps: lists, texts, the whole tree of objects
 *
 * An answer walks over tables and appends each object. An answer beyond ANSWER_SIZE_MAX is an error, because the bus
 * disconnects the sender of a message that is longer than its limit, 32 MiB by default.
 *
 * Only sd-bus's own work on a whole message is not in steps: it moves the pages when a list grows, and frees them when
 * the bus has taken the message. That is some 20 µs for each MB, which took 10 ms and more to make. Its socket takes
 * 128 KiB at a time (calls.c).
 */

#include <stdio.h>
#include <systemd/sd-bus.h>

#include "calls.h"
#include "common/parse-util.h"
#include "service/core/walk.h"

#define ANSWER_SIZE_MAX (24U << 20)

typedef struct Answer Answer;

typedef struct AnswerOps {
        /* Called before the first object of a table, for each object, and after the last table: `end` sends the answer.
         * `begin` may be NULL. All return a negative errno on failure; the first two, for a list, else roughly the
         * number of bytes that they added. */
        int (*begin)(Answer *a, WalkTable table);
        int (*object)(Answer *a, WalkTable table, void *object);
        int (*end)(Answer *a);

        WalkTable tables[_WALK_ON_BUS_MAX]; /* in this order */
        size_t n_tables;
} AnswerOps;

/* A text is made in pieces, so that no step takes as long as the whole: growing moves nothing, and the complete text is
 * copied piece by piece to the reply or the memfd. */
typedef struct TextPiece TextPiece;
typedef struct AnswerText {
        TextPiece *pieces; /* list: pieces that are not copied yet */
        size_t size;       /* of the whole */
        Utf8Check check;
        bool ended;
        bool as_memfd;
        int fd;      /* the memfd */
        char *space; /* in the reply */
        size_t n;    /* bytes copied so far */
} AnswerText;

struct Answer {
        Manager *manager;
        const AnswerOps *ops;
        sd_bus_message *message; /* the call */
        sd_bus_message *reply;   /* for a list: objects are appended to it */
        FILE *file;              /* for a text: objects are written to it */
        const char *prefix;
        uint32_t n;   /* objects of this table so far */
        uint64_t sum; /* a sum for the ops' own use */

        Walk walk;
        size_t table; /* index in ops->tables */
        bool begun;
        size_t size;
        AnswerText text;
};

/* Begin an answer; a method's handler returns their result. For an array of `contents`, a text, and a text in a memfd.
 * `prefix` is kept for the ops. */
int answer_list(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *contents);
int answer_text(Manager *m, sd_bus_message *message, const AnswerOps *ops, const char *prefix);
int answer_memfd(Manager *m, sd_bus_message *message, const AnswerOps *ops);

/* Called by `end`: sends the list, or begins to send the text. */
int answer_send(Answer *a);
int answer_send_text(Answer *a);
