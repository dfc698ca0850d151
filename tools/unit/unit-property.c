/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * NAME=VALUE of --property=
 */

#include <ctype.h>
#include <signal.h>
#include <stdio.h>

#include "common/parse-util.h"
#include "common/time-util.h"
#include "tools/shared/ctl.h"
#include "tools/unit/systemd-bus.h"
#include "tools/unit/unit-property.h"

#define NAME_MAX_SIZE 128U

void unit_properties_done(UnitProperties *p) {
        free(p->xml);
        *p = (UnitProperties){};
}

/* Fetches the introspection of a unit of the kind. Any unit will do, also one that does not exist. */
static int fetch(UnitProperties *p, sd_bus *bus, const char *suffix) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        char path[128];
        const char *xml;

        if (p->xml)
                return 0;
        (void) snprintf(path, sizeof(path), SYSTEMD_PATH "/unit/xschedctl_2drun_2e%s", suffix);
        int r = sd_bus_call_method(bus, SYSTEMD_NAME, path, BUS_INTROSPECT, "Introspect", NULL, &reply, NULL);
        if (r >= 0)
                r = sd_bus_message_read_basic(reply, 's', &xml);
        if (r < 0)
                return r;
        p->xml = strdup(xml);
        return p->xml ? 0 : -ENOMEM;
}

/* Finds the type of a property: one complete type in `ret`. */
static bool find_type(const UnitProperties *p, const char *name, char *ret, size_t size) {
        char wanted[NAME_MAX_SIZE + 32];

        (void) snprintf(wanted, sizeof(wanted), "<property name=\"%s\" type=\"", name);
        const char *at = strstr(p->xml, wanted);
        if (!at)
                return false;
        at += strlen(wanted);
        (void) snprintf(ret, size, "%.*s", (int) strcspn(at, "\""), at);
        return true;
}

/* TimeoutStopSec= in files is TimeoutStopUSec on the bus. */
static bool find_property(const UnitProperties *p, const char *name, size_t n, char bus_name[NAME_MAX_SIZE],
                char *ret_type, size_t size) {
        (void) snprintf(bus_name, NAME_MAX_SIZE, "%.*s", (int) n, name);
        if (find_type(p, bus_name, ret_type, size))
                return true;
        if (n < 3 || memcmp(name + n - 3, "Sec", 3) != 0)
                return false;
        (void) snprintf(bus_name, NAME_MAX_SIZE, "%.*sUSec", (int) n - 3, name);
        return find_type(p, bus_name, ret_type, size);
}

static bool ends_with(const char *s, const char *suffix) {
        size_t n = strlen(s), k = strlen(suffix);

        return n >= k && streq(s + n - k, suffix);
}

static int signal_from_name(const char *name) {
        const char *s = startswith(name, "SIG") ?: name;

        for (int i = 1; i < NSIG; i++)
                if (streq_ptr(sigabbrev_np(i), s))
                        return i;
        return -EINVAL;
}

/* UMask=, RuntimeDirectoryMode= and their like are octal, CoredumpFilter= is hexadecimal. Returns 0: any other number.
 */
static int number_base(const char *name) {
        if (streq(name, "UMask") || ends_with(name, "Mode"))
                return 8;
        return streq(name, "CoredumpFilter") ? 16 : 0;
}

static int parse_bits(int base, const char *value, uint64_t *ret) {
        const char *digits = base == 8 ? "01234567" : "0123456789abcdefABCDEF";

        if (base == 16)
                value = startswith(value, "0x") ?: value;
        if (isempty(value) || value[strspn(value, digits)] != '\0')
                return -EINVAL;
        errno = 0;
        unsigned long long bits = strtoull(value, NULL, base);
        if (errno != 0 || (base == 8 && bits > 07777))
                return -ERANGE;
        *ret = bits;
        return 0;
}

static int parse_unsigned(const char *name, const char *value, uint64_t max, uint64_t *ret) {
        uint64_t v;
        int r;

        int base = number_base(name);
        if (base != 0)
                return parse_bits(base, value, ret);
        if (streq(value, "infinity"))
                v = UINT64_MAX;
        else if (ends_with(name, "USec")) {
                r = parse_nsec(value, &v);
                if (r < 0)
                        return r;
                v /= NSEC_PER_USEC;
        } else {
                r = parse_size(value, &v);
                if (r < 0)
                        return r;
                if (v > max)
                        return -ERANGE;
        }
        *ret = v;
        return 0;
}

/* Their values are names of bits, which the bus has as a number. */
static bool is_set_of_names(const char *name, size_t n) {
        static const char *const names[] = {"AmbientCapabilities", "CapabilityBoundingSet", "MountFlags",
                        "RestrictNamespaces", "SecureBits"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strlen(names[i]) == n && memcmp(name, names[i], n) == 0)
                        return true;
        return false;
}

