/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * check: tells whether the shim is effective
 *
 * Follows the way from the environment to the service, and says at every step what was found, so that "it is not
 * scheduled" has an answer. Without a pid: would a program that is started here be scheduled? With one: is that
 * process?
 *
 * Libraries are tried in a child process, so that their constructors and their failures do not affect this one. The
 * loader of OpenCL is started there, too: only it knows whether it takes our layer.
 */

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/client-environment.h"
#include "common/opencl-mark-name.h"
#include "common/shim-list.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/shim-env.h"
#include "tools/shared/table.h"
#include "tools/xschedctl/xschedctl-target.h"
#include "tools/xschedctl/xschedctl-waits.h"
#include "tools/xschedctl/xschedctl.h"
#include "xschedctl-check-client.h"
#include "xschedctl-check-findings.h"
#include "xschedctl-check-runtimes.h"
#include "xschedctl-check-variables.h"
#include "xschedctl-host.h"

#define LOADER_NAME "libOpenCL.so.1"
#define TRY_SECONDS 30
#define MARK        "/memfd:" OPENCL_MARK

/* --- libraries --- */

typedef struct LibraryReport {
        int failed;
        bool in_force;      /* the loader has taken the layer */
        bool has_platforms; /* without one not every loader starts layers */
        char text[512];     /* its path, or why it could not be loaded */
} LibraryReport;

/* Calls the loader, which loads drivers and layers then. Their output is not for the user. */
static void start_loader(void *loader, LibraryReport *report) {
        int32_t (*get_platforms)(uint32_t, void *, uint32_t *);
        _cleanup_free_ char *maps = NULL;
        uint32_t n = 0;
        size_t size;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        *(void **) &get_platforms = dlsym(loader, "clGetPlatformIDs");
        if (!get_platforms)
                return;
        if (null >= 0) {
                (void) dup2(null, STDOUT_FILENO);
                (void) dup2(null, STDERR_FILENO);
        }
        report->has_platforms = get_platforms(0, NULL, &n) == 0 && n > 0;
        report->in_force = check_read_proc("self", "maps", &maps, &size) >= 0 && maps && strstr(maps, MARK);
}

/* Loads a library in a child that reports over a pipe, and starts it where it is the loader. A child that dies reports
 * nothing. */
static bool try_library(const char *name, LibraryReport *ret) {
        LibraryReport report = {.failed = 1, .text = "loading it ended the process"};
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return false;
        pid = fork();
        if (pid == 0) {
                (void) alarm(TRY_SECONDS);
                void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
                struct link_map *map = NULL;

                report.failed = !handle;
                if (handle && dlinfo(handle, RTLD_DI_LINKMAP, (void *) &map) == 0 && map)
                        snprintf(report.text, sizeof(report.text), "%s", map->l_name);
                else
                        snprintf(report.text, sizeof(report.text), "%s", strempty(dlerror()));
                if (handle && streq(name, LOADER_NAME))
                        start_loader(handle, &report);
                if (write(fds[1], &report, sizeof(report)) < 0)
                        _exit(1);
                _exit(0);
        }
        close(fds[1]);
        if (pid > 0) {
                if (read(fds[0], ret, sizeof(*ret)) != (ssize_t) sizeof(*ret))
                        *ret = report;
                (void) waitpid(pid, NULL, 0);
        }
        close(fds[0]);
        return pid > 0;
}

/* A loader that implements layers has the variable's name in it. */
static bool file_contains(const char *path, const char *needle) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        bool found;
        void *p;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
                return false;
        p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return false;
        found = memmem(p, (size_t) st.st_size, needle, strlen(needle));
        (void) munmap(p, (size_t) st.st_size);
        return found;
}

static char *list_entry(const char *list, const char *name) {
        const char *entry = shim_list_find(list, name);

        return entry ? strndup(entry, strcspn(entry, ": ")) : NULL;
}

/* --- the steps --- */

/* Returns the shim's file, and whether it comes in by LD_PRELOAD. */
static char *check_environment(Check *k, bool *ret_preload) {
        _cleanup_free_ char *layers = NULL, *preload = NULL, *disable = NULL;
        char *shim;
        int r;

        *ret_preload = false;
        r = check_get_variable(k, "OPENCL_LAYERS", &layers);
        if (r >= 0)
                r = check_get_variable(k, "LD_PRELOAD", &preload);
        if (r >= 0)
                r = check_get_variable(k, "XSCHED_DISABLE", &disable);
        if (r < 0) {
                check_add(k, "environment", CHECK_WARNING, "cannot be read: %s", strerror(-r));
                return NULL;
        }
        if (environment_is_true(disable)) {
                check_add(k, "environment", CHECK_FAILED, "XSCHED_DISABLE=%s turns the shim off", disable);
                return NULL;
        }
        shim = list_entry(layers, CHECK_OPENCL_LAYER);
        if (!shim) {
                shim = list_entry(preload, CHECK_OPENCL_LAYER);
                *ret_preload = shim;
        }
        if (shim)
                check_add(k, "environment", CHECK_OK, "%s names %s", *ret_preload ? "LD_PRELOAD" : "OPENCL_LAYERS",
                                shim);
        else
                check_add(k, "environment", k->pid ? CHECK_WARNING : CHECK_FAILED,
                                "neither OPENCL_LAYERS nor LD_PRELOAD names " CHECK_OPENCL_LAYER
                                ": start programs by xschedctl run");
        return shim;
}

