/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of NVIDIA's kernel driver: see nvrm-privileged.h
 */

#include "hal/nvrm-privileged.h"

#include "common/macro.h"
#include "common/time-util.h"

/* A process that is held for short times only is looked at no more often. */
#define LOOK_EVERY_NS (200 * NSEC_PER_MSEC)

/* Numbers that one look asks for on all new files together: four times all that there are, 8 s. */
#define QUESTIONS_MAX (4ULL * (NVRM_CLIENT_LAST - NVRM_CLIENT_FIRST + 1))

const char *nvrm_privileged_explain(int error) {
        switch (error) {
        case -ESRCH:
                return "the process has ended";
        case -ENODEV:
                return "the process has no /dev/nvidiactl open, or the GPU is lost";
        case -EPERM:
                return "files of the process may not be taken: the capability CAP_SYS_PTRACE is missing";
        case -EACCES:
                return "/dev/nvidiactl may not be opened, or the driver refuses the call";
        case -ETIMEDOUT:
                return "the driver does not answer";
        case -EOPNOTSUPP:
                return "this version of NVIDIA's driver is unknown";
        case -E2BIG:
                return "the process has /dev/nvidiactl open too often to be searched for channels";
        case -EAGAIN:
                return "the process has no channels on a GPU yet";
        case -EIO:
        case -ETIME:
                return "the GPU did not stop";
        case -EROFS:
        case -ENOSPC:
                return "what would be done cannot be written down first";
        default:
                return error < 0 ? strerror(-error) : "no error";
        }
}

/* --- the process's files --- */

static void file_done(NvrmTargetFile *f) {
        safe_close(f->fd);
        nvrm_found_done(&f->found);
}

static void files_close(NvrmTarget *t) {
        for (size_t i = 0; i < t->n_files; i++)
                t->files[i].fd = safe_close(t->files[i].fd);
}

static NvrmFile file_of(const NvrmTarget *t, int fd) {
        return (NvrmFile){.ioctl = t->sys->ioctl, .fd = fd};
}

/* The file that the fd is a copy of. One without clients is known by its number. NULL: it is new. */
static NvrmTargetFile *file_find(const NvrmTarget *t, int fd, int at) {
        const NvrmFile file = file_of(t, fd);

        for (size_t i = 0; i < t->n_files; i++) {
                const NvrmFound *f = &t->files[i].found;
                for (size_t k = 0; k < f->n_clients; k++)
                        if (nvrm_has_client(&file, f->clients[k].client))
                                return &t->files[i];
                if (f->n_clients == 0 && t->files[i].at == at)
                        return &t->files[i];
        }
        return NULL;
}

static NvrmTargetFile *file_add(NvrmTarget *t) {
        NvrmTargetFile *p = reallocarray(t->files, t->n_files + 1, sizeof(*p));

        if (!p)
                return NULL;
        t->files = p;
        t->files[t->n_files] = (NvrmTargetFile){.fd = -EBADF};
        return &t->files[t->n_files++];
}

/* Forgets files that the process has closed. */
static void files_drop_closed(NvrmTarget *t) {
        size_t n = 0;

        for (size_t i = 0; i < t->n_files; i++)
                if (t->files[i].fd >= 0)
                        t->files[n++] = t->files[i];
                else
                        file_done(&t->files[i]);
        t->n_files = n;
}

/* What is left of QUESTIONS_MAX, and where the numbers of clients end. */
typedef struct Look {
        uint64_t questions;
        uint32_t newest;
} Look;

static int ask_range(Look *l, const NvrmFile *file, uint32_t from, uint32_t to, NvrmFound *f) {
        uint64_t n = (uint64_t) to - from + 1;

        if (n > l->questions)
                return -E2BIG;
        l->questions -= n;
        return nvrm_find_clients(file, from, to, f);
}

/* The clients made since the last look. */
static int new_clients(Look *l, const NvrmFile *file, uint32_t from, NvrmFound *f) {
        if (from <= l->newest)
                return ask_range(l, file, from, l->newest, f);
        /* The driver has begun again with the first number. */
        int r = ask_range(l, file, from, NVRM_CLIENT_LAST, f);
        return r < 0 ? r : ask_range(l, file, NVRM_CLIENT_FIRST, l->newest, f);
}

