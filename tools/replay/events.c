/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A heap of events, by their time
 */

#include "events.h"
#include "common/array.h"

void events_done(Events *h) {
        free(h->events);
        *h = (Events){0};
}

static bool before(const Event *a, const Event *b) {
        return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void exchange(Event *a, Event *b) {
        Event other = *a;

        *a = *b;
        *b = other;
}

void events_push(Events *h, Event e) {
        Event *events = array_grow(h->events, h->n, sizeof(*events));

        if (!events) {
                h->failed = true;
                return;
        }
        h->events = events;
        e.seq = h->seq++;
        size_t i = h->n++;
        for (events[i] = e; i > 0 && before(events + i, events + (i - 1) / 2); i = (i - 1) / 2)
                exchange(events + i, events + (i - 1) / 2);
}

Event events_pop(Events *h) {
        Event first = h->events[0];

        h->events[0] = h->events[--h->n];
        for (size_t i = 0, k; (k = 2 * i + 1) < h->n; i = k) {
                if (k + 1 < h->n && before(h->events + k + 1, h->events + k))
                        k++;
                if (!before(h->events + k, h->events + i))
                        break;
                exchange(h->events + i, h->events + k);
        }
        return first;
}
