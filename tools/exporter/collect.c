/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Collecting
 *
 * If the connection to the bus is lost, for instance because the bus ended, the next question makes a new one. No
 * answer is a result, too: the service is not up.
 */

#include "tools/exporter/collect.h"
#include "common/bus-names.h"

struct Collector {
        sd_event *event;
        CollectorOptions options;
        void (*done)(void *userdata);
        void *userdata;

        sd_bus *bus;
        sd_bus_slot *listing;
        sd_bus_slot *measuring[COLLECT_DEVICES_MAX];
        unsigned n_measuring;
        sd_bus_slot *listing_host;
        sd_bus_message *host_clients;
        sd_event_source *finish; /* on only when a question has been answered */

        Snapshot *making;
        uint64_t asked_at, measured_at, host_at;
        HostMetrics host;

        Snapshot *last;
        Selection selection;
        Others *others;
        uint64_t made_at;
        char *texts[_FORMAT_MAX];
        size_t sizes[_FORMAT_MAX];
};

/* --- the bus --- */

static void disconnect(Collector *c) {
        c->listing = sd_bus_slot_unref(c->listing);
        for (size_t i = 0; i < ELEMENTSOF(c->measuring); i++)
                c->measuring[i] = sd_bus_slot_unref(c->measuring[i]);
        c->n_measuring = 0;
        c->listing_host = sd_bus_slot_unref(c->listing_host);
        c->host_clients = sd_bus_message_unref(c->host_clients);
        if (c->bus)
                sd_bus_detach_event(c->bus);
        c->bus = sd_bus_close_unref(c->bus);
}

static int open_bus(const CollectorOptions *o, sd_bus **ret) {
        _cleanup_(sd_bus_unrefp)
        sd_bus *bus = NULL;

        if (!o->bus_address)
                return sd_bus_open_system(ret);
        int r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, o->bus_address);
        if (r >= 0)
                r = sd_bus_set_bus_client(bus, true);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r >= 0)
                *ret = TAKE_PTR(bus);
        return r;
}

static int connect_bus(Collector *c) {
        if (c->bus && sd_bus_is_open(c->bus) > 0)
                return 0;
        disconnect(c);
        int r = open_bus(&c->options, &c->bus);
        if (r >= 0)
                r = sd_bus_attach_event(c->bus, c->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0)
                disconnect(c);
        return r;
}

static int ask(Collector *c, const char *path, const char *interface, const char *member, uint64_t timeout_ns,
                sd_bus_message_handler_t handler, sd_bus_slot **slot) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = sd_bus_message_new_method_call(c->bus, &m, BUS_NAME, path, interface, member);
        if (r >= 0)
                r = sd_bus_message_set_auto_start(m, false);
        if (r >= 0)
                r = sd_bus_message_append(m, "t", UINT64_C(0));
        return r < 0 ? r : sd_bus_call_async(c->bus, slot, m, handler, c, timeout_ns / NSEC_PER_USEC);
}

/* Calls a method without arguments. */
static int list(Collector *c, const char *member, sd_bus_message_handler_t handler) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = sd_bus_message_new_method_call(c->bus, &m, BUS_NAME, BUS_PATH, BUS_INTERFACE, member);
        if (r >= 0)
                r = sd_bus_message_set_auto_start(m, false);
        return r < 0 ? r
                     : sd_bus_call_async(c->bus, &c->listing_host, m, handler, c, COLLECT_ANSWER_NS / NSEC_PER_USEC);
}

/* --- what comes of it --- */

static void forget_texts(Collector *c) {
        for (size_t i = 0; i < ELEMENTSOF(c->texts); i++) {
                free(c->texts[i]);
                c->texts[i] = NULL;
        }
}

/* A recent count is used again. */
static void count_host(Collector *c, sd_bus_message *clients, sd_bus_message *queues) {
        if (host_metrics_count(clients, queues, &c->host) < 0)
                c->host.known = false;
        c->host_at = now_ns();
}

/* Without memory for the new snapshot, the former one is dropped, too: it would be shown as if it were new. */
static int on_finish(sd_event_source *s, void *userdata) {
        Collector *c = userdata;

        forget_texts(c);
        selection_done(&c->selection);
        if (c->options.host_processes && c->making && !c->making->up &&
                        (c->host_at == 0 || now_ns() - c->host_at >= COLLECT_HOST_NS))
                count_host(c, NULL, NULL);
        if (c->making)
                c->making->host = c->host;
        c->last = snapshot_free(c->last);
        c->last = TAKE_PTR(c->making);
        if (c->last && selection_make(c->last, c->options.max_series, c->others, &c->selection) < 0)
                c->last = snapshot_free(c->last);
        c->made_at = now_ns();
        if (c->last)
                c->last->seconds = (double) (c->made_at - c->asked_at) / (double) NSEC_PER_SEC;
        c->done(c->userdata);
        return 0;
}

/* Answers later, from the event loop, because the first caller has not returned from asking yet. */
static void finish(Collector *c) {
        c->listing = sd_bus_slot_unref(c->listing);
        if (!c->making)
                c->making = snapshot_new();
        (void) sd_event_source_set_enabled(c->finish, SD_EVENT_ONESHOT);
}