/* All numbers take seconds. Those behind the newest one are in use only where the driver has begun again. */
static int all_clients(Look *l, const NvrmFile *file, NvrmFound *f) {
        int r = ask_range(l, file, NVRM_CLIENT_FIRST, l->newest, f);
        return r == 0 && l->newest < NVRM_CLIENT_LAST ? ask_range(l, file, l->newest + 1, NVRM_CLIENT_LAST, f) : r;
}

/* Takes a copy of a file of the process, which the target may know by another number. A file that takes no calls, as
 * one that was opened by O_PATH, is dropped by files_drop_closed(). */
static int file_take(NvrmTarget *t, Look *l, int copy, int at) {
        _cleanup_close_ int fd = copy;
        const NvrmFile file = file_of(t, fd);
        NvrmTargetFile *f = file_find(t, fd, at);
        bool is_new = !f;

        if (f && f->fd >= 0)
                return 0; /* another number of the same file */
        if (!f)
                f = file_add(t);
        if (!f)
                return -ENOMEM;
        f->at = at;
        f->fd = TAKE_FD(fd);
        int r = is_new ? all_clients(l, &file, &f->found) : new_clients(l, &file, t->newest, &f->found);
        if (r >= 0)
                r = nvrm_find_objects(&file, &f->found);
        if (r == -ESTALE) {
                f->fd = safe_close(f->fd);
                return 0;
        }
        return r;
}

static int newest_client(const NvrmTarget *t, uint32_t *ret) {
        _cleanup_close_ int fd = t->sys->open_own();
        if (fd < 0)
                return fd;

        const NvrmFile own = file_of(t, fd);
        return nvrm_newest_client(&own, ret);
}

/* Opens all files of the process, and finds what is new. */
static int files_open(NvrmTarget *t) {
        Look l = {.questions = QUESTIONS_MAX};
        int at = 0;

        int r = newest_client(t, &l.newest);
        while (r >= 0) {
                int fd = t->sys->open_file(t->pid, t->pidfd, &at);
                if (fd == -ENODEV)
                        break;
                r = fd < 0 ? fd : file_take(t, &l, fd, at++);
        }
        if (r < 0) {
                files_close(t);
                return r;
        }
        files_drop_closed(t);
        t->newest = l.newest;
        t->looked_ns = t->sys->now();
        t->is_hasty = false;
        return t->n_files > 0 ? 0 : -ENODEV;
}

/* What calls name: the channels, and the subdevices that they go through. */
static bool is_named(const NvrmFoundObject *o) {
        return o->class == NVRM_CLASS_SUBDEVICE || nvrm_class_is_channel(o->class);
}

static bool file_is_as_found(const NvrmTarget *t, const NvrmTargetFile *f) {
        const NvrmFile file = file_of(t, f->fd);

        for (size_t i = 0; i < f->found.n_clients; i++)
                if (!nvrm_has_client(&file, f->found.clients[i].client))
                        return false;
        for (size_t i = 0; i < f->found.n_objects; i++)
                if (is_named(&f->found.objects[i]) && !nvrm_has_object(&file, &f->found.objects[i]))
                        return false;
        return true;
}

/* Opens the files that have clients, by the numbers that they had. False: something is not as it was found. */
static bool files_open_again(NvrmTarget *t) {
        size_t n = 0;

        for (size_t i = 0; i < t->n_files; i++) {
                NvrmTargetFile *f = &t->files[i];
                if (f->found.n_clients == 0)
                        continue;
                f->fd = t->sys->open_file_at(t->pid, t->pidfd, f->at);
                if (f->fd < 0 || !file_is_as_found(t, f)) {
                        files_close(t);
                        return false;
                }
                n++;
        }
        return n > 0;
}

static bool any_is_open(const NvrmTarget *t) {
        for (size_t i = 0; i < t->n_files; i++)
                if (t->files[i].fd >= 0)
                        return true;
        return false;
}

/* --- channels and queues --- */

static const NvrmChannel *channel_find(const NvrmChannel *of, size_t n, uint32_t client, uint32_t object) {
        for (size_t i = 0; i < n; i++)
                if (of[i].client == client && of[i].object == object)
                        return &of[i];
        return NULL;
}

