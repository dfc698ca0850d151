/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Rows, as a table or as JSON
 *
 * A table is filled once and printed in either form: what a script reads is what a person sees, with numbers as numbers
 * and times in microseconds.
 */

#include "tools/shared/ctl.h"

typedef enum CellFormat {
        CELL_PLAIN,
        CELL_USEC,    /* a span of time, "1.2ms" */
        CELL_PERCENT, /* a percentage, in both forms */
        CELL_SHARE,   /* 0..1; as a percentage for people */
        CELL_RATE,    /* a second */
        CELL_BYTES,   /* "1.5G" */
        CELL_LIMIT,   /* a percentage, 0: none */
        CELL_STATE,   /* coloured by what it says */
} CellFormat;

typedef enum ColumnFlags {
        COLUMN_RIGHT = 1 << 0,
        COLUMN_ELASTIC = 1 << 1,  /* gives way when the terminal is too narrow */
        COLUMN_TREE = 1 << 2,     /* shows the rows as a tree */
        COLUMN_JSON = 1 << 3,     /* for scripts only */
        COLUMN_TEXT = 1 << 4,     /* for people only */
        COLUMN_IF_KNOWN = 1 << 5, /* for people only if some row has it */
        COLUMN_WIDE = 1 << 6,     /* for people only where there is room; the last one goes first */
} ColumnFlags;

typedef struct Column {
        const char *title;
        const char *key; /* in JSON */
        CellFormat format;
        unsigned flags;
} Column;

typedef struct Row {
        Value *cells;
        size_t parent; /* SIZE_MAX: none */
} Row;

typedef struct Table {
        const Column *columns;
        size_t n_columns;
        Row *rows;
        size_t n_rows;
        /* Written by the table alone: */
        uint32_t hidden;  /* columns without room */
        size_t depth_max; /* deeper rows are at this depth, where there is no room for more */
} Table;

#define TABLE_INIT(c)                                                                                                  \
        (Table) {                                                                                                      \
                .columns = (c), .n_columns = ELEMENTSOF(c)                                                             \
        }
#define TABLE_NO_PARENT SIZE_MAX

void table_done(Table *t);

/* Returns the cells of a new row, all VALUE_NONE, or NULL. Valid until the table is done. */
Value *table_add(Table *t, size_t parent);

/* Prints the table with its heading, without a pager and a legend. `width` 0 is unlimited. `n_rows` limits the rows.
 * Returns 0 or a negative errno. */
int table_print(const Table *t, FILE *f, size_t width, size_t n_rows, bool heading);
/* An array of objects. 0, or -ENOMEM where it is the outermost. */
int table_print_json(const Table *t, Json *j, const char *key);

/* Prints the table in the form that the options ask for. `singular` and `plural` are for the line below the table;
 * NULL: no such line. Returns an exit status. */
int table_show(const Ctl *c, const Table *t, const char *singular, const char *plural);

/* "1.2ms", "3min 4s": three digits are enough for a person. */
const char *format_usec(char *buf, size_t size, uint64_t usec);
const char *format_bytes(char *buf, size_t size, uint64_t bytes);
