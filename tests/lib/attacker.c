/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A hostile client, for tests and benchmarks
 *
 *   attacker [-d DEVICE] [-c CLIENTS] [-q QUEUES] [-n WAITERS] [-l LEVEL] MODE
 *
 * Registers CLIENTS clients with QUEUES queues each on the bus of $XSCHED_BUS_ADDRESS (the system's, if unset), as the
 * user who has started it. Then it prepares its attack, says "ready", and attacks until its standard input ends or it
 * is killed. After "ready" it says nothing, and after the end of the input the one line "N", how often it has attacked.
 *
 *   idle        no attack: the clients are registered, and rest
 *   spin        no attack: keeps a CPU busy, as a yardstick
 *   storm       edges of all queues of all clients, as fast as can be
 *   wake        a crowd of WAITERS on each client's eventfd, and edges
 *   lifeline    a crowd on each client's end of its lifeline, and edges
 *   futex       a crowd on the verdict word of each client's first queue, and edges
 *   own         a crowd on an eventfd of its own, written all the time: what the kernel makes of it without the
 *               service, as a yardstick
 *   leave       processes that register, crowd eventfd and lifeline, hang up, write the eventfd and keep the crowd
 *               until they end, one after the other
 *   move        processes that are put into two cgroups of its own again and again, with WAITERS others in them
 *   attribute   WAITERS cgroups of its own, with a process that has CLIENTS clients in each, whose attributes change
 *   freeze      WAITERS cgroups of its own, with a process that has CLIENTS clients in each, are frozen and thawed
 *
 * The last three want a cgroup that is delegated to them. A client without a service's answer (cut off, refused) goes
 * on attacking with what it still has.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "common/page.h"

#define NAME      "org.xsched.Scheduler"
#define INTERFACE "org.xsched.Scheduler"
#define PATH      "/org/xsched/Scheduler"

typedef struct Target {
        int page_fd, lifeline, wake;
        Page page;
        uint32_t *slots;
} Target;

static const char *device = "pci:0000:01:00.0";
static unsigned n_clients = 1, n_queues = 1, level = LEVEL_GATE;
static unsigned long n_waiters = 100000;
static Target *targets;
static sd_bus *bus;
static _Atomic bool ended;
static unsigned long n_strikes;
static bool says_waiters;

static _Noreturn void fail(const char *what, int r) {
        fprintf(stderr, "attacker: %s: %s\n", what, strerror(-r));
        exit(1);
}

/* --- registering --- */

static sd_bus *connect_bus(void) {
        const char *address = getenv("XSCHED_BUS_ADDRESS");
        sd_bus *b = NULL;

        int r = address ? sd_bus_new(&b) : sd_bus_open_system(&b);
        if (r >= 0 && address)
                r = sd_bus_set_address(b, address);
        if (r >= 0 && address)
                r = sd_bus_set_bus_client(b, true);
        if (r >= 0 && address)
                r = sd_bus_start(b);
        if (r < 0)
                fail("bus", r);
        return b;
}

static int register_queue(const char *path, uint32_t *ret_slot) {
        sd_bus_message *reply = NULL;
        uint64_t id;

        int r = sd_bus_call_method(bus, NAME, PATH, INTERFACE, "RegisterQueue", NULL, &reply, "oa{sv}", path, 3,
                        "Device", "s", device, "Backend", "s", "test", "Level", "u", level);
        if (r >= 0)
                r = sd_bus_message_read(reply, "tu", &id, ret_slot);
        sd_bus_message_unref(reply);
        return r;
}

static int register_client(Target *t) {
        sd_bus_message *reply = NULL;
        const char *path;
        int page, lifeline, wake;

        int r = sd_bus_call_method(
                        bus, NAME, PATH, INTERFACE, "RegisterClient", NULL, &reply, "ta{sv}", UINT64_C(0), 0);
        if (r >= 0)
                r = sd_bus_message_read(reply, "ohhh", &path, &page, &lifeline, &wake);
        if (r >= 0) {
                t->page_fd = fcntl(page, F_DUPFD_CLOEXEC, 3);
                t->lifeline = fcntl(lifeline, F_DUPFD_CLOEXEC, 3);
                t->wake = fcntl(wake, F_DUPFD_CLOEXEC, 3);
                r = page_open(t->page_fd, &t->page);
        }
        for (unsigned i = 0; r >= 0 && i < n_queues; i++)
                r = register_queue(path, t->slots + i);
        sd_bus_message_unref(reply);
        return r;
}

/* --- crowds --- */

/* One epoll instance waits for one fd once; copies of it and more instances make the product. Nothing ever wakes the
 * waiters. */
static void crowd_fd(int fd) {
        struct epoll_event nothing = {.events = EPOLLPRI | EPOLLET};
        struct rlimit l;
        unsigned long made = 0, n_copies;
        int *copies;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0)
                fail("getrlimit", -errno);
        n_copies = MIN(l.rlim_cur / 2 / (n_clients + 1), n_waiters);
        copies = calloc(n_copies + 1, sizeof(int));
        if (!copies)
                fail("calloc", -ENOMEM);
        for (unsigned long i = 0; i < n_copies; i++)
                copies[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        while (made < n_waiters) {
                int epoll = epoll_create1(EPOLL_CLOEXEC);

                if (epoll < 0)
                        fail("epoll_create1", -errno);
                for (unsigned long i = 0; i < n_copies && made < n_waiters; i++, made++)
                        if (epoll_ctl(epoll, EPOLL_CTL_ADD, copies[i], &nothing) < 0)
                                fail("epoll_ctl", -errno);
        }
        free(copies);
}

/* Makes waiters by io_uring, without a library: by submissions that never complete. Kernels before 6.7, and those that
 * forbid io_uring, have no such waits. */
static void crowd_futex(_Atomic uint32_t *word) {
        const unsigned entries = 4096;

        for (unsigned long made = 0; made < n_waiters;) {
                struct io_uring_params p = {};
                int ring = (int) syscall(SYS_io_uring_setup, entries, &p);

                if (ring < 0)
                        fail("io_uring_setup", -errno);
                uint8_t *sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                                MAP_SHARED, ring, IORING_OFF_SQ_RING);
                struct io_uring_sqe *sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
                                ring, IORING_OFF_SQES);
                if (sq == MAP_FAILED || sqes == MAP_FAILED)
                        fail("mmap", -errno);
                uint32_t *array = (uint32_t *) (void *) (sq + p.sq_off.array);
                _Atomic uint32_t *tail = (_Atomic uint32_t *) (void *) (sq + p.sq_off.tail);
                for (unsigned turn = 0; turn < 16 && made < n_waiters; turn++) {
                        for (uint32_t i = 0; i < entries; i++) {
                                sqes[i] = (struct io_uring_sqe){
                                                .opcode = 51 /* IORING_OP_FUTEX_WAIT */,
                                                .fd = 2 /* FUTEX2_SIZE_U32 */,
                                                .addr = (uintptr_t) word,
                                                .addr2 = atomic_load(word),
                                                .addr3 = UINT32_MAX,
                                };
                                array[i] = i;
                        }
                        atomic_fetch_add(tail, entries);
                        if (syscall(SYS_io_uring_enter, ring, entries, 0, 0, NULL, 0) < 0)
                                fail("io_uring_enter", -errno);
                        made += entries;
                }
        }
}