static const NvrmFoundObject *subdevice_of(const NvrmFound *f, const NvrmFoundObject *device) {
        for (size_t i = 0; i < f->n_objects; i++) {
                const NvrmFoundObject *o = &f->objects[i];
                if (o->class == NVRM_CLASS_SUBDEVICE && o->client == device->client && o->parent == device->id)
                        return o;
        }
        return NULL;
}

static NvrmHalQueue *queue_get(NvrmTarget *t, int fd, const NvrmFoundObject *subdevice) {
        for (size_t i = 0; i < t->n_queues; i++)
                if (t->queues[i].client == subdevice->client && t->queues[i].subdevice == subdevice->id)
                        return &t->queues[i];
        NvrmHalQueue *q = &t->queues[t->n_queues++];
        nvrm_hal_init(q, &t->device);
        q->ioctl = t->sys->ioctl;
        q->fd = fd;
        q->client = subdevice->client;
        q->subdevice = subdevice->id;
        return q;
}

static void file_add_channels(NvrmTarget *t, const NvrmTargetFile *file, const NvrmChannel *former, size_t n_former) {
        const NvrmFound *f = &file->found;

        for (size_t i = 0; i < f->n_objects; i++) {
                const NvrmFoundObject *o = &f->objects[i];
                const NvrmFoundObject *device =
                                nvrm_class_is_channel(o->class) ? nvrm_found_above(f, o, NVRM_CLASS_DEVICE) : NULL;
                const NvrmFoundObject *subdevice = device ? subdevice_of(f, device) : NULL;
                if (!subdevice)
                        continue;
                NvrmHalQueue *q = queue_get(t, file->fd, subdevice);
                const NvrmChannel *was = channel_find(former, n_former, o->client, o->id);
                NvrmChannel *c = &t->channels[t->n_channels++];
                *c = was ? *was : (NvrmChannel){.client = o->client, .object = o->id};
                c->lost = false;
                c->next = q->channels;
                q->channels = c;
                q->hal.held |= t->state == TARGET_HELD;
        }
}

/* Makes queues of what was found. Channels keep their state. */
static int queues_make(NvrmTarget *t) {
        NvrmChannel *former = t->channels;
        size_t n_former = t->n_channels, n = 0;

        for (size_t i = 0; i < t->n_files; i++)
                n += t->files[i].found.n_objects;
        NvrmChannel *channels = calloc(MAX(n, (size_t) 1), sizeof(*channels));
        NvrmHalQueue *queues = calloc(MAX(n, (size_t) 1), sizeof(*queues));
        if (!channels || !queues) {
                free(channels);
                free(queues);
                return -ENOMEM;
        }
        free(t->queues);
        t->channels = channels;
        t->queues = queues;
        t->n_channels = t->n_queues = 0;
        for (size_t i = 0; i < t->n_files; i++)
                file_add_channels(t, &t->files[i], former, n_former);
        for (size_t i = 0; i < n_former; i++)
                t->has_lost |= (former[i].stopped || former[i].unsure) &&
                                !channel_find(t->channels, t->n_channels, former[i].client, former[i].object);
        free(former);
        return 0;
}

/* Between this and files_close(), calls can be made. */
static int look(NvrmTarget *t) {
        int r = files_open(t);
        if (r < 0)
                return r;
        r = queues_make(t);
        if (r < 0)
                files_close(t);
        return r;
}

/* As look(), for a call on the channels that were found before. */
static int look_quickly(NvrmTarget *t) {
        if (t->n_channels == 0 || t->has_lost || !files_open_again(t))
                return look(t);
        int r = queues_make(t);
        if (r < 0)
                files_close(t);
        t->is_hasty = r >= 0;
        return r;
}

static int queues_call(NvrmTarget *t, int (*call)(HalQueue *const *queues, size_t n)) {
        HalQueue **batch = calloc(MAX(t->n_queues, (size_t) 1), sizeof(*batch));

        if (!batch)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_queues; i++)
                batch[i] = &t->queues[i].hal;
        int r = call(batch, t->n_queues);
        free(batch);
        return r;
}

/* Enables each channel by itself, whatever is known of it. */
static int enable_each(NvrmTarget *t) {
        int result = 0;

        for (size_t i = 0; i < t->n_channels; i++)
                t->channels[i].unsure = true;
        for (size_t i = 0; i < t->n_queues; i++) {
                int r = nvrm_hal_let_go(&t->queues[i]);
                if (r < 0)
                        result = r;
        }
        return result;
}

