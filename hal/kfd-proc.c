/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The queues that a process has with KFD, by the kernel's public files
 */

#include "hal/kfd-proc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/directory.h"
#include "common/file-status.h"
#include "common/macro.h"
#include "common/parse-util.h"
#include "common/stream-util.h"

/* The kernel's enum kfd_queue_type, which is not part of its user interface. */
enum {
        TYPE_COMPUTE = 0,
        TYPE_SDMA = 1,
        TYPE_SDMA_XGMI = 3,      /* DIQ up to 6.4 */
        TYPE_SDMA_BY_ENGINE = 4, /* SDMA_XGMI up to 6.4 */
};

const char *kfd_proc_type_to_string(uint32_t type) {
        switch (type) {
        case TYPE_COMPUTE:
                return "compute";
        case TYPE_SDMA:
        case TYPE_SDMA_XGMI:
        case TYPE_SDMA_BY_ENGINE:
                return "sdma";
        default:
                return "other";
        }
}

void kfd_proc_queues_done(KfdProcQueues *q) {
        free(q->queues);
        *q = (KfdProcQueues){};
}

/* --- files --- */

_printf_(2, 3) static int path_print(char path[static PATH_MAX], const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        int n = vsnprintf(path, PATH_MAX, format, ap);
        va_end(ap);
        return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int read_number(const char *directory, const char *name, uint64_t *ret) {
        _cleanup_(fclosep)
        FILE *f = NULL;
        char path[PATH_MAX], text[32] = "";

        int r = path_print(path, "%s/%s", directory, name);
        if (r < 0)
                return r;
        f = fopen(path, "re");
        if (!f)
                return negative_errno();
        errno = 0;
        if (!fgets(text, sizeof(text), f))
                return errno > 0 ? negative_errno() : -EIO;
        text[strcspn(text, "\n")] = '\0';
        return parse_uint64(text, 0, UINT64_MAX, ret) < 0 ? -EIO : 0;
}

static int read_u32(const char *directory, const char *name, uint32_t *ret) {
        uint64_t v;
        int r = read_number(directory, name, &v);

        if (r < 0)
                return r;
        if (v > UINT32_MAX)
                return -EIO;
        *ret = (uint32_t) v;
        return 0;
}

/* Parses a name that is a number, with or without a prefix. */
static bool name_number(const char *name, const char *prefix, uint32_t *ret) {
        const char *rest = startswith(name, prefix);
        uint64_t v;

        if (!rest || parse_uint64(rest, 0, UINT32_MAX, &v) < 0)
                return false;
        *ret = (uint32_t) v;
        return true;
}

static int open_directory(const char *path, DIR **ret) {
        DIR *d = opendir(path);

        if (!d)
                return negative_errno();
        *ret = d;
        return 0;
}

/* The directory of a process. */
static int process_path(const char *root, pid_t pid, char path[static PATH_MAX]) {
        int r = path_print(path, "%s" KFD_PROC_PATH, root);
        if (r < 0)
                return r;
        if (access(path, F_OK) < 0)
                return -ENODEV;
        r = path_print(path, "%s" KFD_PROC_PATH "/%d", root, (int) pid);
        if (r < 0)
                return r;
        return access(path, F_OK) < 0 ? -ESRCH : 0;
}

/* --- queues --- */

static int read_queue(const char *directory, KfdProcQueue *ret) {
        KfdProcQueue q = *ret;
        struct stat st;

        if (file_status(directory, &st) < 0)
                return negative_errno();
        q.inode = st.st_ino;
        int r = read_u32(directory, "gpuid", &q.gpu_id);
        if (r >= 0)
                r = read_u32(directory, "type", &q.type);
        if (r >= 0)
                r = read_number(directory, "size", &q.ring_size);
        if (r < 0)
                return r;
        *ret = q;
        return 0;
}

static int add_queue(KfdProcQueues *list, const KfdProcQueue *q) {
        KfdProcQueue *more = array_grow(list->queues, list->n, sizeof(KfdProcQueue));

        if (!more)
                return -ENOMEM;
        list->queues = more;
        list->queues[list->n++] = *q;
        return 0;
}

static int read_context(const char *process, const char *name, uint32_t context, KfdProcQueues *list) {
        char path[PATH_MAX], directory[PATH_MAX];
        const struct dirent *e;
        _cleanup_(closedirp)
        DIR *d = NULL;
        int end;

        int r = path_print(path, "%s%s/queues", process, name);
        if (r >= 0)
                r = open_directory(path, &d);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while ((e = directory_next(d, &end))) {
                KfdProcQueue q = {.context = context, .is_mapped = -ENODATA};

                if (!name_number(e->d_name, "", &q.id))
                        continue;
                r = path_print(directory, "%s/%s", path, e->d_name);
                if (r >= 0)
                        r = read_queue(directory, &q);
                if (r == -EPERM || r == -EACCES)
                        list->n_hidden++;
                if (r >= 0 && add_queue(list, &q) < 0)
                        return -ENOMEM;
        }
        return end;
}

static int queue_compare(const void *a, const void *b) {
        const KfdProcQueue *x = a, *y = b;

        if (x->context != y->context)
                return x->context < y->context ? -1 : 1;
        return x->id < y->id ? -1 : x->id > y->id;
}

/* From 7.0 on a process may have further contexts, which are directories beside its queues. */
static int read_contexts(const char *process, KfdProcQueues *list) {
        const struct dirent *e;
        _cleanup_(closedirp)
        DIR *d = NULL;
        char name[32];
        uint32_t id;

        int r = open_directory(process, &d);
        while (r >= 0 && (e = directory_next(d, &r)))
                if (name_number(e->d_name, "context_", &id)) {
                        list->n_contexts++;
                        (void) snprintf(name, sizeof(name), "/context_%" PRIu32, id);
                        r = read_context(process, name, id, list);
                }
        return r == -ENOENT ? 0 : r;
}

int kfd_proc_read_queues(const char *root, pid_t pid, KfdProcQueues *ret) {
        _cleanup_(kfd_proc_queues_done)
        KfdProcQueues list = {};
        char process[PATH_MAX];

        int r = process_path(root, pid, process);
        if (r >= 0)
                r = read_context(process, "", 0, &list);
        if (r >= 0)
                r = read_contexts(process, &list);
        if (r < 0)
                return r;
        if (list.n > 0)
                qsort(list.queues, list.n, sizeof(KfdProcQueue), queue_compare);
        *ret = list;
        list = (KfdProcQueues){};
        return 0;
}

int kfd_proc_list(const char *root, pid_t **ret, size_t *ret_n) {
        _cleanup_free_ pid_t *pids = NULL;
        const struct dirent *e;
        _cleanup_(closedirp)
        DIR *d = NULL;
        char path[PATH_MAX];
        size_t n = 0;
        uint32_t pid;
        int end;

        int r = path_print(path, "%s" KFD_PROC_PATH, root);
        if (r >= 0)
                r = open_directory(path, &d);
        if (r < 0)
                return r == -ENOENT ? -ENODEV : r;
        while ((e = directory_next(d, &end))) {
                if (!name_number(e->d_name, "", &pid) || pid == 0 || pid > INT32_MAX)
                        continue;
                pid_t *more = array_grow(pids, n, sizeof(pid_t));
                if (!more)
                        return -ENOMEM;
                pids = more;
                pids[n++] = (pid_t) pid;
        }
        if (end < 0)
                return end;
        *ret = TAKE_PTR(pids);
        *ret_n = n;
        return 0;
}

/* --- debugfs --- */

static int open_debugfs(const char *root, const char *name, FILE **ret) {
        char path[PATH_MAX];

        int r = path_print(path, "%s%s", root, name);
        if (r < 0)
                return r;
        *ret = fopen(path, "re");
        return *ret ? 0 : errno == EPERM ? -EACCES : negative_errno();
}

static int newest_first(const void *a, const void *b) {
        const KfdProcQueue *x = *(KfdProcQueue *const *) a, *y = *(KfdProcQueue *const *) b;

        return x->inode > y->inode ? -1 : x->inode < y->inode;
}

static bool agree(const KfdProcQueue *q, const KfdMqd *m) {
        return q->gpu_id == m->gpu_id && (q->type == TYPE_COMPUTE) == m->is_compute &&
                        (!m->is_known || q->ring_size == m->ring_size);
}

static int match(KfdProcQueues *list, const KfdMqd *mqds, size_t n) {
        if (n != list->n || list->n_hidden > 0)
                return -ENODATA;

        _cleanup_free_ KfdProcQueue **sorted = calloc(MAX(n, (size_t) 1), sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                sorted[i] = list->queues + i;
        qsort(sorted, n, sizeof(*sorted), newest_first);
        for (size_t i = 0; i < n; i++)
                if (!agree(sorted[i], mqds + i))
                        return -ENODATA;
        for (size_t i = 0; i < n; i++)
                sorted[i]->mqd = mqds[i];
        return 0;
}

int kfd_proc_read_mqds(const char *root, pid_t pid, KfdProcQueues *q) {
        _cleanup_free_ KfdMqd *mqds = NULL;
        _cleanup_(fclosep)
        FILE *f = NULL;
        size_t n;

        int r = open_debugfs(root, KFD_DEBUGFS_MQDS, &f);
        if (r < 0)
                return r;
        r = kfd_debugfs_read_mqds(f, pid, &mqds, &n);
        if (r < 0)
                return r == -ENOMEM ? r : -ENODATA;
        return match(q, mqds, n);
}

int kfd_proc_read_hqds(const char *root, KfdProcQueues *q) {
        _cleanup_(fclosep)
        FILE *f = NULL;

        int r = open_debugfs(root, KFD_DEBUGFS_HQDS, &f);
        for (size_t i = 0; r >= 0 && i < q->n; i++)
                if (q->queues[i].mqd.is_known) {
                        rewind(f);
                        q->queues[i].is_mapped = kfd_debugfs_is_mapped(f, q->queues[i].gpu_id, q->queues[i].mqd.ring);
                }
        return r;
}

/* --- use --- */

static uint64_t number_or_unknown(const char *process, const char *prefix, uint32_t gpu_id, const char *suffix) {
        char name[64];
        uint64_t v;

        (void) snprintf(name, sizeof(name), "%s_%" PRIu32 "%s", prefix, gpu_id, suffix);
        return read_number(process, name, &v) < 0 ? UINT64_MAX : v;
}

int kfd_proc_read_usage(const char *root, pid_t pid, KfdProcUsage **ret, size_t *ret_n) {
        _cleanup_free_ KfdProcUsage *usage = NULL;
        const struct dirent *e;
        _cleanup_(closedirp)
        DIR *d = NULL;
        char process[PATH_MAX];
        size_t n = 0;
        uint32_t gpu;

        int r = process_path(root, pid, process);
        if (r >= 0)
                r = open_directory(process, &d);
        if (r < 0)
                return r;
        while ((e = directory_next(d, &r))) {
                if (!name_number(e->d_name, "vram_", &gpu))
                        continue;
                KfdProcUsage *more = array_grow(usage, n, sizeof(KfdProcUsage));
                if (!more)
                        return -ENOMEM;
                usage = more;
                usage[n++] = (KfdProcUsage){
                                .gpu_id = gpu,
                                .vram = number_or_unknown(process, "vram", gpu, ""),
                                .sdma_us = number_or_unknown(process, "sdma", gpu, ""),
                                .evicted_ms = number_or_unknown(process, "stats", gpu, "/evicted_ms"),
                                .cu_occupancy = number_or_unknown(process, "stats", gpu, "/cu_occupancy"),
                };
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(usage);
        *ret_n = n;
        return 0;
}
