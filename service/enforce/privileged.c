/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds: starts pausers, and tells them what is wanted
 */

#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utlist.h>

#include "pause-record.h"
#include "pauser.h"
#include "privileged.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "service/core/ladder.h"
#include "service/core/manager-degraded.h"
#include "service/core/observer.h"
#include "service/core/tail.h"
#include "service/core/turn.h"

#define RUNTIME_DIR    "/run/xschedd"
#define PAUSER_NAME    "xsched-holder"
#define RELEASE_MAX_NS (2 * PAGE_LEASE_NS) /* a pauser that has not let go by then is killed, and the pause undone */
#define HOLD_MAX_NS    (10 * NSEC_PER_SEC) /* the same for one that has not paused by then; amdgpu waits 9 s itself */
#define DEATHS_MAX     3U                  /* deaths of a client's pausers, after which the rung is given up */
#define FORMER_MAX     15U /* tries to undo a former service's pauses while one of its pausers lives: 30 s */
#define NUMBER_SIZE    24U
#define ARGUMENTS_MAX  8U

static const char *const privileged_state_table[_PRIVILEGED_STATE_MAX] = {
                [PRIVILEGED_OFF] = "off",
                [PRIVILEGED_RUNNING] = "running",
                [PRIVILEGED_HOLDING] = "holding",
                [PRIVILEGED_HELD] = "held",
                [PRIVILEGED_RELEASING] = "releasing",
                [PRIVILEGED_FAILED] = "failed",
};

const char *privileged_state_to_string(PrivilegedState v) {
        return (size_t) v < ELEMENTSOF(privileged_state_table) ? privileged_state_table[v] : NULL;
}

/* A child of ours. */
typedef struct Child {
        pid_t pid;
        int pidfd;
        sd_event_source *source;
} Child;

struct PrivilegedClient {
        Manager *manager;
        Client *client; /* NULL: the client has gone, and its pauser is about to end */
        PrivilegedState state;
        Child child;
        int socket;
        sd_event_source *socket_source, *timer;
        bool wanted;
        bool complained; /* the log has said that the process cannot be released */
        int error;
        uint64_t retry_at_ns; /* after an error */
        unsigned n_deaths;
        pid_t target;
        uint64_t target_start;
        PrivilegedMode mode; /* of the pauser */
        HalCosts costs;
        PrivilegedClient *prev, *next;
};

struct Privileged {
        Manager *manager;
        char dir[PATH_MAX]; /* of records */
        char pauser[PATH_MAX];
        PrivilegedClient *clients; /* list; those without a client, too */
        Client *touched;           /* list */
        Child undo;                /* pid 0: nothing is being undone */
        bool undo_again;           /* a pauser has died meanwhile */
        unsigned n_former;         /* how many more times a former service's pausers are waited for */
};

/* --- children --- */

