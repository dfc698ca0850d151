/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as what a client does: to its page, in any order, and as the settings that it sends
 *
 * A hostile client and an honest one share two devices. The input is a programme for the hostile one: words and bytes
 * written anywhere into its page, wakes, queues that come and go, suspensions, settings of any keys and types, restarts
 * of the service over the page as it then is. After every step the service's own counts must agree, what it wrote for
 * the honest client must stand in that one's page, and the honest client, of higher priority, runs whenever it is
 * ready.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <utlist.h>

#include "service/base/log.h"
#include "service/bus/bus-util.h"
#include "service/core/arbiter.h"
#include "service/core/counters.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/core/suspension.h"
#include "service/enforce/enforce.h"
#include "service/settings/xsched-conf.h"
#include "service/state/client-state.h"
#include "service/state/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define QUEUES_MAX 6

static void require(bool ok) {
        if (!ok)
                abort();
}

/* --- the input --- */

typedef struct Input {
        const uint8_t *data;
        size_t left;
} Input;

static uint64_t take(Input *in, size_t n) {
        uint64_t v = 0;

        n = MIN(n, in->left);
        memcpy(&v, in->data, n);
        in->data += n;
        in->left -= n;
        return v;
}

/* --- the world --- */

typedef struct Process {
        Client *client;
        ClientFds fds;
        Queue *queues[QUEUES_MAX];
} Process;

static Manager *manager_make(void) {
        char empty[] = "/tmp/fuzz-service-XXXXXX";
        const ConfigPaths paths = {.file = empty, .classes_dir = "/nonexistent"};
        Config *config;
        Manager *m;

        int fd = mkstemp(empty);
        require(fd >= 0 && close(fd) == 0);
        require(config_load(&paths, NULL, NULL, NULL, &config) == 0);
        require(unlink(empty) == 0);
        require(manager_new(config, &m) == 0);
        require(enforce_attach(m) == 0);
        require(state_attach(m) == 0);
        return m;
}

static void process_join(Process *p, Manager *m, const char *cgroup, int priority) {
        const ClientParameters parameters = {.sender = ":1.1"};
        Peer peer;

        require(peer_from_pid(getpid(), &peer) == 0);
        free(peer.cgroup);
        peer.cgroup = strdup(cgroup);
        *p = (Process){};
        require(client_new(m, &peer, &parameters, &p->client, &p->fds) == 0);
        require(settings_set_priority(&p->client->group->override, priority) == 0);
        group_settings_changed(p->client->group);
        arbiter_flush(m);
}

static void process_leave(Process *p) {
        Manager *m = p->client->manager;

        client_free(p->client);
        client_fds_done(&p->fds);
        arbiter_flush(m);
}

static void process_toggle_queue(Process *p, unsigned i, const char *device) {
        const QueueParameters parameters = {.device = device, .backend = "fuzz"};

        if (p->queues[i])
                p->queues[i] = queue_free(p->queues[i]);
        else
                require(queue_new(p->client, &parameters, &p->queues[i]) == 0);
        arbiter_flush(p->client->manager);
}

static void process_wake(Process *p) {
        (void) arbiter_client_woke(p->client);
        arbiter_flush(p->client->manager);
}

/* --- what must hold --- */

static void check_entity(const Entity *e, unsigned *n_active, unsigned *n_ready) {
        unsigned queues = 0, active = 0, ready = 0;
        Queue *q;

        DL_FOREACH2(e->queues, q, entity_next) {
                queues++;
                active += !queue_is_suspended(q);
                ready += !queue_is_suspended(q) && q->ready && !q->stalled;
                if (queue_is_suspended(q))
                        require(queue_holds(q));
        }
        require(queues > 0 && e->n_queues == queues && e->n_active == active && e->n_ready == ready);
        require((e->policy != NULL) == (active > 0) && e->told_ready == (ready > 0));
        *n_active += active > 0;
        *n_ready += ready > 0;
}