static void finish_if_all_is_there(Collector *c) {
        if (c->n_measuring == 0 && !c->listing_host)
                finish(c);
}

static int on_measured(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Collector *c = userdata;
        sd_bus_slot *slot = sd_bus_get_current_slot(c->bus);

        for (size_t i = 0; i < ELEMENTSOF(c->measuring); i++)
                if (c->measuring[i] == slot) {
                        if (!sd_bus_message_is_method_error(m, NULL) && i < c->making->n_devices)
                                (void) snapshot_parse_measured(m, c->making->devices + i);
                        c->measuring[i] = sd_bus_slot_unref(c->measuring[i]);
                        c->n_measuring--;
                        break;
                }
        finish_if_all_is_there(c);
        return 0;
}

/* Values of the last measurement are in the answer already. */
static void measure(Collector *c) {
        Snapshot *s = c->making;
        uint64_t now = now_ns();

        if (!c->options.measure || (c->measured_at > 0 && now - c->measured_at < COLLECT_MEASURED_NS))
                return;
        for (size_t i = 0; i < MIN(s->n_devices, (size_t) COLLECT_DEVICES_MAX); i++)
                if (startswith(s->devices[i].id, "pci:") &&
                                ask(c, s->devices[i].path, BUS_INTERFACE ".Device", "Measure", COLLECT_MEASURE_NS,
                                                on_measured, &c->measuring[i]) >= 0)
                        c->n_measuring++;
        if (c->n_measuring > 0)
                c->measured_at = now;
}

/* --- processes of the host --- */

static int on_host_queues(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Collector *c = userdata;

        c->listing_host = sd_bus_slot_unref(c->listing_host);
        /* Without an answer nothing is known, which is not the same as no client being registered. */
        if (sd_bus_message_is_method_error(m, NULL))
                c->host.known = false;
        else
                count_host(c, c->host_clients, m);
        c->host_clients = sd_bus_message_unref(c->host_clients);
        finish_if_all_is_there(c);
        return 0;
}

static int on_host_clients(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Collector *c = userdata;

        c->listing_host = sd_bus_slot_unref(c->listing_host);
        if (sd_bus_message_is_method_error(m, NULL) || list(c, "ListQueues", on_host_queues) < 0) {
                c->host.known = false;
                finish_if_all_is_there(c);
        } else
                c->host_clients = sd_bus_message_ref(m);
        return 0;
}

static void list_host(Collector *c) {
        if (!c->options.host_processes || (c->host_at > 0 && now_ns() - c->host_at < COLLECT_HOST_NS))
                return;
        if (list(c, "ListClients", on_host_clients) < 0)
                c->host.known = false;
}

static int on_listed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Collector *c = userdata;

        c->listing = sd_bus_slot_unref(c->listing);
        if (!sd_bus_message_is_method_error(m, NULL) && snapshot_parse(m, &c->making) >= 0) {
                measure(c);
                list_host(c);
        }
        finish_if_all_is_there(c);
        return 0;
}

bool collector_is_busy(const Collector *c) {
        int enabled = SD_EVENT_OFF;

        (void) sd_event_source_get_enabled(c->finish, &enabled);
        return c->listing || c->listing_host || c->n_measuring > 0 || enabled != SD_EVENT_OFF;
}

int collector_want(Collector *c) {
        uint64_t now = now_ns();

        if (collector_is_busy(c))
                return 0;
        if (c->last && now - c->made_at < COLLECT_FRESH_NS)
                return 1;
        c->asked_at = now;
        int r = connect_bus(c);
        if (r >= 0)
                r = ask(c, BUS_PATH, BUS_INTERFACE, "ListStatistics", COLLECT_ANSWER_NS, on_listed, &c->listing);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                finish(c);
        return 0;
}

int collector_render(Collector *c, Format format, const char **ret, size_t *ret_size) {
        if (!c->last)
                return -ENODATA;
        if (!c->texts[format]) {
                int r = render(c->last, &c->selection, format, &c->texts[format], &c->sizes[format]);
                if (r < 0)
                        return r;
        }
        *ret = c->texts[format];
        *ret_size = c->sizes[format];
        return 0;
}

int collector_new(sd_event *event, const CollectorOptions *options, void (*done)(void *userdata), void *userdata,
                Collector **ret) {
        _cleanup_(collector_freep)
        Collector *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        *c = (Collector){.event = sd_event_ref(event), .options = *options, .done = done, .userdata = userdata};
        if (options->count_others) {
                c->others = others_new();
                if (!c->others)
                        return -ENOMEM;
        }
        int r = sd_event_add_defer(event, &c->finish, on_finish, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->finish, SD_EVENT_OFF);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

Collector *collector_free(Collector *c) {
        if (!c)
                return NULL;
        disconnect(c);
        forget_texts(c);
        selection_done(&c->selection);
        sd_event_source_unref(c->finish);
        snapshot_free(c->making);
        snapshot_free(c->last);
        others_free(c->others);
        sd_event_unref(c->event);
        free(c);
        return NULL;
}
