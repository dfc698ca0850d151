/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Registration and removal of queues over the connection
 */

#include "link-queue.h"
#include "common/apart.h"
#include "common/bus-names.h"
#include "link-register.h"
#include "link.h"
#include "shim/core/client.h"

static void link_on_queue(const DbusMessage *m, void *userdata) {
        XschedQueue *q = userdata;
        Control *c = q->control;
        DbusReader body;

        c->n_calls--;
        if (m->type == DBUS_METHOD_RETURN && dbus_message_read(m, "tu", &body)) {
                uint64_t id = dbus_read_u64(&body);
                uint32_t slot = dbus_read_u32(&body);
                if (!body.bad) {
                        control_attach_queue(c, q, id, slot);
                        return;
                }
        }

        /* The service has restarted and does not know us: register anew. */
        if (streq(m->error, BUS_ERROR("NoSuchClient")))
                c->lost = true;
        if (q->dead)
                control_finish_queue(c, q);
        else if (c->lost)
                control_set_queue_state(c, q, QUEUE_NEW);
        else if (link_error_is_absence(m)) {
                link_stall(c);
                control_set_queue_state(c, q, QUEUE_NEW);
        } else {
                client_debug("xsched: queue on %s refused: %s", q->device,
                                m->type == DBUS_ERROR ? m->text : "bad reply");
                control_set_queue_state(c, q, QUEUE_REFUSED);
        }
}

static int link_register_queue(Control *c, XschedQueue *q) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        link_begin_call(&w, "RegisterQueue", "oa{sv}");
        dbus_write_string(&w, c->object);
        size_t properties = dbus_begin_array(&w, DBUS_ALIGN_8);
        link_write_string(&w, "Device", q->device);
        link_write_string(&w, "DeviceName", q->device_name);
        link_write_string(&w, "Backend", q->backend);
        link_write_string(&w, "Label", q->label);
        if (q->priority_hint < 0)
                link_write_i32(&w, "PriorityHint", q->priority_hint);
        if (q->apply)
                link_write_u32(&w, "Level", (uint32_t) q->level);
        const char *hooked = page_hooked_to_string(atomic_load(&q->gate.hooked));
        link_write_string(&w, "Hooked", hooked);
        if (q->kfd_gpu_id != 0) {
                link_write_u32(&w, "KfdGpuId", q->kfd_gpu_id);
                link_write_u32(&w, "KfdQueueId", q->kfd_queue_id);
        }
        dbus_end_array(&w, properties, DBUS_ALIGN_8);
        int r = dbus_call(c->bus, &w, link_on_queue, q, LINK_CALL_TIMEOUT_NS);
        if (r < 0)
                return r;

        q->control = c;
        c->n_calls++;
        control_set_queue_state(c, q, QUEUE_REGISTERING);
        return 0;
}

/* Without room: completions of the queue kick the control thread. */
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

void link_send_queue_hints(Control *c) {
        if (!queue_take_hints_changed())
                return;
        for (XschedQueue *q = c->queues[QUEUE_ATTACHED]; q; q = q->next) {
                int r = !q->dead && hints_take_changed(&q->hints) ? link_send_hints(c, q->id, &q->hints) : 0;
                if (r < 0) {
                        queue_hints_due(q);
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

static void link_on_goner(const DbusMessage *m, void *userdata) {
        Goner *g = userdata;
        Control *c = g->control;

        c->n_calls--;
        if (link_error_is_absence(m)) {
                g->sent = false;
                link_stall(c);
                return;
        }
        link_free_goner(c, g);
        control_retry_refused(c); /* there is room for one more now */
}

static int link_unregister_queue(Control *c, Goner *g) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        link_begin_call(&w, "UnregisterQueue", "t");
        dbus_write_u64(&w, g->id);
        int r = dbus_call(c->bus, &w, link_on_goner, g, LINK_CALL_TIMEOUT_NS);
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
        Goner *g = malloc_apart(sizeof(Goner));

        if (!g) {
                c->lost = true; /* the service forgets all queues */
                return;
        }
        *g = (Goner){.control = c, .id = id, .next = c->goners};
        c->goners = g;
}
