/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-slurm: what the plugin asks the controller, in a program that can be given up
 *
 * xsched-slurm job ID: prints the partition and the QOS of a job. Both are the controller's word: what stands in the
 * job's environment its user can change.
 */

#include <inttypes.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/macro.h"
#include "common/parse-util.h"

static int print_job(uint32_t id) {
        job_info_msg_t *found = NULL;

        if (slurm_load_job(&found, id, SHOW_DETAIL | SHOW_LOCAL) != SLURM_SUCCESS) {
                (void) fprintf(stderr, "xsched-slurm: job %" PRIu32 ": %s\n", id,
                                slurm_strerror(slurm_get_errno()));
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
