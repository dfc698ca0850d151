# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl on a terminal, at which the test types."""

import fcntl
import os
import pty
import re
import select
import struct
import termios

import inside

# What systemd-run has not passed on when the unit ends can be lost, so the unit ends after a key only.
ENDED = "\x1e"  # a record ends
UNTIL_KEY = """xschedctl "$@"; status=$?; printf '\\036'; read -r _; exit $status"""


class Terminal:
    """xschedctl on a terminal of its own. With `user`, it runs in a login session of that user: polkit uses a fallback
    agent only there."""

    def __init__(self, *argv, rows=33, columns=77, user=None, before=""):
        """`before` is typed before xschedctl starts."""
        start, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.read(start, 1)
                session = (
                    ["systemd-run", "--quiet", "--pty", "--collect", "-p", "PAMName=login", f"--uid={user}", "--"]
                    if user
                    else []
                )
                argv = [*session, *(("sh", "-c", UNTIL_KEY) if user else ()), "xschedctl", *argv]
                os.execvp(argv[0], argv)
            finally:
                os._exit(99)
        self.text = ""
        self.resize(rows, columns)
        self.type(before)
        os.write(go, b".")
        os.close(start)
        os.close(go)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        """Reads output. Returns False at its end."""
        if not select.select([self.fd], [], [], inside.DEADLINE)[0]:
            raise AssertionError(f"nothing came after {self.text!r}")
        try:
            data = os.read(self.fd, 4096)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern):
        while not re.search(pattern, self.text):
            if not self.read():
                raise AssertionError(f"ended, without {pattern!r}, after {self.text!r}")
        self.text = self.text[re.search(pattern, self.text).end() :]

    def type(self, text):
        os.write(self.fd, text.encode())

    def type_password(self, text):
        """Types a password for polkit's agent. The agent prints its question, then turns the echo off, and drops what
        was typed before, so this waits until the echo is off."""
        agent = inside.run("pgrep", "--newest", "--exact", "pkttyagent").strip()
        fd = os.open(f"/proc/{agent}/fd/2", os.O_RDWR | os.O_NOCTTY)
        inside.until(lambda: not termios.tcgetattr(fd)[3] & termios.ECHO, "the agent to listen")
        os.close(fd)
        self.type(text)

    def wait(self):
        while ENDED not in self.text and self.read():
            pass
        text, *ended = self.text.split(ENDED)
        if ended:
            self.type("\r")
        while self.read():
            pass
        self.text = text
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
