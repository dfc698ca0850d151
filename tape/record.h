/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Record: one call or decision of a device's policy, a line of JSON on a tape
 *
 * xschedctl(1), RECORDINGS, is the format for people. Which fields a record has follows from its kind: record.c has the
 * table, from which lines are written and read. Unknown kinds and records that lack a field are refused; fields that a
 * kind does not have are ignored.
 *
 * A tape begins with TAPE_BEGIN. Then each device has a TAPE_DEVICE and a TAPE_POLICY, which begins an instance of a
 * policy without nodes and entities; all of its calls follow in their order. Another TAPE_POLICY of the device begins
 * anew. TAPE_LOST says that records of any device are missing here: ignore further records of a device until its next
 * TAPE_POLICY. TAPE_END is the last, unless the recording was cut.
 */

#include "policy/policy.h"

#define TAPE_VERSION 1U

/* Upper limit of all numbers, times included, so that computing with them cannot overflow. */
#define TAPE_NUMBER_MAX (UINT64_C(1) << 62)

typedef enum TapeKind {
        TAPE_BEGIN,
        TAPE_DEVICE,
        TAPE_POLICY,
        TAPE_CONFIGURE,
        TAPE_NODE,
        TAPE_NODE_SET,
        TAPE_NODE_GONE,
        TAPE_ENTITY,
        TAPE_ENTITY_SET,
        TAPE_ENTITY_MOVE,
        TAPE_ENTITY_GONE, /* with its whole usage */
        TAPE_READY,
        TAPE_IDLE,
        TAPE_DRAINED,
        TAPE_TAIL,
        TAPE_TAIL_HAD,
        TAPE_OUTSIDE,
        TAPE_DISPATCH,
        TAPE_USED,        /* usage of an entity so far; changes nothing */
        TAPE_DEVICE_USED, /* usage of the device so far; changes nothing */
        TAPE_LOST,
        TAPE_END,
        _TAPE_KIND_MAX,
} TapeKind;

typedef struct TapeGrant {
        uint64_t entity;
        PolicyGrant grant;
} TapeGrant;

/* Fields that the kind does not have are 0. A record to be written borrows its pointers from the caller; one that was
 * read owns them: tape_record_done(). */
typedef struct TapeRecord {
        TapeKind kind;
        uint64_t device; /* number on this tape, from 1 */
        uint64_t at_ns;  /* CLOCK_MONOTONIC */
        uint64_t entity, node, parent;
        char *name; /* of a device its id; of a policy; of a node within its parent, NULL: none */

        uint64_t version, realtime_us;    /* TAPE_BEGIN: when that was, by CLOCK_REALTIME */
        PolicyConfig config;              /* TAPE_POLICY, TAPE_CONFIGURE */
        PolicyNodeSettings node_settings; /* TAPE_NODE, TAPE_NODE_SET; its name is `name` */
        PolicySettings settings;          /* TAPE_ENTITY, TAPE_ENTITY_SET */
        char *group;                      /* TAPE_ENTITY: whose it is, for people; */
        uint64_t pid, queue;              /* 0: of the whole group; of the whole process */
        int level;                        /* TAPE_OUTSIDE */
        uint64_t had_ns;                  /* TAPE_TAIL_HAD */
        TapeGrant *grants;                /* TAPE_DISPATCH: those that changed, in their order */
        size_t n_grants;
        uint64_t wake_ns; /* time of the next dispatch; NSEC_INFINITY: none */
        PolicyUsage usage;
        PolicyDeviceUsage device_usage;
        uint64_t lost; /* records */
} TapeRecord;

const char *tape_kind_to_string(TapeKind k);

/* Text that grows. Without memory it becomes empty, and stays `failed`. */
typedef struct TapeText {
        char *data;
        size_t n, size;
        bool failed;
} TapeText;

void tape_text_done(TapeText *t);

/* Appends the line, with its newline. */
void tape_write(TapeText *t, const TapeRecord *r);

/* Parses one line, with or without its newline. -EBADMSG: invalid, with the reason, a constant, in *ret_why;
 * -ENOMEM. */
int tape_read(const char *line, TapeRecord *ret, const char **ret_why);
void tape_record_done(TapeRecord *r);
