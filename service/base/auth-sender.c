/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who is calling
 */

#include "auth.h"

/* sd-bus has no room for it in a message. Only compared, and set anew for each message. */
static struct {
        const sd_bus_message *message;
        uid_t uid, user;
} known_sender;

void auth_know_sender(const sd_bus_message *m, uid_t uid, uid_t user) {
        known_sender.message = m;
        known_sender.uid = uid;
        known_sender.user = user;
}

int auth_sender_uid(sd_bus_message *m, uid_t *ret) {
        sd_bus_creds *creds = NULL;
        uid_t uid = AUTH_NO_OWNER;

        if (m == known_sender.message) {
                *ret = known_sender.uid;
                return 0;
        }

        int r = sd_bus_query_sender_creds(m, SD_BUS_CREDS_EUID, &creds);
        if (r >= 0)
                r = sd_bus_creds_get_euid(creds, &uid);
        sd_bus_creds_unref(creds);
        if (r < 0)
                return r;
        *ret = uid;
        return 0;
}

uid_t auth_sender_user(const sd_bus_message *m, uid_t uid) {
        return m == known_sender.message ? known_sender.user : uid;
}
