/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Configuration files in systemd's style
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "conf-lines.h"
#include "conf-parser.h"
#include "parse-util.h"
#include "read-text.h"
#include "time-util.h"

#define FILE_SIZE_MAX (1U << 20)
#define BLANKS        " \t\r\v\f"

typedef struct Parser {
        const ConfContext *context;
        const char *file;

        unsigned line; /* where the line that is parsed begins */

        const ConfSection *section; /* NULL: none yet, or unknown */
        bool in_section;            /* a header was seen */
        ConfTarget target;

        int error; /* -ENOMEM */
} Parser;

void conf_report(const ConfContext *c, ConfSeverity severity, const char *file, unsigned line, int error,
                const char *format, ...) {
        char message[512];
        va_list ap;

        if (!c->report)
                return;
        va_start(ap, format);
        (void) vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        c->report(&(ConfProblem){.severity = severity, .file = file, .line = line, .error = error, .message = message},
                        c->report_userdata);
}

#define parser_error(p, error, ...) conf_report((p)->context, CONF_ERROR, (p)->file, (p)->line, error, __VA_ARGS__)
#define parser_warning(p, ...)      conf_report((p)->context, CONF_WARNING, (p)->file, (p)->line, 0, __VA_ARGS__)

static const ConfSection *find_section(const ConfContext *c, const char *header, const char **ret_argument) {
        for (size_t i = 0; i < c->n_sections; i++) {
                const ConfSection *s = c->sections + i;
                const char *rest = startswith(header, s->name);

                if (!rest || (s->takes_argument ? *rest != ' ' && *rest != '\t' : *rest != '\0'))
                        continue;
                *ret_argument = s->takes_argument ? rest + strspn(rest, " \t") : NULL;
                return s;
        }
        return NULL;
}

/* The line is "[...". Whatever is wrong with it, what follows belongs to no section until the next header. */
static void parser_open_section(Parser *p, char *line, size_t n) {
        p->section = NULL;
        p->in_section = true;
        if (line[n - 1] != ']')
                return parser_error(p, -EBADMSG, "Section header without ']', section ignored");

        line[n - 1] = '\0';
        const char *header = line + 1, *argument = NULL;
        const ConfSection *s = find_section(p->context, header, &argument);
        if (!s) {
                if (!startswith(header, "X-"))
                        parser_warning(p, "Unknown section [%s], ignored", header);
                return;
        }
        p->target = (ConfTarget){0};
        int r = s->open(argument, p->context->userdata, &p->target);
        if (r == -ENOMEM)
                p->error = r;
        else if (r < 0)
                parser_error(p, r, "Invalid section [%s], ignored: %s", header, strerror(-r));
        else
                p->section = s;
}

/* A line of the section was lost. */
static void parser_lost(Parser *p) {
        if (p->section && p->section->assign)
                (void) p->section->assign(NULL, NULL, p->file, p->line, p->context->userdata);
}

static const ConfItem *find_item(const ConfSection *s, const char *key) {
        for (size_t i = 0; i < s->n_items; i++)
                if (streq(s->items[i].key, key))
                        return s->items + i;
        return NULL;
}

static void target_copy(ConfTarget *t, const ConfItem *item, const void *from) {
        memcpy((uint8_t *) t->data + item->offset, (const uint8_t *) from + item->offset, item->size);
}

static void target_mark(ConfTarget *t, uint64_t bit, bool set) {
        if (t->set)
                *t->set = set ? *t->set | bit : *t->set & ~bit;
}

static void parser_report_value(const Parser *p, const ConfItem *item, const char *value, int error) {
        const ConfType *type = item->type;

        if (error == -ERANGE && type->format) {
                char low[FORMAT_NSEC_MAX], high[FORMAT_NSEC_MAX];
                parser_error(p, error, "%s=%s is out of range (%s to %s), ignored", item->key, value,
                                type->format(low, sizeof(low), item->min), type->format(high, sizeof(high), item->max));
        } else
                parser_error(p, error, "%s=%s is not %s, ignored", item->key, value, type->expects);
}

static void parser_assign(Parser *p, const ConfItem *item, const char *value) {
        ConfTarget *t = &p->target;
        uint64_t bit = UINT64_C(1) << (item - p->section->items);

        if (p->section->assign) {
                int r = p->section->assign(item, value, p->file, p->line, p->context->userdata);
                if (r == -ENOMEM)
                        p->error = r;
                else if (r < 0)
                        parser_report_value(p, item, value, r);
                return;
        }
        if (isempty(value)) {
                target_copy(t, item, t->defaults);
                target_mark(t, bit, false);
                return;
        }
        int r = item->type->parse(value, item, (uint8_t *) t->data + item->offset);
        if (r >= 0) {
                target_mark(t, bit, true);
                return;
        }
        parser_report_value(p, item, value, r);
        if (t->last_good && (!t->set || t->last_good_set & bit)) {
                target_copy(t, item, t->last_good);
                target_mark(t, bit, true);
        }
}

