/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any bytes as the file of a user's unit: the library finds assignments in it, and the service takes them
 *
 * Each assignment is "Key=Value" in plain text, from lines of [X-XSched] only, and values that the service takes are
 * within their ranges.
 */

#include "service/core/user-units.h"
#include "shim/core/unit-section.h"
#include "tests/fuzz/fuzz-settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *text = malloc(size + 1);
        UserUnits units = {};
        const char *assignment;
        UnitSection s;
        size_t n = 0;

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        bool has_section = strstr(text, "[X-XSched]") != NULL;
        unit_section_init(&s, text);
        while ((assignment = unit_section_next(&s))) {
                const char *equals = strchr(assignment, '=');

                require(has_section && equals && equals > assignment && equals[-1] != ' ' && equals[1] != ' ');
                n += strlen(assignment) + 1;
                require(user_units_add(&units, "a.service", assignment) == 0);
        }
        require(n <= size + 1 && units.n <= 1);
        if (units.n > 0)
                check_settings(&units.items[0].settings);
        user_units_done(&units);
        free(text);
        return 0;
}
