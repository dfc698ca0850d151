/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Messages of D-Bus: see dbus-message.h
 */

#include <stdio.h>

#include "common/apart.h"
#include "common/array.h"
#include "common/macro.h"
#include "shim/dbus/dbus-message.h"

#define PROTOCOL_VERSION 1

enum {
        FIELD_PATH = 1,
        FIELD_INTERFACE = 2,
        FIELD_MEMBER = 3,
        FIELD_ERROR_NAME = 4,
        FIELD_REPLY_SERIAL = 5,
        FIELD_DESTINATION = 6,
        FIELD_SENDER = 7,
        FIELD_SIGNATURE = 8,
        FIELD_UNIX_FDS = 9,
};

static size_t align_up(size_t n, size_t alignment) {
        return (n + alignment - 1) & ~(alignment - 1);
}

/* The specification's UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
static bool utf8_is_valid(const uint8_t *s, size_t n) {
        for (size_t i = 0; i < n;) {
                unsigned more = s[i] < 0x80   ? 0
                                : s[i] < 0xc2 ? 4
                                : s[i] < 0xe0 ? 1
                                : s[i] < 0xf0 ? 2
                                : s[i] < 0xf5 ? 3
                                              : 4;
                uint32_t c = more == 0 ? s[i] : s[i] & (0x3fU >> more);

                if (more == 4 || more >= n - i)
                        return false;
                for (unsigned k = 1; k <= more; k++) {
                        if ((s[i + k] & 0xc0) != 0x80)
                                return false;
                        c = c << 6 | (s[i + k] & 0x3f);
                }
                if ((more == 2 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
                                (more == 3 && (c < 0x10000 || c > 0x10ffff)))
                        return false;
                i += more + 1;
        }
        return true;
}

bool dbus_is_text(const char *s) {
        return utf8_is_valid((const uint8_t *) s, strlen(s));
}

/* --- writing --- */

static void *writer_extend(DbusWriter *w, size_t alignment, size_t n) {
        size_t at = align_up(w->size, alignment);

        if (w->error < 0)
                return NULL;
        if (n > DBUS_MESSAGE_MAX || at + n > DBUS_MESSAGE_MAX) {
                w->error = -EMSGSIZE;
                return NULL;
        }
        uint8_t *data = array_reserve(w->data, &w->allocated, MAX(at + n, APART_MIN), 1);
        if (!data) {
                w->error = -ENOMEM;
                return NULL;
        }
        w->data = data;
        memset(w->data + w->size, 0, at - w->size);
        w->size = at + n;
        return w->data + at;
}

static void write_byte(DbusWriter *w, uint8_t v) {
        uint8_t *p = writer_extend(w, 1, 1);
        if (p)
                *p = v;
}

void dbus_write_u32(DbusWriter *w, uint32_t v) {
        void *p = writer_extend(w, sizeof(v), sizeof(v));
        if (p)
                memcpy(p, &v, sizeof(v));
}

void dbus_write_u64(DbusWriter *w, uint64_t v) {
        void *p = writer_extend(w, sizeof(v), sizeof(v));
        if (p)
                memcpy(p, &v, sizeof(v));
}

static void write_chars(DbusWriter *w, const char *s, size_t n) {
        void *p = writer_extend(w, 1, n + 1);
        if (p)
                memcpy(p, s, n + 1);
}

void dbus_write_string(DbusWriter *w, const char *s) {
        size_t n = strlen(s);

        if (w->error >= 0 && !utf8_is_valid((const uint8_t *) s, n))
                w->error = -EINVAL;
        dbus_write_u32(w, (uint32_t) n);
        write_chars(w, s, n);
}

void dbus_write_signature(DbusWriter *w, const char *s) {
        size_t n = strlen(s);

        if (w->error >= 0 && n > UINT8_MAX)
                w->error = -EINVAL;
        write_byte(w, (uint8_t) n);
        write_chars(w, s, n);
}

void dbus_write_struct(DbusWriter *w) {
        (void) writer_extend(w, DBUS_ALIGN_8, 0);
}

size_t dbus_begin_array(DbusWriter *w, DbusAlignment items) {
        dbus_write_u32(w, 0);
        size_t begun = w->size;
        (void) writer_extend(w, items, 0);
        return begun;
}

void dbus_end_array(DbusWriter *w, size_t begun, DbusAlignment items) {
        if (w->error < 0)
                return;
        uint32_t n = (uint32_t) (w->size - align_up(begun, items));
        memcpy(w->data + begun - sizeof(n), &n, sizeof(n));
}

static void write_field(DbusWriter *w, uint8_t code, const char *signature, const char *s) {
        if (!s)
                return;
        dbus_write_struct(w);
        write_byte(w, code);
        dbus_write_signature(w, signature);
        if (streq(signature, "g"))
                dbus_write_signature(w, s);
        else
                dbus_write_string(w, s);
}

