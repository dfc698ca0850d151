/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Forwards a pseudo terminal
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "common/time-util.h"
#include "common/write-all.h"
#include "tools/unit/pty-forward.h"

#define ESCAPE       0x1d /* ^] */
#define ESCAPE_TIMES 3U
#define VEOF_BYTE    0x04

#define PATH_SIZE   64U
#define BUFFER_SIZE 4096U
#define END_SIZE    2U /* stays free for end_input() */

struct PtyForward {
        int master, slave;
        char path[PATH_SIZE];
        pty_forward_left_t left;
        void *userdata;

        sd_event *event;
        sd_event_source *input, *output, *size;

        /* Typed characters that the other side has not read yet. */
        char typed[BUFFER_SIZE];
        size_t n_typed;
        bool input_ended;
        char last_typed;

        unsigned n_escapes;
        uint64_t escaped_at;

        int terminal; /* which was changed; -EBADF */
        struct termios saved;
};

const char *pty_forward_path(const PtyForward *f) {
        return f->path;
}

/* --- the terminal that we run on --- */

static void copy_size(const PtyForward *f) {
        struct winsize ws;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) >= 0 || ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) >= 0)
                (void) ioctl(f->master, TIOCSWINSZ, &ws);
}

static int on_size(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata) {
        copy_size(userdata);
        return 0;
}

/* Takes input that was typed before the terminal became raw: lines that end with a newline or an end of file. In a raw
 * terminal an end of file would become a NUL, so the lines are read now, and passed on as they were typed. */
static void take_lines(PtyForward *f, int fd) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        while (f->n_typed + END_SIZE < sizeof(f->typed) && poll(&p, 1, 0) > 0 && p.revents == POLLIN) {
                size_t room = sizeof(f->typed) - END_SIZE - f->n_typed;
                ssize_t n = read(fd, f->typed + f->n_typed, room);

                if (n < 0)
                        return;
                f->n_typed += (size_t) n;
                if (n == 0 || ((size_t) n < room && f->typed[f->n_typed - 1] != '\n'))
                        f->typed[f->n_typed++] = VEOF_BYTE;
                f->last_typed = f->typed[f->n_typed - 1];
        }
}

/* The other side's terminal does what ours would do: echo, line ends, signals. */
static int take_terminal(PtyForward *f) {
        struct termios raw;
        bool both = isatty(STDIN_FILENO);
        int fd = both ? STDIN_FILENO : STDOUT_FILENO;

        if (!isatty(fd))
                return 0;
        if (tcgetattr(fd, &f->saved) < 0)
                return negative_errno();
        raw = f->saved;
        if (both && raw.c_lflag & ICANON) {
                /* From here on the character for end of file is an ordinary one, which take_lines() leaves in the
                 * input. */
                raw.c_cc[VEOF] = _POSIX_VDISABLE;
                if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
                        return negative_errno();
                f->terminal = fd;
                take_lines(f, fd);
        }
        if (both)
                cfmakeraw(&raw);
        else
                raw.c_oflag &= ~(tcflag_t) OPOST;
        if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
                return negative_errno();
        f->terminal = fd;
        return 0;
}

static void restore_terminal(PtyForward *f) {
        if (f->terminal < 0)
                return;
        (void) tcsetattr(f->terminal, TCSADRAIN, &f->saved);
        f->terminal = -EBADF;
}

/* --- from there to here --- */

/* Returns > 0 while there may be more. */
static int print_some(PtyForward *f) {
        char buf[BUFFER_SIZE];

        ssize_t n = read(f->master, buf, sizeof(buf));
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();
        if (n == 0)
                return -EIO;
        /* Without a reader of our output the command goes on all the same. */
        (void) write_all(STDOUT_FILENO, buf, (size_t) n);
        return 1;
}

/* --- from here to there --- */

/* While the other side does not read, input stays in the terminal. */
static void want_input(PtyForward *f) {
        bool room = f->n_typed + END_SIZE < sizeof(f->typed) && !f->input_ended;

        if (f->input)
                (void) sd_event_source_set_enabled(f->input, room ? SD_EVENT_ON : SD_EVENT_OFF);
        (void) sd_event_source_set_io_events(f->output, EPOLLIN | (f->n_typed > 0 ? (uint32_t) EPOLLOUT : 0));
}

static void pass_typed(PtyForward *f) {
        while (f->n_typed > 0) {
                ssize_t n = write(f->master, f->typed, f->n_typed);
                if (n < 0)
                        break;
                memmove(f->typed, f->typed + n, f->n_typed - (size_t) n);
                f->n_typed -= (size_t) n;
        }
}

