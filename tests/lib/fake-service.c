/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's side of the data plane, without a service
 */

#include <fcntl.h>
#include <sys/eventfd.h>

#include "fake-service.h"

static void must(bool ok) {
        if (!ok)
                abort();
}

FakeService *fake_service_new(void) {
        FakeService *f = calloc(1, sizeof(FakeService));

        must(f);
        must(page_create(1, &f->page) == 0);
        must(page_open(fcntl(f->page.fd, F_DUPFD_CLOEXEC, 3), &f->client) == 0);
        f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        must(f->wake >= 0);
        return f;
}

FakeService *fake_service_free(FakeService *f) {
        page_done(&f->page);
        page_done(&f->client);
        safe_close(f->wake);
        free(f);
        return NULL;
}

uint32_t fake_counted(FakeService *f, uint32_t slot) {
        return atomic_load(&fake_slot(f, slot)->outstanding) & ~PAGE_OUTSTANDING_UNTRACKED;
}

void fake_verdict(FakeService *f, uint32_t slot, Verdict v) {
        f->words[slot] = page_slot_set_verdict(fake_slot(f, slot), f->words[slot], v);
}

void fake_hold(FakeService *f, uint32_t slot, uint64_t lease_ns) {
        page_set_lease(f->page.header, ns_add(now_ns(), lease_ns));
        fake_verdict(f, slot, VERDICT_HOLD);
}

void fake_run(FakeService *f, uint32_t slot) {
        fake_verdict(f, slot, VERDICT_RUN);
}

bool fake_take_edge(FakeService *f, uint32_t slot) {
        uint64_t count;

        (void) !read(f->wake, &count, sizeof(count));
        return page_take_dirty(f->page.header, slot / 64) & UINT64_C(1) << (slot % 64);
}
