/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Messages of D-Bus: writing and reading
 *
 * Only the part of https://dbus.freedesktop.org/doc/dbus-specification.html (0.43) that the control thread needs: calls
 * are written in this machine's byte order, messages of both orders are read. The caller names the signature of a body
 * and then writes or reads its values in that order; containers are begun and ended by alignment.
 *
 * Errors stick: a writer that ran out of memory, or was given an invalid string, reports it once at its end, as does a
 * reader that met another type than it was told to read. Values read after that are 0 and "".
 *
 * No function here does I/O. Thread safety: none; one object belongs to one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dbus-prefix.h"

/* Bytes. The replies read here are a few strings, far below this limit; the specification allows 128 MiB. */
#define DBUS_MESSAGE_MAX ((size_t) 1 << 20)
#define DBUS_LONGEST     ((size_t) 128 << 20)
#define DBUS_FDS_MAX     16U
/* The part of a message from which its length is known. */

typedef enum DbusType {
        DBUS_METHOD_CALL = 1,
        DBUS_METHOD_RETURN = 2,
        DBUS_ERROR = 3,
        DBUS_SIGNAL = 4,
} DbusType;

typedef enum DbusFlags {
        DBUS_NO_REPLY_EXPECTED = 1,
        DBUS_NO_AUTO_START = 2,
} DbusFlags;

/* Where containers and values of a type begin. */
typedef enum DbusAlignment {
        DBUS_ALIGN_1 = 1, /* y g v */
        DBUS_ALIGN_4 = 4, /* u i b s o a h */
        DBUS_ALIGN_8 = 8, /* t x d ( { */
} DbusAlignment;

/* --- writing --- */

typedef struct DbusWriter {
        uint8_t *data;
        size_t size, allocated;
        size_t body_at;
        int error; /* 0, or the first error: -ENOMEM */
} DbusWriter;

#define DBUS_WRITER_NULL ((DbusWriter){})

/* NULL members are not in the header. */
typedef struct DbusHeader {
        DbusType type;
        DbusFlags flags;
        uint32_t reply_serial; /* 0: none */
        const char *destination, *path, *interface, *member, *error, *signature;
} DbusHeader;

/* Begins a message. What is written from here on is its body. */
void dbus_writer_begin(DbusWriter *w, const DbusHeader *h);
/* To be used as _cleanup_(dbus_writer_done). */
void dbus_writer_done(DbusWriter *w);
/* Writes serial number and length into the message. Returns 0 or the writer's error. */
int dbus_writer_seal(DbusWriter *w, uint32_t serial);

void dbus_write_u32(DbusWriter *w, uint32_t v);
void dbus_write_u64(DbusWriter *w, uint64_t v);
void dbus_write_string(DbusWriter *w, const char *s); /* also a path; -EINVAL: no UTF-8 */
void dbus_write_signature(DbusWriter *w, const char *s);
/* A structure or an entry of a dictionary. */
void dbus_write_struct(DbusWriter *w);
/* Returns `begun` for dbus_end_array(). */
size_t dbus_begin_array(DbusWriter *w, DbusAlignment items);
void dbus_end_array(DbusWriter *w, size_t begun, DbusAlignment items);

/* Returns whether the text is UTF-8, as D-Bus requires of strings. */
bool dbus_is_text(const char *s);

/* Appends a name to a path as systemd encodes it: "/org/freedesktop/systemd1/unit" and "a-b.service" make
 * ".../unit/a_2db_2eservice". The caller frees *ret. Returns 0 or -ENOMEM. */
int dbus_path_encode(const char *prefix, const char *name, char **ret);

/* --- reading --- */

typedef struct DbusReader {
        const uint8_t *data; /* of the whole message: alignment counts from its begin */
        size_t size, at;
        bool swapped, bad;
        const int *fds;
        unsigned n_fds;
} DbusReader;

uint32_t dbus_read_u32(DbusReader *r);
uint64_t dbus_read_u64(DbusReader *r);
const char *dbus_read_string(DbusReader *r); /* also a path; owned by the message */
const char *dbus_read_signature(DbusReader *r);
/* A structure or an entry of a dictionary. */
void dbus_read_struct(DbusReader *r);
int dbus_read_fd(DbusReader *r); /* owned by the message; -EBADF when bad */
/* The next value has to be a variant of this signature. */
void dbus_read_variant(DbusReader *r, const char *signature);
/* Returns the `end` for dbus_read_more(), which is true while the array has items. */
size_t dbus_read_array(DbusReader *r, DbusAlignment items);
bool dbus_read_more(const DbusReader *r, size_t end);
/* Returns an array of bytes, owned by the message. */
const uint8_t *dbus_read_bytes(DbusReader *r, size_t *ret_size);

/* --- received --- */

typedef struct DbusMessage {
        DbusType type;
        DbusFlags flags;
        uint32_t serial, reply_serial;
        const char *path, *interface, *member, *error, *sender, *signature; /* "" where there is none */
        const char *text;                                                   /* text of an error that has one; else "" */
        size_t body_at;
        bool swapped;
        uint8_t *data;
        size_t size;
        int fds[DBUS_FDS_MAX]; /* closed with the message */
        unsigned n_fds;
} DbusMessage;

/* Reads the length of a message from its first DBUS_PREFIX_SIZE bytes. Returns 0; -EBADMSG; -EMSGSIZE: longer than the
 * specification allows. */
int dbus_message_size(const uint8_t prefix[static DBUS_PREFIX_SIZE], size_t *ret);
/* Takes over data and descriptors on success. Returns 0, -EBADMSG, -ENOMEM. */
int dbus_message_new(uint8_t *data, size_t size, const int *fds, unsigned n_fds, DbusMessage **ret);
DbusMessage *dbus_message_free(DbusMessage *m); /* returns NULL */
/* Begins to read a reply. Returns false, and a bad reader, when it is no reply with a body of that signature. */
bool dbus_message_read(const DbusMessage *m, const char *signature, DbusReader *ret);
