/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Composes and sends messages of the service
 */

#define SD_JOURNAL_SUPPRESS_LOCATION 1

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "log.h"

#define MESSAGE_SIZE 2048U
#define FIELDS_MAX   32U

/* Room for two paths of cgroups, which users can make long, and for the other fields. */
#define FIELDS_SIZE (2 * PATH_MAX + 2048U)

static LogTarget target = LOG_TARGET_CONSOLE;
static int max_level = LOG_INFO;
static bool console_prefix = false;

static const char *const log_target_table[_LOG_TARGET_MAX] = {
                [LOG_TARGET_AUTO] = "auto",
                [LOG_TARGET_JOURNAL] = "journal",
                [LOG_TARGET_CONSOLE] = "console",
};
DEFINE_STRING_TABLE_LOOKUP(log_target, LogTarget);

static const char *const log_level_table[] = {
                [LOG_EMERG] = "emerg",
                [LOG_ALERT] = "alert",
                [LOG_CRIT] = "crit",
                [LOG_ERR] = "err",
                [LOG_WARNING] = "warning",
                [LOG_NOTICE] = "notice",
                [LOG_INFO] = "info",
                [LOG_DEBUG] = "debug",
};

const char *log_level_to_string(int level) {
        return level >= 0 && (size_t) level < ELEMENTSOF(log_level_table) ? log_level_table[level] : NULL;
}

int log_level_from_string(const char *s) {
        if (s[0] >= '0' && s[0] <= '7' && s[1] == '\0')
                return s[0] - '0';
        for (size_t i = 0; i < ELEMENTSOF(log_level_table); i++)
                if (streq(s, log_level_table[i]))
                        return (int) i;
        return -EINVAL;
}

/* systemd names the stream that it gave us as stdout or stderr by device and inode. */
static bool stderr_is_journal(void) {
        const char *e = getenv("JOURNAL_STREAM");
        struct stat st;
        char name[64];

        if (!e || fstat(STDERR_FILENO, &st) < 0)
                return false;
        (void) snprintf(name, sizeof(name), "%" PRIu64 ":%" PRIu64, (uint64_t) st.st_dev, (uint64_t) st.st_ino);
        return streq(e, name);
}

void log_set_target(LogTarget t) {
        bool journal = stderr_is_journal();

        console_prefix = journal;
        target = t != LOG_TARGET_AUTO ? t : journal ? LOG_TARGET_JOURNAL : LOG_TARGET_CONSOLE;
}

LogTarget log_get_target(void) {
        return target;
}

void log_set_max_level(int level) {
        max_level = CLAMP(level, LOG_EMERG, LOG_DEBUG);
}

int log_get_max_level(void) {
        return max_level;
}

/* A message on its way to the journal: the fields point into `text`. */
typedef struct Entry {
        struct iovec iov[FIELDS_MAX];
        int n;
        char text[FIELDS_SIZE];
        size_t used;
} Entry;

/* A field that does not fit is left out as a whole, because a part of a value would be wrong. */
static void _printf_(2, 3) entry_add(Entry *e, const char *format, ...) {
        va_list ap;
        size_t room = sizeof(e->text) - e->used;

        va_start(ap, format);
        int k = vsnprintf(e->text + e->used, room, format, ap);
        va_end(ap);
        if (k < 0 || (size_t) k >= room || e->n >= (int) FIELDS_MAX)
                return;
        e->iov[e->n++] = (struct iovec){.iov_base = e->text + e->used, .iov_len = (size_t) k};
        e->used += (size_t) k + 1;
}

static void entry_add_string(Entry *e, const char *name, const char *value) {
        if (!isempty(value))
                entry_add(e, "%s=%s", name, value);
}

static void entry_add_number(Entry *e, const char *name, uint64_t value) {
        if (value != 0)
                entry_add(e, "%s=%" PRIu64, name, value);
}

