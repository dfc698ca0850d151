/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection: queues, as they come and go
 */

#include "shim/core/client.h"
#include "shim/core/link-internal.h"

#define BUS_ERROR "org.xsched.Scheduler.Error."

static int link_on_queue(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        XschedQueue *q = userdata;
        Control *c = q->control;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);
        uint64_t id;
        uint32_t slot;

        c->n_calls--;
        if (!e && sdbus.sd_bus_message_read(m, "tu", &id, &slot) >= 0) {
                control_attach_queue(c, q, id, slot);
                return 1;
        }

        /* A restarted service that does not know us: begin anew. */
        if (e && streq_ptr(e->name, BUS_ERROR "NoSuchClient"))
                c->lost = true;
        if (q->dead)
                control_finish_queue(c, q);
        else if (c->lost)
                control_set_queue_state(c, q, QUEUE_NEW);
        else if (e && link_error_is_absence(e)) {
                link_stall(c);
                control_set_queue_state(c, q, QUEUE_NEW);
        } else {
                client_debug("xsched: queue on %s refused: %s", q->device,
                                e ? strempty(e->message) : "bad reply");
                control_set_queue_state(c, q, QUEUE_REFUSED);
        }
        return 1;
}

static int link_register_queue(Control *c, XschedQueue *q) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "RegisterQueue", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "o", c->object);
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = link_append_string(m, "Device", q->device);
        if (r >= 0)
                r = link_append_string(m, "DeviceName", q->device_name);
        if (r >= 0)
                r = link_append_string(m, "Backend", q->backend);
        if (r >= 0)
                r = link_append_string(m, "Label", q->label);
        if (r >= 0 && q->priority_hint < 0)
                r = sdbus.sd_bus_message_append(m, "{sv}", "PriorityHint", "i", q->priority_hint);
        if (r >= 0 && q->apply)
                r = sdbus.sd_bus_message_append(m, "{sv}", "Level", "u", (uint32_t) q->level);
        if (r >= 0 && q->kfd_gpu_id != 0)
                r = sdbus.sd_bus_message_append(m, "{sv}{sv}", "KfdGpuId", "u", q->kfd_gpu_id, "KfdQueueId",
                                "u", q->kfd_queue_id);
        if (r >= 0)
                r = sdbus.sd_bus_message_close_container(m);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_queue, q, LINK_CALL_TIMEOUT_USEC);
        if (r < 0)
                return r;

        q->control = c;
        c->n_calls++;
        control_set_queue_state(c, q, QUEUE_REGISTERING);
        return 0;
}

/* Its completions kick us when there is room. */
static bool queue_has_room(XschedQueue *q) {
        if (likely(gate_has_room(&q->gate)))
                return true;
        atomic_store_explicit(&q->wants_room, true, memory_order_seq_cst);
        return gate_has_room(&q->gate);
}

void link_send_queues(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_NEW], *next; q && c->n_calls < CONTROL_CALLS_MAX; q = next) {
                next = q->next;
                if (!queue_has_room(q))
                        continue;
                int r = link_register_queue(c, q);
                if (r == -EINVAL) /* a name that is no UTF-8 */
                        control_set_queue_state(c, q, QUEUE_REFUSED);
                else if (r < 0) {
                        link_failed(c, r);
                        return;
                }
        }
}

static void link_free_goner(Control *c, Goner *g) {
        Goner **link = &c->goners;

        while (*link != g)
                link = &(*link)->next;
        *link = g->next;
        free(g);
}

static int link_on_goner(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        Goner *g = userdata;
        Control *c = g->control;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);

        c->n_calls--;
        if (e && link_error_is_absence(e)) {
                g->sent = false;
                link_stall(c);
                return 1;
        }
        link_free_goner(c, g);
        control_retry_refused(c); /* there is room for one more now */
        return 1;
}

static int link_unregister_queue(Control *c, Goner *g) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "UnregisterQueue", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "t", g->id);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_goner, g, LINK_CALL_TIMEOUT_USEC);
        if (r < 0)
                return r;
        g->sent = true;
        c->n_calls++;
        return 0;
}

void link_send_goners(Control *c) {
        for (Goner *g = c->goners; g && c->n_calls < CONTROL_CALLS_MAX; g = g->next) {
                int r = g->sent ? 0 : link_unregister_queue(c, g);
                if (r < 0) {
                        link_failed(c, r);
                        return;
                }
        }
}

void link_forget_queue(Control *c, uint64_t id) {
        Goner *g = calloc(1, sizeof(Goner));

        if (!g) {
                c->lost = true; /* the service forgets all of them */
                return;
        }
        *g = (Goner){.control = c, .id = id, .next = c->goners};
        c->goners = g;
}