/* --- striking --- */

static void toggle(Target *t, uint32_t slot) {
        static const uint64_t one = 1;
        PageSlot *s = page_slot(&t->page, slot);

        atomic_store(&s->outstanding, !atomic_load(&s->outstanding));
        atomic_store(&s->ready_since_ns, now_ns());
        if (says_waiters)
                atomic_store(&s->waiters, UINT32_MAX);
        page_mark_dirty(t->page.header, slot);
        (void) !write(t->wake, &one, sizeof(one));
        n_strikes++;
}

static void strike(void) {
        for (unsigned c = 0; targets && c < n_clients && !ended; c++)
                for (unsigned q = 0; targets[c].slots && q < n_queues; q++)
                        toggle(targets + c, targets[c].slots[q]);
}

static void crowd_all(bool wake, bool lifeline) {
        for (unsigned c = 0; c < n_clients; c++) {
                if (wake)
                        crowd_fd(targets[c].wake);
                if (lifeline)
                        crowd_fd(targets[c].lifeline);
        }
}

static void register_all(void) {
        bus = connect_bus();
        targets = calloc(n_clients, sizeof(Target));
        for (unsigned c = 0; targets && c < n_clients; c++) {
                targets[c].slots = calloc(n_queues, sizeof(uint32_t));
                int r = targets[c].slots ? register_client(targets + c) : -ENOMEM;
                if (r < 0)
                        fail("register", r);
        }
        if (!targets)
                fail("calloc", -ENOMEM);
}

