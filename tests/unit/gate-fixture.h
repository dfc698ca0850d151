/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A gate, and the service that the test plays
 */

#include "shim/core/gate-count.h"
#include "shim/core/gate.h"
#include "tests/lib/fake-service.h"
#include "tests/lib/unit.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)

typedef struct Fixture {
        FakeService *f;
        Gate gate;
} Fixture;

static inline int setup(void **state) {
        Fixture *x = aligned_alloc(_Alignof(Fixture), sizeof(Fixture));

        x->f = fake_service_new();
        gate_init(&x->gate, true);
        *state = x;
        return 0;
}

static inline int teardown(void **state) {
        Fixture *x = *state;

        gate_detach(&x->gate);
        fake_service_free(x->f);
        free(x);
        return 0;
}

static inline int attach(Fixture *x, uint32_t slot) {
        return gate_attach(&x->gate, &x->f->client, slot, x->f->wake);
}

static inline GateCounters counters(const Gate *g) {
        GateCounters c = {};

        gate_read(g, &c);
        return c;
}
