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
        const PrivilegedSys *sys;
        PrivilegedTarget target;
        bool is_open;
        bool is_recorded;
        bool wanted, requested; /* requested: a request came since the last look */
        bool expired;
        bool ends;
        uint64_t until_ns, retry_at_ns;
        int error; /* of the last try to release */
} Pauser;

static volatile sig_atomic_t terminated;

static void on_term(int sig) {
        terminated = 1;
}

static TargetState state_of(const Pauser *p) {
        return privileged_target_state(&p->target);
}

static void reply(Pauser *p, int error) {
        const HalCosts costs = privileged_target_costs(&p->target);
        const PauserReply m = {
                        .state = (uint32_t) state_of(p),
                        .wanted = p->wanted,
                        .error = error,
                        .expired = p->expired,
                        .hold_ns = costs.hold_ns,
                        .release_ns = costs.release_ns,
        };

        /* An error is ignored: whether the service is gone or does not read, the pauser goes on. */
        (void) send(p->options->socket, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- what is written down --- */

static int record(Pauser *p) {
        PauseRecord r;

        if (p->is_recorded)
                return 0;
        int q = pause_record_make(p->options->pid, p->options->start_time, p->options->mode, &r);
        if (q >= 0)
                q = pause_record_write(p->options->dir, &r);
        if (q >= 0)
                p->is_recorded = true;
        return q;
}

static void strike_out(Pauser *p) {
        if (!p->is_recorded)
                return;
        int r = pause_record_remove(p->options->dir, p->options->pid, p->options->start_time);
        if (r < 0)
                log_warning_errno(r, "A record of process %d stays, ignoring: %m", (int) p->options->pid);
        p->is_recorded = r < 0;
}

/* --- pausing --- */

static int target_open(Pauser *p) {
        const PauserOptions *o = p->options;

        if (p->is_open)
                return 0;
        int r = privileged_target_open(o->mode, o->pid, o->start_time, o->allow_mes, p->sys, &p->target);
        p->is_open = r >= 0;
        return r;
}

static int pause_target(Pauser *p) {
        int r = target_open(p);
        if (r >= 0)
                r = record(p);
        if (r >= 0)
                r = privileged_target_hold(&p->target);
        if (r < 0 && state_of(p) == TARGET_RUNNING)
                strike_out(p);
        return r;
}

static void let_go(Pauser *p) {
        int r = privileged_target_release(&p->target);

        if (r == -ESRCH)
                privileged_target_has_ended(&p->target); /* the process has ended, and its pause with it */
        if (state_of(p) == TARGET_RUNNING) {
                strike_out(p);
                p->retry_at_ns = 0;
                reply(p, 0);
        } else {
                p->retry_at_ns = now_ns() + RETRY_NS;
                if (r != p->error)
                        reply(p, r);
        }
        p->error = r;
}

static void act(Pauser *p) {
        if (p->wanted && now_ns() >= p->until_ns) {
                p->wanted = false;
                p->expired = true;
        }
        if (p->wanted && (p->requested || now_ns() >= privileged_target_look_at(&p->target))) {
                bool was_held = state_of(p) == TARGET_HELD;
                int r = pause_target(p);
                if (r < 0)
                        p->wanted = false;
                if (r < 0 || !was_held)
                        reply(p, r);
        } else if (!p->wanted && state_of(p) != TARGET_RUNNING && now_ns() >= p->retry_at_ns)
                let_go(p);
        else if (!p->wanted && p->requested)
                reply(p, 0);
        p->requested = false;
}

/* --- the loop --- */

static void take_requests(Pauser *p) {
        PauserRequest m;

        for (;;) {
                ssize_t n = recv(p->options->socket, &m, sizeof(m), MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return;
                if (n != (ssize_t) sizeof(m)) {
                        p->ends = true;
                        return;
                }
                p->wanted = m.wanted != 0;
                p->until_ns = m.until_ns;
                p->requested = true;
                p->expired = false;
        }
}

static uint64_t next_event(const Pauser *p) {
        if (p->wanted)
                return MIN(p->until_ns, privileged_target_look_at(&p->target));
        return state_of(p) == TARGET_RUNNING ? NSEC_INFINITY : p->retry_at_ns;
}

/* Returns whether the paused process still lives. */
static int wait_for_event(Pauser *p, int pidfd, const sigset_t *open_mask) {
        struct pollfd fds[] = {
                        {.fd = pidfd, .events = POLLIN}, {.fd = p->ends ? -1 : p->options->socket, .events = POLLIN}};
        uint64_t at = next_event(p);
        struct timespec ts = ns_to_timespec(ns_sub(at, now_ns()));

        if (ppoll(fds, ELEMENTSOF(fds), at == NSEC_INFINITY ? NULL : &ts, open_mask) < 0 && errno != EINTR)
                return negative_errno();
        return fds[0].revents == 0;
}

static int loop(Pauser *p, int pidfd, const sigset_t *open_mask) {
        for (;;) {
                if (!p->ends)
                        take_requests(p);
                p->ends = p->ends || terminated;
                if (p->ends) {
                        p->wanted = false;
                        p->retry_at_ns = p->error < 0 ? p->retry_at_ns : 0;
                }
                act(p);
                if (p->ends && state_of(p) == TARGET_RUNNING)
                        return 0;
                int r = wait_for_event(p, pidfd, open_mask);
                if (r < 0)
                        return r;
                if (r == 0) {
                        privileged_target_has_ended(&p->target);
                        strike_out(p);
                        return 0;
                }
        }
}

/* --- what others have left --- */

typedef struct Undo {
        int dir;
        const PrivilegedSys *sys;
        uint64_t until_ns;
        bool lives; /* the pauser of a record is alive */
        int error;
} Undo;

/* A pause of DBG_TRAP ends with its debugger, so there is nothing to undo. */
static int undo_record(const Undo *u, const PauseRecord *r) {
        _cleanup_(privileged_target_done)
        PrivilegedTarget t = PRIVILEGED_TARGET_NULL;

        if (!privileged_mode_outlasts(r->mode) || pause_record_is_over(r))
                return 0;
        int q = privileged_target_open(r->mode, r->pid, r->start_time, true, u->sys, &t);
        if (q >= 0)
                q = privileged_target_undo(&t);
        return q == -ESRCH || q == -ENODEV ? 0 : q;
}

/* Undoes a former pauser's pause of the same process; that pauser was killed. Called under the lock. */
static int undo_former(const PauserOptions *o, const PrivilegedSys *sys) {
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

int pauser_run(const PauserOptions *o, const PrivilegedSys *sys) {
        Pauser p = {.options = o, .sys = sys, .target = PRIVILEGED_TARGET_NULL};
        uint64_t start_time;
        sigset_t open_mask;

        int r = catch_term(&open_mask);
        if (r < 0)
                return r;
        _cleanup_close_ int pidfd = process_open(o->pid, &start_time);
        if (pidfd < 0 || start_time != o->start_time)
                return pidfd == -ESRCH || pidfd >= 0 ? 0 : pidfd;

        /* Waits for the lock: a former pauser of this process may be about to end. */
        _cleanup_close_ int lock = pause_record_lock(o->dir, o->pid, true);
        if (lock < 0)
                return lock;
        r = undo_former(o, sys);
        if (r < 0)
                return r;
        r = loop(&p, pidfd, &open_mask);
        privileged_target_done(&p.target);
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
                                "The record %s of a pause cannot be read, and is %s: if it named a process, "
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
                                "A pause of process %d that was left behind is undone", (int) r.pid);
                q = pause_record_remove(u->dir, r.pid, r.start_time);
        } else
                log_event(LOG_ERR, MESSAGE_PRIVILEGED, LOG_FIELDS(.pid = r.pid, .error = q),
                                "A pause of process %d that was left behind cannot be undone, its GPU queues "
                                "stand still: %s",
                                (int) r.pid, privileged_explain(r.mode, q));
        if (q < 0 && u->error >= 0)
                u->error = q;
        return 0;
}

int pauser_undo(int dir, pid_t pid, uint64_t start_time, const PrivilegedSys *sys) {
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
