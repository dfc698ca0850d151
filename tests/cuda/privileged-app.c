/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process with channels of NVIDIA's driver that registers with the service, but does not stop its own launches
 *
 * So only others can hold it. Takes a device's number, which is not used, and the id of the device that it registers
 * with; "-": it does not register. Says "ready" when it is registered, and then obeys standard input, a line for a
 * line:
 *
 *   count     how often its first and last channel were seen at work
 *   more      makes another group of channels: "made"
 *   move      its /dev/nvidiactl gets another number, and the former number is that of another file: "moved"
 *   many      opens thousands of files: "opened"
 *   fork      makes a child that shares its files, and lives as long as this program: "forked"
 *   exec FILE becomes that program, with a minute as its argument
 *   finish    "clean": nothing is left to be done
 *
 * The end of the input ends it.
 */

#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/macro.h"
#include "rm-user.h"
#include "tests/lib/deadline.h"
#include "xsched/xsched.h"

#define CHANNELS 8U
#define GROUPS   4U
#define FILES    20000U /* that the process may open */

/* Of fake-remote.c, which is preloaded: linking to it would find its folder's libxsched, which is another one. */
__attribute__((weak)) int fake_remote_runs(uint32_t client, uint32_t channel);

static XschedQueue *queue;

/* Uncounted launches stay outstanding: the queue always has work. */
static void drain(XschedQueue *q, void *userdata) {
}

/* The number is that of a file which takes no calls. */
static void move(User *user) {
        int other = open("/dev/null", O_PATH | O_CLOEXEC), former = user->fd;

        user->fd = fcntl(former, F_DUPFD_CLOEXEC, 700);
        if (other < 0 || user->fd < 0 || dup3(other, former, O_CLOEXEC) < 0)
                exit(EXIT_FAILURE);
        (void) close(other);
}

static void open_many(void) {
        const struct rlimit l = {FILES, FILES};

        (void) setrlimit(RLIMIT_NOFILE, &l);
        for (unsigned i = 0; i < FILES / 2; i++)
                if (open("/dev/null", O_PATH | O_CLOEXEC) < 0)
                        exit(EXIT_FAILURE);
}

static void fork_child(void) {
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                exit(EXIT_FAILURE);
        pid_t pid = fork();
        if (pid < 0)
                exit(EXIT_FAILURE);
        if (pid > 0) {
                (void) close(pair[0]);
                return;
        }
        char c;
        (void) close(pair[1]);
        (void) read(pair[0], &c, 1);
        _exit(EXIT_SUCCESS);
}

static bool is_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        if (!queue)
                return true;
        (void) xsched_queue_begin_nowait(queue);
        (void) xsched_get_counters(&c);
        return c.state == XSCHED_STATE_ATTACHED && c.queues == 1;
}

int main(int argc, char *argv[]) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        uint32_t channels[CHANNELS], first = 0, last = 0;
        unsigned count = 0;
        char line[64];

        User user = user_new();
        for (unsigned i = 0; i < GROUPS; i++) {
                (void) user_group(&user, i % GPUS_MAX, channels, CHANNELS);
                first = first ?: channels[0];
                last = channels[CHANNELS - 1];
        }
        const XschedQueueInfo info = {
                        .size = sizeof(info), .device = argv[argc - 1], .backend = "test", .drain = drain};
        bool registers = !streq(argv[argc - 1], "-");
        if ((registers && xsched_queue_new(&info, &queue) < 0) || !poll_until(is_registered()))
                return EXIT_FAILURE;
        (void) setvbuf(stdin, NULL, _IONBF, 0);
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        puts("ready");
        for (;;) {
                if (queue)
                        (void) xsched_queue_begin_nowait(queue);
                count += fake_remote_runs(user.client, first) > 0 || fake_remote_runs(user.client, last) > 0;
                if (poll(&p, 1, 1) <= 0)
                        continue;
                if (!fgets(line, sizeof(line), stdin))
                        return EXIT_SUCCESS;
                if (startswith(line, "count"))
                        printf("%u\n", count);
                else if (startswith(line, "more")) {
                        (void) user_group(&user, 0, channels, CHANNELS);
                        last = channels[CHANNELS - 1];
                        puts("made");
                } else if (startswith(line, "move")) {
                        move(&user);
                        puts("moved");
                } else if (startswith(line, "many")) {
                        open_many();
                        puts("opened");
                } else if (startswith(line, "fork")) {
                        fork_child();
                        puts("forked");
                } else if (startswith(line, "exec ")) {
                        line[strcspn(line, "\n")] = '\0';
                        (void) execl(line + 5, line + 5, "60", NULL);
                        return EXIT_FAILURE;
                } else
                        puts("clean");
        }
}
