/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The keys, ranges and defaults in xsched.conf(5) are those of the service
 *
 * Argument: the source of the manual page.
 */

#include <config.h>

#include <stdio.h>

#include "common/conf-types.h"
#include "tests/unit/config-fixture.h"

static const char *manual;

/* "# [SCHEDULER] SECTION OPTIONS" */
static const ConfSection *section_of_heading(const char *line, const ConfSection *sections, size_t n) {
        for (size_t i = 0; i < n; i++) {
                char heading[64];
                (void) snprintf(heading, sizeof(heading), "# [%s] SECTION OPTIONS\n", sections[i].name);
                for (char *p = heading + 3; *p != ']'; p++)
                        *p = (char) (*p & ~0x20);
                if (!sections[i].takes_argument && strstr(line, heading))
                        return sections + i;
        }
        return NULL;
}

/* The indented text below "_Key=_", read up to the next blank line. */
static void read_paragraph(FILE *f, char *buf, size_t size) {
        char line[512];

        buf[0] = '\0';
        while (fgets(line, sizeof(line), f) && line[0] != '\n') {
                size_t n = strlen(buf);
                (void) snprintf(buf + n, size - n, "%s", line);
        }
        for (char *p = buf; (p = strchr(p, '\n'));) {
                *p = ' ';
                if (p[1] == '\t')
                        memmove(p + 1, p + 2, strlen(p + 2) + 1);
        }
}

static void check_range(const ConfItem *item, const char *text, int64_t limit) {
        char buf[64];

        if (!item->type->format)
                return;
        const char *s = item->type->format(buf, sizeof(buf), limit);
        if (!strstr(text, s))
                fail_msg("%s=: the manual page does not say %s", item->key, s);
}

/* Walks the page; each section's defaults become a file of their own, to be read back. Returns how many keys it saw. */
static size_t check_manual(const ConfSection *sections, size_t n_sections, char *defaults, size_t size) {
        const ConfSection *section = NULL;
        char line[512], text[4096];
        size_t n_keys = 0;
        uint64_t seen[8] = {0};

        assert_true(n_sections <= ELEMENTSOF(seen));
        FILE *f = fopen(manual, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f)) {
                if (line[0] == '#') {
                        section = section_of_heading(line, sections, n_sections);
                        size_t n = strlen(defaults);
                        if (section)
                                (void) snprintf(defaults + n, size - n, "[%s]\n", section->name);
                }
                size_t end = strlen(line);
                if (!section || line[0] != '_' || end < 4 || !streq(line + end - 3, "=_\n"))
                        continue;
                line[end - 3] = '\0';
                const ConfItem *item = NULL;
                for (size_t i = 0; i < section->n_items; i++)
                        if (streq(section->items[i].key, line + 1))
                                item = section->items + i;
                if (!item) {
                        fail_msg("The manual page has %s= in [%s], the service does not", line + 1, section->name);
                        return 0;
                }
                seen[section - sections] |= UINT64_C(1) << (item - section->items);
                n_keys++;

                read_paragraph(f, text, sizeof(text));
                check_range(item, text, item->min);
                check_range(item, text, item->max);
                char *value = strstr(text, "Default: _");
                if (value) {
                        value += strlen("Default: _");
                        value[strcspn(value, "_")] = '\0';
                        size_t n = strlen(defaults);
                        (void) snprintf(defaults + n, size - n, "%s=%s\n", item->key, value);
                } else if (item->type != &conf_type_string && !section->assign)
                        fail_msg("%s=: the manual page does not say the default", item->key);
        }
        (void) fclose(f);

        for (size_t i = 0; i < n_sections; i++)
                if (!sections[i].takes_argument && seen[i] != (UINT64_C(1) << sections[i].n_items) - 1)
                        fail_msg("The manual page lacks keys of [%s]", sections[i].name);
        return n_keys;
}

static void test_manual_page(void **state) {
        char config_text[4096] = "", class_text[1024] = "";

        assert_int_equal(check_manual(config_sections, config_sections_n, config_text, sizeof(config_text)), 23);
        assert_int_equal(check_manual(class_sections, class_sections_n, class_text, sizeof(class_text)), 28);

        put(ETC "/xsched.conf", config_text);
        put(ETC "/classes.d/manual.class", class_text);
        _cleanup_(config_freep)
        Config *c = load(NULL);
        assert_string_equal(problems, "");
        assert_defaults(c);
        const Class *class = config_class(c, "manual");
        assert_int_equal(class->settings.mask, (1U << SETTINGS_CLASS) - 1);
        assert_int_equal(class->settings.priority, POLICY_PRIORITY_DEFAULT);
        assert_int_equal(class->settings.weight, POLICY_WEIGHT_DEFAULT);
        assert_int_equal(class->settings.threshold, 0);
}

int main(int argc, char *argv[]) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_manual_page, config_setup, config_teardown),
        };
        if (argc != 2)
                return EXIT_FAILURE;
        manual = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