static void check_shim_file(Check *k, const char *shim) {
        LibraryReport report;

        if (!shim || !try_library(shim, &report))
                return;
        if (report.failed)
                check_add(k, "shim", CHECK_FAILED, "%s", report.text);
        else
                check_add(k, "shim", CHECK_OK, "%s can be loaded", report.text);
}

/* Checks whether this library is preloaded. `needed`: there is a GPU whose queues need it. */
static void check_preload(Check *k, const char *what, const char *name, bool needed) {
        _cleanup_free_ char *preload = NULL, *shim = NULL;
        LibraryReport report;

        if (check_get_variable(k, "LD_PRELOAD", &preload) < 0)
                return;
        shim = list_entry(preload, name);
        if (!shim && needed)
                check_add(k, what, k->pid ? CHECK_WARNING : CHECK_FAILED,
                                "LD_PRELOAD does not name %s: start programs by xschedctl run", name);
        else if (shim && try_library(shim, &report))
                check_add(k, what, report.failed ? CHECK_FAILED : CHECK_OK, report.failed ? "%s" : "%s can be loaded",
                                report.text);
}

/* Checks the tool, by which AMD's runtimes are seen where calls go past the preloaded library; and names programs that
 * go past both. */
static void check_tool(Check *k) {
        _cleanup_free_ char *tools = NULL, *direct = NULL, *profiler = NULL;

        if (check_get_variable(k, SHIM_HSA_TOOLS, &tools) < 0 ||
                        check_get_variable(k, "DEBUG_CLR_DIRECT_DOORBELL", &direct) < 0 ||
                        check_get_variable(k, "ROCP_TOOL_LIBRARIES", &profiler) < 0)
                return;
        if (isempty(tools))
                check_add(k, "amd tool", CHECK_WARNING,
                                SHIM_HSA_TOOLS " does not name " CHECK_HSA_TOOL
                                               ": who calls the runtime past what is preloaded is not held");
        else if (!shim_list_find(tools, CHECK_HSA_TOOL))
                check_add(k, "amd tool", CHECK_WARNING,
                                SHIM_HSA_TOOLS " is %s: it stays, and who calls past what is preloaded is not held",
                                tools);
        else if (!isempty(profiler))
                check_add(k, "amd tool", CHECK_WARNING,
                                "ROCP_TOOL_LIBRARIES is %s: with rocprofiler-register there is no " SHIM_HSA_TOOLS,
                                profiler);
        else if (!shim_is_only_tool(tools))
                check_add(k, "amd tool", CHECK_WARNING,
                                SHIM_HSA_TOOLS " is %s: what the others do with calls on their way cannot be seen",
                                tools);
        else
                check_add(k, "amd tool", CHECK_OK, SHIM_HSA_TOOLS " names %s", tools);
        if (!isempty(direct) && !streq(direct, "0"))
                check_add(k, "amd doorbells", CHECK_WARNING, "DEBUG_CLR_DIRECT_DOORBELL=%s: HIP rings past the gate",
                                direct);
}

/* Names queues that only their programs know of, and KFD does not. */
static void check_user_queues(Check *k) {
        int value = 0;
        FILE *f = fopen("/sys/module/amdgpu/parameters/user_queue", "re");

        if (!f)
                return;
        if (fscanf(f, "%d", &value) == 1 && value > 0)
                check_add(k, "amd user queues", CHECK_WARNING,
                                "amdgpu.user_queue=%d: queues that programs have of DRM, and not of KFD, are not held",
                                value);
        (void) fclose(f);
}

static bool check_has_layers(Check *k, const char *loader, bool preload) {
        if (file_contains(loader, "OPENCL_LAYERS"))
                return true;
        check_add(k, "loader", preload ? CHECK_OK : CHECK_FAILED, "%s has no layers: %s", loader,
                        preload ? "LD_PRELOAD is right" : "use --shim=preload");
        return false;
}

