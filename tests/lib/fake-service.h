/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's side of the data plane, without a service: a page, an eventfd, and verdicts as the test says
 *
 * Both sides of the page are mapped separately, as in two processes, so that an address of one side never works by
 * chance on the other.
 */

#include "common/page.h"

typedef struct FakeService {
        Page page;   /* the service's mapping */
        Page client; /* the client's mapping of the same memory */
        int wake;
        uint32_t words[PAGE_SLOTS_MAX]; /* what it wrote last */
} FakeService;

/* Abort the test program on failure. */
FakeService *fake_service_new(void);
FakeService *fake_service_free(FakeService *f);
DEFINE_TRIVIAL_CLEANUP_FUNC(FakeService *, fake_service_free);

static inline PageSlot *fake_slot(FakeService *f, uint32_t slot) {
        return page_slot(&f->page, slot);
}

/* Launches that the slot counts, without the UNTRACKED bit. */
uint32_t fake_counted(FakeService *f, uint32_t slot);

void fake_verdict(FakeService *f, uint32_t slot, Verdict v);
/* Under a lease of this length from now on. */
void fake_hold(FakeService *f, uint32_t slot, uint64_t lease_ns);
void fake_run(FakeService *f, uint32_t slot);

/* Reads the eventfd and takes the slot's dirty bit. Returns whether it was set, without ever blocking. */
bool fake_take_edge(FakeService *f, uint32_t slot);
