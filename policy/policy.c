/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The list of policies, and what the caller asks about each. To add one: write its file, declare its table in policy.h,
 * name it here.
 */

#include "common/fetch.h"
#include "core.h"

const PolicyOps *const policy_all[] = {
                &policy_tree_ops,
                &policy_hpf_ops,
                &policy_hhpf_ops,
                &policy_chpf_ops,
                &policy_up_ops,
                &policy_pup_ops,
                &policy_kedf_ops,
                &policy_lax_ops,
                &policy_awf_ops,
                &policy_cfs_ops,
                &policy_mlfq_ops,
                NULL,
};

uint64_t policy_latest(const Policy *p) {
        return p->latest_ns;
}

bool policy_is_owed(const PolicyEntity *e) {
        return e->grant.verdict == VERDICT_RUN && e->by_floor;
}

void policy_fetch(uintptr_t entity) {
        fetch_lines(entity, offsetof(PolicyEntity, id));
}

void policy_fetch_more(const PolicyEntity *e) {
        fetch_lines((uintptr_t) e->branch, sizeof(*e->branch));
        fetch_lines((uintptr_t) e->node, offsetof(PolicyNode, quota));
        fetch_lines((uintptr_t) e->idle_prev + offsetof(PolicyEntity, idle_prev), sizeof(e));
        fetch_lines((uintptr_t) e->idle_next + offsetof(PolicyEntity, idle_prev), sizeof(e));
}

bool policy_is_global(const PolicyOps *ops) {
        return ops->ordering->global;
}

bool policy_is_by_process(const PolicyOps *ops) {
        return ops->ordering->by_process;
}

const PolicyOps *policy_find(const char *name) {
        for (const PolicyOps *const *p = policy_all; *p; p++)
                if (strcasecmp((*p)->name, name) == 0)
                        return *p;
        return NULL;
}