/* --- targets --- */

static int check_version(const NvrmTarget *t) {
        NvrmVersion v = {.command = NVRM_VERSION_QUERY};
        _cleanup_close_ int fd = t->sys->open_own();

        if (fd < 0)
                return fd;
        if (t->sys->ioctl(fd, NVRM_IOC(NVRM_NR_VERSION, NvrmVersion), &v) < 0)
                return -EOPNOTSUPP;
        v.text[sizeof(v.text) - 1] = '\0';
        return nvrm_version_known(v.text) == NVRM_UNKNOWN ? -EOPNOTSUPP : 0;
}

int nvrm_target_open(pid_t pid, uint64_t start_time, const NvrmTargetSys *sys, NvrmTarget *ret) {
        _cleanup_(nvrm_target_done)
        NvrmTarget t = NVRM_TARGET_NULL;

        t.sys = sys;
        t.pid = pid;
        t.device.level = LEVEL_INTERRUPT;
        t.pidfd = sys->open_process(pid, &t.start_time);
        if (t.pidfd < 0)
                return t.pidfd;
        if (start_time != 0 && start_time != t.start_time)
                return -ESRCH;
        int r = check_version(&t);
        if (r >= 0)
                r = look(&t);
        if (r < 0)
                return r;
        files_close(&t);
        *ret = TAKE_GENERIC(t, NVRM_TARGET_NULL);
        return 0;
}

void nvrm_target_done(NvrmTarget *t) {
        if (t->sys)
                (void) nvrm_target_release(t);
        for (size_t i = 0; i < t->n_files; i++)
                file_done(&t->files[i]);
        free(t->files);
        free(t->channels);
        free(t->queues);
        safe_close(t->pidfd);
        *t = NVRM_TARGET_NULL;
}

int nvrm_target_hold(NvrmTarget *t) {
        uint64_t since = t->sys->now();
        bool first = t->state != TARGET_HELD;
        int r = t->state == TARGET_UNSURE ? nvrm_target_undo(t) : 0;

        if (r >= 0)
                r = first ? look_quickly(t) : look(t);
        if (r < 0)
                return r;
        r = t->n_channels > 0 ? queues_call(t, hal_nvrm_ops.hold) : -EAGAIN;
        if (r >= 0)
                t->state = TARGET_HELD;
        else if (first && t->n_channels > 0)
                t->state = enable_each(t) < 0 ? TARGET_UNSURE : TARGET_RUNNING;
        files_close(t);
        if (r >= 0 && first)
                t->costs.hold_ns = hal_learn_cost(t->costs.hold_ns, ns_sub(t->sys->now(), since));
        return r;
}

uint64_t nvrm_target_look_at(const NvrmTarget *t) {
        return t->state == TARGET_HELD && t->is_hasty ? t->looked_ns + LOOK_EVERY_NS : NSEC_INFINITY;
}

static int let_go(NvrmTarget *t, bool each) {
        int r = each ? look(t) : look_quickly(t);

        /* Without files there are no clients, and so no channels. */
        if (r == -ENODEV)
                r = 0;
        else if (r >= 0)
                r = each || t->has_lost ? enable_each(t) : queues_call(t, hal_nvrm_ops.release);
        if (r >= 0 && t->has_lost)
                r = enable_each(t); /* once more: a channel whose other name has gone counts as disabled twice */
        if (r < 0 && any_is_open(t))
                r = enable_each(t);
        files_close(t);
        t->state = r >= 0 || r == -ESRCH ? TARGET_RUNNING : TARGET_UNSURE;
        t->has_lost = t->has_lost && r < 0;
        return r;
}

int nvrm_target_undo(NvrmTarget *t) {
        t->has_lost = true;
        return let_go(t, true);
}

int nvrm_target_release(NvrmTarget *t) {
        if (t->state == TARGET_RUNNING)
                return 0;
        uint64_t since = t->sys->now();
        bool held = t->state == TARGET_HELD;
        int r = let_go(t, !held);
        if (r >= 0 && held)
                t->costs.release_ns = hal_learn_cost(t->costs.release_ns, ns_sub(t->sys->now(), since));
        return r;
}
