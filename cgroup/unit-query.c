/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asks systemd for a unit's settings
 */

#include <fcntl.h>
#include <sys/stat.h>

#include "cgroup/unit-query.h"
#include "common/array.h"
#include "common/bus-names.h"
#include "common/conf-lines.h"

#define UNIT_PREFIX "XSCHED_"

#define FILE_SIZE_MAX ((size_t) 1 << 20)

#define QUESTIONS_MAX 4U /* file, drop-ins; of a service its environment and log fields, too */

struct UnitQuery {
        unit_query_done_t done;
        void *userdata;
        sd_bus_slot *slots[QUESTIONS_MAX];
        unsigned n_slots, n_open;
        char *fragment, **drop_ins;
        char **environment, **log_fields;
};

static char **strv_free(char **l) {
        for (char **s = l; s && *s; s++)
                free(*s);
        free(l);
        return NULL;
}

static int strv_add(char ***l, const char *s, size_t n) {
        size_t have = 0;

        while (*l && (*l)[have])
                have++;
        char **grown = array_grow(*l, have + 1, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        *l = grown;
        grown[have] = strndup(s, n);
        grown[have + 1] = NULL;
        return grown[have] ? 0 : -ENOMEM;
}

UnitQuery *unit_query_free(UnitQuery *q) {
        if (!q)
                return NULL;
        for (unsigned i = 0; i < q->n_slots; i++)
                sd_bus_slot_unref(q->slots[i]);
        free(q->fragment);
        strv_free(q->drop_ins);
        strv_free(q->environment);
        strv_free(q->log_fields);
        free(q);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(UnitQuery *, unit_query_free);

static void answered(UnitQuery *q) {
        char **files = NULL;
        int r = 0;

        if (--q->n_open > 0)
                return;
        if (!isempty(q->fragment))
                r = strv_add(&files, q->fragment, strlen(q->fragment));
        for (char **s = q->drop_ins; r >= 0 && s && *s; s++)
                r = strv_add(&files, *s, strlen(*s));
        const UnitFacts facts = {.files = files, .environment = q->environment, .log_fields = q->log_fields};
        q->done(&facts, q->userdata);
        strv_free(files);
}

/* --- the answers --- */

static int on_fragment(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        UnitQuery *q = userdata;
        const char *s;

        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "s", &s) >= 0)
                q->fragment = strdup(s);
        answered(q);
        return 0;
}

static int on_drop_ins(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        UnitQuery *q = userdata;
        const char *s;

        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_enter_container(m, 'v', "as") >= 0 &&
                        sd_bus_message_enter_container(m, 'a', "s") >= 0)
                while (sd_bus_message_read_basic(m, 's', &s) > 0)
                        (void) strv_add(&q->drop_ins, s, strlen(s));
        answered(q);
        return 0;
}

static bool is_ours(const char *s, size_t n) {
        return n > strlen(UNIT_PREFIX) && memcmp(s, UNIT_PREFIX, strlen(UNIT_PREFIX)) == 0 && memchr(s, '=', n) &&
                        !memchr(s, '\0', n);
}

static int on_environment(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        UnitQuery *q = userdata;
        const char *s;

        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_enter_container(m, 'v', "as") >= 0 &&
                        sd_bus_message_enter_container(m, 'a', "s") >= 0)
                while (sd_bus_message_read_basic(m, 's', &s) > 0)
                        if (is_ours(s, strlen(s)))
                                (void) strv_add(&q->environment, s, strlen(s));
        answered(q);
        return 0;
}

static int on_log_fields(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        UnitQuery *q = userdata;
        const void *s;
        size_t n;

        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_enter_container(m, 'v', "aay") >= 0 &&
                        sd_bus_message_enter_container(m, 'a', "ay") >= 0)
                while (sd_bus_message_read_array(m, 'y', &s, &n) > 0)
                        if (is_ours(s, n))
                                (void) strv_add(&q->log_fields, s, n);
        answered(q);
        return 0;
}

/* --- the questions --- */