static void check_manager(Manager *m) {
        Device *d, *dtmp;
        Client *c, *ctmp;
        Entity *e;

        HASH_ITER(hh, m->devices, d, dtmp) {
                unsigned n_active = 0, n_ready = 0;

                DL_FOREACH2(d->entities, e, device_next)
                        check_entity(e, &n_active, &n_ready);
                require(d->n_active == n_active && d->n_ready == n_ready);
                require(!d->changed && !d->pending);
        }
        HASH_ITER(hh, m->clients, c, ctmp) {
                unsigned holding = 0;

                for (uint32_t i = 0; i < c->n_slots; i++)
                        holding += c->slots[i].queue && queue_holds(c->slots[i].queue);
                require(c->n_holding == holding);
        }
}

/* No other client writes into its page: the page has what the service has written, and as the highest it runs when it
 * is ready. */
static void check_honest(const Process *p) {
        const Queue *q = p->queues[0];
        uint32_t word = atomic_load(&q->page_slot->verdict);

        require(word == queue_slot(q)->word);
        require((word & PAGE_VERDICT_HOLD) == (queue_holds(q) ? PAGE_VERDICT_HOLD : 0));
        require(atomic_load(&q->page_slot->watch) == queue_slot(q)->watch);
        require(atomic_load(&q->page_slot->threshold) == queue_slot(q)->threshold);
        if (atomic_load(&q->page_slot->outstanding) != 0)
                require(!queue_holds(q));
}

/* The service can show any page. */
static void check_shown(const Process *p) {
        ClientCounters counters;

        client_counters(p->client, &counters);
        require(queue_state_to_string(client_state(p->client)) != NULL);
        for (unsigned i = 0; i < QUEUES_MAX; i++)
                if (p->queues[i])
                        require(queue_state_to_string(queue_state(p->queues[i])) != NULL);
}

/* --- what the hostile one does --- */

static void scribble(Process *p, Input *in) {
        uint8_t *page = (uint8_t *) p->client->page.header;
        size_t offset = take(in, 3) % (PAGE_HEADER_SIZE + 32 * sizeof(PageSlot) - 8);
        uint64_t value = take(in, 8);

        memcpy(page + offset, &value, 1U << (take(in, 1) % 4));
}

/* Messages belong to a connection; this one has no other end. */
static sd_bus *connection(void) {
        static sd_bus *bus;
        int pair[2];

        if (bus)
                return bus;
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        require(sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, pair[0], pair[0]) >= 0 && sd_bus_start(bus) >= 0);
        return bus;
}

/* An a{sv} of anything, through the same reader as every method's. */
static void send_settings(Process *p, Input *in) {
        static const char *const keys[] = {"Priority", "Weight", "Threshold", "Preemption", "Gang", "Deadline",
                        "Accounting", "Max", "Min", "Period", "Class", "priority", ""};
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *message = NULL;
        Settings s = {.mask = 0xff};

        require(sd_bus_message_new(connection(), &message, SD_BUS_MESSAGE_METHOD_CALL) >= 0);
        require(sd_bus_message_open_container(message, 'a', "{sv}") >= 0);
        for (unsigned n = take(in, 1) % 6; n > 0; n--) {
                const char *key = keys[take(in, 1) % ELEMENTSOF(keys)];
                char text[9] = {};
                uint64_t v = take(in, 8);

                memcpy(text, &v, 8);
                for (size_t i = 0; i < 8; i++)
                        text[i] = (char) (text[i] & 0x7f);
                switch (take(in, 1) % 6) {
                case 0:
                        (void) sd_bus_message_append(message, "{sv}", key, "i", (int32_t) v);
                        break;
                case 1:
                        (void) sd_bus_message_append(message, "{sv}", key, "u", (uint32_t) v);
                        break;
                case 2:
                        (void) sd_bus_message_append(message, "{sv}", key, "s", text);
                        break;
                case 3:
                        (void) sd_bus_message_append(message, "{sv}", key, "t", v);
                        break;
                case 4:
                        (void) sd_bus_message_append(message, "{sv}", key, "as", 2, text, key);
                        break;
                default:
                        (void) sd_bus_message_append(message, "{sv}", key, "v", "i", (int32_t) v);
                }
        }
        require(sd_bus_message_close_container(message) >= 0);
        require(sd_bus_message_seal(message, 1, 0) >= 0 && sd_bus_message_rewind(message, true) >= 0);

        int r = bus_read_settings(p->client->manager, message, &s, &error);
        if (r < 0) {
                require(s.mask == 0xff); /* untouched on failure */
                return;
        }
        require((s.mask & ~((1U << _SETTINGS_KEY_MAX) - 1)) == 0);
        if (settings_has(&s, SETTINGS_PRIORITY))
                require(s.priority >= POLICY_PRIORITY_MIN && s.priority <= POLICY_PRIORITY_MAX);
        if (settings_has(&s, SETTINGS_WEIGHT))
                require(s.weight >= POLICY_WEIGHT_MIN && s.weight <= POLICY_WEIGHT_MAX);

        /* A wish only lowers. */
        settings_merge(&p->client->wish, &s);
        client_settings_changed(p->client);
        require(p->client->resolved.policy.priority <= p->client->group->resolved.policy.priority);
        arbiter_flush(p->client->manager);
}