void dbus_writer_begin(DbusWriter *w, const DbusHeader *h) {
        *w = DBUS_WRITER_NULL;
        write_byte(w, DBUS_NATIVE_ORDER);
        write_byte(w, (uint8_t) h->type);
        write_byte(w, (uint8_t) h->flags);
        write_byte(w, PROTOCOL_VERSION);
        dbus_write_u32(w, 0); /* the body's size and the serial are filled in by dbus_writer_seal() */
        dbus_write_u32(w, 0);
        size_t fields = dbus_begin_array(w, DBUS_ALIGN_8);
        write_field(w, FIELD_PATH, "o", h->path);
        write_field(w, FIELD_INTERFACE, "s", h->interface);
        write_field(w, FIELD_MEMBER, "s", h->member);
        write_field(w, FIELD_ERROR_NAME, "s", h->error);
        write_field(w, FIELD_DESTINATION, "s", h->destination);
        write_field(w, FIELD_SIGNATURE, "g", h->signature);
        if (h->reply_serial > 0) {
                dbus_write_struct(w);
                write_byte(w, FIELD_REPLY_SERIAL);
                dbus_write_signature(w, "u");
                dbus_write_u32(w, h->reply_serial);
        }
        dbus_end_array(w, fields, DBUS_ALIGN_8);
        dbus_write_struct(w); /* a body begins where a structure may */
        w->body_at = w->size;
}

int dbus_writer_seal(DbusWriter *w, uint32_t serial) {
        if (w->error < 0)
                return w->error;
        uint32_t n = (uint32_t) (w->size - w->body_at);
        memcpy(w->data + DBUS_AT_BODY_SIZE, &n, sizeof(n));
        memcpy(w->data + DBUS_AT_SERIAL, &serial, sizeof(serial));
        return 0;
}

void dbus_writer_done(DbusWriter *w) {
        free(w->data);
        *w = DBUS_WRITER_NULL;
}