static int ask(sd_bus *bus, UnitQuery *q, const char *path, const char *interface, const char *property,
                sd_bus_message_handler_t handler) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *m = NULL;

        int r = sd_bus_message_new_method_call(bus, &m, SYSTEMD_NAME, path, BUS_PROPERTIES, "Get");
        if (r >= 0)
                r = sd_bus_message_append(m, "ss", interface, property);
        if (r >= 0)
                r = sd_bus_message_set_auto_start(m, false);
        if (r >= 0)
                r = sd_bus_call_async(bus, q->slots + q->n_slots, m, handler, q, 0);
        if (r < 0)
                return r;
        q->n_slots++;
        q->n_open++;
        return 0;
}

int unit_query_new(sd_bus *bus, const char *unit, unit_query_done_t done, void *userdata, UnitQuery **ret) {
        _cleanup_(unit_query_freep)
        UnitQuery *q = calloc(1, sizeof(*q));
        _cleanup_free_ char *path = NULL;

        if (!q)
                return -ENOMEM;
        q->done = done;
        q->userdata = userdata;
        int r = sd_bus_path_encode(SYSTEMD_UNITS, unit, &path);
        if (r >= 0)
                r = ask(bus, q, path, SYSTEMD_NAME ".Unit", "FragmentPath", on_fragment);
        if (r >= 0)
                r = ask(bus, q, path, SYSTEMD_NAME ".Unit", "DropInPaths", on_drop_ins);
        if (r >= 0 && endswith(unit, ".service")) {
                r = ask(bus, q, path, SYSTEMD_NAME ".Service", "Environment", on_environment);
                if (r >= 0)
                        r = ask(bus, q, path, SYSTEMD_NAME ".Service", "LogExtraFields", on_log_fields);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);
        return 0;
}

/* --- unit files --- */

static int read_file(const char *path, char **ret, size_t *ret_size) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode))
                return -ENOENT; /* masked */
        if (st.st_size > (off_t) FILE_SIZE_MAX)
                return -EFBIG;

        _cleanup_free_ char *data = malloc((size_t) st.st_size + 1);
        if (!data)
                return -ENOMEM;
        ssize_t n = read(fd, data, (size_t) st.st_size);
        if (n < 0)
                return negative_errno();
        *ret = TAKE_PTR(data);
        *ret_size = (size_t) n;
        return 0;
}

/* "[X-XSched]", with white space around it. */
static bool is_header(const char *line, size_t n, const char *section) {
        size_t l = strlen(section);

        while (n > 0 && strchr(" \t\r", line[n - 1]))
                n--;
        return n == l + 2 && line[n - 1] == ']' && memcmp(line + 1, section, l) == 0;
}

int unit_file_read_section(const char *path, const char *section, char **ret, size_t *ret_size) {
        bool inside = false, continued = false;
        char *data;
        size_t size;

        int r = read_file(path, &data, &size);
        if (r < 0)
                return r;
        for (char *line = data, *next; line < data + size; line = next) {
                char *end = memchr(line, '\n', (size_t) (data + size - line));
                size_t n = (size_t) ((end ?: data + size) - line);
                bool comment = conf_line_is_comment(line, line + n);

                next = end ? end + 1 : data + size;
                if (!continued && line[0] == '[')
                        inside = is_header(line, n, section);
                if (!comment)
                        continued = conf_line_is_continued(line, line + n);
                if (!inside)
                        memset(line, ' ', n);
        }
        *ret = data;
        *ret_size = size;
        return 0;
}

/* --- names --- */

int cgroup_path_is_unit(const char *path, char **ret) {
        const char *last = strrchr(path, '/');
        char *name;

        if (!last)
                return 0;
        for (const char *p = path; p < last;) {
                p += strspn(p, "/");
                size_t n = strcspn(p, "/");
                if (p < last &&
                                ((n > 8 && memcmp(p + n - 8, ".service", 8) == 0) ||
                                                (n > 6 && memcmp(p + n - 6, ".scope", 6) == 0)))
                        return 0;
                p += n;
        }
        last++;
        if (*last == '\0')
                last = "-.slice";
        else if (*last == '_')
                last++; /* so that no unit is taken for one of cgroupfs's files */
        if (!endswith(last, ".service") && !endswith(last, ".scope") && !endswith(last, ".slice"))
                return 0;
        name = strdup(last);
        if (!name)
                return -ENOMEM;
        *ret = name;
        return 1;
}
