/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The sender of a call
 */

#include "auth-sender.h"
#include "auth.h"
#include "common/process.h"

/* The sender of the message that is being dispatched: sd-bus has no field for it. The pointer is only compared with the
 * message that a caller asks about. */
static struct {
        const sd_bus_message *message;
        uid_t uid, user;
        pid_t pid; /* 0: the bus knows */
        int pidfd;
} known_sender;

void auth_know_sender(const sd_bus_message *m, uid_t uid, uid_t user) {
        known_sender.message = m;
        known_sender.uid = uid;
        known_sender.user = user;
        known_sender.pid = 0;
}

void auth_know_process(pid_t pid, int pidfd) {
        known_sender.pid = pid;
        known_sender.pidfd = pidfd;
}

int auth_sender_process(const sd_bus_message *m, AuthProcess *ret) {
        AuthProcess p = {.pid = m == known_sender.message ? known_sender.pid : 0};

        if (p.pid == 0)
                return 0;
        int r = process_stat(p.pid, NULL, &p.start_time);
        if (r < 0)
                return r;
        /* The pidfd says that the pid was still its own when it was read. */
        r = pidfd_is_alive(known_sender.pidfd);
        if (r <= 0)
                return r < 0 ? r : -ESRCH;
        *ret = p;
        return 1;
}

int auth_append_subject(sd_bus_message *call, sd_bus_message *m, uid_t uid, const AuthProcess *p) {
        if (p->pid == 0)
                return sd_bus_message_append(
                                call, "(sa{sv})", "system-bus-name", 1, "name", "s", sd_bus_message_get_sender(m));
        return sd_bus_message_append(call, "(sa{sv})", "unix-process", 3, "pid", "u", (uint32_t) p->pid, "start-time",
                        "t", p->start_time, "uid", "i", (int32_t) uid);
}

int auth_sender_uid(sd_bus_message *m, uid_t *ret) {
        sd_bus_creds *creds = NULL;
        uid_t uid = UID_NONE;

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