/* Runs in a process of its own, because only its end removes the crowd. The crowd's copies keep the eventfd and our end
 * of the lifeline open, so the connection of the pair is shut for the service to see the end. */
static void leave_and_come(void) {
        pid_t pid = fork();

        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                register_all();
                crowd_all(true, true);
                for (unsigned c = 0; c < n_clients; c++)
                        (void) shutdown(targets[c].lifeline, SHUT_RDWR);
                for (unsigned i = 0; i < 20; i++)
                        strike();
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, NULL, 0) < 0)
                fail("fork", -errno);
        n_strikes++;
}

/* --- cgroups of its own --- */

static char home[PATH_MAX - 64]; /* the cgroup that it was started in */

static void find_home(void) {
        char line[PATH_MAX - 128] = "";
        FILE *f = fopen("/proc/self/cgroup", "re");

        while (f && !startswith(line, "0::"))
                if (!fgets(line, sizeof(line), f))
                        break;
        if (!f || !startswith(line, "0::"))
                fail("/proc/self/cgroup", -ENOENT);
        (void) fclose(f);
        line[strcspn(line, "\n")] = '\0';
        (void) snprintf(home, sizeof(home), "/sys/fs/cgroup%s", line + 3);
}

static void make_cgroup(unsigned long n) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s/%lu", home, n);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                fail(path, -errno);
}

static int open_file(unsigned long n, const char *file) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s/%lu/%s", home, n, file);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                fail(path, -errno);
        return fd;
}

/* Starts a process in the cgroup, with the clients that were asked for, or with none. */
static pid_t start_in(int procs, bool clients) {
        int pipes[2];
        char byte = 0;

        if (pipe2(pipes, O_CLOEXEC) < 0)
                fail("pipe2", -errno);
        pid_t pid = fork();
        if (pid < 0)
                fail("fork", -errno);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (write(procs, "0", 1) < 0)
                        fail("cgroup.procs", -errno);
                if (clients)
                        register_all();
                (void) !write(pipes[1], "", 1);
                for (;;)
                        (void) pause();
        }
        (void) close(pipes[1]);
        if (read(pipes[0], &byte, 1) != 1)
                fail("a process of a cgroup", -ESRCH);
        (void) close(pipes[0]);
        return pid;
}

static int procs[2];
static char movers[2][16];

static void prepare_move(void) {
        find_home();
        for (unsigned i = 0; i < 2; i++) {
                make_cgroup(i);
                procs[i] = open_file(i, "cgroup.procs");
        }
        for (unsigned long i = 0; i < n_waiters; i++)
                (void) start_in(procs[i % 2], false);
        for (unsigned i = 0; i < 2; i++)
                (void) snprintf(movers[i], sizeof(movers[i]), "%d", (int) start_in(procs[i], true));
}

/* Moving a process into the cgroup that it is in makes the same event as a move, and costs less. The cgroups alternate,
 * because the kernel merges two equal events. */
static void move(void) {
        for (unsigned i = 0; i < 2; i++, n_strikes++)
                if (write(procs[i], movers[i], strlen(movers[i])) < 0)
                        fail("cgroup.procs", -errno);
}

static int *freezers;

static void prepare_freeze(void) {
        find_home();
        freezers = calloc(n_waiters, sizeof(int));
        if (!freezers)
                fail("calloc", -ENOMEM);
        for (unsigned long i = 0; i < n_waiters; i++) {
                make_cgroup(i);
                int fd = open_file(i, "cgroup.procs");
                (void) start_in(fd, true);
                (void) close(fd);
                freezers[i] = open_file(i, "cgroup.freeze");
        }
}

static void freeze(void) {
        for (unsigned i = 2; i-- > 0;) {
                for (unsigned long k = 0; k < n_waiters; k++, n_strikes++)
                        if (write(freezers[k], i ? "1" : "0", 1) < 0)
                                fail("cgroup.freeze", -errno);
                (void) poll(NULL, 0, 5);
        }
}

