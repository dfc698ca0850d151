/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The plugin of Slurm: gives a job's class and settings to the nodes that it runs on
 *
 * srun, sbatch and salloc load it for its options, slurmstepd for each step of a job: as root, before anything of the
 * user's runs, and in the step's cgroup already. The administrator's settings become attributes of the job's cgroup
 * that may raise. The user's requests become attributes that only lower. It does not ask whether xschedd runs.
 *
 * Whatever fails here, the job runs: all hooks report success. Only an invalid value of an option is refused, by srun,
 * sbatch and salloc, before there is a job.
 */

#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdio.h>

#include "ask.h"
#include "common/conf-files.h"
#include "common/macro.h"
#include "common/shim-list.h"
#include "common/time-util.h"
#include "config.h"
#include "mapping.h"
#include "place.h"
#include "policy/policy.h"
#include "request.h"

#define HELPER      XSCHED_LIBEXECDIR "/xsched-slurm"
#define ASK_TIMEOUT (5 * NSEC_PER_SEC)
#define ENV_MAX     65536

#define OPENCL_LAYER XSCHED_PKGLIBDIR "/libxsched-opencl.so"
#define KFD_SHIM     XSCHED_PKGLIBDIR "/libxsched-kfd.so"
#define KFD_DEVICE   "/dev/kfd"
#define CUDA_LAYER   XSCHED_PKGLIBDIR "/libxsched-cuda.so"
#define CUDA_DEVICE  "/dev/nvidiactl"

/* What Slurm looks for by name: the hooks are declared in its header. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(xsched, 1)
#pragma GCC visibility pop

/* This process's options, and the most that --gpu-min= may ask for here. */
static Request request;
static int64_t min_ceiling;
static bool reported;

/* Reports once: a job that does not find its cgroup gets one line, and not one for each attribute. */
_printf_(2, 3) static void report(int error, const char *format, ...) {
        char text[512];
        va_list ap;

        if (reported)
                return;
        reported = true;
        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        slurm_error("xsched: %s: %s, ignoring", text, strerror(-error));
}

/* --- options --- */

static int on_option(int key, const char *text, int remote) {
        RequestKey k = (RequestKey) key;
        Request r = request;

        int e = request_set(&r, k, strempty(text));
        if (e >= 0 && k == REQUEST_MIN && r.value[k] > min_ceiling && !remote) {
                slurm_error("--gpu-min=%s: this cluster guarantees at most %d%% to a job that asks for it", text,
                                (int) min_ceiling);
                return -1;
        }
        if (e < 0 && !remote)
                slurm_error("--gpu-%s=%s: has to be %s", request_key_to_string(k), strempty(text),
                                request_key_range(k));
        else if (e < 0)
                report(e, "--gpu-%s", request_key_to_string(k));
        else
                request = r;
        return e < 0 && !remote ? -1 : 0;
}

static struct spank_option options[_REQUEST_KEY_MAX] = {
                [REQUEST_PRIORITY] = {(char *) "gpu-priority", (char *) "priority",
                                (char *) "GPU priority, -255..255, if that is lower than what the partition gives", 1,
                                REQUEST_PRIORITY, on_option},
                [REQUEST_WEIGHT] = {(char *) "gpu-weight", (char *) "weight",
                                (char *) "weight of its GPU time, 1..10000, if that is lower", 1, REQUEST_WEIGHT,
                                on_option},
                [REQUEST_MAX] = {(char *) "gpu-max", (char *) "percent", (char *) "at most so much of a GPU's time", 1,
                                REQUEST_MAX, on_option},
                [REQUEST_MIN] = {(char *) "gpu-min", (char *) "percent",
                                (char *) "at least so much of a GPU's time, up to what the site allows", 1, REQUEST_MIN,
                                on_option},
};

int slurm_spank_init(spank_t spank, int ac, char *argv[]) {
        spank_context_t context = spank_context();

        if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
                return 0;
        for (int i = 0; i < ac; i++)
                if (!mapping_is_valid(argv[i]))
                        report(-EINVAL,
                                        "'%s' in the plugin's line of plugstack.conf is not one of "
                                        "partition.NAME=CLASS, qos.NAME=CLASS, class=CLASS, min=PERCENT (at most "
                                        "%u%%), shim=no; a blank in a NAME is %%20",
                                        argv[i], POLICY_MIN_MAX);
        min_ceiling = mapping_min(ac, argv);
        for (RequestKey k = 0; k < _REQUEST_KEY_MAX; k++)
                if (spank_option_register(spank, &options[k]) != ESPANK_SUCCESS)
                        report(-EIO, "option --%s", options[k].name);
        return 0;
}

/* --- the environment of the job --- */

