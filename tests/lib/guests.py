# SPDX-License-Identifier: LGPL-2.1-or-later
"""Guests of the service's own socket: a test case whose service has one, and connections by hand."""

import ctypes
import os
import signal
import socket
import struct

import dbus
from harness import *

GUESTS = ("RegisterClient", "RegisterQueue", "UnregisterQueue", "Hint")
AUTH = b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"
WANTED = {"Device": ("s", "pci:0000:01:00.0"), "Backend": ("s", "test")}
MESSAGE_MAX = 16 << 10  # RELAY_MESSAGE_MAX


def header(kind=b"l", body=0, fields=0):
    return struct.pack("<cBBBIII", kind, 1, 0, 1, body, 1, fields)


def call(member, signature, args):
    return dbus.encode(1, 7, {1: ("o", PATH), 2: ("s", MANAGER), 3: ("s", member)}, signature, args)[0]


def attacker():
    """A process of another user, which ends with the test."""
    become_nobody()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def become_nobody_if_root():
    if os.getuid() == 0:
        become_nobody()


class GuestCase(Case):
    build = "XSCHEDD_QUICK"

    def setUp(self):
        super().setUp()
        self.pid = self.service.pid

    @property
    def options(self):
        return [f"--socket={self.socket_path}"]

    @property
    def socket_path(self):
        return os.path.join(self.directory, "socket")

    def tearDown(self):
        if self.service.process.status is None:
            self.assert_same_service(self.service.pid)
        super().tearDown()

    def guest(self):
        c = dbus.Connection("unix:path=" + self.socket_path, hello=False)
        self.addCleanup(c.close)
        return c

    def of(self, client, name):
        """A property, read over the bus."""
        return self.get(name, client.path, CLIENT)

    def plain(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.addCleanup(s.close)
        s.connect(self.socket_path)
        s.settimeout(DEADLINE)
        return s

    def assert_hung_up(self, s):
        try:
            while s.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.service.pid}/fd"))

    def assert_fds(self, n):
        until(lambda: self.n_fds() <= n, f"{n} descriptors in the service")