#define REFUSED "%s has loaded the layer and refused it: what it launches is not scheduled; use --shim=preload"

/* For a program that is started here: a loader that knows layers need not take this one. */
static void check_loader(Check *k, const char *shim, bool preload) {
        LibraryReport report;

        if (!try_library(LOADER_NAME, &report))
                return;
        if (report.failed)
                check_add(k, "loader", CHECK_WARNING, "no OpenCL here: %s", report.text);
        else if (!check_has_layers(k, report.text, preload) || !shim)
                return;
        else if (preload || report.in_force)
                check_add(k, "loader", CHECK_OK, "%s %s", report.text,
                                report.in_force ? "has taken the layer" : "has layers");
        else if (!report.has_platforms)
                check_add(k, "loader", CHECK_WARNING, "%s finds no driver: whether it takes the layer cannot be seen",
                                report.text);
        else
                check_add(k, "loader", CHECK_FAILED, REFUSED, report.text);
}

/* Checks what a process has loaded, and whether its launches are seen there. */
static void check_in_force(Check *k, const char *maps, const char *shim, const char *loader, bool preload) {
        _cleanup_free_ char *variable = NULL;
        bool preloaded = check_get_variable(k, "LD_PRELOAD", &variable) < 0 ||
                        shim_list_find(variable, CHECK_OPENCL_LAYER);

        if (strstr(maps, MARK))
                check_add(k, "process", CHECK_OK, "its OpenCL calls come by %s", shim);
        else if (!loader)
                check_add(k, "process", CHECK_OK, "has loaded %s", shim);
        else if (strstr(shim, " (deleted)"))
                check_add(k, "process", CHECK_WARNING,
                                "has loaded %s, of another version: whether its calls come by there cannot be seen",
                                shim);
        else if (preload || preloaded)
                check_add(k, "process", CHECK_WARNING, "has loaded %s, and not called it yet", shim);
        else
                check_add(k, "process", CHECK_FAILED, REFUSED, loader);
}

/* Whether the loader takes no libraries from the environment, as in setuid programs. */
static bool is_secure(const char *pid) {
        _cleanup_free_ char *text = NULL;
        const unsigned long *auxv;
        size_t size = 0;

        if (check_read_proc(pid, "auxv", &text, &size) < 0)
                return false;
        auxv = (const unsigned long *) text;
        for (size_t i = 0; i + 1 < size / sizeof(*auxv); i += 2)
                if (auxv[i] == AT_SECURE)
                        return auxv[i + 1] != 0;
        return false;
}

/* One of the layers that are preloaded: they load libxsched with the first queue. */
static char *find_layer(const char *maps) {
        return check_find_mapped(maps, CHECK_KFD_LAYER) ?: check_find_mapped(maps, CHECK_CUDA_LAYER);
}

static void check_mapped(Check *k, bool preload) {
        _cleanup_free_ char *maps = NULL, *shim = NULL, *library = NULL, *layer = NULL, *loader = NULL;
        size_t size;
        int r;

        r = check_read_proc(k->pid, "maps", &maps, &size);
        if (r < 0) {
                check_add(k, "process", CHECK_WARNING, "what it has loaded cannot be seen: %s", strerror(-r));
                return;
        }
        shim = check_find_mapped(maps, CHECK_OPENCL_LAYER);
        library = check_find_mapped(maps, "libxsched.so");
        loader = check_find_mapped(maps, "libOpenCL.so");
        if (shim)
                check_in_force(k, maps, shim, loader, preload);
        else if (library)
                check_add(k, "process", CHECK_OK, "has loaded %s", library);
        else if ((layer = find_layer(maps)))
                check_add(k, "process", CHECK_WARNING, "has loaded %s, and no queue of it is known", layer);
        else if (is_secure(k->pid))
                check_add(k, "process", CHECK_WARNING,
                                "has more privileges than who started it: the loader takes no shim into such programs");
        else if (!strstr(maps, "/ld-"))
                check_add(k, "process", CHECK_WARNING, "is linked statically: no shim can be loaded into it");
        else
                check_add(k, "process", CHECK_WARNING, "has not loaded the shim%s",
                                loader ? "" : ": it has not used OpenCL, either");
        if (loader && check_has_layers(k, loader, preload || shim))
                check_add(k, "loader", CHECK_OK, "%s has layers", loader);
        check_runtimes(k, maps);
}

/* What the service says. It is asked first, because it knows of processes that are to have no shim. */
typedef struct Answer {
        sd_bus_error error;
        int bus, r; /* negative errno */
        Snapshot snapshot;
} Answer;

static void answer_done(Answer *a) {
        sd_bus_error_free(&a->error);
        snapshot_done(&a->snapshot);
}