static void put_first(spank_t spank, const char *variable, const char *path) {
        _cleanup_free_ char *old = malloc(ENV_MAX), *value = NULL;

        if (!old || access(path, F_OK) < 0)
                return;
        old[0] = '\0';
        spank_err_t e = spank_getenv(spank, variable, old, ENV_MAX);
        if (e != ESPANK_SUCCESS && e != ESPANK_ENV_NOEXIST)
                return; /* longer than what could be kept */
        int r = shim_list_prepend(old, path, &value);
        if (r < 0 || spank_setenv(spank, variable, value, 1) != ESPANK_SUCCESS)
                report(r < 0 ? r : -EIO, "%s of the job", variable);
}

/* Sets the environment as `xschedctl run` does. */
static void set_environment(spank_t spank) {
        put_first(spank, "OPENCL_LAYERS", OPENCL_LAYER);
        if (access(KFD_DEVICE, F_OK) == 0)
                put_first(spank, "LD_PRELOAD", KFD_SHIM);
        if (access(CUDA_DEVICE, F_OK) == 0)
                put_first(spank, "LD_PRELOAD", CUDA_LAYER);
}

/* --- the cgroup of the job --- */

/* Whether a file defines the class; without any classes, as on a host without the service, it does not matter. */
static bool is_class(const char *class) {
        static const char *const directories[] = {CONF_DIRECTORIES};
        char path[512];
        bool any = false;

        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                (void) snprintf(path, sizeof(path), "%s/classes.d/%s.class", directories[i], class);
                if (access(path, F_OK) == 0)
                        return true;
                *strrchr(path, '/') = '\0';
                any = any || access(path, F_OK) == 0;
        }
        return !any || streq(class, "default");
}

/* The first step of a job on a node asks the controller; those after it find the attribute. Where the controller could
 * not be asked the next step asks again. */
static void set_class(int job_fd, uint32_t job, int ac, char *argv[]) {
        Answer a = {0};
        int r = 0;

        if (place_has_class(job_fd))
                return;
        if (mapping_asks_controller(ac, argv))
                r = ask_job(HELPER, job, ASK_TIMEOUT, &a);
        if (r < 0)
                report(r, "partition and QOS of job %u", (unsigned) job);
        /* Without an answer the class for every job counts. */
        bool asked = r >= 0;
        const char *class = asked ? mapping_class(ac, argv, a.partition, a.qos) : mapping_class(ac, argv, NULL, NULL);
        if (class && !is_class(class))
                report(-ENOENT, "class %s of job %u, which \"xschedctl list-classes\" does not have here", class,
                                (unsigned) job);
        r = class ? place_set_class(job_fd, class, asked) : 0;
        if (r < 0)
                report(r, "class of job %u", (unsigned) job);
}

/* Options of sbatch are for the job, options of srun for the step. */
static void set_lowered(int fd, RequestKey k) {
        char key[32], value[REQUEST_VALUE_MAX];

        (void) snprintf(key, sizeof(key), "lower.%s", request_key_to_string(k));
        int r = place_set(fd, key, request_format(&request, k, value));
        if (r < 0)
                report(r, "--gpu-%s", request_key_to_string(k));
}

/* A guarantee is for the job and not for a step, of which a job may have any number. */
static void set_min(int job_fd) {
        char value[REQUEST_VALUE_MAX];
        Request r = request;

        if (min_ceiling == 0)
                return;
        r.value[REQUEST_MIN] = MIN(r.value[REQUEST_MIN], min_ceiling);
        int e = place_set(job_fd, "min", request_format(&r, REQUEST_MIN, value));
        if (e < 0)
                report(e, "--gpu-min");
}

static int open_places(uint32_t job, int *ret_job, int *ret_step) {
        _cleanup_free_ char *of_job = NULL, *of_step = NULL;

        int r = place_read(job, &of_job, &of_step);
        if (r < 0)
                return r;
        _cleanup_close_ int job_fd = place_open(of_job), step_fd = place_open(of_step);
        if (job_fd < 0 || step_fd < 0)
                return job_fd < 0 ? job_fd : step_fd;
        *ret_job = TAKE_FD(job_fd);
        *ret_step = TAKE_FD(step_fd);
        return 0;
}

static bool is_the_jobs(uint32_t step) {
        return step == SLURM_BATCH_SCRIPT || step == SLURM_INTERACTIVE_STEP;
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char *argv[]) {
        uint32_t job, step;
        _cleanup_close_ int job_fd = -EBADF, step_fd = -EBADF;

        if (spank_remote(spank) != 1)
                return 0;
        if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
                        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS) {
                report(-EIO, "which job that is");
                return 0;
        }
        if (step != SLURM_EXTERN_CONT && mapping_shim(ac, argv))
                set_environment(spank);
        int r = open_places(job, &job_fd, &step_fd);
        if (r < 0) {
                report(r, "cgroup of job %u", (unsigned) job);
                return 0;
        }
        set_class(job_fd, job, ac, argv);
        if (request_has(&request, REQUEST_MIN))
                set_min(job_fd);
        for (RequestKey k = 0; k < _REQUEST_KEY_MAX; k++)
                if (request_has(&request, k) && k != REQUEST_MIN)
                        set_lowered(is_the_jobs(step) ? job_fd : step_fd, k);
        return 0;
}
