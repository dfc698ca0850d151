/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's side of the bus, as the test says
 */

#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fake-scheduler.h"

#define NAME "org.xsched.Scheduler"

static void must(int r) {
        if (r < 0) {
                (void) fprintf(stderr, "fake scheduler: %s\n", strerror(-r));
                abort();
        }
}

static void keep(char *to, size_t size, const char *from) {
        (void) snprintf(to, size, "%s", strempty(from));
}

/* Calls take(key, contents, value) for each entry. */
static void read_properties(
                sd_bus_message *m, void (*take)(void *, const char *, const char *, sd_bus_message *), void *userdata) {
        must(sd_bus_message_enter_container(m, 'a', "{sv}"));
        while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
                const char *key, *contents;
                must(sd_bus_message_read(m, "s", &key));
                must(sd_bus_message_peek_type(m, NULL, &contents));
                must(sd_bus_message_enter_container(m, 'v', contents));
                take(userdata, key, contents, m);
                must(sd_bus_message_exit_container(m));
                must(sd_bus_message_exit_container(m));
        }
        must(sd_bus_message_exit_container(m));
}

static void take_client_property(void *userdata, const char *key, const char *contents, sd_bus_message *m) {
        FakeClient *c = userdata;
        const char *v = NULL;

        if (streq(contents, "s"))
                must(sd_bus_message_read(m, "s", &v));
        if (streq(key, "Job"))
                keep(c->job, sizeof(c->job), v);
        else if (streq(key, "Class"))
                keep(c->class, sizeof(c->class), v);
        else if (streq(key, "ShimVersion"))
                keep(c->version, sizeof(c->version), v);
        else if (streq(key, "Priority"))
                must(sd_bus_message_read(m, "i", &c->priority));
        else if (streq(key, "Weight"))
                must(sd_bus_message_read(m, "u", &c->weight));
        else
                abort();
}

static int on_register_client(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        FakeScheduler *s = userdata;
        uint64_t flags;
        int pair[2];
        char path[64];

        keep(s->refuse_client ? s->refused : s->taken, sizeof(s->taken), sd_bus_message_get_sender(m));
        s->n_refused += s->refuse_client != NULL;
        if (s->refuse_client)
                return sd_bus_error_set(error, s->refuse_client, "not you");
        must(sd_bus_message_read(m, "t", &flags));
        FakeClient *c = &s->clients[s->n_clients++];
        *c = (FakeClient){.f = fake_service_new(), .next_id = UINT64_C(1000) * s->n_clients};
        read_properties(m, take_client_property, c);
        must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        c->lifeline = pair[0];
        (void) snprintf(path, sizeof(path), "/org/xsched/Scheduler/client/%u", s->n_clients);

        _cleanup_close_ int theirs = pair[1], bad = memfd_create("bad", MFD_CLOEXEC);
        must(ftruncate(bad, (off_t) PAGE_SIZE_BYTES));
        return sd_bus_reply_method_return(m, "ohhh", path, s->bad_page ? bad : c->f->page.fd, theirs, c->f->wake);
}

static void take_queue_property(void *userdata, const char *key, const char *contents, sd_bus_message *m) {
        FakeScheduler *s = userdata;
        const char *v = NULL;

        if (streq(contents, "s"))
                must(sd_bus_message_read(m, "s", &v));
        if (streq(key, "Device"))
                keep(s->device, sizeof(s->device), v);
        else if (streq(key, "Backend"))
                keep(s->backend, sizeof(s->backend), v);
        else if (streq(key, "Label"))
                keep(s->label, sizeof(s->label), v);
        else if (streq(key, "Hooked"))
                keep(s->hooked, sizeof(s->hooked), v);
        else if (streq(key, "PriorityHint"))
                must(sd_bus_message_read(m, "i", &s->priority_hint));
        else if (streq(key, "Level"))
                must(sd_bus_message_read(m, "u", &s->level));
        else if (streq(key, "KfdGpuId"))
                must(sd_bus_message_read(m, "u", &s->kfd_gpu_id));
        else if (streq(key, "KfdQueueId"))
                must(sd_bus_message_read(m, "u", &s->kfd_queue_id));
        else if (!streq(key, "DeviceName"))
                abort();
}

