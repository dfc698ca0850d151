/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows, as a table or as JSON
 *
 * libsmartcols aligns and draws. Which columns are cut for a narrow terminal is decided here, because libsmartcols does
 * not mark where it cuts.
 */

#include <inttypes.h>
#include <langinfo.h>
#include <libsmartcols.h>
#include <math.h>
#include <wchar.h>

#include "common/array.h"
#include "common/time-util.h"
#include "tools/shared/table.h"
#include "tools/shared/terminal.h"

#define ELASTIC_MIN 8U
#define TREE_MIN    24U
#define NAME_MIN    8U /* of a row in a tree, beside the lines */
#define COLUMNS_MAX 32U

void table_done(Table *t) {
        for (size_t r = 0; r < t->n_rows; r++) {
                for (size_t i = 0; i < t->n_columns; i++)
                        value_done(t->rows[r].cells + i);
                free(t->rows[r].cells);
        }
        free(t->rows);
        t->rows = NULL;
        t->n_rows = 0;
}

Value *table_add(Table *t, size_t parent) {
        Row *rows = array_grow(t->rows, t->n_rows, sizeof(Row));
        Value *cells;

        if (!rows)
                return NULL;
        t->rows = rows;
        cells = calloc(t->n_columns, sizeof(Value));
        if (!cells)
                return NULL;
        t->rows[t->n_rows++] = (Row){.cells = cells, .parent = parent};
        return cells;
}

/* --- cells as text --- */

const char *format_usec(char *buf, size_t size, uint64_t usec) {
        static const struct {
                uint64_t usec;
                const char *name;
        } units[] = {
                        {UINT64_C(86400000000), "d"},
                        {UINT64_C(3600000000), "h"},
                        {UINT64_C(60000000), "min"},
                        {UINT64_C(1000000), "s"},
                        {UINT64_C(1000), "ms"},
                        {UINT64_C(1), "us"},
        };
        size_t i = 0;

        if (usec == UINT64_MAX) {
                snprintf(buf, size, "infinity");
                return buf;
        }
        while (i < ELEMENTSOF(units) - 1 && usec < units[i].usec)
                i++;
        if (i < 3 && usec / units[i + 1].usec % (units[i].usec / units[i + 1].usec) > 0)
                snprintf(buf, size, "%" PRIu64 "%s %" PRIu64 "%s", usec / units[i].usec, units[i].name,
                                usec % units[i].usec / units[i + 1].usec, units[i + 1].name);
        else
                snprintf(buf, size, "%.4g%s", (double) usec / (double) units[i].usec, units[i].name);
        return buf;
}

const char *format_bytes(char *buf, size_t size, uint64_t bytes) {
        static const char units[] = "BKMGTPE";
        size_t i = 0;

        while (i < sizeof(units) - 2 && bytes >> (10 * (i + 1)) > 0)
                i++;
        snprintf(buf, size, "%.4g%c", (double) bytes / (double) (UINT64_C(1) << (10 * i)), units[i]);
        return buf;
}

static char *cell_format(const Value *v, CellFormat format) {
        char buf[64], *text;

        if (v->type == VALUE_NONE || (v->type == VALUE_STRING && isempty(v->s)))
                return strdup("-");
        switch (format) {
        case CELL_USEC:
                if (v->type == VALUE_DOUBLE)
                        /* Means may be fractions of a microsecond. */
                        if (v->d < 1000) {
                                snprintf(buf, sizeof(buf), "%.3gus", v->d);
                                return strdup(buf);
                        }
                return strdup(format_usec(
                                buf, sizeof(buf), v->type == VALUE_DOUBLE ? (uint64_t) v->d : value_get_uint(v)));
        case CELL_BYTES:
                return strdup(format_bytes(buf, sizeof(buf), value_get_uint(v)));
        case CELL_PERCENT:
                snprintf(buf, sizeof(buf), "%.1f", value_get_double(v));
                return strdup(buf);
        case CELL_SHARE:
                snprintf(buf, sizeof(buf), "%.1f%%", 100 * value_get_double(v));
                return strdup(buf);
        case CELL_LIMIT:
                if (value_get_uint(v) == 0)
                        return strdup("-");
                return asprintf(&text, "%" PRIu64 "%%", value_get_uint(v)) < 0 ? NULL : text;
        case CELL_RATE:
                snprintf(buf, sizeof(buf), value_get_double(v) < 100 ? "%.1f" : "%.0f", value_get_double(v));
                return strdup(buf);
        default:
                text = value_format(v);
                if (text && isempty(text)) {
                        free(text);
                        return strdup("-");
                }
                return text;
        }
}

