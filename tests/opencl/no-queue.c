/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that looks at its devices and makes no queue: prints its threads and open files before and after, relative
 * to a run without the layer nothing may differ. It opens and drops the loader several times.
 */

#include <dirent.h>
#include <dlfcn.h>

#include "cl-test.h"

static unsigned count(const char *folder) {
        unsigned n = 0;
        DIR *d = opendir(folder);
        CHECK(d);
        while (readdir(d))
                n++;
        (void) closedir(d);
        return n;
}

static void *symbol(void *library, const char *name) {
        void *s = dlsym(library, name);
        CHECK(s);
        return s;
}

static void look(void *library) {
        cl_int(CL_API_CALL * platforms)(cl_uint, cl_platform_id *, cl_uint *);
        cl_int(CL_API_CALL * devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
        cl_platform_id platform;
        cl_uint n = 0;

        *(void **) &platforms = symbol(library, "clGetPlatformIDs");
        *(void **) &devices = symbol(library, "clGetDeviceIDs");
        CHECK_CL(platforms(1, &platform, NULL));
        CHECK_CL(devices(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n));
        printf("%u devices, %u threads, %u files\n", n, count("/proc/self/task"), count("/proc/self/fd"));
}

int main(int argc, char **argv) {
        for (int i = 0; i < 3; i++) {
                void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
                CHECK(library);
                look(library);
                CHECK(dlclose(library) == 0);
        }
        return 0;
}
