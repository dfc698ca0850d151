/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Configuration files in systemd's style
 *
 * libinih splits a line into key and value. Its reader callback is where our own rules stand: that callback is the one
 * place that sees every physical line, so it counts them, keeps the section (libinih cuts section names at 49 bytes), and
 * reports what is no line of ours before libinih would silently take it for something else.
 */

#include <fcntl.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "conf-parser.h"
#include "parse-util.h"
#include "time-util.h"

#define FILE_SIZE_MAX (1U << 20)

typedef struct Parser {
        const ConfContext *context;
        const char *file;

        const char *p, *end; /* what has not been read */
        unsigned line;

        const ConfSection *section; /* NULL: none yet, or unknown */
        bool in_section;            /* a header was seen */
        ConfTarget target;

        bool pending; /* a line was given to libinih, and the handler has not seen it */
        int error;    /* -ENOMEM */
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
        c->report(&(ConfProblem){.severity = severity,
                                  .file = file,
                                  .line = line,
                                  .error = error,
                                  .message = message},
                        c->report_userdata);
}

#define parser_error(p, error, ...)                                                                         \
        conf_report((p)->context, CONF_ERROR, (p)->file, (p)->line, error, __VA_ARGS__)
#define parser_warning(p, ...) conf_report((p)->context, CONF_WARNING, (p)->file, (p)->line, 0, __VA_ARGS__)

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

/* The line is "[...", stripped. Whatever is wrong with it, what follows belongs to no section until the next header. */
static void parser_open_section(Parser *p, const char *line, size_t n) {
        p->section = NULL;
        p->in_section = true;
        if (line[n - 1] != ']')
                return parser_error(p, -EBADMSG, "Section header without ']', section ignored");

        _cleanup_free_ char *header = strndup(line + 1, n - 2);
        if (!header) {
                p->error = -ENOMEM;
                return;
        }
        const char *argument = NULL;
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

/* libinih took the line for something that is no assignment ("Key ; = x"). */
static void parser_settle(Parser *p) {
        if (p->pending) {
                parser_error(p, -EBADMSG, "Not a Key=value line, ignored");
                parser_lost(p);
        }
        p->pending = false;
}

/* The next physical line, without white space around it; false at the end. */
static bool parser_next_line(Parser *p, const char **ret_line, size_t *ret_size) {
        if (p->p >= p->end)
                return false;
        p->line++;

        const char *line = p->p, *newline = memchr(line, '\n', (size_t) (p->end - line));
        const char *stop = newline ?: p->end;
        p->p = newline ? newline + 1 : p->end;

        while (line < stop && (*line == ' ' || *line == '\t'))
                line++;
        while (line < stop && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
                stop--;
        *ret_line = line;
        *ret_size = (size_t) (stop - line);
        return true;
}

/* libinih takes "Key: value", too, and would find it in "Key: a=b". */
static bool is_assignment(const char *line, size_t n) {
        const char *equals = memchr(line, '=', n);
        return equals && !memchr(line, ':', (size_t) (equals - line));
}

/* fgets() for libinih: gives it assignments only. */
static char *parser_read(char *buf, int size, void *userdata) {
        Parser *p = userdata;
        const char *line;
        size_t n;

        parser_settle(p);
        while (p->error == 0 && parser_next_line(p, &line, &n)) {
                if (n == 0 || *line == '#' || *line == ';')
                        continue;
                if (*line == '[' && !memchr(line, '\0', n)) {
                        parser_open_section(p, line, n);
                        continue;
                }
                if (memchr(line, '\0', n))
                        parser_error(p, -EBADMSG, "Line with a NUL byte, ignored");
                else if (!is_assignment(line, n))
                        parser_error(p, -EBADMSG, "Not a Key=value line, ignored");
                else if (size < 3 || n > (size_t) size - 3)
                        parser_error(p, -E2BIG, "Line longer than %i bytes, ignored", size - 3);
                else {
                        memcpy(buf, line, n);
                        buf[n] = '\n';
                        buf[n + 1] = '\0';
                        p->pending = true;
                        return buf;
                }
                parser_lost(p);
        }
        return NULL;
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
                                type->format(low, sizeof(low), item->min),
                                type->format(high, sizeof(high), item->max));
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

static int parser_handle(void *userdata, const char *section, const char *key, const char *value) {
        Parser *p = userdata;

        p->pending = false;
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
        return 1;
}

int conf_parse_buffer(const ConfContext *c, const char *file, const char *data, size_t size) {
        Parser p = {
                        .context = c,
                        .file = file,
                        .p = data,
                        .end = data + size,
        };
        if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
                p.p += 3;

        int r = ini_parse_stream(parser_read, &p, parser_handle, &p);
        parser_settle(&p);
        return r == -2 ? -ENOMEM : p.error;
}

static int read_whole(int fd, char **ret, size_t *ret_size) {
        struct stat st;
        if (fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode))
                return S_ISDIR(st.st_mode) ? -EISDIR : -EBADF;
        if (st.st_size > FILE_SIZE_MAX)
                return -EFBIG;

        _cleanup_free_ char *data = malloc((size_t) st.st_size + 1);
        if (!data)
                return -ENOMEM;
        size_t n = 0;
        while (n < (size_t) st.st_size) {
                ssize_t k = read(fd, data + n, (size_t) st.st_size - n);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return negative_errno();
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        data[n] = '\0';
        *ret = TAKE_PTR(data);
        *ret_size = n;
        return 0;
}

int conf_parse_file(const ConfContext *c, const char *path) {
        _cleanup_free_ char *data = NULL;
        size_t size = 0;

        /* O_NONBLOCK: a FIFO in the way must not stop us. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        int r = fd < 0 ? negative_errno() : read_whole(fd, &data, &size);
        if (r < 0) {
                if (r != -ENOENT)
                        conf_report(c, CONF_ERROR, path, 0, r, "Failed to read the file: %s", strerror(-r));
                return r;
        }
        return conf_parse_buffer(c, path, data, size);
}
