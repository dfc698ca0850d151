/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The files of the totals
 */

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/base/state-file.h"
#include "service/core/manager-degraded.h"
#include "service/core/observer.h"
#include "totals-file.h"

#define STORE_NS (300 * NSEC_PER_SEC)
#define NEW_FILE "." TOTALS_FILE ".new"

typedef struct TotalsCopy TotalsCopy;

struct TotalsFile {
        bool is_stored; /* there is a directory for the copy */
        uint64_t store_at;
        TotalsCopy *copy; /* on its way to the disk */
};

static uint64_t now_s(void) {
        return (uint64_t) time(NULL);
}

/* --- the table --- */

static void bad_file(Manager *m, const char *directory, const char *why) {
        char text[PATH_MAX + TOTALS_WHY_MAX];

        int r = state_file_set_aside(directory, TOTALS_FILE);
        (void) snprintf(text, sizeof(text), "%s/" TOTALS_FILE ": %s; %s", directory, why,
                        r < 0 ? "it could not be kept aside" : "kept as " TOTALS_FILE ".bad");
        log_event(LOG_ERR, MESSAGE_STATE_BAD, LOG_FIELDS(.error = -EBADMSG), "%s", text);
        if (manager_set_degraded(m, "stored totals", text) < 0)
                log_oom();
}

/* Reads the file into the table. Returns whether there was one. */
static bool load(Manager *m, const char *directory) {
        _cleanup_free_ char *data = NULL;
        char why[TOTALS_WHY_MAX];
        size_t size;

        int r = state_file_read(directory, TOTALS_FILE, &data, &size);
        if (r == -ENOENT)
                return false;
        if (r >= 0)
                r = totals_load(&m->totals, data, size, now_s(), why);
        else
                (void) snprintf(why, sizeof(why), "it cannot be read: %s", strerror(-r));
        if (r != 0)
                bad_file(m, directory, why);
        return r >= 0;
}

/* Makes a table in the runtime directory, with the entries of the former one, and puts it in its place. */
static int open_table(Manager *m, const char *runtime, bool *ret_found) {
        _cleanup_close_ int dir = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
                return negative_errno();
        (void) unlinkat(dir, NEW_FILE, 0);
        _cleanup_close_ int fd = openat(dir, NEW_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return negative_errno();
        int r = totals_new(fd, &m->totals);
        if (r < 0)
                return r;
        *ret_found = load(m, runtime);
        return renameat(dir, NEW_FILE, dir, TOTALS_FILE) < 0 ? negative_errno() : 0;
}

/* Takes over the former table, because there is no room for a new one. If that fails, takes its entries and removes it:
 * at the next start it would be older than the copy on the disk. */
static int reuse_table(Manager *m, const char *runtime, bool *ret_found) {
        _cleanup_close_ int dir = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (dir < 0)
                return negative_errno();
        (void) unlinkat(dir, NEW_FILE, 0);
        _cleanup_close_ int fd = openat(dir, TOTALS_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return negative_errno();
        int r = totals_adopt(fd, now_s(), &m->totals);
        if (r >= 0) {
                *ret_found = true;
                return 0;
        }
        if (totals_new(-1, &m->totals) < 0)
                return -ENOMEM;
        *ret_found = load(m, runtime);
        (void) unlinkat(dir, TOTALS_FILE, 0);
        return r;
}

/* Sets the Degraded reason; r == 0 removes it. */
static void set_degraded(Manager *m, const char *key, const char *what, int r) {
        char text[256];

        (void) snprintf(text, sizeof(text), "%s: %s", what, strerror(-r));
        if (manager_set_degraded(m, key, r < 0 ? text : NULL) < 0)
                log_oom();
}

/* --- the copy on the disk --- */

struct TotalsCopy {
        char *data, directory[PATH_MAX];
        size_t size;
        int result;
        atomic_bool done;
        pthread_t thread;
};

static void *copy_thread(void *arg) {
        TotalsCopy *c = arg;

        c->result = state_file_write(c->directory, TOTALS_FILE, c->data, c->size);
        atomic_store(&c->done, true);
        return NULL;
}

static void note_copy(Manager *m, int r) {
        set_degraded(m, "stored counters", "those of units would not survive a reboot", r);
}

/* Ends the copy, and waits for the disk if need be. */
static void copy_end(Manager *m) {
        TotalsCopy *c = TAKE_PTR(m->totals_file->copy);

        if (!c)
                return;
        (void) pthread_join(c->thread, NULL);
        note_copy(m, c->result);
        free(c->data);
        free(c);
}

static int copy_begin(Manager *m) {
        TotalsCopy *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        int r = state_directory("STATE_DIRECTORY", c->directory) ? totals_print(&m->totals, now_s(), &c->data, &c->size)
                                                                 : -ENOENT;
        if (r >= 0)
                r = -pthread_create(&c->thread, NULL, copy_thread, c);
        if (r < 0) {
                free(c->data);
                free(c);
                return r;
        }
        m->totals_file->copy = c;
        return 0;
}

/* Makes a copy now and then while something runs. No handler waits for the disk, and an idle service writes nothing. */
static void on_totals_saved(Manager *m, uint64_t now_ns, void *userdata) {
        TotalsFile *f = userdata;

        if (!f->is_stored || now_ns < f->store_at)
                return;
        f->store_at = now_ns + STORE_NS;
        if (f->copy && !atomic_load(&f->copy->done))
                return;
        copy_end(m);
        int r = copy_begin(m);
        if (r < 0)
                note_copy(m, r);
}

void totals_file_store(Manager *m) {
        copy_end(m);
        if (m->totals_file->is_stored && copy_begin(m) >= 0)
                copy_end(m);
}

static void on_manager_closing(Manager *m, void *userdata) {
        totals_file_store(m);
}

static void on_manager_closed(Manager *m, void *userdata) {
        free(TAKE_PTR(m->totals_file));
}

static const ObserverOps totals_file_ops = {
                .totals_saved = on_totals_saved,
                .manager_closing = on_manager_closing,
                .manager_closed = on_manager_closed,
};

/* --- the start --- */

static TotalsFile *totals_file_new(Manager *m) {
        TotalsFile *f = calloc(1, sizeof(*f));

        if (f && observer_add(m, &totals_file_ops, f) < 0) {
                free(f);
                return NULL;
        }
        return f;
}

void totals_file_open(Manager *m, bool has_directories) {
        char state[PATH_MAX], runtime[PATH_MAX];
        bool found = false;
        int r = 0;

        m->totals_file = totals_file_new(m);
        has_directories = has_directories && m->totals_file;
        if (!m->totals_file)
                log_oom();
        if (has_directories && state_directory("RUNTIME_DIRECTORY", runtime))
                r = open_table(m, runtime, &found);
        if (r < 0 && !m->totals.map) {
                int error = r;

                r = reuse_table(m, runtime, &found);
                r = r == -ENOENT ? error : r;
        }
        set_degraded(m, "counters", "those of groups will not survive the service", r);
        if (!m->totals.map && totals_new(-1, &m->totals) < 0) {
                log_oom();
                return;
        }
        if (!has_directories || !state_directory("STATE_DIRECTORY", state))
                return;
        m->totals_file->is_stored = true;
        m->totals_file->store_at = now_ns() + STORE_NS;
        if (!found)
                (void) load(m, state);
}
