/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A library to be preloaded, behind the layer if there is one, which records the calls of a process to NVIDIA's kernel
 * driver about objects
 *
 * One call is one line of JSON in the file that RM_TRACE names: the time when it returned and how long it took in
 * nanoseconds, the file it was made on, client, parent, object, class or command, the size of the parameters, and the
 * status. "in" and "out" are parameters before and after the call, in hexadecimal digits, of calls whose parameters are
 * numbers: none has an address. nvrm_trace.py reads it, and makes traces for tests/cuda from it.
 */

#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hal/nvrm-abi.h"

#define DATA_MAX sizeof(NvrmDisableChannels)
#define LINE_MAX 4096U

static uint64_t now(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

/* --- what is written of parameters --- */

static size_t alloc_data_size(uint32_t class) {
        switch (class) {
        case NVRM_CLASS_DEVICE:
        case NVRM_CLASS_SUBDEVICE:
                return sizeof(uint32_t);
        case NVRM_CLASS_CHANNEL_GROUP:
                return sizeof(NvrmGroupParameters);
        default:
                return 0;
        }
}

static bool is_written(uint32_t command) {
        switch (command) {
        case NVRM_CMD_GPU_GET_PCI_INFO:
        case NVRM_CMD_CLIENT_GET_HANDLE_INFO:
        case NVRM_CMD_CLIENT_GET_CHILD_HANDLE:
        case NVRM_CMD_GPU_GET_ID:
        case NVRM_CMD_DISABLE_CHANNELS:
        case NVRM_CMD_GROUP_SCHEDULE:
        case NVRM_CMD_GROUP_SET_SLICE:
        case NVRM_CMD_GROUP_GET_SLICE:
        case NVRM_CMD_GROUP_SET_INTERLEAVE:
        case NVRM_CMD_GROUP_GET_INTERLEAVE:
                return true;
        default:
                return (command & 0x00ffffff) == NVRM_CMD_CHANNEL_SCHEDULE_OF_ANY;
        }
}

typedef struct Data {
        uint8_t bytes[DATA_MAX];
        size_t n;
} Data;

static void data_take(Data *d, uint64_t address, size_t size, size_t most) {
        d->n = size < most ? size : most;
        if (d->n > 0 && address != 0)
                memcpy(d->bytes, (const void *) (uintptr_t) address, d->n);
}

/* --- lines --- */

typedef struct Line {
        char text[LINE_MAX];
        size_t n;
} Line;

static void __attribute__((format(printf, 2, 3))) say(Line *l, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        int n = vsnprintf(l->text + l->n, sizeof(l->text) - l->n, format, ap);
        va_end(ap);
        if (n > 0 && (size_t) n < sizeof(l->text) - l->n)
                l->n += (size_t) n;
}

static void say_data(Line *l, const char *name, const Data *d) {
        if (d->n == 0)
                return;
        say(l, ", \"%s\": \"", name);
        for (size_t i = 0; i < d->n; i++)
                say(l, "%02x", d->bytes[i]);
        say(l, "\"");
}

static void put(Line *l) {
        static int fd = -2;

        if (fd == -2) {
                const char *path = getenv("RM_TRACE");
                fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
        }
        say(l, "}\n");
        if (fd >= 0)
                (void) !write(fd, l->text, l->n);
}

/* --- calls --- */

typedef struct Call {
        unsigned nr;
        size_t size;
        const void *argument;
        uint32_t object; /* of an allocation: the number that was asked for */
        Data in;
} Call;

static void look_before(Call *c) {
        const NvrmAllocShort *a = c->argument;
        const NvrmControl *ctl = c->argument;
        const NvrmDup *d = c->argument;

        if (c->nr == NVRM_NR_ALLOC) {
                c->object = a->object;
                data_take(&c->in, a->parameters, alloc_data_size(a->class), DATA_MAX);
        } else if (c->nr == NVRM_NR_DUP)
                c->object = d->object;
        else if (c->nr == NVRM_NR_CONTROL && is_written(ctl->command))
                data_take(&c->in, ctl->parameters, ctl->parameters_size, DATA_MAX);
}

static void look_after(const Call *c, Line *l) {
        const NvrmAllocShort *s = c->argument;
        const NvrmAlloc *a = c->argument;
        const NvrmFree *f = c->argument;
        const NvrmControl *ctl = c->argument;
        const NvrmDup *d = c->argument;
        bool is_long = c->size == sizeof(*a);
        Data out = {};

        switch (c->nr) {
        case NVRM_NR_ALLOC:
                say(l, ", \"call\": \"alloc\", \"client\": %u, \"parent\": %u, \"object\": %u, \"made\": %u", s->client,
                                s->parent, c->object, s->object);
                say(l, ", \"class\": %u, \"size\": %u, \"status\": %u", s->class,
                                is_long ? a->parameters_size : s->parameters_size, is_long ? a->status : s->status);
                break;
        case NVRM_NR_FREE:
                say(l, ", \"call\": \"free\", \"client\": %u, \"object\": %u, \"status\": %u", f->client, f->object,
                                f->status);
                break;
        case NVRM_NR_DUP:
                say(l, ", \"call\": \"dup\", \"client\": %u, \"parent\": %u, \"object\": %u, \"made\": %u", d->client,
                                d->parent, c->object, d->object);
                say(l, ", \"from_client\": %u, \"from\": %u, \"status\": %u", d->from_client, d->from_object,
                                d->status);
                break;
        default:
                say(l, ", \"call\": \"control\", \"client\": %u, \"object\": %u, \"command\": %u", ctl->client,
                                ctl->object, ctl->command);
                say(l, ", \"size\": %u, \"status\": %u", ctl->parameters_size, ctl->status);
                if (is_written(ctl->command))
                        data_take(&out, ctl->parameters, ctl->parameters_size, DATA_MAX);
        }
        say_data(l, "in", &c->in);
        if (out.n != c->in.n || memcmp(out.bytes, c->in.bytes, out.n) != 0)
                say_data(l, "out", &out);
}

static bool is_about_objects(const Call *c) {
        return (c->nr == NVRM_NR_ALLOC && (c->size == sizeof(NvrmAllocShort) || c->size == sizeof(NvrmAlloc))) ||
                        (c->nr == NVRM_NR_FREE && c->size == sizeof(NvrmFree)) ||
                        (c->nr == NVRM_NR_DUP && c->size == sizeof(NvrmDup)) ||
                        (c->nr == NVRM_NR_CONTROL && c->size == sizeof(NvrmControl));
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
        static int (*next)(int fd, unsigned long request, ...);
        Line l = {};
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        if (!next)
                next = (int (*)(int, unsigned long, ...))(uintptr_t) dlsym(RTLD_NEXT, "ioctl");
        Call c = {.nr = _IOC_NR(request), .size = _IOC_SIZE(request), .argument = arg};
        if (_IOC_TYPE(request) != NVRM_IOCTL_TYPE || !is_about_objects(&c))
                return next(fd, request, arg);
        look_before(&c);
        uint64_t start = now();
        int r = next(fd, request, arg);
        uint64_t end = now();
        if (r < 0)
                return r;
        say(&l, "{\"at\": %lu, \"took\": %lu, \"file\": \"%d:%d\"", end, end - start, (int) getpid(), fd);
        look_after(&c, &l);
        put(&l);
        return r;
}