/* Finds a ';' after white space, which begins a comment. */
static char *find_comment(char *s) {
        for (char *p = s; (p = strchr(p, ';')); p++)
                if (p > s && strchr(BLANKS, p[-1]))
                        return p;
        return s + strlen(s);
}

static char *strip(char *s, char *stop) {
        s += strspn(s, BLANKS);
        while (stop > s && strchr(BLANKS, stop[-1]))
                stop--;
        *stop = '\0';
        return s;
}

/* "Key = value ; comment" */
static bool split_assignment(char *line, char **ret_key, char **ret_value) {
        char *equals = strchr(line, '=');

        if (!equals)
                return false;
        *equals = '\0';
        if (strchr(line, ':') || *find_comment(line))
                return false;
        *ret_key = strip(line, equals);
        *ret_value = strip(equals + 1, find_comment(equals + 1));
        return true;
}

static void parser_set(Parser *p, const char *key, const char *value) {
        if (!p->in_section)
                parser_error(p, -EBADMSG, "%s= stands before any section, ignored", key);
        else if (p->section && !startswith(key, "X-")) {
                const ConfItem *item = find_item(p->section, key);
                if (item)
                        parser_assign(p, item, value);
                else {
                        parser_warning(p, "Unknown key %s= in section [%s], ignored", key, p->section->name);
                        parser_lost(p);
                }
        }
}

static void parser_take_line(Parser *p, char *line, size_t n) {
        char *key, *value;

        if (n == 0)
                return;
        if (memchr(line, '\0', n)) {
                parser_error(p, -EBADMSG, "Line with a NUL byte, ignored");
                parser_lost(p);
        } else if (*line == '[')
                parser_open_section(p, line, n);
        else if (split_assignment(line, &key, &value))
                parser_set(p, key, value);
        else {
                parser_error(p, -EBADMSG, "Not a Key=value line, ignored");
                parser_lost(p);
        }
}

/* Cuts up the text; text[size] must be writable. */
static int parse_text(const ConfContext *c, const char *file, char *text, size_t size) {
        Parser p = {.context = c, .file = file};
        size_t bom = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, n;
        ConfLines lines = conf_lines(text + bom, size - bom);
        char *line;

        while (p.error == 0 && (line = conf_lines_next(&lines, &n, &p.line)))
                parser_take_line(&p, line, n);
        return p.error;
}

int conf_parse_buffer(const ConfContext *c, const char *file, const char *data, size_t size) {
        _cleanup_free_ char *text = malloc(size + 1);

        if (!text)
                return -ENOMEM;
        memcpy(text, data, size);
        text[size] = '\0';
        return parse_text(c, file, text, size);
}

int conf_missing_error(const char *path) {
        _cleanup_free_ char *name = strdup(path);
        struct stat st;
        if (!name)
                return -ENOMEM;

        /* Shortens the path until its last name exists. If that is no directory, it is a link. */
        while (lstat(name, &st) < 0) {
                char *slash = strrchr(name, '/');
                if (errno != ENOENT)
                        return negative_errno();
                if (!slash || slash == name)
                        return -ENOENT;
                *slash = '\0';
        }
        return stat(name, &st) < 0 ? -ENOLINK : -ENOENT;
}

const char *conf_strerror(int error) {
        return error == -ENOLINK ? "A link leads to nothing" : strerror(-error);
}

int conf_file_kind(const struct stat *st) {
        if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3))
                return 0;
        if (S_ISREG(st->st_mode))
                return 1;
        return S_ISDIR(st->st_mode) ? -EISDIR : -EBADF;
}

static int read_whole(int fd, char **ret, size_t *ret_size) {
        struct stat st;
        if (fstat(fd, &st) < 0)
                return negative_errno();
        int r = conf_file_kind(&st);
        if (r < 0)
                return r;
        if (st.st_size > FILE_SIZE_MAX)
                return -EFBIG;

        return read_text(fd, r > 0 ? (size_t) st.st_size : 0, ret, ret_size);
}

int conf_parse_file(const ConfContext *c, const char *path) {
        _cleanup_free_ char *data = NULL;
        size_t size = 0;

        /* O_NONBLOCK: opening a FIFO of this name must not block us. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        int r = fd < 0 ? negative_errno() : read_whole(fd, &data, &size);
        if (r == -ENOENT)
                r = conf_missing_error(path);
        if (r < 0) {
                if (r != -ENOENT)
                        conf_report(c, CONF_ERROR, path, 0, r, "Failed to read the file: %s", conf_strerror(r));
                return r;
        }
        return parse_text(c, path, data, size);
}