static const char *state_color(const char *state) {
        static const struct {
                const char *state;
                const char *color;
        } colors[] = {
                        {"running", "green"},
                        {"ok", "green"},
                        {"held", "yellow"},
                        {"warning", "yellow"},
                        {"suspended", "red"},
                        {"failed", "red"},
                        {"idle", "gray"},
        };

        for (size_t i = 0; i < ELEMENTSOF(colors); i++)
                if (streq(colors[i].state, state))
                        return colors[i].color;
        return NULL;
}

/* --- width --- */

static size_t text_width(const char *text) {
        mbstate_t state = {};
        size_t width = 0;

        while (*text) {
                wchar_t wc;
                size_t n = mbrtowc(&wc, text, MB_CUR_MAX, &state);

                if (n == (size_t) -1 || n == (size_t) -2)
                        return width + strlen(text);
                width += wcwidth(wc) > 0 ? (size_t) wcwidth(wc) : 0;
                text += n;
        }
        return width;
}

/* Returns the first byte of `text` after `width` columns. */
static const char *text_skip(const char *text, size_t width) {
        mbstate_t state = {};

        while (*text && width > 0) {
                wchar_t wc;
                size_t n = mbrtowc(&wc, text, MB_CUR_MAX, &state), w;

                if (n == (size_t) -1 || n == (size_t) -2)
                        return text + MIN(width, strlen(text));
                w = wcwidth(wc) > 0 ? (size_t) wcwidth(wc) : 0;
                if (w > width)
                        break;
                width -= w;
                text += n;
        }
        return text;
}

/* Cuts from the middle, and keeps more of the end, because paths differ there. */
static char *ellipsize(char *text, size_t width) {
        const char *dots = streq(nl_langinfo(CODESET), "UTF-8") ? "…" : "...";
        size_t n_dots = text_width(dots), n = text_width(text), head;
        char *out;

        if (n <= width || width <= n_dots)
                return text;
        head = (width - n_dots) / 3;
        if (asprintf(&out, "%.*s%s%s", (int) (text_skip(text, head) - text), text, dots,
                            text_skip(text, n - (width - n_dots - head))) < 0)
                return text;
        free(text);
        return out;
}

/* --- printing --- */

static bool column_is_known(const Table *t, size_t column) {
        for (size_t r = 0; r < t->n_rows; r++)
                if (t->rows[r].cells[column].type != VALUE_NONE)
                        return true;
        return false;
}

static bool column_is_shown(const Table *t, size_t column) {
        unsigned flags = t->columns[column].flags;

        return !(flags & COLUMN_JSON) && !(column < COLUMNS_MAX && t->hidden >> column & 1) &&
                        (!(flags & COLUMN_IF_KNOWN) || column_is_known(t, column));
}

static size_t row_depth(const Table *t, size_t row) {
        size_t depth = 0;

        for (; t->rows[row].parent != TABLE_NO_PARENT; row = t->rows[row].parent)
                depth++;
        return depth;
}

/* The row below which this row is drawn. */
static size_t row_shown_parent(const Table *t, size_t row) {
        size_t parent = t->rows[row].parent;

        while (parent != TABLE_NO_PARENT && row_depth(t, parent) >= t->depth_max)
                parent = t->rows[parent].parent;
        return parent;
}

/* The width of the tree's lines in the cell. */
static size_t cell_indent(const Table *t, size_t row, size_t column) {
        return t->columns[column].flags & COLUMN_TREE ? 2 * MIN(row_depth(t, row), t->depth_max) : 0;
}

/* The part of a path that its parent row does not show. A part of the cell's text. */
static const char *cell_rest(const Table *t, char *const *texts, size_t row, size_t column) {
        size_t parent = t->columns[column].flags & COLUMN_TREE ? row_shown_parent(t, row) : TABLE_NO_PARENT;
        const char *text = texts[row * t->n_columns + column],
                   *above = parent != TABLE_NO_PARENT ? texts[parent * t->n_columns + column] : NULL;
        size_t n = above ? strlen(above) : 0;

        if (n == 1 && above[0] == '/')
                n = 0;
        return text && above && strncmp(text, above, n) == 0 && text[n] == '/' && text[n + 1] ? text + n + 1 : text;
}

/* Makes the texts of all shown cells, row by row; NULL for the others. */
static char **table_format(const Table *t, size_t n_rows) {
        char **texts = calloc(n_rows * t->n_columns + 1, sizeof(char *));

        for (size_t r = 0; texts && r < n_rows; r++)
                for (size_t i = 0; i < t->n_columns; i++)
                        if (column_is_shown(t, i))
                                texts[r * t->n_columns + i] = cell_format(t->rows[r].cells + i, t->columns[i].format);
        return texts;
}