static int append_number(sd_bus_message *m, const char *name, char type, const char *value) {
        uint64_t u;
        int64_t i;
        int r;

        switch (type) {
        case 'b':
                r = parse_bool(value);
                return r < 0 ? r : sd_bus_message_append(m, "(sv)", name, "b", r);
        case 'i':
                if (ends_with(name, "Signal") && signal_from_name(value) > 0)
                        return sd_bus_message_append(m, "(sv)", name, "i", signal_from_name(value));
                r = parse_int64(value, INT32_MIN, INT32_MAX, &i);
                return r < 0 ? r : sd_bus_message_append(m, "(sv)", name, "i", (int32_t) i);
        case 'u':
                r = parse_unsigned(name, value, UINT32_MAX, &u);
                return r < 0 ? r : sd_bus_message_append(m, "(sv)", name, "u", (uint32_t) MIN(u, UINT32_MAX));
        default:
                r = parse_unsigned(name, value, UINT64_MAX, &u);
                return r < 0 ? r : sd_bus_message_append(m, "(sv)", name, "t", u);
        }
}

/* Returns the next word, in place: white space separates words, except between quotes. NULL at the end. */
static char *next_word(char **text) {
        char *in = *text, *out, *word, quote = '\0';

        in += strspn(in, " \t\n");
        if (*in == '\0')
                return NULL;
        word = out = in;
        for (; *in && (quote || !isspace((unsigned char) *in)); in++) {
                if (*in == quote)
                        quote = '\0';
                else if (!quote && (*in == '"' || *in == '\''))
                        quote = *in;
                else
                        *out++ = *in;
        }
        if (*in)
                in++;
        *out = '\0';
        *text = in;
        return word;
}

static int append_words(sd_bus_message *m, const char *name, const char *value) {
        _cleanup_free_ char *copy = strdup(value);
        char *rest = copy;

        if (!copy)
                return -ENOMEM;
        int r = systemd_open_property(m, name, "as");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "s");
        for (char *word; r >= 0 && (word = next_word(&rest));)
                r = sd_bus_message_append_basic(m, 's', word);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : systemd_close_property(m);
}

/* Takes percent of one processor. */
static int append_quota(sd_bus_message *m, const char *value) {
        uint32_t percent;

        if (isempty(value))
                return sd_bus_message_append(m, "(sv)", "CPUQuotaPerSecUSec", "t", UINT64_MAX);
        int r = parse_permyriad(value, UINT32_MAX, &percent);
        return r < 0 ? r : sd_bus_message_append(m, "(sv)", "CPUQuotaPerSecUSec", "t", (uint64_t) percent * 100);
}

static int append_typed(sd_bus_message *m, const char *name, const char *type, const char *value) {
        if (streq(type, "s"))
                return sd_bus_message_append(m, "(sv)", name, "s", value);
        if (streq(type, "as"))
                return append_words(m, name, value);
        if (streq(type, "aay"))
                return systemd_append_bytes(m, name, value);
        if (strlen(type) == 1 && strchr("biut", type[0]))
                return append_number(m, name, type[0], value);
        return -EOPNOTSUPP;
}

int unit_property_append(
                UnitProperties *p, sd_bus *bus, const char *suffix, sd_bus_message *m, const char *assignment) {
        const char *equals = strchr(assignment, '=');
        char name[NAME_MAX_SIZE], type[32];
        int r;

        if (!equals || equals == assignment || (size_t) (equals - assignment) >= sizeof(name) - 1 ||
                        strcspn(assignment, "\"<>&") < (size_t) (equals - assignment))
                return ctl_fail("--property=%s: not NAME=VALUE", assignment);
        r = fetch(p, bus, suffix);
        if (r < 0)
                return ctl_fail("--property=%s: systemd does not say what properties there are: %s", assignment,
                                strerror(-r));
        if (is_set_of_names(assignment, (size_t) (equals - assignment)))
                return ctl_fail("--property=%s: a set of names cannot be set here", assignment);
        if (startswith(assignment, "CPUQuota="))
                r = append_quota(m, equals + 1);
        else if (find_property(p, assignment, (size_t) (equals - assignment), name, type, sizeof(type)))
                r = append_typed(m, name, type, equals + 1);
        else
                return ctl_fail("--property=%s: a %s has no such property", assignment, suffix);
        if (r == -EOPNOTSUPP)
                return ctl_fail("--property=%s: properties of the type '%s' cannot be set here", assignment, type);
        return r < 0 ? ctl_fail("--property=%s: %s", assignment, r == -EINVAL ? "not such a value" : strerror(-r)) : 0;
}
