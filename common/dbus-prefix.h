/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The first bytes of a D-Bus message, which contain its length
 */

#include <byteswap.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DBUS_PREFIX_SIZE ((size_t) 16)

#define DBUS_NATIVE_ORDER  (BYTE_ORDER == LITTLE_ENDIAN ? 'l' : 'B')
#define DBUS_FOREIGN_ORDER (BYTE_ORDER == LITTLE_ENDIAN ? 'B' : 'l')

/* Offsets of its numbers, in bytes. */
#define DBUS_AT_BODY_SIZE   4U
#define DBUS_AT_SERIAL      8U
#define DBUS_AT_FIELDS_SIZE 12U

/* Returns whether this may be a message, by its first byte. */
static inline bool dbus_prefix_has_order(const uint8_t *prefix) {
        return prefix[0] == DBUS_NATIVE_ORDER || prefix[0] == DBUS_FOREIGN_ORDER;
}

static inline bool dbus_prefix_is_swapped(const uint8_t *prefix) {
        return prefix[0] == DBUS_FOREIGN_ORDER;
}

static inline uint32_t dbus_prefix_number(const uint8_t *prefix, size_t at) {
        uint32_t v;

        memcpy(&v, prefix + at, sizeof(v));
        return dbus_prefix_is_swapped(prefix) ? bswap_32(v) : v;
}

/* Returns the length of the whole message in bytes, as the peer claims: up to twice UINT32_MAX and some more. */
static inline uint64_t dbus_prefix_message_size(const uint8_t prefix[static DBUS_PREFIX_SIZE]) {
        uint64_t fields = dbus_prefix_number(prefix, DBUS_AT_FIELDS_SIZE);

        return DBUS_PREFIX_SIZE + (fields + 7) / 8 * 8 + dbus_prefix_number(prefix, DBUS_AT_BODY_SIZE);
}