static void column_widths(const Table *t, char **texts, size_t n_rows, bool heading, bool rest, size_t *widths) {
        for (size_t i = 0; i < t->n_columns; i++) {
                widths[i] = heading && column_is_shown(t, i) ? strlen(t->columns[i].title) : 0;
                for (size_t r = 0; r < n_rows; r++) {
                        const char *text = rest ? cell_rest(t, texts, r, i) : texts[r * t->n_columns + i];

                        if (text)
                                widths[i] = MAX(widths[i], text_width(text) + cell_indent(t, r, i));
                }
        }
}

/* The column's least width. The tree needs more, to show where a row belongs. */
static size_t column_least(const Column *c, size_t width) {
        if (!(c->flags & COLUMN_ELASTIC))
                return width;
        return MIN(width, c->flags & COLUMN_TREE ? TREE_MIN : ELASTIC_MIN);
}

/* Whether the columns fit, with a space between two. */
static bool columns_fit(const Table *t, const size_t *widths, size_t width) {
        size_t total = 0;

        for (size_t i = 0; i < t->n_columns; i++)
                if (column_is_shown(t, i))
                        total += widths[i] + 1;
        return total <= width + 1;
}

/* Hides optional columns, one after the other, until the rest fits; the last one also before others are cut. */
static void columns_hide(Table *t, const size_t *widths, size_t width) {
        for (;;) {
                size_t total = 0, last = SIZE_MAX, n = 0;

                for (size_t i = 0; i < t->n_columns; i++) {
                        if (!column_is_shown(t, i))
                                continue;
                        total += column_least(t->columns + i, widths[i]) + 1;
                        if (t->columns[i].flags & COLUMN_WIDE) {
                                last = i;
                                n++;
                        }
                }
                if (n == 0 || (total <= width + 1 && (n > 1 || columns_fit(t, widths, width))))
                        return;
                t->hidden |= UINT32_C(1) << last;
        }
}

/* Cuts columns until all fit, or none can be cut further: the widest elastic column first, and the tree below its least
 * width only when no other can be cut. */
static void columns_shrink(const Table *t, size_t *widths, size_t width) {
        while (!columns_fit(t, widths, width)) {
                size_t widest = SIZE_MAX, last = SIZE_MAX;

                for (size_t i = 0; i < t->n_columns; i++) {
                        if (!column_is_shown(t, i) || !(t->columns[i].flags & COLUMN_ELASTIC))
                                continue;
                        if (widths[i] > column_least(t->columns + i, widths[i])) {
                                if (widest == SIZE_MAX || widths[i] > widths[widest])
                                        widest = i;
                        } else if (widths[i] > ELASTIC_MIN)
                                last = i;
                }
                if (widest == SIZE_MAX)
                        widest = last;
                if (widest == SIZE_MAX)
                        return;
                widths[widest]--;
        }
}

/* Goes from the last row up, because a row's rest depends on the uncut text of the row above it. */
static void column_cut(const Table *t, char **texts, size_t n_rows, size_t column, size_t width) {
        for (size_t r = n_rows; r-- > 0;) {
                char **text = texts + r * t->n_columns + column;
                const char *rest = cell_rest(t, texts, r, column);
                size_t indent = cell_indent(t, r, column);

                if (!rest)
                        continue;
                memmove(*text, rest, strlen(rest) + 1);
                *text = ellipsize(*text, width > indent ? width - indent : 1);
        }
}

static void table_fit(Table *t, char **texts, size_t n_rows, bool heading, size_t width) {
        size_t widths[COLUMNS_MAX];

        if (width == 0 || t->n_columns > ELEMENTSOF(widths))
                return;
        column_widths(t, texts, n_rows, heading, false, widths);
        if (columns_fit(t, widths, width))
                return;
        column_widths(t, texts, n_rows, heading, true, widths);
        columns_hide(t, widths, width);
        columns_shrink(t, widths, width);
        for (size_t i = 0; i < t->n_columns; i++) {
                if (!column_is_shown(t, i) || !(t->columns[i].flags & COLUMN_ELASTIC))
                        continue;
                if (t->columns[i].flags & COLUMN_TREE)
                        t->depth_max = widths[i] > NAME_MIN ? (widths[i] - NAME_MIN) / 2 : 0;
                column_cut(t, texts, n_rows, i, widths[i]);
        }
}

