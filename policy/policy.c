/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The list of policies. To add one: write its file, declare its table in policy.h, name it here.
 */

#include "policy.h"

const PolicyOps *const policy_all[] = {
                &policy_tree_ops,
                &policy_hpf_ops,
                NULL,
};

const PolicyOps *policy_find(const char *name) {
        for (const PolicyOps *const *p = policy_all; *p; p++)
                if (streq((*p)->name, name))
                        return *p;
        return NULL;
}
