/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tells the service what the manager of our user says about our units
 *
 * The service asks the system's manager about units, but only the user may ask a user's manager: so we ask, and tell
 * the service. These settings can only lower, so a process gains nothing by lying. The manager is asked on its own
 * socket, which exists without a user's bus, and with one deadline for all questions: a manager that does not answer
 * must not keep a process from being scheduled.
 */

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/apart.h"
#include "common/bus-names.h"
#include "common/file-status.h"
#include "common/macro.h"
#include "link-units.h"
#include "shim/core/client.h"
#include "shim/core/link.h"
#include "shim/core/unit-section.h"

#define ENV_PREFIX "XSCHED_"

#define UNITS_MAX     8U /* units further up are not asked about */
#define DEADLINE_NS   NSEC_PER_SEC
#define FILE_SIZE_MAX ((size_t) 1 << 20)
#define TOLD_MAX      ((size_t) 64 << 10) /* bytes of our call to the service */

typedef struct Asking {
        Dbus *bus; /* the manager's */
        uint64_t until_ns;
        DbusWriter *to; /* RegisterClient, in the array of (unit, assignment) */
        const char *unit;
        char *path; /* on the manager's bus */
} Asking;

static void message_freep(DbusMessage **m) {
        (void) dbus_message_free(*m);
}

static int tell(Asking *a, const char *assignment) {
        if (!dbus_is_text(a->unit) || !dbus_is_text(assignment))
                return -EINVAL;
        /* A unit with very many assignments must not keep the process from being registered. */
        if (a->to->size > TOLD_MAX)
                return -EMSGSIZE;
        dbus_write_struct(a->to);
        dbus_write_string(a->to, a->unit);
        dbus_write_string(a->to, assignment);
        return a->to->error;
}

/* --- questions --- */

/* The reader is left inside the variant's value, and reads from the message. */
static int get(Asking *a, const char *interface, const char *property, const char *signature, DbusMessage **ret,
                DbusReader *ret_value) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        uint64_t now = now_ns();

        if (now >= a->until_ns)
                return -ETIMEDOUT;
        dbus_call_begin(&w, SYSTEMD_NAME, a->path, BUS_PROPERTIES, "Get", "ss");
        dbus_write_string(&w, interface);
        dbus_write_string(&w, property);
        int r = dbus_call_and_wait(a->bus, &w, a->until_ns - now, ret);
        if (r < 0)
                return r;
        (void) dbus_message_read(*ret, "v", ret_value);
        dbus_read_variant(ret_value, signature);
        return ret_value->bad ? -EBADMSG : 0;
}

/* XSCHED_PRIORITY=5 becomes Priority=5. The service ignores unknown names. */
static int tell_variable(Asking *a, const char *s, size_t n) {
        char text[256];
        size_t prefix = strlen(ENV_PREFIX);

        if (n <= prefix || n - prefix >= sizeof(text) || memcmp(s, ENV_PREFIX, prefix) != 0 || memchr(s, '\0', n))
                return 0;
        (void) snprintf(text, sizeof(text), "%.*s", (int) (n - prefix), s + prefix);
        for (char *p = text + 1; text[0] != '=' && *p && *p != '='; p++)
                *p = (char) tolower((unsigned char) *p);
        return tell(a, text);
}

/* Tells the variables of a property, whose elements are strings or arrays of bytes. */
static int tell_variables(Asking *a, const char *property, const char *signature) {
        _cleanup_(message_freep)
        DbusMessage *m = NULL;
        DbusReader value;
        int r = get(a, SYSTEMD_NAME ".Service", property, signature, &m, &value);

        if (r < 0)
                return r;
        for (size_t end = dbus_read_array(&value, DBUS_ALIGN_4); r >= 0 && dbus_read_more(&value, end);) {
                bool is_string = streq(signature, "as");
                size_t n = 0;
                const char *s = is_string ? dbus_read_string(&value) : (const char *) dbus_read_bytes(&value, &n);
                if (s)
                        r = tell_variable(a, s, is_string ? strlen(s) : n);
        }
        return r < 0 ? r : value.bad ? -EBADMSG : 0;
}

/* --- files --- */

