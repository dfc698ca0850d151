/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads of this process, as the kernel sees them
 */

#include "threads.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/macro.h"

#define WHILE_NS 30000000L

typedef struct Seen {
        uint64_t n_sleeps;
        unsigned n_asleep;
} Seen;

static void thread_see(FILE *f, const char *name, Seen *seen) {
        char line[256], state = 0;
        uint64_t n = 0;
        bool is_it = false;

        while (fgets(line, sizeof(line), f)) {
                const char *value = startswith(line, "Name:\t");
                line[strcspn(line, "\n")] = 0;
                if (value)
                        is_it = streq(value, name);
                (void) sscanf(line, "State: %c", &state);
                (void) sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &n);
        }
        seen->n_sleeps += is_it ? n : 0;
        seen->n_asleep += is_it && state == 'S';
}

static Seen threads_see(const char *name) {
        char path[300];
        Seen seen = {0};
        DIR *d = opendir("/proc/self/task");

        for (const struct dirent *e; d && (e = readdir(d));) {
                (void) snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
                FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
                if (!f)
                        continue;
                thread_see(f, name, &seen);
                (void) fclose(f);
        }
        if (d)
                (void) closedir(d);
        return seen;
}

uint64_t thread_sleeps(const char *name) {
        return threads_see(name).n_sleeps;
}

unsigned threads_asleep(const char *name) {
        return threads_see(name).n_asleep;
}

bool thread_is_asleep(const char *name) {
        struct timespec ts = {.tv_nsec = WHILE_NS};
        uint64_t n = thread_sleeps(name);

        (void) nanosleep(&ts, NULL);
        return thread_sleeps(name) == n;
}
