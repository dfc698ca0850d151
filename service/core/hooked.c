/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How the launches of a queue are intercepted, and whether a hold stops them
 */

#include "hooked.h"
#include "client.h"
#include "ladder.h"
#include "manager-degraded.h"
#include "user.h"

/* A queue begins with "create" and changes to another way of interception, perhaps twice. Further changes are ignored,
 * because every change is announced. */
#define HOOKED_CHANGES_MAX 8U

#define UNHELD_KEY "unheld queues"

#define UNHELD_TEXT                                                                                                    \
        "launches of some go past the gate, and nothing else stops them: xschedctl list-queues says which (HOOKED)"

/* The warning is logged once for all such queues, so that many queues make no more records; a client that makes and
 * ends them in a loop is limited by its user's budget for the log. */
void queue_count_unheld(Queue *q, bool unheld) {
        Manager *m = q->manager;

        if (unheld == q->unheld)
                return;
        q->unheld = unheld;
        if (unheld) {
                q->device->n_unheld++;
                m->n_unheld++;
                if (!m->unheld_is_said && user_may_log(m, q->client->peer.uid)) {
                        m->unheld_is_said = true;
                        (void) manager_set_degraded(m, UNHELD_KEY, UNHELD_TEXT);
                }
        } else {
                q->device->n_unheld--;
                if (--m->n_unheld == 0 && m->unheld_is_said) {
                        m->unheld_is_said = false;
                        (void) manager_set_degraded(m, UNHELD_KEY, NULL);
                }
        }
}

void queue_review_unheld(Queue *q) {
        queue_count_unheld(q, page_hooked_is_past_gate(q->hooked) && q->entity && !ladder_can_stop(q));
}

static void queue_set_hooked(Queue *q, PageHooked hooked) {
        q->device->n_hooked[q->hooked]--;
        q->device->n_hooked[hooked]++;
        q->hooked = hooked;
        queue_review_unheld(q);
}

void queue_take_hooked(Queue *q, uint32_t v) {
        if (v == HOOKED_UNKNOWN || v >= _HOOKED_MAX || q->n_hooked_changes >= HOOKED_CHANGES_MAX)
                return;
        q->n_hooked_changes++;
        queue_set_hooked(q, (PageHooked) v);
}
