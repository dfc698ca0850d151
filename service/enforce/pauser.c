/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The pauser
 */

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "pause-record.h"
#include "pauser.h"
#include "service/base/log.h"
#include "service/base/messages.h"

/* Time to the next try after a release has failed. */
#define RETRY_NS (100 * NSEC_PER_MSEC)

/* Time that a pauser whose service has died may take to end its pause. */
#define PATIENCE_NS (2 * NSEC_PER_SEC)

typedef struct Pauser {
        const PauserOptions *options;
        const KfdTargetSys *sys;
        KfdTarget target;
        bool is_open;
        bool is_recorded;
        bool wanted, requested; /* requested: since it was last looked at */
        bool expired;
        bool ends;
        uint64_t until_ns, retry_at_ns;
        int error; /* of the last try to release */
} Pauser;

static volatile sig_atomic_t terminated;

static void on_term(int sig) {
        terminated = 1;
}

static void reply(Pauser *h, int error) {
        const PauserReply m = {
                        .state = (uint32_t) h->target.state,
                        .wanted = h->wanted,
                        .error = error,
                        .expired = h->expired,
                        .hold_ns = h->target.costs.hold_ns,
                        .release_ns = h->target.costs.release_ns,
        };

        /* The service has gone, or does not read: the pauser goes on the same way. */
        (void) send(h->options->socket, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- what is written down --- */

static int record(Pauser *h) {
        PauseRecord r;

        if (h->is_recorded)
                return 0;
        int q = pause_record_make(h->options->pid, h->options->start_time, h->options->mode, &r);
        if (q >= 0)
                q = pause_record_write(h->options->dir, &r);
        if (q >= 0)
                h->is_recorded = true;
        return q;
}

static void strike_out(Pauser *h) {
        if (!h->is_recorded)
                return;
        int r = pause_record_remove(h->options->dir, h->options->pid, h->options->start_time);
        if (r < 0)
                log_warning_errno(r, "A record of process %d stays, ignoring: %m", (int) h->options->pid);
        h->is_recorded = r < 0;
}

/* --- holding --- */

static int target_open(Pauser *h) {
        const PauserOptions *o = h->options;

        if (h->is_open)
                return 0;
        int r = kfd_target_open(o->mode, o->pid, o->start_time, o->allow_mes, h->sys, &h->target);
        h->is_open = r >= 0;
        return r;
}

static int hold(Pauser *h) {
        int r = target_open(h);
        if (r >= 0)
                r = record(h);
        if (r >= 0)
                r = kfd_target_hold(&h->target);
        if (r < 0 && h->target.state == KFD_TARGET_RUNNING)
                strike_out(h);
        return r;
}

static void let_go(Pauser *h) {
        int r = kfd_target_release(&h->target);

        if (r == -ESRCH)
                h->target.state = KFD_TARGET_RUNNING; /* the process has ended, and its pause with it */
        if (h->target.state == KFD_TARGET_RUNNING) {
                strike_out(h);
                h->retry_at_ns = 0;
                reply(h, 0);
        } else {
                h->retry_at_ns = now_ns() + RETRY_NS;
                if (r != h->error)
                        reply(h, r);
        }
        h->error = r;
}

static void act(Pauser *h) {
        if (h->wanted && now_ns() >= h->until_ns) {
                h->wanted = false;
                h->expired = true;
        }
        if (h->wanted && h->requested) {
                bool was_held = h->target.state == KFD_TARGET_HELD;
                int r = hold(h);
                if (r < 0)
                        h->wanted = false;
                if (r < 0 || !was_held)
                        reply(h, r);
        } else if (!h->wanted && h->target.state != KFD_TARGET_RUNNING && now_ns() >= h->retry_at_ns)
                let_go(h);
        else if (!h->wanted && h->requested)
                reply(h, 0);
        h->requested = false;
}

/* --- the loop --- */

static void take_requests(Pauser *h) {
        PauserRequest m;

        for (;;) {
                ssize_t n = recv(h->options->socket, &m, sizeof(m), MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n != (ssize_t) sizeof(m)) {
                        h->ends = true;
                        return;
                }
                h->wanted = m.wanted != 0;
                h->until_ns = m.until_ns;
                h->requested = true;
                h->expired = false;
        }
}

static uint64_t next_event(const Pauser *h) {
        if (h->wanted)
                return h->until_ns;
        return h->target.state == KFD_TARGET_RUNNING ? NSEC_INFINITY : h->retry_at_ns;
}

/* Returns whether the paused process still lives. */
static int wait_for_event(Pauser *h, int pidfd, const sigset_t *open_mask) {
        struct pollfd p[] = {
                        {.fd = pidfd, .events = POLLIN}, {.fd = h->ends ? -1 : h->options->socket, .events = POLLIN}};
        uint64_t at = next_event(h);
        struct timespec ts = ns_to_timespec(ns_sub(at, now_ns()));

        if (ppoll(p, ELEMENTSOF(p), at == NSEC_INFINITY ? NULL : &ts, open_mask) < 0 && errno != EINTR)
                return negative_errno();
        return p[0].revents == 0;
}

static int loop(Pauser *h, int pidfd, const sigset_t *open_mask) {
        for (;;) {
                if (!h->ends)
                        take_requests(h);
                h->ends = h->ends || terminated;
                if (h->ends) {
                        h->wanted = false;
                        h->retry_at_ns = h->error < 0 ? h->retry_at_ns : 0;
                }
                act(h);
                if (h->ends && h->target.state == KFD_TARGET_RUNNING)
                        return 0;
                int r = wait_for_event(h, pidfd, open_mask);
                if (r < 0)
                        return r;
                if (r == 0) {
                        h->target.state = KFD_TARGET_RUNNING;
                        strike_out(h);
                        return 0;
                }
        }
}

/* --- what others have left --- */

typedef struct Undo {
        int dir;
        const KfdTargetSys *sys;
        uint64_t until_ns;
        bool lives; /* the pauser of a record is alive */
        int error;
} Undo;

/* A pause of DBG_TRAP ends with its debugger, so there is nothing to undo. */
static int undo_record(const Undo *u, const PauseRecord *r) {
        _cleanup_(kfd_target_done)
        KfdTarget t = KFD_TARGET_NULL;

        if (r->mode != KFD_PRIVILEGED_CRIU || pause_record_is_over(r))
                return 0;
        int q = kfd_target_open(r->mode, r->pid, r->start_time, true, u->sys, &t);
        if (q >= 0)
                q = kfd_target_undo(&t);
        return q == -ESRCH || q == -ENODEV ? 0 : q;
}

/* Undoes a former pauser's pause of the same process; that pauser was killed. Called under the lock. */
static int undo_former(const PauserOptions *o, const KfdTargetSys *sys) {
        const Undo u = {.dir = o->dir, .sys = sys};
        PauseRecord r = {0};

        int q = pause_record_find(o->dir, o->pid, o->start_time, &r);
        if (q == -ENOENT || q == -EBADMSG)
                return 0;
        if (q >= 0)
                q = undo_record(&u, &r);
        return q < 0 ? q : pause_record_remove(o->dir, o->pid, o->start_time);
}

static int catch_term(sigset_t *ret_open_mask) {
        struct sigaction a = {.sa_handler = on_term};
        sigset_t term;

        (void) sigemptyset(&term);
        (void) sigaddset(&term, SIGTERM);
        (void) sigaddset(&term, SIGINT);
        if (sigprocmask(SIG_BLOCK, &term, ret_open_mask) < 0 || sigaction(SIGTERM, &a, NULL) < 0 ||
                        sigaction(SIGINT, &a, NULL) < 0)
                return negative_errno();
        return 0;
}

int pauser_run(const PauserOptions *o, const KfdTargetSys *sys) {
        Pauser h = {.options = o, .sys = sys, .target = KFD_TARGET_NULL};
        uint64_t start_time;
        sigset_t open_mask;

        int r = catch_term(&open_mask);
        if (r < 0)
                return r;
        _cleanup_close_ int pidfd = sys->open_process(o->pid, &start_time);
        if (pidfd < 0 || start_time != o->start_time)
                return pidfd == -ESRCH || pidfd >= 0 ? 0 : pidfd;

        /* A former pauser of this process may be about to end. */
        _cleanup_close_ int lock = pause_record_lock(o->dir, o->pid, true);
        if (lock < 0)
                return lock;
        r = undo_former(o, sys);
        if (r < 0)
                return r;
        r = loop(&h, pidfd, &open_mask);
        kfd_target_done(&h.target);
        return r;
}

/* --- undoing --- */

static int lock_patiently(const Undo *u, pid_t pid) {
        struct timespec nap = {.tv_nsec = (long) (5 * NSEC_PER_MSEC)};

        for (;;) {
                int fd = pause_record_lock(u->dir, pid, false);
                if (fd != -EAGAIN || now_ns() >= u->until_ns)
                        return fd;
                (void) nanosleep(&nap, NULL);
        }
}

static int undo_one(const char *name, void *userdata) {
        Undo *u = userdata;
        PauseRecord r = {0};

        int q = pause_record_read(u->dir, name, &r);
        if (q == -EBADMSG) {
                int aside = pause_record_set_aside(u->dir, name);
                log_event(LOG_WARNING, MESSAGE_PRIVILEGED, LOG_FIELDS(.error = q),
                                "The record %s of a hold cannot be read, and is %s: if it named a process, "
                                "that one may stand still",
                                name, aside < 0 ? "left alone" : "kept as FILE.bad");
                return 0;
        }
        if (q < 0)
                return q == -ENOENT ? 0 : q;

        _cleanup_close_ int lock = lock_patiently(u, r.pid);
        if (lock == -EAGAIN) {
                u->lives = true;
                return 0;
        }
        /* Read it again under the lock: its pauser may have removed it meanwhile. */
        q = lock < 0 ? lock : pause_record_read(u->dir, name, &r);
        if (q == -ENOENT)
                return 0;
        if (q >= 0)
                q = undo_record(u, &r);
        if (q >= 0) {
                log_event(LOG_NOTICE, MESSAGE_PRIVILEGED, LOG_FIELDS(.pid = r.pid, .error = 0),
                                "A hold of process %d that was left behind is undone", (int) r.pid);
                q = pause_record_remove(u->dir, r.pid, r.start_time);
        } else
                log_event(LOG_ERR, MESSAGE_PRIVILEGED, LOG_FIELDS(.pid = r.pid, .error = q),
                                "A hold of process %d that was left behind cannot be undone, its GPU queues "
                                "stand still: %s",
                                (int) r.pid, kfd_privileged_explain(q));
        if (q < 0 && u->error >= 0)
                u->error = q;
        return 0;
}

int pauser_undo(int dir, pid_t pid, uint64_t start_time, const KfdTargetSys *sys) {
        Undo u = {.dir = dir, .sys = sys, .until_ns = now_ns() + PATIENCE_NS};
        char name[PAUSE_RECORD_NAME_SIZE];
        int r;

        if (pid > 0) {
                pause_record_name(pid, start_time, name);
                r = undo_one(name, &u);
        } else
                r = pause_record_each(dir, undo_one, &u);
        r = r < 0 ? r : u.error;
        return r >= 0 && u.lives ? -EAGAIN : r;
}
