/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sub-uids
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/parse-util.h"
#include "subuid.h"

#define NONE UINT32_MAX

/* The uids from `first` to before `end`. */
typedef struct Range {
        uint32_t first, end;
        uid_t owner;
} Range;

/* From `first` to before the next one's. */
typedef struct Segment {
        uint32_t first;
        uint32_t range; /* NONE: of no user */
} Segment;

struct Subuids {
        Range *ranges; /* in the order of the file */
        size_t n_ranges, n_allocated;
        Segment *segments; /* by `first` */
        size_t n_segments;
};

Subuids *subuids_free(Subuids *s) {
        if (!s)
                return NULL;
        free(s->ranges);
        free(s->segments);
        free(s);
        return NULL;
}

/* --- lines --- */

static int range_add(Subuids *s, uint64_t first, uint64_t end, uid_t owner) {
        first = MAX(first, SUBUID_MIN);
        if (first >= end)
                return 0;
        Range *ranges = array_reserve(s->ranges, &s->n_allocated, s->n_ranges + 1, sizeof(Range));
        if (!ranges)
                return -ENOMEM;
        s->ranges = ranges;
        s->ranges[s->n_ranges++] = (Range){(uint32_t) first, (uint32_t) end, owner};
        return 0;
}

/* Splits "NAME:FIRST:COUNT". Returns NULL, or what is wrong with the line. */
static const char *split_line(char *line, const char **ret_name, uint64_t *ret_first, uint64_t *ret_end) {
        uint64_t first, count;
        char *first_text = strchr(line, ':'), *count_text = first_text ? strchr(first_text + 1, ':') : NULL;

        if (!count_text || first_text == line || strchr(count_text + 1, ':'))
                return "not NAME:FIRST:COUNT";
        *first_text++ = *count_text++ = '\0';
        if (strlen(line) >= SUBUID_NAME_MAX)
                return "the name is too long";
        if (parse_uint64(first_text, 0, SUBUID_NOBODY - 1, &first) < 0 ||
                        parse_uint64(count_text, 1, SUBUID_NOBODY, &count) < 0 || count > SUBUID_NOBODY - first)
                return "no range of uids";
        *ret_name = line;
        *ret_first = first;
        *ret_end = first + count;
        return NULL;
}

static int line_owner(const char *name, const SubuidReader *reader, uid_t *ret) {
        uint64_t uid;

        if (parse_uint64(name, 0, SUBUID_NOBODY - 1, &uid) < 0)
                return reader->resolve(name, ret, reader->userdata);
        *ret = (uid_t) uid;
        return 0;
}

static int take_line(Subuids *s, unsigned n, char *line, const SubuidReader *reader) {
        uint64_t first, end;
        const char *name;
        uid_t owner;

        if (*line == '\0' || *line == '#')
                return 0;
        const char *problem = split_line(line, &name, &first, &end);
        int r = problem ? 0 : line_owner(name, reader, &owner);
        if (r == -ENOENT)
                problem = "no such user";
        if (problem)
                reader->problem(n, problem, reader->userdata);
        return problem || r < 0 ? 0 : range_add(s, first, end, owner);
}

static int take_lines(Subuids *s, char *text, const SubuidReader *reader) {
        for (unsigned n = 1; text; n++) {
                if (n > SUBUID_LINES_MAX) {
                        reader->problem(n, "the file is too long, from here on", reader->userdata);
                        return 0;
                }
                int r = take_line(s, n, strsep(&text, "\n"), reader);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- segments --- */

static int segment_compare(const void *x, const void *y) {
        const Segment *a = x, *b = y;
        return (a->first > b->first) - (a->first < b->first);
}

/* Returns the segment that begins at `first`, or that it is in; `first` is not before the first segment. */
static size_t segment_find(const Subuids *s, uint32_t first) {
        size_t from = 0, to = s->n_segments;

        while (to - from > 1) {
                size_t middle = from + (to - from) / 2;
                if (s->segments[middle].first <= first)
                        from = middle;
                else
                        to = middle;
        }
        return from;
}

/* Makes a segment between any two neighbouring ends of ranges. */
static void cut(Subuids *s) {
        size_t n = 0;

        for (size_t i = 0; i < s->n_ranges; i++) {
                s->segments[n++] = (Segment){s->ranges[i].first, NONE};
                s->segments[n++] = (Segment){s->ranges[i].end, NONE};
        }
        qsort(s->segments, n, sizeof(Segment), segment_compare);
        s->n_segments = 0;
        for (size_t i = 0; i < n; i++)
                if (i == 0 || s->segments[i].first != s->segments[s->n_segments - 1].first)
                        s->segments[s->n_segments++] = s->segments[i];
}

/* Returns the next segment without an owner. Segments that have an owner are skipped from then on. */
static size_t next_free(size_t *next, size_t i) {
        size_t found = i;

        while (next[found] != found)
                found = next[found];
        while (next[i] != found) {
                size_t n = next[i];
                next[i] = found;
                i = n;
        }
        return found;
}

/* The first line that has a uid owns it. */
static int segments_make(Subuids *s) {
        if (s->n_ranges == 0)
                return 0;
        s->segments = reallocarray(NULL, 2 * s->n_ranges, sizeof(Segment));
        if (!s->segments)
                return -ENOMEM;
        cut(s);
        _cleanup_free_ size_t *next = reallocarray(NULL, s->n_segments, sizeof(size_t));
        if (!next)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_segments; i++)
                next[i] = i;
        for (size_t i = 0; i < s->n_ranges; i++) {
                const Range *r = s->ranges + i;
                size_t k = segment_find(s, r->first);
                while (s->segments[k = next_free(next, k)].first < r->end) {
                        s->segments[k].range = (uint32_t) i;
                        next[k] = k + 1; /* there is one: the segment that begins where the range ends */
                }
        }
        return 0;
}

int subuids_parse(const char *text, const SubuidReader *reader, Subuids **ret) {
        _cleanup_(subuids_freep)
        Subuids *s = calloc(1, sizeof(Subuids));
        _cleanup_free_ char *copy = strdup(text);

        if (!s || !copy)
                return -ENOMEM;
        int r = take_lines(s, copy, reader);
        if (r >= 0)
                r = segments_make(s);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

uid_t subuids_user(const Subuids *s, uid_t uid) {
        if (!s || s->n_segments == 0 || uid < s->segments[0].first || uid == SUBUID_NOBODY)
                return uid;
        uint32_t i = s->segments[segment_find(s, uid)].range;
        if (i == NONE)
                return uid;
        const Range *r = s->ranges + i;
        if (r->owner == 0 || r->owner == geteuid())
                return r->first + (uid - r->first) / SUBUID_BLOCK * SUBUID_BLOCK;
        return r->owner;
}
