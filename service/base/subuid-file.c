/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 *  /etc/subuid
 *
 * A Reading is one look at the file, by the loop or by a thread. The thread has the reading for itself until it says by
 * the eventfd that it is done; a loop that gives up waiting leaves the reading to the thread, which frees it.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <uthash.h>

#include "common/read-text.h"
#include "common/stream-util.h"
#include "common/thread-util.h"
#include "log.h"
#include "subuid-file.h"
#include "subuid.h"

#define FILE_SIZE_MAX  (8U << 20)
#define PASSWD_MAX     65536U /* entries */
#define PROBLEMS_MAX   16U
#define PROBLEM_SIZE   128U
#define ENTRY_SIZE_MAX 65536U
#define STACK_SIZE     (1U << 20) /* NSS modules run on this stack */

#define NOT_KNOWN_YET (-EAGAIN)

typedef struct Name {
        uid_t uid;
        int error;
        UT_hash_handle hh;
        char name[]; /* key */
} Name;

typedef struct Reading {
        char *path, *passwd;
        bool ask; /* ask all that know users, and not only the local file */
        Name *names;
        char *buffer; /* ENTRY_SIZE_MAX */

        Subuids *subuids;
        int error;
        bool unknown; /* there are names that the local file does not have */
        char problems[PROBLEMS_MAX][PROBLEM_SIZE];
        unsigned n_problems;

        pthread_mutex_t lock;
        int done; /* eventfd */
        bool abandoned, ended;
} Reading;

struct SubuidFile {
        sd_event *event;
        char *path, *passwd;
        pthread_mutex_t lock; /* guards the following members */
        Subuids *subuids;
        sd_event_source *changes, *done;
        Reading *reading; /* by a thread */
        bool again;       /* the file has changed meanwhile */
};

static Reading *reading_free(Reading *r) {
        Name *n, *tmp;

        if (!r)
                return NULL;
        HASH_ITER(hh, r->names, n, tmp) {
                HASH_DEL(r->names, n);
                free(n);
        }
        subuids_free(r->subuids);
        safe_close(r->done);
        (void) pthread_mutex_destroy(&r->lock);
        free(r->path);
        free(r->passwd);
        free(r->buffer);
        free(r);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Reading *, reading_free);

/* Returns NULL when there is no memory, or no fd. */
static Reading *reading_new(const SubuidFile *f, bool ask) {
        _cleanup_(reading_freep)
        Reading *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        (void) pthread_mutex_init(&r->lock, NULL);
        r->ask = ask;
        r->path = strdup(f->path);
        r->passwd = strdup(f->passwd);
        r->buffer = malloc(ENTRY_SIZE_MAX);
        r->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return r->done < 0 || !r->path || !r->passwd || !r->buffer ? NULL : TAKE_PTR(r);
}

/* --- names --- */

static Name *name_find(const Reading *r, const char *name) {
        Name *n;

        HASH_FIND_STR(r->names, name, n);
        return n;
}

static void name_add(Reading *r, const char *name, uid_t uid, int error) {
        size_t size = strlen(name) + 1;
        Name *n = name_find(r, name) ? NULL : calloc(1, sizeof(*n) + size);

        if (!n)
                return; /* a name has one answer; without memory it is asked for again */
        n->uid = uid;
        n->error = error;
        memcpy(n->name, name, size);
        HASH_ADD_STR(r->names, name, n);
}

/* Local users. */
static void read_passwd(Reading *r) {
        _cleanup_(fclosep)
        FILE *file = fopen(r->passwd, "re");
        struct passwd entry, *found;

        if (!file)
                return;
        for (unsigned i = 0; i < PASSWD_MAX; i++)
                if (fgetpwent_r(file, &entry, r->buffer, ENTRY_SIZE_MAX, &found) != 0)
                        return;
                else
                        name_add(r, found->pw_name, found->pw_uid, 0);
}

