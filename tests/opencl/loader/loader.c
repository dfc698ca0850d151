/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A loader of OpenCL that treats layers as the Khronos loader does since v2026.05.29
 *
 * No package has that one yet, so this follows its rules (OpenCL-Docs, cl_loader_layers 1.0.1; the loader's source)
 * call by call:
 *
 *  - With the first call that needs it, once: the drivers that /etc/OpenCL/vendors names; then the layers in
 *    OPENCL_LAYERS, each by dlopen(RTLD_NOW), which is RTLD_LOCAL.
 *  - Of a layer it takes clGetLayerInfo(), which has to answer CL_LAYER_API_VERSION with 100, and
 *    clInitLayerWithProperties(), which is called with the length of the table, the table below, and NULL as the
 *    properties. Without one of these, or when that fails, the layer is closed, and the loader goes on without it.
 *    clInitLayer() is not asked for. clDeinitLayer() may be missing.
 *  - What a layer returns is copied, entries that are NULL are filled from the table below. The last layer is called
 *    first.
 *  - In its destructor, which at exit runs after those of what it has loaded, calls get an error from then on; of
 *    each layer, the last one first, clDeinitLayer() is called, then it is closed, and its table is freed; then the
 *    drivers are let go, of which none here says that it can be unloaded.
 *
 * With XSCHED_TEST_LOADER=refuse it asks for a function that no layer has, as the loader after this one may.
 * XSCHED_TEST_LOADER_LOG is a file, to which it appends what it does with layers.
 */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN      __attribute__((visibility("hidden")))
#define VENDORS     "/etc/OpenCL/vendors"
#define N_ENTRIES   (sizeof(cl_icd_dispatch) / sizeof(void *))
#define DRIVERS_MAX 16

typedef cl_int(CL_API_CALL *InitLayer)(
                cl_uint, const cl_icd_dispatch *, cl_uint *, const cl_icd_dispatch **, const cl_properties *);

typedef struct Layer Layer;

struct Layer {
        cl_icd_dispatch dispatch;
        void *library;
        cl_int(CL_API_CALL *deinit)(void);
        Layer *next;
};

struct _cl_platform_id {
        const cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
        const cl_icd_dispatch *dispatch;
};
struct _cl_event {
        const cl_icd_dispatch *dispatch;
};

extern HIDDEN const cl_icd_dispatch loader_main, loader_ended;
HIDDEN const cl_icd_dispatch *loader_first = &loader_main;
HIDDEN void loader_start(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Layer *layers; /* the one that is called first, first */
static cl_platform_id platforms[DRIVERS_MAX];
static void *(CL_API_CALL *extension[DRIVERS_MAX])(const char *);
static cl_uint n_platforms;

static void say(const char *what) {
        const char *path = getenv("XSCHED_TEST_LOADER_LOG");
        FILE *f = path ? fopen(path, "ae") : NULL;
        if (f) {
                fprintf(f, "%s\n", what);
                (void) fclose(f);
        }
}

/* --- drivers --- */

static void add_driver(const char *name) {
        void *library = dlopen(name, RTLD_NOW);
        cl_int(CL_API_CALL * get_platforms)(cl_uint, cl_platform_id *, cl_uint *);
        cl_uint n = 0;

        if (!library || n_platforms == DRIVERS_MAX)
                return;
        *(void **) &extension[n_platforms] = dlsym(library, "clGetExtensionFunctionAddress");
        if (!extension[n_platforms])
                return;
        *(void **) &get_platforms = extension[n_platforms]("clIcdGetPlatformIDsKHR");
        if (get_platforms && get_platforms(1, platforms + n_platforms, &n) == CL_SUCCESS && n > 0)
                n_platforms++;
}

static void add_drivers(void) {
        DIR *d = opendir(VENDORS);
        for (struct dirent *e; d && (e = readdir(d));) {
                char path[4096], line[4096];
                const char *end = strrchr(e->d_name, '.');
                if (!end || strcmp(end, ".icd") != 0)
                        continue;
                (void) snprintf(path, sizeof(path), VENDORS "/%s", e->d_name);
                FILE *f = fopen(path, "re");
                if (f && fgets(line, sizeof(line), f)) {
                        line[strcspn(line, "\n")] = '\0';
                        add_driver(line);
                }
                if (f)
                        (void) fclose(f);
        }
        if (d)
                (void) closedir(d);
}

/* --- layers --- */

static const char *wanted(void) {
        const char *mode = getenv("XSCHED_TEST_LOADER");
        return mode && strcmp(mode, "refuse") == 0 ? "clInitLayerOfTheNextKind" : "clInitLayerWithProperties";
}

/* Fills *ret but for its place in the list. */
static int init_layer(void *library, Layer *ret) {
        cl_int(CL_API_CALL * info)(cl_layer_info, size_t, void *, size_t *);
        InitLayer init;
        cl_layer_api_version version = 0;
        const cl_icd_dispatch *table = NULL;
        cl_uint n = 0;

        *(void **) &info = dlsym(library, "clGetLayerInfo");
        if (!info || info(CL_LAYER_API_VERSION, sizeof(version), &version, NULL) != CL_SUCCESS ||
                        version != CL_LAYER_API_VERSION_100)
                return -1;
        *(void **) &init = dlsym(library, wanted());
        if (!init)
                return -1;
        *(void **) &ret->deinit = dlsym(library, "clDeinitLayer");
        if (init(N_ENTRIES, loader_first, &n, &table, NULL) != CL_SUCCESS)
                return -1;
        for (cl_uint i = 0; i < N_ENTRIES; i++) {
                void *given = i < n ? ((void *const *) table)[i] : NULL;
                ((void **) &ret->dispatch)[i] = given ? given : ((void *const *) loader_first)[i];
        }
        return 0;
}

static void add_layer(const char *name) {
        void *library = dlopen(name, RTLD_NOW);
        Layer *l = calloc(1, sizeof(*l));
        int known = 0;

        for (Layer *other = layers; other; other = other->next)
                known |= other->library == library;
        if (!library || !l || known || init_layer(library, l) < 0) {
                if (library)
                        (void) dlclose(library);
                free(l);
                say(known ? "known" : "refused");
                return;
        }
        l->library = library;
        l->next = layers;
        layers = l;
        loader_first = &l->dispatch;
        say("added");
}

static void start(void) {
        const char *list = getenv("OPENCL_LAYERS");

        add_drivers();
        for (char *copy = list ? strdup(list) : NULL, *p = copy, *name; copy;)
                if ((name = strsep(&p, ":")))
                        add_layer(name);
                else {
                        free(copy);
                        break;
                }
}

void loader_start(void) {
        (void) pthread_once(&once, start);
}

__attribute__((destructor)) static void end(void) {
        loader_first = &loader_ended;
        for (Layer *l = layers, *next; l; l = next) {
                next = l->next;
                if (l->deinit)
                        say(l->deinit() == CL_SUCCESS ? "deinitialised" : "failed");
                (void) dlclose(l->library);
                free(l);
        }
}

/* --- the end of the chain, where it is not the first argument's --- */

HIDDEN typeof(clGetPlatformIDs) main_clGetPlatformIDs;
HIDDEN typeof(clGetExtensionFunctionAddress) main_clGetExtensionFunctionAddress;
HIDDEN typeof(clUnloadCompiler) main_clUnloadCompiler;
HIDDEN typeof(clCreateContext) main_clCreateContext;
HIDDEN typeof(clCreateContextFromType) main_clCreateContextFromType;
HIDDEN typeof(clWaitForEvents) main_clWaitForEvents;

cl_int CL_API_CALL main_clGetPlatformIDs(cl_uint n, cl_platform_id *ids, cl_uint *ret_n) {
        if ((ids && n == 0) || (!ids && !ret_n))
                return CL_INVALID_VALUE;
        if (n_platforms == 0)
                return CL_PLATFORM_NOT_FOUND_KHR;
        for (cl_uint i = 0; ids && i < n && i < n_platforms; i++)
                ids[i] = platforms[i];
        if (ret_n)
                *ret_n = n_platforms;
        return CL_SUCCESS;
}

void *CL_API_CALL main_clGetExtensionFunctionAddress(const char *name) {
        void *f = NULL;
        for (cl_uint i = 0; i < n_platforms && !f; i++)
                f = extension[i](name);
        return f;
}

cl_int CL_API_CALL main_clUnloadCompiler(void) {
        return CL_SUCCESS;
}

cl_context CL_API_CALL main_clCreateContext(const cl_context_properties *properties, cl_uint n,
                const cl_device_id *devices, void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                void *userdata, cl_int *errcode) {
        if (n == 0 || !devices || !devices[0]) {
                if (errcode)
                        *errcode = CL_INVALID_VALUE;
                return NULL;
        }
        return devices[0]->dispatch->clCreateContext(properties, n, devices, notify, userdata, errcode);
}

cl_context CL_API_CALL main_clCreateContextFromType(const cl_context_properties *properties, cl_device_type type,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *userdata,
                cl_int *errcode) {
        cl_platform_id platform = platforms[0];
        for (const cl_context_properties *p = properties; p && p[0] != 0; p += 2)
                if (p[0] == CL_CONTEXT_PLATFORM)
                        platform = (cl_platform_id) p[1];
        if (!platform) {
                if (errcode)
                        *errcode = CL_INVALID_PLATFORM;
                return NULL;
        }
        return platform->dispatch->clCreateContextFromType(properties, type, notify, userdata, errcode);
}

cl_int CL_API_CALL main_clWaitForEvents(cl_uint n, const cl_event *events) {
        if (n == 0 || !events)
                return CL_INVALID_VALUE;
        if (!events[0])
                return CL_INVALID_EVENT;
        return events[0]->dispatch->clWaitForEvents(n, events);
}
