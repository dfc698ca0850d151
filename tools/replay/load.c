/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The load of a recording
 */

#include "load.h"
#include "common/array.h"

void load_done(Load *l) {
        for (size_t i = 0; i < l->n_steps; i++) {
                tape_record_done(&l->steps[i].record);
                if (l->steps[i].entity)
                        free(l->steps[i].entity->bursts);
                free(l->steps[i].entity);
        }
        free(l->steps);
        *l = (Load){0};
}

static bool is_step(TapeKind k) {
        switch (k) {
        case TAPE_DEVICE:
        case TAPE_POLICY:
        case TAPE_CONFIGURE:
        case TAPE_NODE:
        case TAPE_NODE_SET:
        case TAPE_NODE_GONE:
        case TAPE_ENTITY:
        case TAPE_ENTITY_SET:
        case TAPE_ENTITY_MOVE:
        case TAPE_ENTITY_GONE:
        case TAPE_LOST:
                return true;
        default:
                return false;
        }
}

int load_add(Load *l, TapeRecord *r, uint64_t at_ns, LoadEntity *entity) {
        uint64_t before = l->n_steps > 0 ? l->steps[l->n_steps - 1].at_ns : 0;

        if (!is_step(r->kind))
                return 0;
        LoadStep *steps = array_grow(l->steps, l->n_steps, sizeof(*steps));
        if (!steps)
                return -ENOMEM;
        l->steps = steps;
        l->steps[l->n_steps++] = (LoadStep){.record = *r, .at_ns = MAX(before, at_ns), .entity = entity};
        *r = (TapeRecord){0};
        return 0;
}

int load_entity_ready(LoadEntity *e, uint64_t at_ns) {
        Burst *bursts = array_grow(e->bursts, e->n_bursts, sizeof(*bursts));

        if (!bursts)
                return -ENOMEM;
        e->bursts = bursts;
        e->bursts[e->n_bursts++] = (Burst){.ready_ns = at_ns, .idle_ns = at_ns, .work_ns = NSEC_INFINITY};
        return 0;
}

void load_entity_idle(LoadEntity *e, uint64_t at_ns, uint64_t run_ns, bool cut) {
        Burst *b = e->bursts + e->n_bursts - 1;

        b->idle_ns = MAX(at_ns, b->ready_ns);
        b->work_ns = cut ? NSEC_INFINITY : run_ns;
}