static int resolve(const char *name, uid_t *ret, void *userdata) {
        Reading *r = userdata;
        struct passwd entry, *found = NULL;
        Name *n = name_find(r, name);

        if (!n) {
                r->unknown = true;
                if (!r->ask)
                        return NOT_KNOWN_YET;
                int error = getpwnam_r(name, &entry, r->buffer, ENTRY_SIZE_MAX, &found);
                name_add(r, name, found ? found->pw_uid : SUBUID_NOBODY, found ? 0 : error > 0 ? -error : -ENOENT);
                n = name_find(r, name);
        }
        if (!n)
                return -ENOMEM;
        if (n->error < 0)
                return n->error;
        *ret = n->uid;
        return 0;
}

/* --- reading --- */

static void add_problem(unsigned line, const char *what, void *userdata) {
        Reading *r = userdata;

        if (r->n_problems++ < PROBLEMS_MAX)
                (void) snprintf(r->problems[r->n_problems - 1], PROBLEM_SIZE, "%.64s:%u: %s", r->path, line, what);
}

/* A file that cannot be read has no lines. O_NONBLOCK, so that a fifo of that name does not block. */
static int read_lines(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        size_t size;

        if (fd < 0)
                return negative_errno();
        if (fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if (st.st_size > (off_t) FILE_SIZE_MAX)
                return -EFBIG;
        return read_text(fd, (size_t) st.st_size, ret, &size);
}

static void reading_do(Reading *r) {
        const SubuidReader reader = {.resolve = resolve, .problem = add_problem, .userdata = r};
        _cleanup_free_ char *text = NULL;

        r->error = read_lines(r->path, &text);
        if (r->error == -ENOENT)
                r->error = 0;
        if (r->error < 0 || isempty(text))
                return;
        read_passwd(r);
        r->error = subuids_parse(text, &reader, &r->subuids);
}

static void *reading_main(void *userdata) {
        Reading *r = userdata;

        (void) pthread_setname_np(pthread_self(), "subuid");
        reading_do(r);
        (void) pthread_mutex_lock(&r->lock);
        r->ended = true;
        bool abandoned = r->abandoned;
        if (!abandoned)
                (void) eventfd_write(r->done, 1);
        (void) pthread_mutex_unlock(&r->lock);
        if (abandoned)
                reading_free(r);
        return NULL;
}

/* --- the file --- */

static void start_reading(SubuidFile *f);

/* Bad lines are logged when all names have been asked for. A file that cannot be read counts as before. */
static void take_reading(SubuidFile *f, Reading *r) {
        if (r->error < 0) {
                log_warning_errno(r->error, "%s cannot be read, sub-uids stay as they are: %m", f->path);
                return;
        }
        for (unsigned i = 0; i < MIN(r->n_problems, PROBLEMS_MAX); i++)
                log_warning("%s, ignoring the line", r->problems[i]);
        if (r->n_problems > PROBLEMS_MAX)
                log_warning("%s: %u further lines are invalid, ignoring them", f->path, r->n_problems - PROBLEMS_MAX);
        (void) pthread_mutex_lock(&f->lock);
        subuids_free(f->subuids);
        f->subuids = TAKE_PTR(r->subuids);
        (void) pthread_mutex_unlock(&f->lock);
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        SubuidFile *f = userdata;
        _cleanup_(reading_freep)
        Reading *r = TAKE_PTR(f->reading);

        f->done = sd_event_source_disable_unref(f->done);
        /* The thread writes the eventfd under this lock: with the lock taken once, the thread uses the reading no
         * more. */
        (void) pthread_mutex_lock(&r->lock);
        (void) pthread_mutex_unlock(&r->lock);
        take_reading(f, r);
        if (f->again)
                start_reading(f);
        return 0;
}

static int begin(SubuidFile *f) {
        _cleanup_(reading_freep)
        Reading *reading = reading_new(f, true);

        if (!reading)
                return -ENOMEM;
        int r = sd_event_add_io(f->event, &f->done, reading->done, EPOLLIN, on_done, f);
        if (r >= 0)
                r = thread_start(reading_main, reading, STACK_SIZE);
        if (r < 0) {
                f->done = sd_event_source_disable_unref(f->done);
                return r;
        }
        f->reading = TAKE_PTR(reading);
        return 0;
}

static void start_reading(SubuidFile *f) {
        f->again = f->reading != NULL;
        if (f->again)
                return;
        int r = begin(f);
        if (r < 0)
                log_warning_errno(r, "%s cannot be read, sub-uids stay as they are: %m", f->path);
}

void subuid_file_reread(SubuidFile *f) {
        if (f)
                start_reading(f);
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *userdata) {
        SubuidFile *f = userdata;
        const char *name = strrchr(f->path, '/') + 1;

        if (event->mask & IN_Q_OVERFLOW || (event->len > 0 && streq(event->name, name)))
                start_reading(f);
        return 0;
}

static int watch(SubuidFile *f) {
        _cleanup_free_ char *directory = strndup(f->path, (size_t) (strrchr(f->path, '/') - f->path));

        if (!directory)
                return -ENOMEM;
        int r = sd_event_add_inotify(f->event, &f->changes, directory,
                        IN_ONLYDIR | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO, on_change,
                        f);
        return r < 0 ? r : sd_event_source_set_priority(f->changes, SD_EVENT_PRIORITY_IDLE);
}

/* Reads the file before clients can register, with the users that this machine knows by itself. */
static int read_first(SubuidFile *f) {
        _cleanup_(reading_freep)
        Reading *reading = reading_new(f, false);

        if (!reading)
                return -ENOMEM;
        reading_do(reading);
        if (reading->unknown)
                reading->n_problems = 0; /* the thread reports them all */
        take_reading(f, reading);
        if (reading->unknown)
                start_reading(f);
        return 0;
}

int subuid_file_new(sd_event *event, const char *path, const char *passwd, SubuidFile **ret) {
        SubuidFile *f = calloc(1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        (void) pthread_mutex_init(&f->lock, NULL);
        f->event = sd_event_ref(event);
        f->path = strdup(path);
        f->passwd = strdup(passwd);
        int r = f->path && f->passwd ? watch(f) : -ENOMEM;
        if (r < 0 && r != -ENOMEM) {
                log_warning_errno(r, "Changes of %s cannot be watched, ignoring: %m", path);
                r = 0;
        }
        if (r >= 0)
                r = read_first(f);
        if (r < 0) {
                subuid_file_free(f);
                return r;
        }
        *ret = f;
        return 0;
}

static void abandon(Reading *r) {
        (void) pthread_mutex_lock(&r->lock);
        bool ended = r->ended;
        r->abandoned = true;
        (void) pthread_mutex_unlock(&r->lock);
        if (ended)
                reading_free(r);
}

SubuidFile *subuid_file_free(SubuidFile *f) {
        if (!f)
                return NULL;
        sd_event_source_disable_unref(f->changes);
        sd_event_source_disable_unref(f->done);
        if (f->reading)
                abandon(f->reading);
        subuids_free(f->subuids);
        sd_event_unref(f->event);
        free(f->path);
        free(f->passwd);
        (void) pthread_mutex_destroy(&f->lock);
        free(f);
        return NULL;
}

uid_t subuid_file_user(const SubuidFile *f, uid_t uid) {
        return f ? subuids_user(f->subuids, uid) : uid;
}

uid_t subuid_file_user_anywhere(SubuidFile *f, uid_t uid) {
        if (!f)
                return uid;
        (void) pthread_mutex_lock(&f->lock);
        uid_t user = subuids_user(f->subuids, uid);
        (void) pthread_mutex_unlock(&f->lock);
        return user;
}
