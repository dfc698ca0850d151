/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Progress
 */

#include <stdarg.h>
#include <stdio.h>

#include "tools/demo/progress.h"

#define BAR_WIDTH     24U
#define LINE_EVERY_NS (5 * NSEC_PER_SEC)

Progress progress_new(bool quiet, unsigned n_phases) {
        const char *term = getenv("TERM");

        return (Progress){
                        .quiet = quiet,
                        .tty = isatty(STDERR_FILENO) && !streq_ptr(term, "dumb"),
                        .n_phases = n_phases,
        };
}

static void write_line(Progress *p, bool keep_open, const char *text) {
        if (p->line_open)
                fputs("\r\033[K", stderr);
        fputs(text, stderr);
        if (!keep_open)
                fputc('\n', stderr);
        p->line_open = keep_open;
        (void) fflush(stderr);
}

void progress_note(Progress *p, const char *format, ...) {
        char text[256];
        va_list ap;

        if (p->quiet)
                return;
        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        write_line(p, p->tty, text);
}

void progress_begin(Progress *p, PhaseKind kind) {
        p->phase++;
        p->next_line_ns = now_ns() + LINE_EVERY_NS;
        progress_note(p, "[%u/%u] %s: starting the jobs", p->phase, p->n_phases, phase_kind_title(kind));
}

static void format_bar(char bar[static BAR_WIDTH + 1], uint64_t elapsed, uint64_t duration) {
        uint64_t full = duration > 0 ? elapsed * BAR_WIDTH / duration : 0;

        for (unsigned i = 0; i < BAR_WIDTH; i++)
                bar[i] = i < full ? '#' : '.';
        bar[BAR_WIDTH] = '\0';
}

void progress_update(const PhaseProgress *s, void *userdata) {
        Progress *p = userdata;
        char bar[BAR_WIDTH + 1], text[256];
        uint64_t now = now_ns();

        if (p->quiet || s->warming_up || (!p->tty && now < p->next_line_ns))
                return;
        p->next_line_ns = now + LINE_EVERY_NS;

        Summary sum = samples_summary(s->latency);
        double elapsed = (double) s->elapsed_ns / (double) NSEC_PER_SEC;
        int n = snprintf(text, sizeof(text), "[%u/%u] %s ", p->phase, p->n_phases, phase_kind_title(s->kind));

        format_bar(bar, s->elapsed_ns, s->duration_ns);
        if (p->tty)
                n += snprintf(text + n, sizeof(text) - (size_t) n, "%s ", bar);
        n += snprintf(text + n, sizeof(text) - (size_t) n, "%.0f/%.0f s  %zu tasks, p50 %.2f p99 %.2f ms", elapsed,
                        (double) s->duration_ns / (double) NSEC_PER_SEC, sum.n, (double) sum.p50_ns / 1e6,
                        (double) sum.p99_ns / 1e6);
        if (s->kind != PHASE_ALONE && elapsed > 0)
                (void) snprintf(text + n, sizeof(text) - (size_t) n, "  batch %.1f tasks/s",
                                (double) s->n_batch_tasks / elapsed);
        write_line(p, p->tty, text);
}

void progress_end(Progress *p, const PhaseResult *r) {
        Summary sum = samples_summary(&r->latency);
        char text[256];

        if (p->quiet)
                return;
        int n = snprintf(text, sizeof(text), "[%u/%u] %s: p50 %.2f ms, p99 %.2f ms", p->phase, p->n_phases,
                        phase_kind_title(r->kind), (double) sum.p50_ns / 1e6, (double) sum.p99_ns / 1e6);
        if (r->n_batch > 0)
                (void) snprintf(text + n, sizeof(text) - (size_t) n, ", batch %.1f tasks/s", r->batch_total);
        write_line(p, false, text);
}
