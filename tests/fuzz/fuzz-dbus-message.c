/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as a message of D-Bus: what is taken for one can be read as any signature, and nothing beyond it is
 */

#include "shim/dbus/dbus-message.h"
#include "tests/fuzz/fuzz-settings.h"

static void require_within(const DbusMessage *m, const char *s) {
        const char *data = (const char *) m->data;

        if (*s)
                require(s > data && s + strlen(s) < data + m->size && dbus_is_text(s));
}

static void read_body(const DbusMessage *m) {
        DbusReader r;

        (void) dbus_message_read(m, m->signature, &r);
        for (const char *s = m->signature; *s && !r.bad; s++) {
                size_t n = 0, end;

                if (*s == 's' || *s == 'o')
                        require_within(m, dbus_read_string(&r));
                else if (*s == 'g')
                        require_within(m, dbus_read_signature(&r));
                else if (*s == 't')
                        (void) dbus_read_u64(&r);
                else if (*s == 'h')
                        require(dbus_read_fd(&r) == -EBADF);
                else if (*s == 'v')
                        dbus_read_variant(&r, "as");
                else if (*s == 'y')
                        require(!dbus_read_bytes(&r, &n) || n <= m->size);
                else if (*s == 'a')
                        for (end = dbus_read_array(&r, DBUS_ALIGN_8); dbus_read_more(&r, end);) {
                                dbus_read_struct(&r);
                                require_within(m, dbus_read_string(&r));
                        }
                else
                        (void) dbus_read_u32(&r);
                require(r.at <= r.size);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *copy = malloc(size + 1);
        DbusMessage *m = NULL;
        size_t told;

        require(copy);
        memcpy(copy, data, size);
        if (dbus_message_new(copy, size, NULL, 0, &m) < 0) {
                free(copy);
                return 0;
        }
        require(dbus_message_size(data, &told) == 0 && told == size);
        require_within(m, m->path);
        require_within(m, m->interface);
        require_within(m, m->member);
        require_within(m, m->error);
        require_within(m, m->sender);
        require_within(m, m->text);
        read_body(m);
        (void) dbus_message_free(m);
        return 0;
}
