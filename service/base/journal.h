/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A journal in a memfd: records that outlive the process that wrote them
 *
 * Only ever appended to. The first 16 bytes say where the valid records begin and end, and are written after the
 * records themselves: a process that is killed anywhere in between leaves the former state. When most of it is outdated
 * its owner writes everything anew, behind the old records (journal_begin(), journal_append()..., journal_commit()),
 * or, record by record, what is still so of the oldest once more, behind the newest (journal_forget()); the old ones
 * are given back to the kernel. Offsets grow for ever, pages do not.
 *
 * A record is one line of JSON.
 */

#include <json-c/json.h>

#include "common/macro.h"

typedef struct Journal {
        int fd;
        uint64_t begin, end;  /* of what is valid, as written in the file */
        uint64_t compact_end; /* journal_begin() to journal_commit(): end of what is being written; else 0 */
        uint64_t base_size;   /* size after the last rewriting */
} Journal;

#define JOURNAL_NULL ((Journal){.fd = -EBADF})

int journal_new(const char *name, Journal *ret);
/* Takes a memfd that an earlier process wrote. -EBADMSG when it is no journal; the fd is then still the caller's. */
int journal_open(int fd, Journal *ret);
void journal_done(Journal *j);

int journal_append(Journal *j, json_object *record);

/* Most of it is outdated. */
bool journal_is_bloated(const Journal *j);
void journal_begin(Journal *j);
int journal_commit(Journal *j);
void journal_abort(Journal *j); /* what stood there before still holds */

/* What stands before this offset, which a record's end has been, is outdated. */
int journal_forget(Journal *j, uint64_t before);

/* Reads all. Lines that are no JSON are passed over. */
typedef int (*journal_record_t)(json_object *record, void *userdata);
int journal_read(const Journal *j, journal_record_t record, void *userdata);
