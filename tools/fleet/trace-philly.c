/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Philly's cluster_job_log
 */

#include <json-c/json.h>
#include <time.h>

#include "tools/fleet/trace.h"
#include "trace-philly.h"

static json_object *json_putp(json_object *o) {
        (void) json_object_put(o);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(json_object *, json_putp);

/* "2017-10-07 01:12:09", of one time zone; NaN-free: negative when there is none. */
static double time_of(json_object *o, const char *key) {
        json_object *v = json_object_object_get(o, key);
        struct tm tm = {0};
        const char *s = json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
        const char *end = strptime(s, "%Y-%m-%d %H:%M:%S", &tm);

        return end && !*end ? (double) timegm(&tm) : -1;
}

static size_t length_of(json_object *array) {
        return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static size_t gpus_of(json_object *attempt) {
        json_object *detail = json_object_object_get(attempt, "detail");
        size_t n = 0;

        for (size_t i = 0; i < length_of(detail); i++)
                n += length_of(json_object_object_get(json_object_array_get_idx(detail, i), "gpus"));
        return n;
}

static const char *text_of(json_object *job, const char *key) {
        return json_object_get_string(json_object_object_get(job, key)) ?: "";
}

static int add_job(json_object *job, Trace *t) {
        json_object *attempts = json_object_object_get(job, "attempts");

        for (size_t i = length_of(attempts); i > 0; i--) {
                json_object *a = json_object_array_get_idx(attempts, i - 1);
                double start = time_of(a, "start_time"), end = time_of(a, "end_time");

                if (start >= 0 && end > start)
                        return trace_add(t, text_of(job, "jobid"), text_of(job, "vc"), (double) gpus_of(a),
                                        time_of(job, "submitted_time"), end - start);
        }
        t->n_left_out++;
        return 0;
}

/* All of a stream as JSON; NULL: it is none, or memory ran out. */
static json_object *parse(FILE *f) {
        json_tokener *tokener = json_tokener_new();
        json_object *all = NULL;
        static char buffer[65536];
        size_t n;

        while (tokener && !all && (n = fread(buffer, 1, sizeof(buffer), f)) > 0) {
                all = json_tokener_parse_ex(tokener, buffer, (int) n);
                if (!all && json_tokener_get_error(tokener) != json_tokener_continue)
                        break;
        }
        if (tokener)
                json_tokener_free(tokener);
        return all;
}

int trace_read_philly(FILE *f, Trace *ret) {
        _cleanup_(json_putpp)
        json_object *all = parse(f);
        int r = 0;

        if (!json_object_is_type(all, json_type_array))
                return -EINVAL;
        for (size_t i = 0; i < length_of(all) && r >= 0; i++) {
                json_object *job = json_object_array_get_idx(all, i);

                r = json_object_is_type(job, json_type_object) ? add_job(job, ret) : -EINVAL;
        }
        return r;
}