static void honest_step(Process *p) {
        PageSlot *s = p->queues[0]->page_slot;
        bool edge = (atomic_load(&s->outstanding) & ~PAGE_OUTSTANDING_UNTRACKED) == 0
                        ? page_slot_begin(s) & PAGE_BEGIN_EDGE
                        : page_slot_end(s, 1);

        if (!edge)
                return;
        page_mark_dirty(p->client->page.header, p->queues[0]->slot);
        process_wake(p);
}

static void step(Process *hostile, Process *honest, Input *in) {
        static const char *const devices[] = {"one", "two"};

        switch (take(in, 1) % 10) {
        case 0:
        case 1:
        case 2:
                scribble(hostile, in);
                break;
        case 3:
        case 4:
                process_wake(hostile);
                break;
        case 5: {
                uint64_t v = take(in, 1);
                process_toggle_queue(hostile, (unsigned) v % QUEUES_MAX, devices[v / QUEUES_MAX % 2]);
                break;
        }
        case 6:
                honest_step(honest);
                break;
        case 7:
                client_set_suspended(hostile->client, take(in, 1) & 1);
                arbiter_flush(hostile->client->manager);
                break;
        case 8:
                send_settings(hostile, in);
                break;
        default:
                (void) manager_turn(hostile->client->manager, 0);
        }
}

/* --- restart --- */

typedef struct Kept {
        int meta, page, lifeline, wake, pidfd;
} Kept;

static Kept keep(const Client *c) {
        return (Kept){
                        fcntl(c->meta.fd, F_DUPFD_CLOEXEC, 3),
                        fcntl(c->page.fd, F_DUPFD_CLOEXEC, 3),
                        fcntl(c->lifeline, F_DUPFD_CLOEXEC, 3),
                        fcntl(c->wake, F_DUPFD_CLOEXEC, 3),
                        fcntl(c->peer.pidfd, F_DUPFD_CLOEXEC, 3),
        };
}

static void forget(Kept k) {
        safe_close(k.meta);
        safe_close(k.page);
        safe_close(k.lifeline);
        safe_close(k.wake);
        safe_close(k.pidfd);
}

/* Restarts the service over the page as it is: a client is taken over with all its queues, or not at all. */
static void restart(Manager *m, Kept k, uint64_t id, bool must) {
        Client *c;

        int r = client_adopt(m, k.meta, k.page, k.lifeline, k.wake, k.pidfd, &c);
        if (r < 0) {
                require(!must);
                forget(k);
                return;
        }
        require(c->id == id);
        arbiter_flush(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Process hostile, honest;
        Input in = {data, size};

        log_set_max_level(-1);
        Manager *m = manager_make();
        process_join(&hostile, m, "/hostile", 0);
        process_join(&honest, m, "/honest", 10);
        process_toggle_queue(&honest, 0, "one");
        process_toggle_queue(&hostile, 0, "one");

        for (unsigned n = 0; in.left > 0 && n < 200; n++) {
                step(&hostile, &honest, &in);
                check_manager(m);
                check_honest(&honest);
        }
        check_shown(&hostile);

        m->stopping = true; /* what is written for the next one stays */
        Kept bad = keep(hostile.client), good = keep(honest.client);
        uint64_t bad_id = hostile.client->id, good_id = honest.client->id;
        process_leave(&hostile);
        check_manager(m);
        process_leave(&honest);
        check_manager(m);
        manager_free(m);

        m = manager_make();
        restart(m, bad, bad_id, false);
        restart(m, good, good_id, true);
        check_manager(m);
        manager_free(m);
        return 0;
}