static void ask_service(Check *k, Answer *a) {
        a->bus = a->r = ctl_open_bus(k->ctl);
        if (a->bus < 0)
                return;
        a->r = snapshot_fetch(k->ctl, &a->error, &a->snapshot);
        if (a->r < 0 && !a->error.name)
                a->bus = a->r;
}

static void check_service(Check *k, const Answer *a) {
        const Value *degraded;
        char buf[256];

        (void) ctl_bus_describe(k->ctl, buf, sizeof(buf));
        if (a->bus < 0) {
                check_add(k, "bus", CHECK_FAILED, "cannot reach %s: %s", buf, strerror(-a->bus));
                return;
        }
        check_add(k, "bus", CHECK_OK, "%s", buf);
        if (a->r < 0) {
                check_add(k, "service", CHECK_FAILED, "%s",
                                error_is_not_running(&a->error, a->r) ? "xschedd is not running"
                                                                      : strempty(a->error.message));
                return;
        }
        degraded = object_get(&a->snapshot.manager, "Degraded");
        check_add(k, "service", degraded->n_items > 0 ? CHECK_WARNING : CHECK_OK, "xschedd %s%s",
                        object_get_string(&a->snapshot.manager, "Version"),
                        degraded->n_items > 0 ? " is degraded: see xschedctl status" : "");
}

/* Finds the process's client; *ret is NULL when it has none, or only since the answer. Returns an exit status. */
static int find_client(Check *k, const Answer *a, const ProcessId *p, const Object **ret, bool *ret_known) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *path = NULL;

        int r = target_get_client(k->ctl, p, &error, &path);
        *ret_known = r >= 0;
        if (r < 0)
                return sd_bus_error_has_name(&error, BUS_ERROR("NoSuchClient"))
                                ? 0
                                : ctl_call_failed(k->ctl, &error, r, k->pid);
        *ret = snapshot_find_by_id(&a->snapshot, OBJECT_CLIENT, object_id_from_path(path));
        return 0;
}

static void check_client(Check *k, const Answer *a, const Object *client, bool known) {
        if (client) {
                check_registered(k, &a->snapshot, client);
                return;
        }
        if (known) {
                check_add(k, "registered", CHECK_WARNING, "just now");
                return;
        }
        _cleanup_free_ char *why = why_unregistered(k->pid) ?: why_without_descriptors(k->pid);
        check_add(k, "registered", CHECK_FAILED, "no%s%s: it runs unscheduled", why ? ", " : "", strempty(why));
}

/* The steps in front of the service. */
static void check_shim(Check *k) {
        _cleanup_free_ char *shim = NULL;
        bool preload;

        shim = check_environment(k, &preload);
        check_shim_file(k, shim);
        if (shim_wants_kfd()) {
                check_preload(k, "amd", CHECK_KFD_LAYER, true);
                check_tool(k);
                check_user_queues(k);
        }
        if (shim_wants_cuda())
                check_preload(k, "nvidia", CHECK_CUDA_LAYER, true);
        check_preload(k, "hip layer", CHECK_HIP_LAYER, false);
        check_variables(k);
        if (k->pid)
                check_mapped(k, preload);
        else
                check_loader(k, shim, preload);
}

int verb_check(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"CHECK", "check", CELL_PLAIN, 0},
                        {"STATE", "state", CELL_STATE, 0},
                        {"DETAIL", "detail", CELL_PLAIN, COLUMN_ELASTIC},
        };
        Check k = {.ctl = c, .pid = argc > 0 ? argv[0] : NULL, .table = TABLE_INIT(columns)};
        _cleanup_(answer_done)
        Answer a = {};
        const Object *client = NULL;
        bool known = false;
        ProcessId p = {};
        int r = 0;

        if (c->all)
                return k.pid ? ctl_fail("--all is for all processes, not for %s", k.pid) : check_host(c);
        if (k.pid) {
                r = target_read_pid(k.pid, &p);
                if (r != 0)
                        return r;
        }
        ask_service(&k, &a);
        if (a.r >= 0 && k.pid)
                r = find_client(&k, &a, &p, &client, &known);
        if (r == 0) {
                if (client && client_is_registered_only(&a.snapshot, client))
                        check_add(&k, "process", CHECK_OK,
                                        "xschedctl register made it a client: it has no shim, and only the service "
                                        "itself can hold it");
                else
                        check_shim(&k);
                check_service(&k, &a);
                if (a.r >= 0 && k.pid)
                        check_client(&k, &a, client, known);
                r = table_show(c, &k.table, NULL, NULL);
        }
        table_done(&k.table);
        return r != 0 || k.failed ? EXIT_FAILURE : 0;
}