static void prepare_attribute(void) {
        find_home();
        for (unsigned long i = 0; i < n_waiters; i++) {
                make_cgroup(i);
                int fd = open_file(i, "cgroup.procs");
                (void) start_in(fd, true);
                (void) close(fd);
        }
}

static void change_attribute(void) {
        for (unsigned i = 0; i < 2; i++)
                for (unsigned long k = 0; k < n_waiters; k++, n_strikes++) {
                        char path[PATH_MAX];

                        (void) snprintf(path, sizeof(path), "%s/%lu", home, k);
                        /* Which are both refused, as they would raise. */
                        if (setxattr(path, "user.xsched.priority", i ? "11" : "12", 2, 0) < 0)
                                fail("setxattr", -errno);
                }
}

/* The thread has started when attack() begins: a fork while a thread starts can leave the child with locks of a
 * sanitizer's runtime that no thread releases. */
static pthread_barrier_t waiting;

static void *wait_for_end(void *unused) {
        char c;

        (void) pthread_barrier_wait(&waiting);
        while (read(STDIN_FILENO, &c, 1) > 0)
                ;
        ended = true;
        return NULL;
}

static void raise_limit(void) {
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
                l.rlim_cur = l.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &l);
        }
}

static void attack(const char *mode) {
        int own = -1;

        if (streq(mode, "own")) {
                own = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                crowd_fd(own);
        } else if (streq(mode, "move"))
                prepare_move();
        else if (streq(mode, "freeze"))
                prepare_freeze();
        else if (streq(mode, "attribute"))
                prepare_attribute();
        else if (!streq(mode, "spin") && !streq(mode, "leave"))
                register_all();
        says_waiters = streq(mode, "futex");
        if (says_waiters)
                for (unsigned c = 0; c < n_clients; c++)
                        crowd_futex(&page_slot(&targets[c].page, targets[c].slots[0])->verdict);
        if (targets)
                crowd_all(streq(mode, "wake"), streq(mode, "lifeline"));
        puts("ready");
        fflush(stdout);

        while (!ended)
                if (streq(mode, "idle"))
                        (void) poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLHUP}, 1, 100);
                else if (streq(mode, "spin"))
                        n_strikes++;
                else if (streq(mode, "own"))
                        (void) !write(own, &(uint64_t){1}, sizeof(uint64_t)), n_strikes++;
                else if (streq(mode, "leave"))
                        leave_and_come();
                else if (streq(mode, "move"))
                        move();
                else if (streq(mode, "freeze"))
                        freeze();
                else if (streq(mode, "attribute"))
                        change_attribute();
                else
                        strike();
        printf("%lu\n", n_strikes);
}

int main(int argc, char *argv[]) {
        static const char *const modes[] = {"idle", "spin", "storm", "wake", "lifeline", "futex", "own", "leave",
                        "move", "freeze", "attribute", NULL};
        pthread_t thread;
        int o;

        while ((o = getopt(argc, argv, "d:c:q:n:l:")) >= 0)
                if (o == 'd')
                        device = optarg;
                else if (o == 'c')
                        n_clients = (unsigned) strtoul(optarg, NULL, 10);
                else if (o == 'q')
                        n_queues = (unsigned) strtoul(optarg, NULL, 10);
                else if (o == 'n')
                        n_waiters = strtoul(optarg, NULL, 10);
                else if (o == 'l')
                        level = (unsigned) strtoul(optarg, NULL, 10);
                else
                        return 2;
        for (o = 0; optind < argc && modes[o] && !streq(modes[o], argv[optind]); o++)
                ;
        if (optind + 1 != argc || !modes[o]) {
                fprintf(stderr, "attacker [-d DEVICE] [-c CLIENTS] [-q QUEUES] [-n WAITERS] [-l LEVEL] MODE\n");
                return 2;
        }
        raise_limit();
        if (pthread_barrier_init(&waiting, NULL, 2) != 0 || pthread_create(&thread, NULL, wait_for_end, NULL) != 0)
                return 1;
        (void) pthread_barrier_wait(&waiting);
        attack(argv[optind]);
        return 0;
}