static bool is_plain(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int dbus_path_encode(const char *prefix, const char *name, char **ret) {
        size_t n = strlen(prefix);
        char *path = malloc_apart(n + 3 * strlen(name) + 3), *p = path;

        if (!path)
                return -ENOMEM;
        memcpy(p, prefix, n);
        p += n;
        *p++ = '/';
        if (isempty(name))
                *p++ = '_';
        for (const char *s = name; *s; s++)
                if (is_plain(*s) && !(s == name && *s <= '9'))
                        *p++ = *s;
                else
                        p += sprintf(p, "_%02x", (unsigned char) *s);
        *p = '\0';
        *ret = path;
        return 0;
}

/* --- reading --- */

static const void *reader_take(DbusReader *r, size_t alignment, size_t n) {
        size_t at = align_up(r->at, alignment);

        if (r->bad || at > r->size || n > r->size - at) {
                r->bad = true;
                return NULL;
        }
        r->at = at + n;
        return r->data + at;
}

static uint8_t read_byte(DbusReader *r) {
        const uint8_t *p = reader_take(r, 1, 1);
        return p ? *p : 0;
}

uint32_t dbus_read_u32(DbusReader *r) {
        const void *p = reader_take(r, sizeof(uint32_t), sizeof(uint32_t));
        uint32_t v = 0;

        if (p)
                memcpy(&v, p, sizeof(v));
        return r->swapped ? bswap_32(v) : v;
}

uint64_t dbus_read_u64(DbusReader *r) {
        const void *p = reader_take(r, sizeof(uint64_t), sizeof(uint64_t));
        uint64_t v = 0;

        if (p)
                memcpy(&v, p, sizeof(v));
        return r->swapped ? bswap_64(v) : v;
}

/* Reads n characters and the zero byte after them; the characters contain none. */
static const char *read_chars(DbusReader *r, size_t n) {
        const char *s = n < r->size ? reader_take(r, 1, n + 1) : NULL;

        if (!s || memchr(s, '\0', n + 1) != s + n || !utf8_is_valid((const uint8_t *) s, n)) {
                r->bad = true;
                return "";
        }
        return s;
}

const char *dbus_read_string(DbusReader *r) {
        return read_chars(r, dbus_read_u32(r));
}

const char *dbus_read_signature(DbusReader *r) {
        return read_chars(r, read_byte(r));
}

void dbus_read_struct(DbusReader *r) {
        (void) reader_take(r, DBUS_ALIGN_8, 0);
}

int dbus_read_fd(DbusReader *r) {
        uint32_t i = dbus_read_u32(r);

        if (r->bad || i >= r->n_fds) {
                r->bad = true;
                return -EBADF;
        }
        return r->fds[i];
}

void dbus_read_variant(DbusReader *r, const char *signature) {
        if (!streq(dbus_read_signature(r), signature))
                r->bad = true;
}

size_t dbus_read_array(DbusReader *r, DbusAlignment items) {
        uint32_t n = dbus_read_u32(r);

        (void) reader_take(r, items, 0);
        if (r->bad || n > r->size - r->at) {
                r->bad = true;
                return r->at;
        }
        return r->at + n;
}

bool dbus_read_more(const DbusReader *r, size_t end) {
        return !r->bad && r->at < end;
}

const uint8_t *dbus_read_bytes(DbusReader *r, size_t *ret_size) {
        size_t n = dbus_read_u32(r);
        const uint8_t *p = reader_take(r, 1, n);

        if (p)
                *ret_size = n;
        return p;
}

/* --- received --- */

int dbus_message_size(const uint8_t prefix[static DBUS_PREFIX_SIZE], size_t *ret) {
        if (!dbus_prefix_has_order(prefix) || prefix[3] != PROTOCOL_VERSION)
                return -EBADMSG;
        uint64_t size = dbus_prefix_message_size(prefix);
        if (size > DBUS_LONGEST)
                return -EMSGSIZE;
        *ret = (size_t) size;
        return 0;
}

/* Skips unknown fields of a later specification, if their types are known. */
static void read_field(DbusMessage *m, DbusReader *r, uint32_t *n_fds) {
        const char **strings[] = {
                        [FIELD_PATH] = &m->path,
                        [FIELD_INTERFACE] = &m->interface,
                        [FIELD_MEMBER] = &m->member,
                        [FIELD_ERROR_NAME] = &m->error,
                        [FIELD_SENDER] = &m->sender,
        };
        dbus_read_struct(r);
        uint8_t code = read_byte(r);
        const char *signature = dbus_read_signature(r), *s = "";
        uint32_t n = 0;

        if (streq(signature, "s") || streq(signature, "o"))
                s = dbus_read_string(r);
        else if (streq(signature, "g"))
                s = dbus_read_signature(r);
        else if (streq(signature, "u"))
                n = dbus_read_u32(r);
        else
                r->bad = true;

        if (code < ELEMENTSOF(strings) && strings[code])
                *strings[code] = s;
        else if (code == FIELD_SIGNATURE)
                m->signature = s;
        else if (code == FIELD_REPLY_SERIAL)
                m->reply_serial = n;
        else if (code == FIELD_UNIX_FDS)
                *n_fds = n;
}

static int read_header(DbusMessage *m, size_t size, uint32_t *n_fds) {
        DbusReader r = {.data = m->data, .size = size, .at = DBUS_AT_FIELDS_SIZE, .swapped = m->swapped};
        size_t end = dbus_read_array(&r, DBUS_ALIGN_8);

        while (dbus_read_more(&r, end))
                read_field(m, &r, n_fds);
        if (r.bad || r.at != end)
                return -EBADMSG;
        m->body_at = align_up(end, DBUS_ALIGN_8);
        return m->body_at > size ? -EBADMSG : 0;
}

static const char *error_text(const DbusMessage *m) {
        DbusReader r;

        if (m->type != DBUS_ERROR || m->signature[0] != 's')
                return "";
        (void) dbus_message_read(m, m->signature, &r);
        return dbus_read_string(&r);
}

int dbus_message_new(uint8_t *data, size_t size, const int *fds, unsigned n_fds, DbusMessage **ret) {
        uint32_t n_told = 0;
        size_t told;

        if (size < DBUS_PREFIX_SIZE || n_fds > DBUS_FDS_MAX || dbus_message_size(data, &told) < 0 || told != size)
                return -EBADMSG;
        _cleanup_free_ DbusMessage *m = malloc_apart(sizeof(*m));
        if (!m)
                return -ENOMEM;
        *m = (DbusMessage){
                        .type = (DbusType) data[1],
                        .flags = (DbusFlags) data[2],
                        .serial = dbus_prefix_number(data, DBUS_AT_SERIAL),
                        .path = "",
                        .interface = "",
                        .member = "",
                        .error = "",
                        .sender = "",
                        .signature = "",
                        .text = "",
                        .swapped = dbus_prefix_is_swapped(data),
                        .data = data,
                        .size = size,
        };
        int r = read_header(m, size, &n_told);
        if (r < 0)
                return r;
        if (m->serial == 0 || n_told != n_fds)
                return -EBADMSG;
        if (n_fds > 0)
                memcpy(m->fds, fds, n_fds * sizeof(*fds));
        m->n_fds = n_fds;
        m->text = error_text(m);
        *ret = TAKE_PTR(m);
        return 0;
}

DbusMessage *dbus_message_free(DbusMessage *m) {
        if (!m)
                return NULL;
        for (unsigned i = 0; i < m->n_fds; i++)
                safe_close(m->fds[i]);
        free(m->data);
        free(m);
        return NULL;
}

bool dbus_message_read(const DbusMessage *m, const char *signature, DbusReader *ret) {
        *ret = (DbusReader){
                        .data = m->data,
                        .size = m->size,
                        .at = m->body_at,
                        .swapped = m->swapped,
                        .bad = !streq(m->signature, signature),
                        .fds = m->fds,
                        .n_fds = m->n_fds,
        };
        return !ret->bad;
}