static int child_start(char *const argv[], int socket, sd_event *event, sd_event_io_handler_t on_end, void *userdata,
                Child *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        sigset_t none, pipe;
        pid_t pid = 0;

        (void) sigemptyset(&none);
        (void) sigemptyset(&pipe);
        (void) sigaddset(&pipe, SIGPIPE);
        int r = posix_spawn_file_actions_init(&actions);
        if (r > 0)
                return -r;
        r = posix_spawnattr_init(&attr);
        if (r == 0) {
                (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
                (void) posix_spawnattr_setsigmask(&attr, &none);
                (void) posix_spawnattr_setsigdefault(&attr, &pipe);
                if (socket >= 0)
                        r = posix_spawn_file_actions_adddup2(&actions, socket, PAUSER_SOCKET_FD);
                if (r == 0)
                        r = posix_spawn(&pid, argv[0], &actions, &attr, argv, environ);
                (void) posix_spawnattr_destroy(&attr);
        }
        (void) posix_spawn_file_actions_destroy(&actions);
        if (r > 0)
                return -r;

        /* The child is ours and not reaped, so the pid is still its own. */
        Child c = {.pid = pid, .pidfd = (int) syscall(SYS_pidfd_open, pid, 0)};
        r = c.pidfd < 0 ? negative_errno() : sd_event_add_io(event, &c.source, c.pidfd, EPOLLIN, on_end, userdata);
        if (r < 0) {
                safe_close(c.pidfd);
                (void) kill(pid, SIGKILL);
                (void) waitpid(pid, NULL, 0);
                return r;
        }
        *ret = c;
        return 0;
}

/* Reaps the child, which has ended. Returns its exit status, or a negative number when it was killed. */
static int child_reap(Child *c) {
        siginfo_t si = {0};

        int r = waitid(P_PID, (id_t) c->pid, &si, WEXITED) >= 0 && si.si_code == CLD_EXITED ? si.si_status : -ECHILD;
        sd_event_source_disable_unref(c->source);
        safe_close(c->pidfd);
        *c = (Child){.pidfd = -EBADF};
        return r;
}

/* --- undoing --- */

/* The client has got or lost this rung: the ladder chooses anew. */
static void choose_anew(Client *c) {
        for (uint32_t i = 0; i < c->n_slots; i++) {
                Queue *q = c->slots[i].queue;
                if (!q)
                        continue;
                if (q->entity)
                        entity_reconsider(q->entity);
                device_sync(q->device);
        }
}

/* While pauses were being undone no client had this rung, so the ladder may have chosen a lower one. */
static void choose_all_anew(Manager *m) {
        Client *c;

        DL_FOREACH2(m->holding, c, holding_next) {
                choose_anew(c);
                privileged_touch(c);
        }
}

static void undo_start(Privileged *p, pid_t pid, uint64_t start);

/* A living pauser is one of this service's, and ends its own pause. Only at the start may pausers of a former service
 * still live: they may take long to end, even when they are killed. */
static int on_undo_end(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        Privileged *p = userdata;

        int r = child_reap(&p->undo);
        bool again = p->undo_again || (r == PAUSER_EXIT_LIVES && p->n_former > 0);
        p->n_former = r == PAUSER_EXIT_LIVES && p->n_former > 0 ? p->n_former - 1 : 0;
        p->undo_again = false;
        if (again)
                undo_start(p, 0, 0);
        if (p->undo.pid != 0)
                return 0;
        (void) manager_set_degraded(p->manager, "holds",
                        r == 0 || r == PAUSER_EXIT_LIVES ? NULL
                                                         : "what was left held cannot be undone, see the journal");
        choose_all_anew(p->manager);
        return 0;
}

/* pid 0: all. */
static void undo_start(Privileged *p, pid_t pid, uint64_t start) {
        char pid_text[NUMBER_SIZE], start_text[NUMBER_SIZE];
        char *argv[] = {p->pauser, (char *) "undo", p->dir, pid > 0 ? pid_text : NULL, start_text, NULL};

        if (p->undo.pid != 0) {
                p->undo_again = true;
                return;
        }
        (void) snprintf(pid_text, sizeof(pid_text), "%d", (int) pid);
        (void) snprintf(start_text, sizeof(start_text), "%" PRIu64, start);
        int r = child_start(argv, -EBADF, p->manager->event, on_undo_end, p, &p->undo);
        if (r >= 0)
                return;
        log_event(LOG_ERR, MESSAGE_PRIVILEGED, LOG_FIELDS(.error = r),
                        "Failed to start %s, which undoes what was left held: %m", p->pauser);
        (void) manager_set_degraded(p->manager, "holds", "what was left held cannot be undone: no " PAUSER_NAME);
}

/* --- one client --- */

static void pc_set_state(PrivilegedClient *pc, PrivilegedState state) {
        if (pc->state == state)
                return;
        pc->state = state;
        (void) sd_event_source_set_enabled(pc->timer, SD_EVENT_OFF);
        if (state == PRIVILEGED_HOLDING || state == PRIVILEGED_RELEASING) {
                uint64_t left = state == PRIVILEGED_HOLDING ? HOLD_MAX_NS : RELEASE_MAX_NS;
                (void) sd_event_source_set_time(pc->timer, (now_ns() + left) / NSEC_PER_USEC);
                (void) sd_event_source_set_enabled(pc->timer, SD_EVENT_ONESHOT);
        }
        if (pc->client)
                observers_client_changed(pc->client, CLIENT_PRIVILEGED);
}

static PrivilegedClient *pc_free(PrivilegedClient *pc) {
        Privileged *p = pc->manager->privileged;

        if (pc->client)
                pc->client->privileged = NULL;
        sd_event_source_disable_unref(pc->socket_source);
        sd_event_source_disable_unref(pc->timer);
        safe_close(pc->socket);
        sd_event_source_disable_unref(pc->child.source);
        safe_close(pc->child.pidfd);
        DL_DELETE(p->clients, pc);
        free(pc);
        return NULL;
}

static bool is_for_ever(int error) {
        return error == -EIO || error == -ETIME || error == -EOPNOTSUPP || error == -ENOSYS || error == -ENODEV ||
                        error == -E2BIG;
}

static void pc_failed(PrivilegedClient *pc, int error) {
        Client *c = pc->client;

        pc->wanted = false;
        pc->retry_at_ns = is_for_ever(error) ? NSEC_INFINITY : now_ns() + PRIVILEGED_RETRY_NS;
        if (c && error != pc->error)
                log_event(LOG_WARNING, MESSAGE_PRIVILEGED,
                                LOG_FIELDS(.client = c->id, .pid = c->peer.pid, .group = c->group->name,
                                                .error = error),
                                "Process %d of %s cannot be held by privilege, lesser means have to do%s: %s",
                                (int) c->peer.pid, c->group->name,
                                pc->retry_at_ns == NSEC_INFINITY ? "" : " for a while",
                                privileged_explain(pc->mode, error));
        pc->error = error;
        pc_set_state(pc, PRIVILEGED_FAILED);
        if (c)
                choose_anew(c);
}

static void pc_take_reply(PrivilegedClient *pc, const PauserReply *m) {
        pc->costs = (HalCosts){m->hold_ns, m->release_ns};
        if (m->state == TARGET_HELD && pc->wanted) {
                pc->error = 0;
                pc_set_state(pc, PRIVILEGED_HELD);
                if (pc->client)
                        tail_end_of(pc->client);
        } else if (m->state == TARGET_RUNNING) {
                if (m->error < 0 && pc->wanted)
                        pc_failed(pc, m->error);
                else if (!pc->wanted && m->wanted == 0)
                        pc_set_state(pc, pc->state == PRIVILEGED_FAILED ? PRIVILEGED_FAILED : PRIVILEGED_RUNNING);
                else if (m->expired)
                        pc_set_state(pc, PRIVILEGED_RUNNING); /* the next renewal asks for the hold again */
        }
        if (m->error < 0 && m->state == TARGET_UNSURE && !pc->complained) {
                pc->complained = true;
                log_event(LOG_ERR, MESSAGE_PRIVILEGED, LOG_FIELDS(.pid = pc->target, .error = m->error),
                                "Process %d, whose GPU queues are held, cannot be let go yet: %s", (int) pc->target,
                                privileged_explain(pc->mode, m->error));
        }
        pc->complained = pc->complained && m->state != TARGET_RUNNING;
}

static int on_socket(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        PrivilegedClient *pc = userdata;
        PauserReply m;

        ssize_t n = recv(fd, &m, sizeof(m), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n != (ssize_t) sizeof(m)) {
                /* The pauser ends; on_pauser_end() does the rest. */
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
                return 0;
        }
        pc_take_reply(pc, &m);
        return 0;
}

/* A pauser that was killed leaves its pause in force. */
static int on_pauser_end(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        PrivilegedClient *pc = userdata;
        Manager *m = pc->manager;

        bool clean = child_reap(&pc->child) == 0;
        pc->socket_source = sd_event_source_disable_unref(pc->socket_source);
        pc->socket = safe_close(pc->socket);
        if (!clean)
                undo_start(m->privileged, pc->target, pc->target_start);
        if (!pc->client) {
                pc_free(pc);
                return 0;
        }
        pc->wanted = false;
        if (!clean && ++pc->n_deaths >= DEATHS_MAX)
                pc_failed(pc, -EIO);
        else {
                if (pc->state != PRIVILEGED_FAILED)
                        pc_set_state(pc, PRIVILEGED_OFF);
                privileged_touch(pc->client);
        }
        return 0;
}

/* A call to the driver cannot be interrupted. A pauser that hangs in one ends when the call does. */
static int on_late(sd_event_source *s, uint64_t usec, void *userdata) {
        PrivilegedClient *pc = userdata;

        log_event(LOG_WARNING, MESSAGE_PRIVILEGED, LOG_FIELDS(.pid = pc->target, .error = -ETIME),
                        "The pauser of process %d does not %s: it is killed, and another undoes", (int) pc->target,
                        pc->state == PRIVILEGED_HOLDING ? "hold it" : "let go");
        if (pc->child.pid > 0)
                (void) kill(pc->child.pid, SIGKILL);
        if (pc->state == PRIVILEGED_HOLDING)
                pc_failed(pc, -ETIMEDOUT);
        return 0;
}

static int pc_start(PrivilegedClient *pc, bool allow_mes) {
        Privileged *p = pc->manager->privileged;
        char pid[NUMBER_SIZE], start[NUMBER_SIZE], mes[2] = {allow_mes ? '1' : '0', 0}, name[16];
        char *argv[ARGUMENTS_MAX] = {p->pauser, (char *) "pause", p->dir, pid, start, name, mes, NULL};
        int pair[2];

        (void) snprintf(pid, sizeof(pid), "%d", (int) pc->target);
        (void) snprintf(start, sizeof(start), "%" PRIu64, pc->target_start);
        (void) snprintf(name, sizeof(name), "%s", privileged_mode_to_string(pc->mode));
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return negative_errno();
        _cleanup_close_ int ours = pair[0], theirs = pair[1];
        int r = sd_event_add_io(pc->manager->event, &pc->socket_source, ours, EPOLLIN, on_socket, pc);
        if (r >= 0)
                r = sd_event_source_set_priority(pc->socket_source, PRIORITY_EDGES);
        if (r >= 0)
                r = child_start(argv, theirs, pc->manager->event, on_pauser_end, pc, &pc->child);
        if (r < 0) {
                pc->socket_source = sd_event_source_disable_unref(pc->socket_source);
                return r;
        }
        pc->socket = TAKE_FD(ours);
        return 0;
}

static int pc_new(Client *c, PrivilegedClient **ret) {
        Manager *m = c->manager;
        PrivilegedClient *pc = calloc(1, sizeof(*pc));

        if (!pc)
                return -ENOMEM;
        *pc = (PrivilegedClient){
                        .manager = m,
                        .client = c,
                        .child = {.pidfd = -EBADF},
                        .socket = -EBADF,
                        .target = c->peer.pid,
                        .target_start = c->peer.start_time,
        };
        int r = sd_event_add_time(m->event, &pc->timer, CLOCK_MONOTONIC, UINT64_MAX, 0, on_late, pc);
        if (r >= 0)
                r = sd_event_source_set_priority(pc->timer, PRIORITY_EDGES);
        if (r >= 0)
                r = sd_event_source_set_enabled(pc->timer, SD_EVENT_OFF);
        DL_APPEND(m->privileged->clients, pc);
        if (r < 0) {
                pc_free(pc);
                return r;
        }
        c->privileged = *ret = pc;
        return 0;
}

static void pc_ask(PrivilegedClient *pc, bool wanted, uint64_t until_ns) {
        const PauserRequest m = {.wanted = wanted, .until_ns = until_ns};

        pc->wanted = wanted;
        /* A full socket means that the pauser does not read: its lease expires, or it is killed. */
        if (pc->socket >= 0)
                (void) send(pc->socket, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- what is wanted --- */

/* The mode that all devices of the client allow. */
static PrivilegedMode client_mode(const Client *c, bool *ret_allow_mes) {
        PrivilegedMode mode = _PRIVILEGED_MODE_MAX;
        bool allow_mes = true;

        for (uint32_t i = 0; i < c->n_slots; i++) {
                if (!c->slots[i].queue)
                        continue;
                const DeviceTuning *t = &c->slots[i].queue->device->tuning;
                if (mode != _PRIVILEGED_MODE_MAX && mode != t->privileged)
                        return PRIVILEGED_NO;
                mode = t->privileged;
                allow_mes = allow_mes && t->allow_mes;
        }
        *ret_allow_mes = allow_mes;
        return mode == _PRIVILEGED_MODE_MAX ? PRIVILEGED_NO : mode;
}

bool privileged_is_possible(const Client *c) {
        const Privileged *p = c->manager->privileged;
        const PrivilegedClient *pc = c->privileged;
        bool allow_mes;

        if (!p || p->undo.pid != 0 || (pc && pc->error < 0 && now_ns() < pc->retry_at_ns))
                return false;
        return client_mode(c, &allow_mes) != PRIVILEGED_NO;
}

static bool client_is_wanted(const Client *c) {
        if (c->n_queues == 0 || c->n_holding != c->n_queues || !privileged_is_possible(c))
                return false;
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue && c->slots[i].queue->privileged)
                        return true;
        return false;
}

static void client_hold(Client *c) {
        PrivilegedClient *pc = c->privileged;
        bool allow_mes = false;
        int r = 0;

        if (!pc)
                r = pc_new(c, &pc);
        if (r < 0)
                return; /* out of memory: the gate alone holds the client */
        if (pc->child.pid == 0) {
                pc->mode = client_mode(c, &allow_mes);
                r = pc_start(pc, allow_mes);
        }
        if (r < 0) {
                pc_failed(pc, r);
                return;
        }
        pc_ask(pc, true, now_ns() + PAGE_LEASE_NS);
        pc_set_state(pc, PRIVILEGED_HOLDING);
}

static void client_release(Client *c) {
        PrivilegedClient *pc = c->privileged;

        pc_ask(pc, false, 0);
        pc_set_state(pc, PRIVILEGED_RELEASING);
}

void privileged_touch(Client *c) {
        Privileged *p = c->manager->privileged;

        if (!p || c->privileged_touched)
                return;
        c->privileged_touched = true;
        LL_PREPEND2(p->touched, c, privileged_next);
        turn_ask_end(c->manager);
        turn_due(c->manager);
}

void privileged_flush(Manager *m) {
        Privileged *p = m->privileged;

        while (p && p->touched) {
                Client *c = p->touched;
                LL_DELETE2(p->touched, c, privileged_next);
                c->privileged_touched = false;

                bool wanted = client_is_wanted(c), is = c->privileged && c->privileged->wanted;
                if (wanted && !is)
                        client_hold(c);
                else if (!wanted && is)
                        client_release(c);
        }
}

void privileged_renew(Client *c, uint64_t until_ns) {
        PrivilegedClient *pc = c->privileged;

        if (!pc || !pc->wanted)
                return;
        pc_ask(pc, true, until_ns);
        if (pc->state == PRIVILEGED_RUNNING)
                pc_set_state(pc, PRIVILEGED_HOLDING);
}

/* The pauser ends its pause when the socket closes, and is reaped when it has ended. */
void privileged_client_gone(Client *c) {
        PrivilegedClient *pc = c->privileged;
        Privileged *p = c->manager->privileged;

        if (p && c->privileged_touched)
                LL_DELETE2(p->touched, c, privileged_next);
        if (!pc)
                return;
        c->privileged = NULL;
        pc->client = NULL;
        pc->wanted = false;
        if (pc->child.pid == 0) {
                pc_free(pc);
                return;
        }
        pc->socket_source = sd_event_source_disable_unref(pc->socket_source);
        pc->socket = safe_close(pc->socket);
}

bool privileged_costs(const Client *c, HalCosts *ret) {
        if (!c->privileged || c->privileged->costs.hold_ns == 0)
                return false;
        *ret = c->privileged->costs;
        return true;
}

PrivilegedState privileged_state(const Client *c) {
        return c->privileged ? c->privileged->state : PRIVILEGED_OFF;
}

/* --- start and end --- */

static int record_found(const char *name, void *userdata) {
        *(bool *) userdata = true;
        return 0;
}

/* The pauser's program is in the directory of xschedd's own, which is libexecdir when installed. */
static int find_pauser(char *ret, size_t size) {
        ssize_t n = readlink("/proc/self/exe", ret, size - 1);
        if (n < 0)
                return negative_errno();
        ret[n] = '\0';
        char *slash = strrchr(ret, '/');
        if (!slash || (size_t) (slash + 1 - ret) + sizeof(PAUSER_NAME) > size)
                return -ENAMETOOLONG;
        memcpy(slash + 1, PAUSER_NAME, sizeof(PAUSER_NAME));
        return 0;
}

int privileged_init(Manager *m) {
        const char *runtime = getenv("RUNTIME_DIRECTORY");
        bool found = false;
        Privileged *p = calloc(1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        *p = (Privileged){.manager = m, .undo = {.pidfd = -EBADF}};
        runtime = isempty(runtime) ? RUNTIME_DIR : runtime;
        int r = snprintf(p->dir, sizeof(p->dir), "%.*s/holds", (int) strcspn(runtime, ":"), runtime) >=
                                        (int) sizeof(p->dir)
                        ? -ENAMETOOLONG
                        : find_pauser(p->pauser, sizeof(p->pauser));
        if (r < 0) {
                free(p);
                return r;
        }
        m->privileged = p;

        _cleanup_close_ int dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir >= 0)
                (void) pause_record_each(dir, record_found, &found);
        if (found) {
                p->n_former = FORMER_MAX;
                undo_start(p, 0, 0);
        }
        return 0;
}

void privileged_done(Manager *m) {
        Privileged *p = m->privileged;

        if (!p)
                return;
        while (p->clients)
                pc_free(p->clients);
        sd_event_source_disable_unref(p->undo.source);
        safe_close(p->undo.pidfd);
        free(p);
        m->privileged = NULL;
}
