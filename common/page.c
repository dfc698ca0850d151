/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The shared page: making, mapping and waiting. page.h explains the protocol and why it is correct.
 */

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "file-status.h"
#include "futex.h"
#include "page.h"

#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static const char *const page_hooked_table[_HOOKED_MAX] = {
                [HOOKED_UNKNOWN] = "unknown",
                [HOOKED_CALLS] = "calls",
                [HOOKED_DOORBELL] = "doorbell",
                [HOOKED_CREATE] = "create",
                [HOOKED_POLL] = "poll",
                [HOOKED_NONE] = "none",
};
DEFINE_STRING_TABLE_LOOKUP(page_hooked, PageHooked);

static int page_map(int fd, Page *ret) {
        void *m = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (m == MAP_FAILED)
                return negative_errno();

        *ret = (Page){
                        .header = m,
                        .slots = (PageSlot *) (void *) ((uint8_t *) m + PAGE_HEADER_SIZE),
                        .n_slots = PAGE_SLOTS_MAX,
                        .fd = fd,
        };
        return 0;
}

int page_create(uint64_t client_id, Page *ret) {
        _cleanup_close_ int fd = memfd_create("xsched-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return negative_errno();
        if (ftruncate(fd, (off_t) PAGE_SIZE_BYTES) < 0)
                return negative_errno();
        if (fcntl(fd, F_ADD_SEALS, PAGE_SEALS) < 0)
                return negative_errno();

        Page p = PAGE_NULL;
        int r = page_map(fd, &p);
        if (r < 0)
                return r;

        *p.header = (PageHeader){
                        .magic = PAGE_MAGIC,
                        .version = PAGE_VERSION,
                        .header_size = PAGE_HEADER_SIZE,
                        .slot_size = sizeof(PageSlot),
                        .n_slots = PAGE_SLOTS_MAX,
                        .client_id = client_id,
        };
        TAKE_FD(fd);
        *ret = p;
        return 0;
}

int page_open(int fd, Page *ret) {
        struct stat st;
        if (fd_status(fd, &st) < 0)
                return negative_errno();

        /* Without the seals, the other side could shrink the file under our mapping and kill us with SIGBUS. */
        int seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & PAGE_SEALS) != PAGE_SEALS || st.st_size != (off_t) PAGE_SIZE_BYTES)
                return -EPROTO;

        Page p = PAGE_NULL;
        int r = page_map(fd, &p);
        if (r < 0)
                return r;

        const PageHeader *h = p.header;
        if (h->magic != PAGE_MAGIC || h->version != PAGE_VERSION || h->header_size != PAGE_HEADER_SIZE ||
                        h->slot_size != sizeof(PageSlot) || h->n_slots != PAGE_SLOTS_MAX) {
                p.fd = -EBADF; /* page_done() would close it: the caller keeps its fd on failure */
                page_done(&p);
                return -EPROTO;
        }
        *ret = p;
        return 0;
}

void page_done(Page *p) {
        if (p->header)
                (void) munmap(p->header, PAGE_SIZE_BYTES);
        safe_close(p->fd);
        *p = PAGE_NULL;
}

static void slot_wake(PageSlot *s) {
        PROTECT_ERRNO;

        (void) futex(&s->verdict, FUTEX_WAKE, INT_MAX, NULL, 0);
}

void page_slot_wake(PageSlot *s, uint32_t n) {
        PROTECT_ERRNO;

        (void) futex(&s->verdict, FUTEX_WAKE, MIN(n, PAGE_WAKE_MAX), NULL, 0);
}

uint32_t page_slot_put_verdict(PageSlot *s, uint32_t last, Verdict v, uint32_t *ret_waiters) {
        bool held = last & PAGE_VERDICT_HOLD, hold = v == VERDICT_HOLD;
        *ret_waiters = 0;
        if (held == hold)
                return last;

        uint32_t word = ((last & ~PAGE_VERDICT_HOLD) + PAGE_VERDICT_GEN_STEP) | (hold ? PAGE_VERDICT_HOLD : 0);
        atomic_store_explicit(&s->verdict, word, memory_order_seq_cst);
        if (!hold)
                *ret_waiters = atomic_load_explicit(&s->waiters, memory_order_seq_cst);
        return word;
}

uint32_t page_slot_set_verdict(PageSlot *s, uint32_t last, Verdict v) {
        uint32_t waiters, word = page_slot_put_verdict(s, last, v, &waiters);

        if (waiters > 0)
                slot_wake(s);
        return word;
}

uint32_t page_slot_adopt(PageSlot *s) {
        uint32_t last = atomic_load_explicit(&s->verdict, memory_order_seq_cst);
        uint32_t word = (last & ~PAGE_VERDICT_HOLD) + PAGE_VERDICT_GEN_STEP;

        atomic_store_explicit(&s->verdict, word, memory_order_seq_cst);
        slot_wake(s);
        return word;
}

void page_slot_kick(PageSlot *s) {
        atomic_fetch_add_explicit(&s->verdict, PAGE_VERDICT_GEN_STEP, memory_order_seq_cst);
        slot_wake(s);
}

PageWait page_slot_wait(const PageHeader *h, PageSlot *s, const _Atomic uint32_t *escape, uint64_t until_ns) {
        PROTECT_ERRNO;
        PageWait result = PAGE_WAIT_AGAIN;

        uint32_t word = atomic_load_explicit(&s->verdict, memory_order_seq_cst);
        uint64_t lease = atomic_load_explicit(&h->lease_until_ns, memory_order_seq_cst);

        if (!(word & PAGE_VERDICT_HOLD) || (escape && atomic_load_explicit(escape, memory_order_seq_cst)))
                result = PAGE_WAIT_RUN;
        else if (lease <= now_ns()) {
                /* A release writes the verdict and then ends the lease. Read the verdict again, so that a release
                 * between our two loads is not taken for a silent service. */
                if (atomic_load_explicit(&s->verdict, memory_order_seq_cst) == word)
                        result = PAGE_WAIT_EXPIRED;
        } else {
                if (atomic_load_explicit(&s->level, memory_order_relaxed) < LEVEL_DEQUEUE)
                        atomic_store_explicit(&s->applied, word, memory_order_relaxed);
                struct timespec until = ns_to_timespec(MIN(lease, until_ns));
                (void) futex(&s->verdict, FUTEX_WAIT_BITSET, word, &until, FUTEX_BITSET_MATCH_ANY);
        }
        return result;
}
