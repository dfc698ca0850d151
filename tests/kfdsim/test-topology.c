/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hal/kfd-topology reads the same of GPUs as the real libhsakmt
 *
 * xsched needs nothing else that this library has; and the library would open /dev/kfd for it.
 */

#include <hsakmt.h>

#include "hal/kfd-topology.h"
#include "tests/kfdsim/harness.h"

static void compare(const KfdNode *n, const HsaNodeProperties *p) {
        char gfx[KFD_GFX_NAME_MAX], theirs[64];

        check(n->n_cus == p->NumFComputeCores / p->NumSIMDPerCU);
        check(n->domain == p->Domain && n->location == p->LocationId);
        check(n->capability == p->Capability.Value);
        check(n->render_minor == (uint32_t) p->DrmRenderMinor);
        kfd_node_gfx_name(n, gfx);
        (void) snprintf(theirs, sizeof(theirs), "gfx%u%x%x", p->EngineId.ui32.Major, p->EngineId.ui32.Minor,
                        p->EngineId.ui32.Stepping);
        check(streq(gfx, theirs));
}

static void case_same(void) {
        HsaSystemProperties system;
        unsigned n_gpus = 0;

        check(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
        check(hsaKmtAcquireSystemProperties(&system) == HSAKMT_STATUS_SUCCESS);
        for (uint32_t i = 0; i < system.NumNodes; i++) {
                HsaNodeProperties p;
                KfdNode n;
                check(hsaKmtGetNodeProperties(i, &p) == HSAKMT_STATUS_SUCCESS);
                int r = kfd_topology_read(KFD_TOPOLOGY_PATH, i, &n);
                check(r == (p.NumFComputeCores > 0 ? 0 : -ENXIO));
                if (r < 0)
                        continue;
                compare(&n, &p);
                n_gpus++;
        }
        KfdNode end;
        check(kfd_topology_read(KFD_TOPOLOGY_PATH, system.NumNodes, &end) == -ENOENT);
        check(n_gpus == 3);
        check(hsaKmtCloseKFD() == HSAKMT_STATUS_SUCCESS);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"same-as-libhsakmt", "gfx90a,gfx906,gfx1030", NULL, case_same},
        };
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
