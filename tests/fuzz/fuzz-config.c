/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as xsched.conf
 *
 * Any file is read, the resulting values are within the ranges of the manual page, and reading the same file again, as
 * a reload, changes nothing.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "common/parse-util.h"
#include "service/settings/xsched-conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
        if (!ok)
                abort();
}

static void count(const ConfProblem *p, void *userdata) {
        require(p->message[0] != '\0' && p->file[0] != '\0');
        require(p->severity == CONF_WARNING ? p->error == 0 : p->error < 0);
        (*(unsigned *) userdata)++;
}

static void check_device(const DeviceConfig *d) {
        require(d->policy != NULL);
        require(d->params.concurrency >= 1 && d->params.concurrency <= 1024);
        require(d->params.threshold <= SETTINGS_THRESHOLD_MAX); /* 0: by level */
        require(d->params.timeslice_ns >= 100 * NSEC_PER_USEC && d->params.timeslice_ns <= 10 * NSEC_PER_SEC);
        require(d->params.linger_ns <= 100 * NSEC_PER_MSEC);
        require(d->params.starve_run_ns < d->params.starve_ns);
        require(d->tuning.budget_us <= 1000000);
}

/* Does not compare the two values that must fit together. If a file has both a pair that does not fit and an invalid
 * value, the first reading falls back to a pair that the second reading uses in place of the invalid value. */
static void check_same_device(const DeviceConfig *a, const DeviceConfig *b) {
        require(a->policy == b->policy && a->tuning.budget_us == b->tuning.budget_us);
        require(a->params.concurrency == b->params.concurrency && a->params.threshold == b->params.threshold);
        require(a->params.timeslice_ns == b->params.timeslice_ns && a->params.linger_ns == b->params.linger_ns);
}

static void check_same(const Config *a, const Config *b) {
        static const char *const ids[] = {"pci:0000:65:00.0", "pci:0000:65:00.1", "opencl:p:d:0", "x", ""};

        require(memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0);
        require(a->log_level == b->log_level && a->log_target == b->log_target);
        require(a->n_sections == b->n_sections);
        for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
                DeviceConfig x, y;
                config_device(a, ids[i], &x);
                config_device(b, ids[i], &y);
                check_device(&x);
                check_same_device(&x, &y);
        }
}

static void check_spans(const uint8_t *data, size_t size) {
        char text[256], buf[FORMAT_NSEC_MAX];
        uint64_t ns, again;

        if (size >= sizeof(text))
                return;
        memcpy(text, data, size);
        text[size] = '\0';
        if (parse_nsec(text, &ns) < 0)
                return;
        require(parse_nsec(format_nsec(buf, sizeof(buf), ns), &again) == 0 && again == ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static int fd = -1;
        static char path[64];

        if (fd < 0) {
                fd = memfd_create("xsched.conf", MFD_CLOEXEC);
                (void) snprintf(path, sizeof(path), "/proc/self/fd/%i", fd);
        }
        require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t) size);
        check_spans(data, size);

        const ConfigPaths paths = {.file = path, .classes_dir = "/nonexistent"};
        _cleanup_(config_freep)
        Config *first = NULL, *second = NULL;
        unsigned n_first = 0, n_second = 0;
        if (config_load(&paths, NULL, count, &n_first, &first) < 0) {
                require(size > (1U << 20));
                return 0;
        }
        require(config_load(&paths, first, count, &n_second, &second) == 0);
        require(first->n_problems == n_first && second->n_problems == n_second);
        check_device(&first->device);
        check_same_device(&first->device, &second->device);
        check_same(first, second);
        return 0;
}
