/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A ledger in a memfd: records that outlive the process that wrote them
 *
 * Only ever appended to. The first 16 bytes say where the valid records begin and end, and are written after the
 * records themselves: a process that is killed anywhere in between leaves the former state. When most of it is outdated
 * its owner writes everything anew, behind the old records (ledger_begin(), ledger_append()..., ledger_commit()), or
 * record by record: it appends those of the oldest records again that still hold, and forgets the old ones
 * (ledger_forget()); the old ones are given back to the kernel. Offsets grow for ever, pages do not.
 *
 * A record is one line of JSON.
 */

#include <json-c/json.h>

#include "common/macro.h"

typedef struct Ledger {
        int fd;
        uint64_t begin, end;  /* of what is valid, as written in the file */
        uint64_t compact_end; /* ledger_begin() to ledger_commit(): end of what is being written; else 0 */
        uint64_t base_size;   /* size after the last rewriting */
} Ledger;

#define LEDGER_NULL ((Ledger){.fd = -EBADF})

int ledger_new(const char *name, Ledger *ret);
/* Takes a memfd that an earlier process wrote. -EBADMSG when it is no ledger; the fd is then still the caller's. */
int ledger_open(int fd, Ledger *ret);
void ledger_done(Ledger *j);

int ledger_append(Ledger *j, json_object *record);

/* Most of it is outdated. */
bool ledger_is_bloated(const Ledger *j);
void ledger_begin(Ledger *j);
int ledger_commit(Ledger *j);
void ledger_abort(Ledger *j); /* the records from before remain valid */

/* Records before this offset, which has to be the end of one, are outdated. */
int ledger_forget(Ledger *j, uint64_t before);

/* Calls `record` for each valid record. Skips lines that are no JSON. */
typedef int (*ledger_record_t)(json_object *record, void *userdata);
int ledger_read(const Ledger *j, ledger_record_t record, void *userdata);
