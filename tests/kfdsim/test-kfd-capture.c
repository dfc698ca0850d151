/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the KFD layer sees of a process: its fds, its queues, and what it says of them
 */

#include <fcntl.h>
#include <sys/ioctl.h>

#include "common/macro.h"
#include "shim-kfd.h"

static void case_capture(void) {
        char pci[64], label[32];
        start(GFX90A);
        AqlQueue *q = queue();

        (void) snprintf(pci, sizeof(pci), "pci:%s", device.pci);
        (void) snprintf(label, sizeof(label), "queue %u", aql_queue_id(q));
        CHECK(streq(s->device, pci) && streq(s->backend, "kfd") && streq(s->label, label));
        CHECK(s->level == LEVEL_INTERRUPT && s->kfd_gpu_id == device.gpu_id &&
                        s->kfd_queue_id == aql_queue_id(q));

        dispatch(q, 10, SHORT_NS);
        finish(q);
        CHECK(aql_queue_destroy(q) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

static void case_mes(void) {
        start(GFX1100);
        AqlQueue *q = queue();

        CHECK(s->level == LEVEL_GATE);
        dispatch(q, 10, SHORT_NS);
        finish(q);

        /* Beyond, by the service's word. */
        hold_all(1);
        dispatch(q, 10, SHORT_NS);
        CHECK(stands_still(q) && aql_queue_executed(q) == 10);
        run_all(1);
        finish(q);
}

static void case_sizes(void) {
        const size_t sizes[] = {KFD_CREATE_QUEUE_SIZE_1_11, sizeof(KfdCreateQueue)};
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizes[i], &a) == 0);
                CHECK(scheduler_until(s, client->n_queues == 1));
                CHECK(s->kfd_queue_id == a.queue_id && a.queue_percentage == 70);
                CHECK(raw_destroy(&r, a.queue_id) == 0);
                CHECK(scheduler_until(s, client->n_queues == 0));
        }

        CHECK(raw_create(&r, KFD_QUEUE_SDMA, sizeof(a), &a) == 0);
        CHECK(raw_destroy(&r, a.queue_id) == 0);
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        CHECK(s->kfd_queue_id == a.queue_id && client->next_id == 1003);
        CHECK(raw_destroy(&r, a.queue_id) == 0);

        /* What the kernel refuses is refused, with its own error. */
        errno = 0;
        CHECK(raw_destroy(&r, 12345) < 0 && errno == EINVAL);
}

/* Fds of one file are one: queues end with the last of them. */
static void case_fds(void) {
        KfdCreateQueue a;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        int fds[] = {dup(r.fd), fcntl(r.fd, F_DUPFD_CLOEXEC, 100), dup2(r.fd, 200),
                        dup3(r.fd, 201, O_CLOEXEC)};
        CHECK(close(r.fd) == 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                KfdUpdateQueue u = {.ring_base_address = a.ring_base_address,
                                .queue_id = a.queue_id,
                                .ring_size = a.ring_size,
                                .queue_percentage = 100};
                CHECK(fds[i] >= 0 && ioctl(fds[i], KFD_IOC_UPDATE_QUEUE, &u) == 0);
        }
        CHECK(dup2(STDERR_FILENO, fds[0]) == fds[0]);
        CHECK(close(fds[1]) == 0 && close_range(200, 200, 0) == 0);
        hold_all(1); /* it is still there */
        CHECK(close(fds[3]) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* The application closes everything that it finds, ours included. */
static void case_close_all(void) {
        start(GFX90A);
        KfdCreateQueue a;
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        for (int fd = r.fd + 1; fd < r.fd + 50; fd++) {
                char link[64], target[256];
                (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                ssize_t n = readlink(link, target, sizeof(target) - 1);
                if (n > 0 && (target[n] = 0, strstr(target, "kfd")))
                        CHECK(close(fd) == 0);
        }
        hold_all(1);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        CHECK(raw_destroy(&r, a.queue_id) == 0);
}

static void case_disabled(void) {
        start(GFX90A);
        AqlQueue *q = bare_queue();

        dispatch(q, 10, SHORT_NS);
        finish(q);
        CHECK(n_registered() == 0 && s->n_clients == 0);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(capture),
                        CASE(mes),
                        CASE(sizes),
                        CASE(fds),
                        CASE(close_all),
                        CASE(disabled, "XSCHED_DISABLE=1"),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
