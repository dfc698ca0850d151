# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of a test: start, state and end; and waits for conditions without an event.

Everything started here dies with the test (PR_SET_PDEATHSIG) and is waited for. Nothing sleeps in place of an event;
where the other side has none to give (a word in a page, a line in /proc), until() looks again and again up to DEADLINE,
which is far beyond any honest delay on a loaded machine."""

import fcntl
import functools
import os
import re
import select
import signal
import time

DEADLINE = 60.0
NOBODY = 65534


def until(condition, what="the condition", deadline=DEADLINE, nap=0.002):
    """Polls a condition without an event. Returns the condition's result."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"timed out: {what}")
        time.sleep(nap)


def process_id(pid):
    """A process as the bus interface takes it: pid and start time."""
    with open(f"/proc/{pid}/stat") as f:
        return pid, int(f.read().rpartition(")")[2].split()[19])


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def is_readable(fd, timeout):
    """Whether the descriptor is readable or at its end within `timeout` seconds. Works for any number of descriptors,
    unlike select()."""
    p = select.poll()
    p.register(fd, select.POLLIN)
    return bool(p.poll(timeout * 1000))


class Process:
    """A child that dies with this one. `fds` come out as 3, 4, ...; with listen, as systemd passes them."""

    def __init__(self, argv, env=None, fds=(), names=None, stdin=None, stdout=None, stderr=None):
        env = {**os.environ, **(env or {})}
        command = ["setpriv", "--pdeathsig", "KILL", "--"]
        if names is not None:
            env.update(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(names))
            command += ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"]
        # Duplicates over high numbers, so that no duplicate overwrites a descriptor that is still needed.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 4096) for fd in fds]
        actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((stdin, stdout, stderr)) if fd is not None]
        actions += [(os.POSIX_SPAWN_DUP2, h, 3 + i) for i, h in enumerate(high)]
        self.pid = os.posix_spawnp(command[0], command + argv, env, file_actions=actions)
        for h in high:
            os.close(h)
        self.pidfd = os.pidfd_open(self.pid)
        self.status = None

    def kill(self, sig=signal.SIGKILL):
        if self.status is None:
            signal.pidfd_send_signal(self.pidfd, sig)

    def ended(self):
        return self.status is not None or is_readable(self.pidfd, 0)

    def wait(self, timeout=DEADLINE):
        if self.status is None:
            if not is_readable(self.pidfd, timeout):
                raise AssertionError(f"process {self.pid} does not end")
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.pidfd)
        return self.status

    def end(self):
        self.kill()
        self.wait()


def proc(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as f:
        return f.read()


def count_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_kb(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", proc(pid, "status"))[1])


@functools.lru_cache(maxsize=None)
def grows_by_design():
    """A sanitizer keeps freed memory, so the size says nothing then."""
    with open(os.environ["XSCHEDD"], "rb") as f:
        program = f.read()
    return b"__asan_" in program or b"__tsan_" in program


def fewer(n):
    """Reduces a crowd beside a service with a sanitizer, which takes several times as long for each."""
    return n * 2 // 5 if grows_by_design() else n


def become_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def in_child(function, prepare=None):
    """Runs function() in a child process, and raises its exceptions here."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if prepare:
                prepare()
            function()
            status = 0
        except BaseException as e:  # pylint: disable=broad-except
            import traceback

            os.write(w, traceback.format_exc().encode()[:60000] or str(e).encode())
        finally:
            os._exit(status)
    os.close(w)
    with open(r, "rb") as f:
        text = f.read().decode()
    if os.waitpid(pid, 0)[1] != 0:
        raise AssertionError(f"in the child:\n{text}")


def as_nobody(function):
    in_child(function, become_nobody)