/* Tells the end of piped input to the other side's terminal: by the character for end of file at the start of a
 * line. */
static void end_input(PtyForward *f) {
        f->input_ended = true;
        if (isatty(STDIN_FILENO))
                return;
        for (int i = f->last_typed == '\n' || f->last_typed == '\0' ? 1 : 0; i < 2; i++)
                f->typed[f->n_typed++] = VEOF_BYTE;
}

static bool is_left(PtyForward *f, const char *p, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint64_t now = now_ns();

                if (p[i] != ESCAPE) {
                        f->n_escapes = 0;
                        continue;
                }
                if (f->n_escapes == 0 || ns_sub(now, f->escaped_at) > NSEC_PER_SEC) {
                        f->n_escapes = 0;
                        f->escaped_at = now;
                }
                if (++f->n_escapes >= ESCAPE_TIMES)
                        return true;
        }
        return false;
}

static int read_input(PtyForward *f) {
        ssize_t n = read(STDIN_FILENO, f->typed + f->n_typed, sizeof(f->typed) - END_SIZE - f->n_typed);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                end_input(f);
        else {
                if (isatty(STDIN_FILENO) && is_left(f, f->typed + f->n_typed, (size_t) n)) {
                        f->left(f->userdata);
                        return 0;
                }
                f->n_typed += (size_t) n;
                f->last_typed = f->typed[f->n_typed - 1];
        }
        pass_typed(f);
        want_input(f);
        return 0;
}

static int on_input(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        return read_input(userdata);
}

static int on_input_file(sd_event_source *s, void *userdata) {
        return read_input(userdata);
}

static int on_master(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        PtyForward *f = userdata;

        if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR) && print_some(f) < 0)
                (void) sd_event_source_set_enabled(s, SD_EVENT_OFF);
        if (revents & EPOLLOUT)
                pass_typed(f);
        want_input(f);
        return 0;
}

/* --- life --- */

static int open_pty(PtyForward *f) {
        f->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        if (f->master < 0)
                return negative_errno();
        if (grantpt(f->master) < 0 || unlockpt(f->master) < 0)
                return negative_errno();
        int r = ptsname_r(f->master, f->path, sizeof(f->path));
        if (r != 0)
                return -r;
        f->slave = open(f->path, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (f->slave < 0)
                return negative_errno();
        copy_size(f);
        return 0;
}

int pty_forward_new(sd_event *event, pty_forward_left_t left, void *userdata, PtyForward **ret) {
        _cleanup_(pty_forward_freep)
        PtyForward *f = calloc(1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        f->master = f->slave = f->terminal = -EBADF;
        f->left = left;
        f->userdata = userdata;
        f->event = sd_event_ref(event);
        int r = open_pty(f);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f);
        return 0;
}

static int watch_input(PtyForward *f) {
        int r = sd_event_add_io(f->event, &f->input, STDIN_FILENO, EPOLLIN, on_input, f);
        if (r == -EPERM) { /* a regular file, or /dev/null */
                r = sd_event_add_defer(f->event, &f->input, on_input_file, f);
                if (r >= 0)
                        r = sd_event_source_set_priority(f->input, SD_EVENT_PRIORITY_IDLE);
        }
        return r;
}

int pty_forward_start(PtyForward *f) {
        int r = sd_event_add_io(f->event, &f->output, f->master, EPOLLIN, on_master, f);
        if (r >= 0)
                r = watch_input(f);
        if (r >= 0)
                r = sd_event_add_signal(f->event, &f->size, SIGWINCH, on_size, f);
        if (r >= 0)
                r = take_terminal(f);
        if (r < 0)
                return r;
        copy_size(f); /* it may have changed meanwhile */
        want_input(f);
        return 0;
}

void pty_forward_finish(PtyForward *f) {
        f->input = sd_event_source_disable_unref(f->input);
        f->output = sd_event_source_disable_unref(f->output);
        f->size = sd_event_source_disable_unref(f->size);
        f->slave = safe_close(f->slave);
        while (f->master >= 0 && print_some(f) > 0)
                ;
        f->master = safe_close(f->master);
        restore_terminal(f);
}

PtyForward *pty_forward_free(PtyForward *f) {
        if (!f)
                return NULL;
        sd_event_source_disable_unref(f->input);
        sd_event_source_disable_unref(f->output);
        sd_event_source_disable_unref(f->size);
        safe_close(f->slave);
        safe_close(f->master);
        restore_terminal(f);
        sd_event_unref(f->event);
        free(f);
        return NULL;
}
