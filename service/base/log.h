/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Log messages
 *
 * One call is one message, to the journal with its fields, or to stderr as one line. The fields name
 *
 *   the object   XSCHED_CLIENT=, XSCHED_QUEUE=, XSCHED_DEVICE=, XSCHED_GROUP=, OBJECT_PID=
 *   the event    MESSAGE_ID=, XSCHED_KEY=, XSCHED_OLD=, XSCHED_NEW=, XSCHED_RUN_USEC= and so on
 *   the caller   XSCHED_CALLER_*
 *   the error    ERRNO=
 *   the source   CODE_*
 *
 * Messages to be searched for, counted or translated have an id (messages.h), and are sent by log_event().
 *
 * Only service/ logs. Thread safety: the level and the target are set by the main thread before there are others.
 * errno is left alone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <syslog.h>

#include "common/macro.h"

typedef enum LogTarget {
        LOG_TARGET_AUTO,    /* the journal when stderr is connected to it, else the console */
        LOG_TARGET_JOURNAL, /* structured; falls back to the console when the journal does not answer */
        LOG_TARGET_CONSOLE, /* stderr, with "<7>" prefixes when that ends in the journal */
        _LOG_TARGET_MAX,
} LogTarget;

const char *log_target_to_string(LogTarget v);
int log_target_from_string(const char *s);

/* "emerg alert crit err warning notice info debug", and "0".."7" from text. */
const char *log_level_to_string(int level);
int log_level_from_string(const char *s);

void log_set_target(LogTarget t);
LogTarget log_get_target(void); /* never AUTO: where messages go now */
void log_set_max_level(int level);
int log_get_max_level(void);

/* The caller whose call the message is about. */
typedef struct LogCaller {
        uid_t uid; /* sent whatever it is */
        pid_t pid;
        const char *unit, *group;
} LogCaller;

/* What a group has used; sent whatever the numbers are. */
typedef struct LogUsage {
        const char *unit, *source;
        uint64_t run_us, kept_us, wait_us, n_preempted;
} LogUsage;

/* Fields that are 0 or NULL are not sent. With a `key`, `old` and `new` are sent even if they are empty. */
typedef struct LogFields {
        uint64_t client;
        uint64_t queue;
        const char *device;
        const char *group;
        pid_t pid;
        int error; /* negative errno; also what %m prints */
        const char *config_file;
        unsigned config_line;
        const LogCaller *caller;
        const char *key, *old, *new;
        const LogUsage *usage;
} LogFields;

int log_internal(int level, const char *message_id, const LogFields *fields, const char *file, int line,
                const char *func, const char *format, ...) _printf_(7, 8);

/* Each returns fields.error, so that `return log_error_errno(r, ...)` works. */
#define log_full(level, id, fields, ...)                                                                               \
        ((level) <= log_get_max_level() ? log_internal(level, id, fields, __FILE__, __LINE__, __func__, __VA_ARGS__)   \
                                        : (fields)->error)

/* log_event(LOG_NOTICE, MESSAGE_CLIENT_GONE, LOG_FIELDS(.client = c->id, .error = r), "Client %s went: %m", name) */
#define LOG_FIELDS(...)                   (&(const LogFields){__VA_ARGS__})
#define log_event(level, id, fields, ...) log_full(level, id, fields, __VA_ARGS__)
#define log_errno(level, error_, ...)     log_full(level, NULL, LOG_FIELDS(.error = (error_)), __VA_ARGS__)
#define log_plain(level, ...)             ((void) log_full(level, NULL, LOG_FIELDS(.error = 0), __VA_ARGS__))

#define log_debug(...)                log_plain(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)                 log_plain(LOG_INFO, __VA_ARGS__)
#define log_notice(...)               log_plain(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...)              log_plain(LOG_WARNING, __VA_ARGS__)
#define log_error(...)                log_plain(LOG_ERR, __VA_ARGS__)
#define log_debug_errno(error, ...)   log_errno(LOG_DEBUG, error, __VA_ARGS__)
#define log_notice_errno(error, ...)  log_errno(LOG_NOTICE, error, __VA_ARGS__)
#define log_warning_errno(error, ...) log_errno(LOG_WARNING, error, __VA_ARGS__)
#define log_error_errno(error, ...)   log_errno(LOG_ERR, error, __VA_ARGS__)
#define log_oom()                     log_error_errno(-ENOMEM, "Out of memory")
