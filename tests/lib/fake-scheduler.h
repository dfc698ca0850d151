/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's side of the bus: registers clients and queues, or refuses them, as the test says
 *
 * It runs on the test's own thread, inside scheduler_until(), so that a test reads what it has recorded without locks.
 */

#include <systemd/sd-bus.h>

#include "fake-service.h"

#define FAKE_CLIENTS_MAX 8

typedef struct FakeClient {
        FakeService *f;
        int lifeline; /* -EBADF: hung up */
        uint64_t next_id;
        unsigned n_queues; /* registered now */
        unsigned n_gone;
        uint64_t last_gone;
        uint64_t seated; /* the slots below 64 of those that are registered now, as bits */
        char job[64], class[64], version[64];
        int32_t priority;
        uint32_t weight;
} FakeClient;

typedef struct FakeScheduler {
        sd_bus *bus;
        FakeClient clients[FAKE_CLIENTS_MAX];
        unsigned n_clients;
        unsigned n_refused;
        char refused[64], taken[64];                         /* whose last registration was refused, taken */
        char device[64], backend[64], label[64], hooked[16]; /* of the last queue */
        int32_t priority_hint;
        uint32_t level, kfd_gpu_id, kfd_queue_id;
        unsigned n_hints;
        int32_t hint_priority;
        uint32_t hint_weight, hint_threshold;

        /* what to do */
        const char *refuse_client, *refuse_queue; /* an error's name */
        bool bad_page;                            /* hand out a page that can shrink */
        unsigned queues_max;                      /* 0: no limit */
        int32_t force_slot;                       /* -1: the next free one */
} FakeScheduler;

/* On the bus at `address`, without the service's name. Aborts on failure. */
FakeScheduler *fake_scheduler_new(const char *address);
FakeScheduler *fake_scheduler_free(FakeScheduler *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(FakeScheduler *, fake_scheduler_free);

void fake_scheduler_own(FakeScheduler *s);
void fake_scheduler_disown(FakeScheduler *s);

/* Does what a restart with a file-descriptor store does: a new connection, and the same clients. */
void fake_scheduler_reconnect(FakeScheduler *s, const char *address);

void fake_client_nudge(FakeClient *c);
void fake_client_hang_up(FakeClient *c);
bool fake_client_is_gone(const FakeClient *c); /* the process has closed its end */

/* One turn of the loop. */
void fake_scheduler_turn(FakeScheduler *s);

#define scheduler_until(s, condition)                                                                                  \
        ({                                                                                                             \
                uint64_t _until = now_ns() + TEST_DEADLINE_NS;                                                         \
                bool _ok;                                                                                              \
                while (!(_ok = (condition)) && now_ns() < _until)                                                      \
                        fake_scheduler_turn(s);                                                                        \
                _ok;                                                                                                   \
        })
