/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-slurm: asks the controller for the plugin, as a program of its own that the plugin can abandon
 *
 * xsched-slurm job ID: prints the partition and the QOS of a job. Both come from the controller, because the user can
 * change the job's environment.
 */

#include <inttypes.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/macro.h"
#include "common/parse-util.h"

/* Since Slurm 26.05 a job is asked for by the identifier of a step. */
static int load_job(uint32_t id, job_info_msg_t **ret) {
#ifdef SLURM_STEP_ID_INITIALIZER
        slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;

        step.job_id = id;
        return slurm_load_job(ret, step, SHOW_DETAIL | SHOW_LOCAL);
#else
        return slurm_load_job(ret, id, SHOW_DETAIL | SHOW_LOCAL);
#endif
}

static int print_job(uint32_t id) {
        job_info_msg_t *found = NULL;

        if (load_job(id, &found) != SLURM_SUCCESS) {
                (void) fprintf(stderr, "xsched-slurm: job %" PRIu32 ": %s\n", id, slurm_strerror(errno));
                return EXIT_FAILURE;
        }
        int status = EXIT_FAILURE;
        for (uint32_t i = 0; i < found->record_count; i++) {
                const slurm_job_info_t *job = &found->job_array[i];

                if (job->job_id != id)
                        continue;
                printf("partition=%s\nqos=%s\n", strempty(job->partition), strempty(job->qos));
                status = EXIT_SUCCESS;
                break;
        }
        slurm_free_job_info_msg(found);
        return status;
}

int main(int argc, char *argv[]) {
        uint64_t id;

        if (argc != 3 || !streq(argv[1], "job") || parse_uint64(argv[2], 1, UINT32_MAX, &id) < 0) {
                (void) fprintf(stderr, "Usage: xsched-slurm job ID\n");
                return 2;
        }
        slurm_init(NULL);
        int status = print_job((uint32_t) id);
        slurm_fini();
        if (fflush(stdout) != 0)
                status = EXIT_FAILURE;
        return status;
}