static int on_register_queue(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        FakeScheduler *s = userdata;
        const char *path;
        unsigned number;

        must(sd_bus_message_read(m, "o", &path));
        if (s->refuse_queue)
                return sd_bus_error_set(error, s->refuse_queue, "not this one");
        if (sscanf(path, "/org/xsched/Scheduler/client/%u", &number) != 1 || number > s->n_clients)
                return sd_bus_error_set(error, NAME ".Error.NoSuchClient", "who?");
        FakeClient *c = &s->clients[number - 1];
        if (s->queues_max > 0 && c->n_queues >= s->queues_max)
                return sd_bus_error_set(error, NAME ".Error.QuotaExceeded", "too many");
        read_properties(m, take_queue_property, s);
        c->n_queues++;
        uint64_t id = c->next_id++;
        uint32_t slot = s->force_slot >= 0 ? (uint32_t) s->force_slot : (uint32_t) (id % 1000);
        if (slot < 64)
                c->seated |= UINT64_C(1) << slot;
        return sd_bus_reply_method_return(m, "tu", id, slot);
}

static int on_unregister_queue(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        FakeScheduler *s = userdata;
        uint64_t id;

        must(sd_bus_message_read(m, "t", &id));
        FakeClient *c = &s->clients[id / 1000 - 1];
        c->n_queues--;
        c->n_gone++;
        c->last_gone = id;
        if (s->force_slot < 0 && id % 1000 < 64)
                c->seated &= ~(UINT64_C(1) << id % 1000);
        return sd_bus_reply_method_return(m, NULL);
}

static void take_hint(void *userdata, const char *key, const char *contents, sd_bus_message *m) {
        FakeScheduler *s = userdata;

        if (streq(key, "Priority"))
                must(sd_bus_message_read(m, "i", &s->hint_priority));
        else if (streq(key, "Weight"))
                must(sd_bus_message_read(m, "u", &s->hint_weight));
        else if (streq(key, "Threshold"))
                must(sd_bus_message_read(m, "u", &s->hint_threshold));
        else
                abort();
}

static int on_hint(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        FakeScheduler *s = userdata;
        uint64_t queue;

        must(sd_bus_message_read(m, "t", &queue));
        read_properties(m, take_hint, s);
        s->n_hints++;
        return sd_bus_reply_method_return(m, NULL);
}

static const sd_bus_vtable vtable[] = {
                SD_BUS_VTABLE_START(0),
                SD_BUS_METHOD("RegisterClient", "ta{sv}", "ohhh", on_register_client, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("RegisterQueue", "oa{sv}", "tu", on_register_queue, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("UnregisterQueue", "t", NULL, on_unregister_queue, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Hint", "ta{sv}", NULL, on_hint, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_VTABLE_END,
};

static void connect_bus(FakeScheduler *s, const char *address) {
        must(sd_bus_new(&s->bus));
        must(sd_bus_set_address(s->bus, address));
        must(sd_bus_set_bus_client(s->bus, true));
        must(sd_bus_start(s->bus));
        must(sd_bus_add_object_vtable(s->bus, NULL, "/org/xsched/Scheduler", NAME, vtable, s));
}

FakeScheduler *fake_scheduler_new(const char *address) {
        FakeScheduler *s = calloc(1, sizeof(FakeScheduler));

        if (!s)
                abort();
        s->force_slot = -1;
        connect_bus(s, address);
        return s;
}

FakeScheduler *fake_scheduler_free(FakeScheduler *s) {
        for (unsigned i = 0; i < s->n_clients; i++) {
                fake_client_hang_up(&s->clients[i]);
                fake_service_free(s->clients[i].f);
        }
        sd_bus_close_unref(s->bus);
        free(s);
        return NULL;
}

void fake_scheduler_own(FakeScheduler *s) {
        must(sd_bus_request_name(s->bus, NAME, 0));
}

void fake_scheduler_disown(FakeScheduler *s) {
        must(sd_bus_release_name(s->bus, NAME));
}

void fake_scheduler_reconnect(FakeScheduler *s, const char *address) {
        s->bus = sd_bus_close_unref(s->bus);
        connect_bus(s, address);
}

void fake_client_nudge(FakeClient *c) {
        (void) !send(c->lifeline, "l", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void fake_client_hang_up(FakeClient *c) {
        c->lifeline = safe_close(c->lifeline);
}

bool fake_client_is_gone(const FakeClient *c) {
        struct pollfd p = {.fd = c->lifeline, .events = POLLIN};

        return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

void fake_scheduler_turn(FakeScheduler *s) {
        int r = sd_bus_process(s->bus, NULL);

        must(r);
        if (r == 0)
                must(sd_bus_wait(s->bus, 5000));
}