static int table_add_columns(const Table *t, struct libscols_table *st) {
        for (size_t i = 0; i < t->n_columns; i++) {
                const Column *c = t->columns + i;
                struct libscols_column *sc;
                int flags = 0;

                if (!column_is_shown(t, i))
                        continue;
                if (c->flags & COLUMN_RIGHT)
                        flags |= SCOLS_FL_RIGHT;
                if (c->flags & COLUMN_TREE)
                        flags |= SCOLS_FL_TREE;
                sc = scols_table_new_column(st, c->title, 0, flags);
                if (!sc)
                        return -ENOMEM;
                (void) scols_cell_set_color(scols_column_get_header(sc), "\033[4m");
        }
        return 0;
}

static int table_add_lines(const Table *t, struct libscols_table *st, char **texts, size_t n_rows) {
        _cleanup_free_ struct libscols_line **lines = calloc(n_rows + 1, sizeof(struct libscols_line *));

        if (!lines)
                return -ENOMEM;
        for (size_t r = 0; r < n_rows; r++) {
                size_t parent = row_shown_parent(t, r), column = 0;

                lines[r] = scols_table_new_line(st, parent == TABLE_NO_PARENT ? NULL : lines[parent]);
                if (!lines[r])
                        return -ENOMEM;
                for (size_t i = 0; i < t->n_columns; i++) {
                        char *text = texts[r * t->n_columns + i];
                        struct libscols_cell *cell;

                        if (!column_is_shown(t, i))
                                continue;
                        cell = scols_line_get_cell(lines[r], column++);
                        if (!text || scols_cell_set_data(cell, text) < 0)
                                return -ENOMEM;
                        if (t->columns[i].format == CELL_STATE && state_color(text))
                                (void) scols_cell_set_color(cell, state_color(text));
                }
        }
        return 0;
}

/* libsmartcols prints nothing at all for a table without rows. */
static void print_heading(const Table *t, FILE *f) {
        const char *space = "", *on = colors_wanted() ? "\033[4m" : "", *off = colors_wanted() ? "\033[0m" : "";

        for (size_t i = 0; i < t->n_columns; i++)
                if (column_is_shown(t, i)) {
                        fprintf(f, "%s%s%s%s", space, on, t->columns[i].title, off);
                        space = " ";
                }
        fputc('\n', f);
}

int table_print(const Table *table, FILE *f, size_t width, size_t n_rows, bool heading) {
        Table shown = *table, *t = &shown; /* the same rows, and the columns that there is room for */
        struct libscols_table *st;
        char **texts;
        int r = -ENOMEM;

        t->depth_max = SIZE_MAX;
        n_rows = MIN(n_rows, t->n_rows);
        if (n_rows == 0) {
                if (heading)
                        print_heading(t, f);
                return 0;
        }
        st = scols_new_table();
        texts = table_format(t, n_rows);
        if (st && texts) {
                table_fit(t, texts, n_rows, heading, width);
                (void) scols_table_enable_noheadings(st, !heading);
                (void) scols_table_enable_colors(st, colors_wanted());
                (void) scols_table_enable_minout(st, 1);
                /* Texts are harmless already; it would write the \x2d of a unit's name as \x5cx2d, which is no name. */
                (void) scols_table_enable_noencoding(st, 1);
                (void) scols_table_set_stream(st, f);
                /* Columns are cut to the width already. */
                (void) scols_table_set_termforce(st, SCOLS_TERMFORCE_NEVER);
                r = table_add_columns(t, st);
                if (r >= 0)
                        r = table_add_lines(t, st, texts, n_rows);
                if (r >= 0)
                        r = scols_print_table(st);
        }
        for (size_t i = 0; texts && i < n_rows * t->n_columns; i++)
                free(texts[i]);
        free(texts);
        scols_unref_table(st);
        return r;
}

int table_print_json(const Table *t, Json *j, const char *key) {
        json_begin(j, key, '[');
        for (size_t r = 0; r < t->n_rows; r++) {
                json_begin(j, NULL, '{');
                for (size_t i = 0; i < t->n_columns; i++)
                        if (!(t->columns[i].flags & COLUMN_TEXT))
                                json_value(j, t->columns[i].key, t->rows[r].cells + i);
                (void) json_end(j);
        }
        return json_end(j);
}

int table_show(const Ctl *c, const Table *t, const char *singular, const char *plural) {
        int r = 0;

        pager_open(c);
        if (c->json != JSON_OFF) {
                Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
                r = table_print_json(t, &j, NULL);
        } else {
                if (t->n_rows > 0 || c->legend)
                        r = table_print(t, stdout, terminal_width(c), t->n_rows, c->legend);
                if (r >= 0 && c->legend && plural)
                        printf("\n%zu %s listed.\n", t->n_rows, t->n_rows == 1 ? singular : plural);
        }
        pager_close();
        if (r < 0)
                return ctl_fail("cannot print the table: %s", strerror(-r));
        return 0;
}