static int read_file(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;

        if (fd < 0 || fd_status(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode) || st.st_size > (off_t) FILE_SIZE_MAX)
                return -ENOENT;
        _cleanup_free_ char *text = malloc_apart((size_t) st.st_size + 1);
        if (!text)
                return -ENOMEM;
        ssize_t n = read(fd, text, (size_t) st.st_size);
        if (n < 0)
                return negative_errno();
        text[n] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

/* A file that we may not read is skipped. */
static int tell_file(Asking *a, const char *path) {
        _cleanup_free_ char *text = NULL;
        const char *assignment;
        UnitSection s;
        int r = 0;

        if (isempty(path) || read_file(path, &text) < 0)
                return 0;
        unit_section_init(&s, text);
        while (r >= 0 && (assignment = unit_section_next(&s)))
                r = tell(a, assignment);
        return r;
}

static int tell_files(Asking *a) {
        _cleanup_(message_freep)
        DbusMessage *fragment = NULL, *drop_ins = NULL;
        DbusReader value;

        int r = get(a, SYSTEMD_NAME ".Unit", "FragmentPath", "s", &fragment, &value);
        if (r >= 0)
                r = tell_file(a, dbus_read_string(&value));
        if (r >= 0)
                r = get(a, SYSTEMD_NAME ".Unit", "DropInPaths", "as", &drop_ins, &value);
        if (r < 0)
                return r;
        for (size_t end = dbus_read_array(&value, DBUS_ALIGN_4); r >= 0 && dbus_read_more(&value, end);)
                r = tell_file(a, dbus_read_string(&value));
        return r < 0 ? r : value.bad ? -EBADMSG : 0;
}

/* --- units --- */

static bool ends_with(const char *s, const char *suffix) {
        size_t n = strlen(s), k = strlen(suffix);

        return n > k && streq(s + n - k, suffix);
}

/* The last assignment counts: files override properties, as for the system's units. An empty assignment tells the
 * service that the unit exists. */
static int tell_unit(Asking *a, const char *unit) {
        a->unit = unit;
        free(TAKE_PTR(a->path));
        int r = dbus_path_encode(SYSTEMD_UNITS, unit, &a->path);
        if (r >= 0)
                r = tell(a, "");
        if (r >= 0 && ends_with(unit, ".service"))
                r = tell_variables(a, "Environment", "as");
        if (r >= 0 && ends_with(unit, ".service"))
                r = tell_variables(a, "LogExtraFields", "aay");
        return r < 0 ? r : tell_files(a);
}

/* Finds the part of our cgroup's path below the user's manager, which names its units. Returns 0 when we are not
 * there. */
static int find_units(char buf[static PATH_MAX], char **ret) {
        char line[PATH_MAX + 8], manager[128];
        unsigned uid = (unsigned) getuid();
        FILE *f = fopen("/proc/self/cgroup", "re");
        int r = 0;

        if (!f)
                return negative_errno();
        int n = snprintf(manager, sizeof(manager), "0::/user.slice/user-%u.slice/user@%u.service/", uid, uid);
        while (r == 0 && fgets(line, sizeof(line), f)) {
                if (strncmp(line, manager, (size_t) n) != 0)
                        continue;
                line[strcspn(line, "\n")] = '\0';
                (void) snprintf(buf, PATH_MAX, "%s", line + n);
                *ret = buf;
                r = 1;
        }
        (void) fclose(f);
        return r;
}

static int tell_units(Asking *a, char *units) {
        unsigned n = 0;
        char *rest;
        int r = 0;

        for (char *name = strtok_r(units, "/", &rest); r >= 0 && name && n < UNITS_MAX;
                        name = strtok_r(NULL, "/", &rest), n++) {
                name += *name == '_'; /* systemd's escape of cgroupfs's own names */
                if (ends_with(name, ".service") || ends_with(name, ".scope"))
                        return tell_unit(a, name);
                r = ends_with(name, ".slice") ? tell_unit(a, name) : -ENOENT;
        }
        return r;
}

static int open_manager(Dbus **ret) {
        char address[64];

        (void) snprintf(address, sizeof(address), "unix:path=/run/user/%u/systemd/private", (unsigned) getuid());
        return dbus_open(address, false, ret);
}

void link_write_units(DbusWriter *w) {
        Asking a = {.until_ns = now_ns() + DEADLINE_NS, .to = w};
        char buf[PATH_MAX], *units;

        if (find_units(buf, &units) <= 0)
                return;
        dbus_write_struct(w);
        dbus_write_string(w, "UserUnits");
        dbus_write_signature(w, "a(ss)");
        size_t assignments = dbus_begin_array(w, DBUS_ALIGN_8);
        int r = open_manager(&a.bus);
        if (r >= 0) {
                client_set_fd(CLIENT_FD_MANAGER, dbus_fd(a.bus));
                r = tell_units(&a, units);
                client_set_fd(CLIENT_FD_MANAGER, -EBADF);
        }
        if (r < 0)
                client_debug("xsched: the user's manager says nothing of our unit (%s)", strerror(-r));
        free(a.path);
        (void) dbus_close(a.bus);
        dbus_end_array(w, assignments, DBUS_ALIGN_8);
}
