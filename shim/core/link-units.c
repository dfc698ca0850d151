/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the manager of our user says of the units that we are in
 *
 * The service asks the system's manager about units, but a user's is open to the user alone: so we ask, and tell. That
 * only ever lowers, so it is nothing that a process could lie about to its advantage. The manager is asked on its own
 * socket, which is there without a user's bus, and with a deadline for all questions together: one that does not answer
 * must not keep a process from being scheduled.
 */

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/macro.h"
#include "shim/core/client.h"
#include "shim/core/link-internal.h"
#include "shim/core/unit-section.h"

#define SYSTEMD_NAME  "org.freedesktop.systemd1"
#define SYSTEMD_UNITS "/org/freedesktop/systemd1/unit"
#define ENV_PREFIX    "XSCHED_"

#define UNITS_MAX     8U /* what lies further up is not asked for */
#define DEADLINE_NS   NSEC_PER_SEC
#define FILE_SIZE_MAX ((size_t) 1 << 20)

typedef struct Asking {
        sd_bus *bus; /* the manager's */
        uint64_t until_ns;
        sd_bus_message *to; /* RegisterClient, in the array of (unit, assignment) */
        const char *unit;
        char *path; /* on the manager's bus */
} Asking;

static int tell(Asking *a, const char *assignment) {
        return sdbus.sd_bus_message_append(a->to, "(ss)", a->unit, assignment);
}

/* --- questions --- */

static int get(Asking *a, const char *interface, const char *property, sd_bus_message **ret) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        uint64_t now = now_ns();

        if (now >= a->until_ns)
                return -ETIMEDOUT;
        int r = sdbus.sd_bus_message_new_method_call(
                        a->bus, &m, SYSTEMD_NAME, a->path, "org.freedesktop.DBus.Properties", "Get");
        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "ss", interface, property);
        if (r >= 0)
                r = sdbus.sd_bus_call(a->bus, m, (a->until_ns - now) / NSEC_PER_USEC + 1, NULL, ret);
        return r;
}

/* XSCHED_PRIORITY=5 is Priority=5. What else begins with XSCHED_ the service passes over. */
static int tell_variable(Asking *a, const char *s, size_t n) {
        char text[256];
        size_t prefix = strlen(ENV_PREFIX);

        if (n <= prefix || n - prefix >= sizeof(text) || memcmp(s, ENV_PREFIX, prefix) != 0 ||
                        memchr(s, '\0', n))
                return 0;
        (void) snprintf(text, sizeof(text), "%.*s", (int) (n - prefix), s + prefix);
        for (char *p = text + 1; text[0] != '=' && *p && *p != '='; p++)
                *p = (char) tolower((unsigned char) *p);
        return tell(a, text);
}

static int tell_environment(Asking *a) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        const char *s;

        int r = get(a, SYSTEMD_NAME ".Service", "Environment", &m);
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(m, 'v', "as");
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(m, 'a', "s");
        while (r >= 0 && (r = sdbus.sd_bus_message_read_basic(m, 's', &s)) > 0)
                r = tell_variable(a, s, strlen(s));
        return r;
}

static int tell_log_fields(Asking *a) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        const void *s;
        size_t n;

        int r = get(a, SYSTEMD_NAME ".Service", "LogExtraFields", &m);
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(m, 'v', "aay");
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(m, 'a', "ay");
        while (r >= 0 && (r = sdbus.sd_bus_message_read_array(m, 'y', &s, &n)) > 0)
                r = tell_variable(a, s, n);
        return r;
}

/* --- files --- */

static int read_file(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode) || st.st_size > (off_t) FILE_SIZE_MAX)
                return -ENOENT;
        _cleanup_free_ char *text = malloc((size_t) st.st_size + 1);
        if (!text)
                return -ENOMEM;
        ssize_t n = read(fd, text, (size_t) st.st_size);
        if (n < 0)
                return negative_errno();
        text[n] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

