/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waits on the bus
 */

#include "waits-dbus.h"

static int append(const char *device, const Wait *w, void *userdata) {
        uint64_t since = w->since_ns;

        return sd_bus_message_append(userdata, "(sssttt)", device, wait_reason_to_string(w->reason), w->by,
                        since / NSEC_PER_USEC, w->until_ns / NSEC_PER_USEC,
                        since > 0 ? ns_sub(now_ns(), since) / NSEC_PER_USEC : 0);
}

static int begin(sd_bus_message *reply) {
        return sd_bus_message_open_container(reply, 'a', "(sssttt)");
}

static int end(sd_bus_message *reply, int r) {
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

int waits_append_group(sd_bus_message *reply, Group *g) {
        int r = begin(reply);

        return end(reply, r < 0 ? r : waits_of_group(g, append, reply));
}

int waits_append_client(sd_bus_message *reply, Client *c) {
        int r = begin(reply);

        return end(reply, r < 0 ? r : waits_of_client(c, append, reply));
}

int waits_append_queue(sd_bus_message *reply, Queue *q) {
        int r = begin(reply);

        return end(reply, r < 0 ? r : waits_of_queue(q, append, reply));
}
