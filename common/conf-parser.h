/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Configuration files in systemd's style
 *
 * A file is sections of Key=value lines, read into plain structs by tables: one ConfSection per section, one ConfItem
 * per key. Rules that administrators can rely on:
 *
 *   - every problem is reported with file and line, and costs that line only: the rest applies;
 *   - an unknown section or key is reported as a warning and skipped (older service, newer file); names that begin with
 *     X- belong to other programs, and are skipped silently;
 *   - a bad value leaves the setting as it was: what `last_good` holds, where the caller has one (a reload), else what
 *     earlier files or the defaults said;
 *   - an empty assignment returns the setting to its default.
 *
 * Since values are copied as bytes (defaults and last_good to data), a setting is plain memory: numbers, enums,
 * pointers to constants, and strings in arrays.
 *
 * Nothing is logged here: problems go to a callback. Not linked into the shim. Thread safety: none needed; no global
 * state.
 *
 * Syntax, beyond systemd's: a ';' after white space begins a comment.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/macro.h"

typedef enum ConfSeverity {
        CONF_WARNING, /* skipped: unknown section or key, file that is not there any more */
        CONF_ERROR,   /* not applied: bad value, bad syntax, file that cannot be read */
} ConfSeverity;

typedef struct ConfProblem {
        ConfSeverity severity;
        const char *file;
        unsigned line; /* 0: the file as a whole */
        int error;     /* negative errno, 0 for a warning */
        const char *message;
} ConfProblem;

/* `problem` and what it points to are valid during the call only. */
typedef void (*ConfReport)(const ConfProblem *problem, void *userdata);

typedef struct ConfItem ConfItem;

typedef struct ConfType {
        const char *expects; /* "a time span", for messages */
        /* Returns 0, -EINVAL or -ERANGE; writes data (item->size bytes) on success only. */
        int (*parse)(const char *value, const ConfItem *item, void *data);
        /* Formats min and max for messages: "10us", "5"; NULL for types without a range. */
        const char *(*format)(char *buf, size_t size, int64_t limit);
} ConfType;

struct ConfItem {
        const char *key;
        const ConfType *type;
        size_t offset; /* of the setting in the section's struct */
        size_t size;
        int64_t min, max; /* in the unit of the type; ignored by types without a range */
};

#define CONF_ITEM(key_, type_, struct_, member_, min_, max_)                                                           \
        {                                                                                                              \
                .key = (key_), .type = &(type_), .offset = offsetof(struct_, member_),                                 \
                .size = sizeof(((struct_ *) 0)->member_), .min = (min_), .max = (max_)                                 \
        }

/* Where a section's settings go. */
typedef struct ConfTarget {
        void *data;
        const void *defaults;
        const void *last_good;  /* NULL: none */
        uint64_t *set;          /* NULL, or one bit per item: it has a value (and was not emptied again) */
        uint64_t last_good_set; /* with `set`: which items of last_good count */
} ConfTarget;

typedef struct ConfSection {
        const char *name; /* "Scheduler"; with takes_argument "Device" for "[Device ARGUMENT]" */
        bool takes_argument;
        const ConfItem *items;
        size_t n_items;
        /* Called at each header of the section. Returns 0 or a negative errno: -EINVAL when `argument` is invalid
         * (reported; the section is skipped), -ENOMEM. */
        int (*open)(const char *argument, void *userdata, ConfTarget *ret);
        /* NULL: values are stored as the items say. Otherwise this function gets the values, "" included, and the items
         * only name the keys: for lists, and for callers that record where a value comes from. Errors are reported with
         * the type's `expects`. `item` NULL: a line of the section that could not be parsed, and was reported, for
         * callers that must not apply a section by halves. */
        int (*assign)(const ConfItem *item, const char *value, const char *file, unsigned line, void *userdata);
} ConfSection;

typedef struct ConfContext {
        const ConfSection *sections;
        size_t n_sections;
        void *userdata; /* for ConfSection.open */
        ConfReport report;
        void *report_userdata;
} ConfContext;

/* Parses the bytes of a file named `file`. Returns 0 however many problems were reported; -ENOMEM. */
int conf_parse_buffer(const ConfContext *c, const char *file, const char *data, size_t size);

/* Parses a file; /dev/null is an empty one. Returns -ENOENT, without a report, when it does not exist; any other error
 * of reading it is reported and returned. */
int conf_parse_file(const ConfContext *c, const char *path);

/* What a path's ENOENT means: -ENOENT, a name on it does not exist; -ENOLINK, a link on it leads to nothing. */
int conf_missing_error(const char *path);

/* What an error of reading means; strerror() says of ENOLINK that a link has been severed. */
const char *conf_strerror(int error);

/* Returns 1: a file to read; 0: /dev/null, which only masks; -EISDIR or -EBADF: no file that can be read. */
int conf_file_kind(const struct stat *st);

void conf_report(const ConfContext *c, ConfSeverity severity, const char *file, unsigned line, int error,
                const char *format, ...) _printf_(6, 7);