/* Short fields go first, so that a long path cannot push them out. */
static void entry_add_change(Entry *e, const LogFields *f) {
        if (f->caller) {
                entry_add(e, "XSCHED_CALLER_UID=%u", (unsigned) f->caller->uid);
                entry_add_number(e, "XSCHED_CALLER_PID", (uint64_t) MAX(f->caller->pid, 0));
        }
        if (f->key) {
                entry_add(e, "XSCHED_KEY=%s", f->key);
                entry_add(e, "XSCHED_OLD=%s", strempty(f->old));
                entry_add(e, "XSCHED_NEW=%s", strempty(f->new));
        }
        if (f->caller) {
                entry_add_string(e, "XSCHED_CALLER_UNIT", f->caller->unit);
                entry_add_string(e, "XSCHED_CALLER_GROUP", f->caller->group);
        }
}

static void entry_add_usage(Entry *e, const LogUsage *u) {
        entry_add(e, "XSCHED_RUN_USEC=%" PRIu64, u->run_us);
        entry_add(e, "XSCHED_KEPT_USEC=%" PRIu64, u->kept_us);
        entry_add(e, "XSCHED_WAIT_USEC=%" PRIu64, u->wait_us);
        entry_add(e, "XSCHED_PREEMPTED=%" PRIu64, u->n_preempted);
        entry_add_string(e, "XSCHED_SOURCE", u->source);
        entry_add_string(e, "XSCHED_UNIT", u->unit);
}

/* `message` starts with "MESSAGE=". */
static int send_journal(int level, const char *message_id, const LogFields *f, const char *file, int line,
                const char *func, char *message) {
        Entry e = {.n = 0};

        e.iov[e.n++] = (struct iovec){.iov_base = message, .iov_len = strlen(message)};
        entry_add(&e, "PRIORITY=%i", level);
        entry_add(&e, "SYSLOG_FACILITY=%i", LOG_FAC(LOG_DAEMON));
        entry_add_string(&e, "SYSLOG_IDENTIFIER", program_invocation_short_name);
        entry_add(&e, "CODE_FILE=%s", file);
        entry_add(&e, "CODE_LINE=%i", line);
        entry_add(&e, "CODE_FUNC=%s", func);
        entry_add_string(&e, "MESSAGE_ID", message_id);
        entry_add_number(&e, "ERRNO", (uint64_t) (f->error < 0 ? -(int64_t) f->error : f->error));
        entry_add_number(&e, "XSCHED_CLIENT", f->client);
        entry_add_number(&e, "XSCHED_QUEUE", f->queue);
        entry_add_number(&e, "OBJECT_PID", (uint64_t) MAX(f->pid, 0));
        entry_add_change(&e, f);
        if (f->usage)
                entry_add_usage(&e, f->usage);
        entry_add_string(&e, "XSCHED_DEVICE", f->device);
        entry_add_string(&e, "XSCHED_GROUP", f->group);
        entry_add_string(&e, "CONFIG_FILE", f->config_file);
        entry_add_number(&e, "CONFIG_LINE", f->config_line);
        return sd_journal_sendv(e.iov, e.n);
}

static void send_console(int level, char *message) {
        char prefix[4] = "";

        /* One message is one line, whatever a process called itself. */
        for (char *p = message; *p; p++)
                if (*p == '\n' || *p == '\r')
                        *p = ' ';
        if (console_prefix)
                (void) snprintf(prefix, sizeof(prefix), "<%c>", '0' + level);
        (void) fprintf(stderr, "%s%s\n", prefix, message);
}

int log_internal(int level, const char *message_id, const LogFields *fields, const char *file, int line,
                const char *func, const char *format, ...) {
        static const char field[] = "MESSAGE=";
        char message[MESSAGE_SIZE];
        size_t n = sizeof(field) - 1;
        va_list ap;
        PROTECT_ERRNO;

        memcpy(message, field, n);
        errno = fields->error < 0 ? -fields->error : fields->error;
        va_start(ap, format);
        int k = vsnprintf(message + n, sizeof(message) - n, format, ap);
        va_end(ap);
        if (k < 0)
                return fields->error;

        if (target != LOG_TARGET_JOURNAL || send_journal(level, message_id, fields, file, line, func, message) < 0)
                send_console(level, message + n);
        return fields->error;
}