/* One that we may not read says nothing. */
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
        _cleanup_(link_message_unrefp)
        sd_bus_message *fragment = NULL, *drop_ins = NULL;
        const char *path;

        int r = get(a, SYSTEMD_NAME ".Unit", "FragmentPath", &fragment);
        if (r >= 0)
                r = sdbus.sd_bus_message_read(fragment, "v", "s", &path);
        if (r >= 0)
                r = tell_file(a, path);
        if (r >= 0)
                r = get(a, SYSTEMD_NAME ".Unit", "DropInPaths", &drop_ins);
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(drop_ins, 'v', "as");
        if (r >= 0)
                r = sdbus.sd_bus_message_enter_container(drop_ins, 'a', "s");
        while (r >= 0 && (r = sdbus.sd_bus_message_read_basic(drop_ins, 's', &path)) > 0)
                r = tell_file(a, path);
        return r;
}

/* --- units --- */

static bool ends_with(const char *s, const char *suffix) {
        size_t n = strlen(s), k = strlen(suffix);

        return n > k && streq(s + n - k, suffix);
}

/* The later word counts: files say more than properties, as they do for the system's units. An empty word says that we
 * know of the unit. */
static int tell_unit(Asking *a, const char *unit) {
        a->unit = unit;
        free(a->path);
        a->path = NULL;
        int r = sdbus.sd_bus_path_encode(SYSTEMD_UNITS, unit, &a->path);
        if (r >= 0)
                r = tell(a, "");
        if (r >= 0 && ends_with(unit, ".service"))
                r = tell_environment(a);
        if (r >= 0 && ends_with(unit, ".service"))
                r = tell_log_fields(a);
        return r < 0 ? r : tell_files(a);
}

/* Where our user's manager keeps its units: the rest of our cgroup's path behind that. 0 when we are not there. */
static int find_units(char buf[static PATH_MAX], char **ret) {
        char line[PATH_MAX + 8], manager[128];
        unsigned uid = (unsigned) getuid();
        FILE *f = fopen("/proc/self/cgroup", "re");
        int r = 0;

        if (!f)
                return negative_errno();
        int n = snprintf(
                        manager, sizeof(manager), "0::/user.slice/user-%u.slice/user@%u.service/", uid, uid);
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
                name += *name == '_'; /* so that it was not taken for one of cgroupfs's files */
                if (ends_with(name, ".service") || ends_with(name, ".scope"))
                        return tell_unit(a, name);
                r = ends_with(name, ".slice") ? tell_unit(a, name) : -ENOENT;
        }
        return r;
}

static int open_manager(sd_bus **ret) {
        char address[64];

        (void) snprintf(address, sizeof(address), "unix:path=/run/user/%u/systemd/private",
                        (unsigned) getuid());
        int r = sdbus.sd_bus_new(ret);
        if (r >= 0)
                r = sdbus.sd_bus_set_address(*ret, address);
        return r < 0 ? r : sdbus.sd_bus_start(*ret);
}

static int begin(sd_bus_message *m) {
        int r = sdbus.sd_bus_message_open_container(m, 'e', "sv");

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "s", "UserUnits");
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'v', "a(ss)");
        return r < 0 ? r : sdbus.sd_bus_message_open_container(m, 'a', "(ss)");
}

static int end(sd_bus_message *m) {
        int r = 0;

        for (unsigned i = 0; r >= 0 && i < 3; i++)
                r = sdbus.sd_bus_message_close_container(m);
        return r;
}

int link_append_units(sd_bus_message *m) {
        Asking a = {.until_ns = now_ns() + DEADLINE_NS, .to = m};
        char buf[PATH_MAX], *units;

        if (find_units(buf, &units) <= 0)
                return 0;
        int r = begin(m);
        if (r < 0)
                return r;
        r = open_manager(&a.bus);
        if (r >= 0)
                r = tell_units(&a, units);
        if (r < 0)
                client_debug("xsched: the user's manager says nothing of our unit (%s)",
                                strerrordesc_np(-r));
        free(a.path);
        if (a.bus) {
                sdbus.sd_bus_close(a.bus);
                (void) sdbus.sd_bus_unref(a.bus);
        }
        return end(m);
}
