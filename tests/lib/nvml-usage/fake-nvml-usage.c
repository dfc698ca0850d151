/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A test double of libnvidia-ml: one GPU that does not exist, 0000:65:00.0. $FAKE_NVML names a file with one line,
 * which says how much of its time each process has, "percent ...", or is "hang", "crash", "none" or "refuse".
 *
 * As the driver does it gives one sample of each process for each period that is newer than asked for; but the driver's
 * last a sixth of a second, and these a quarter of that, as xschedd-quick asks four times as often.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/macro.h"

typedef struct Sample {
        unsigned pid;
        unsigned long long timestamp;
        unsigned sm, memory, encoder, decoder;
} Sample;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetProcessUtilization(void *device, Sample *samples, unsigned *n, unsigned long long since);

/* The word, and "percent pid pid..." */
static const char *read_mode(char *buf, size_t size) {
        FILE *f = fopen(getenv("FAKE_NVML") ?: "/nonexistent", "re");

        if (!f || !fgets(buf, (int) size, f))
                buf[0] = '\0';
        if (f)
                (void) fclose(f);
        buf[strcspn(buf, "\n")] = '\0';
        return buf;
}

_public_
int nvmlInit_v2(void) {
        char mode[256];

        puts("ran 1 1"); /* the service must not read this */
        if (streq(read_mode(mode, sizeof(mode)), "crash"))
                abort();
        return streq(mode, "refuse") ? 9 : 0;
}

_public_
int nvmlShutdown(void) {
        return 0;
}

_public_
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
        static int gpu;

        *device = &gpu;
        return streq(id, "00000000:65:00.0") ? 0 : 6;
}

#define PERIOD_US   41667U
#define PERIODS_MAX 120U /* that it knows */

_public_
int nvmlDeviceGetProcessUtilization(void *device, Sample *samples, unsigned *n, unsigned long long since) {
        unsigned percent, pids[16], n_pids = 0;
        struct timespec ts;
        char mode[256], *rest;

        while (streq(read_mode(mode, sizeof(mode)), "hang"))
                (void) pause();
        if (streq(mode, "none"))
                return 6;
        percent = (unsigned) strtoul(mode, &rest, 10);
        for (char *end = rest; n_pids < ELEMENTSOF(pids); rest = end) {
                unsigned long pid = strtoul(rest, &end, 10);
                if (end == rest)
                        break;
                pids[n_pids++] = (unsigned) pid;
        }
        (void) clock_gettime(CLOCK_REALTIME, &ts);
        unsigned long long now = (unsigned long long) ts.tv_sec * 1000000 + (unsigned long long) ts.tv_nsec / 1000;
        unsigned long long newest = now / PERIOD_US;
        unsigned long long oldest = MAX(since / PERIOD_US + 1, newest > PERIODS_MAX ? newest - PERIODS_MAX : 1);
        unsigned needed = newest >= oldest ? (unsigned) (newest - oldest + 1) * n_pids : 0;
        if (needed == 0)
                return 6;
        if (*n < needed || !samples) {
                *n = needed;
                return 7;
        }
        *n = 0;
        for (unsigned i = 0; i < n_pids; i++)
                for (unsigned long long t = newest; t >= oldest; t--) /* in no order */
                        samples[(*n)++] = (Sample){.pid = pids[i], .timestamp = t * PERIOD_US, .sm = percent};
        return 0;
}
