# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared by the tests of the tools: clients that launch on command, xschedctl, a bus without a service, a terminal."""

import atexit
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

XSCHEDCTL = os.environ["XSCHEDCTL"]
TEST_CLIENT = os.environ["TEST_CLIENT"]
DEVICE = "pci:0000:65:00.0"
DEADLINE = 30


def environment(**changes):
    """This process's environment with changes; None takes a variable away."""
    env = dict(os.environ)
    for name in ("NO_COLOR", "SYSTEMD_COLORS", "SYSTEMD_PAGER", "PAGER", "COLUMNS", "XSCHED_JOB"):
        env.pop(name, None)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def ctl(*args, status=0, **changes):
    """Runs xschedctl, which must end with `status`; standard output, or standard error when it is to fail."""
    p = subprocess.run(
        [XSCHEDCTL, *map(str, args)],
        env=environment(**changes),
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE,
    )
    if p.returncode != status:
        raise AssertionError(f"{args}: status {p.returncode}, not {status}\n{p.stdout}{p.stderr}")
    return p.stderr if status not in (0, 3) and not p.stdout else p.stdout


def ctl_json(*args, **kwargs):
    return json.loads(ctl(*args, "--json=short", **kwargs))


class Client:
    """A scheduled process with some queues; see tests/lib/test-client.c."""

    def __init__(self, queues=1, device=DEVICE, prefix=(), program=TEST_CLIENT, **changes):
        self.process = subprocess.Popen(
            [*prefix, program, device, str(queues)],
            env=environment(**changes),
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        line = self.read()
        if line != "ready":
            self.end()
            raise AssertionError(f"the client is not ready but {line!r}")

    def send(self, line):
        self.process.stdin.write(line + "\n")

    def read(self):
        return self.process.stdout.readline().rstrip("\n")

    def do(self, line):
        self.send(line)
        return self.read()

    def answered(self):
        """Whether the client has answered yet; does not wait."""
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def row(self):
        return next(c for c in ctl_json("list-clients") if c["pid"] == self.pid)

    @property
    def target(self):
        return f'client:{self.row()["client"]}'

    def end(self):
        if self.process.returncode is None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait(DEADLINE)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.end()


class Lines:
    """Reads lines of a pipe, and waits for each until the deadline. (select() does not see what a file object has
    buffered.)"""

    def __init__(self, file):
        self.file = file
        self.buffer = b""

    def next(self):
        """The next line without its end; None at the end of the file."""
        while b"\n" not in self.buffer:
            if not select.select([self.file], [], [], DEADLINE)[0]:
                raise AssertionError("no further line")
            more = os.read(self.file.fileno(), 65536)
            if not more:
                return None
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()


def wait_until(condition, what):
    """Polls until the condition holds, where no event tells of it."""
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"never: {what}")
        select.select([], [], [], 0.01)


class EmptyBus:
    """A bus on which no connection owns the service's name."""

    def __enter__(self):
        self.process = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address=1"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self.process.stdout.readline().strip()

    def __exit__(self, *args):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Terminal:
    """xschedctl on a terminal of its own."""

    def __init__(self, *args, rows=24, columns=80, program=XSCHEDCTL, **changes):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        changes.setdefault("TERM", "xterm")
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [program, *map(str, args)],
            env=environment(**changes),
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )
        self.text = ""
        atexit.register(self.process.kill)  # if the test fails before its end

    def read_more(self):
        """Reads output. False at the end: the program has ended and everything is read."""
        while True:
            if select.select([self.master], [], [], 0.05)[0]:
                self.text += os.read(self.master, 65536).decode()
                return True
            if self.process.poll() is not None:
                return False

    def read_until(self, text):
        until = time.monotonic() + DEADLINE
        while text not in self.text:
            if not self.read_more() or time.monotonic() > until:
                raise AssertionError(f"{text!r} is not in ...{self.text[-2000:]!r}")

    def type(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """Everything that was printed; lines end as on a terminal."""
        while self.read_more():
            pass
        self.process.wait(DEADLINE)
        self.after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        return self.text


def main(unittest):
    if "XSCHED_BUS_ADDRESS" not in os.environ:
        print("to be run by xsched-session", file=sys.stderr)
        sys.exit(1)
    unittest.main(verbosity=2)
