#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptors that guests of the service's own socket, and strangers on the bus, send along: no other caller waits for
their close."""

import array
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from guests import *
from hanging import Hanging
from harness import *
from lingering import Lingering


class Descriptors(GuestCase):
    def test_descriptors_are_not_taken(self):
        before = self.n_fds()

        lingering = [Lingering() for _ in range(4)]

        def attack():
            become_nobody_if_root()
            fds = array.array("i", [x.socket.fileno() for x in lingering])
            data = call("UnregisterQueue", "t", (1,))
            for said in (b"\0", AUTH, data):
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.connect(self.socket_path)
                s.settimeout(DEADLINE)
                try:
                    if said == data:
                        s.sendall(AUTH)
                    s.sendmsg([said], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                except (BrokenPipeError, ConnectionResetError):
                    pass
                self.assert_hung_up(s)
                s.close()
            # The user's connections are refused for a while.
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.connect(self.socket_path)
            s.settimeout(DEADLINE)
            self.assert_hung_up(s)

        in_child(attack)
        if os.getuid() == 0:
            self.raw(self.guest()).queue()
        self.raw().queue()
        self.assert_fds(before + 20)
        for x in lingering:
            x.end()
            x.socket.close()

    def say(self, parts):
        """Sends messages with the process's identity; each is (bytes, descriptors, flags)."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.socket_path)
        s.settimeout(DEADLINE)
        try:
            for data, fds, flags in parts:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                s.sendmsg([data], rights, flags)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return s

    @staticmethod
    def with_descriptors(fds):
        """Descriptors are sent at every place of the protocol."""
        whole = call("UnregisterQueue", "t", (1,))
        return (
            [(AUTH, [], 0), (whole, fds, 0)],
            [(AUTH, [], 0), (whole[:20], [], 0), (whole[20:], fds, 0)],
            [(b"\0", fds, 0)],
            [(AUTH, fds, 0)],
            [(AUTH, [], 0), (b"l", fds, socket.MSG_OOB)],
            [(AUTH * 500, [], 0), (AUTH, fds, 0)],
        )

    def honest(self, n=1):
        """Connects and disconnects. Returns the number of the service's descriptors after that."""
        before = self.n_fds()
        for _ in range(n):
            c = self.guest()
            r = self.raw(c)
            r.queue()
            r.close()
            c.close()
        until(lambda: self.get("NClients") == 0, "all have gone")
        return max(before, self.n_fds())

    def assert_nobody_waits(self, before):
        self.honest(20)
        self.assert_fds(before)

    def test_closing_that_takes_long_is_nobody_elses(self):
        """Connections with unsent data, whose close waits for the receiver."""
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        before = self.honest()
        lingering = [Lingering() for _ in range(24)]

        def attack():
            become_nobody_if_root()
            for i, x in enumerate(lingering):
                self.say(self.with_descriptors([x.socket.fileno()])[i % 6]).detach()

        # The service has the last copies when it examines them.
        self.service.freeze()
        in_child(attack)
        for x in lingering:
            x.leave_to_others()
        self.service.thaw()
        self.assert_nobody_waits(before)
        for x in lingering:
            x.end()

    def test_closing_that_never_ends_is_nobody_elses(self):
        """A file system in a process that does not answer when a file is closed."""
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        before = self.honest()
        hanging = Hanging(NOBODY, self.pid)
        self.addCleanup(hanging.end)

        def attack():
            become_nobody_if_root()
            for _ in range(25):
                for parts in self.with_descriptors([hanging.fd] * 8):
                    with self.say(parts) as s:
                        self.assert_hung_up(s)

        in_child(attack)
        self.assert_nobody_waits(before)
        self.service.stop()
        self.service.start()
        self.c = self.connect()
        self.raw(self.guest()).queue()

    def test_who_comes_by_the_bus_keeps_no_guest_waiting(self):
        """A thread that received such a file waits for ever. No guest's descriptor waits for that thread."""
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        before, threads = self.honest(), 16  # strangers.c: THREADS_MAX
        hanging = Hanging(NOBODY, self.pid)

        def attack():
            become_nobody_if_root()
            with self.bus.connect() as c:
                for _ in range(threads + 4):
                    c.send(NAME, PATH, MANAGER, "Explain", "h", hanging.fd)
                c.call(NAME, PATH, MANAGER, "ListPolicies")

        try:
            in_child(attack)
            until(lambda: self.n_asleep("strangers", "request_wait_answer") == threads, "all threads wait")
            self.honest(20)
            self.assert_fds(before + 4)
        finally:
            hanging.end()

    def test_who_stops_the_bus_stops_no_guest(self):
        """The bus closes descriptors that no receiver takes, and waits for it. Clients that come by the service's own
        socket are let in, and scheduled, meanwhile."""
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        before, bus = self.honest(), self.bus.process.pid
        _, low = self.tenant("low", Priority=-10)
        token = self.job("high", Priority=10)[0]
        hanging = Hanging(NOBODY, bus)

        def attack():
            become_nobody_if_root()
            self.bus.connect().send("org.example.Nobody", PATH, MANAGER, "Nothing", "h", hanging.fd)

        try:
            in_child(attack)
            until(lambda: proc(bus, "wchan") == "request_wait_answer", "the bus waits")
            low.edge(1)
            high = self.raw(self.guest(), Job=("s", token)).queue()
            high.edge(1)
            until(lambda: low.held, "it to be held")
            high.edge(0)
            until(lambda: not low.held, "it to be let go")
            self.assertEqual(proc(bus, "wchan"), "request_wait_answer")
        finally:
            hanging.end()
        self.assert_fds(before + 20)
        self.assertEqual(self.get("NClients"), 2)

    def n_asleep(self, name, where):
        """The service's threads of this name."""
        tasks = [f"{self.service.pid}/task/{t}" for t in os.listdir(f"/proc/{self.service.pid}/task")]
        return sum((proc(t, "comm").strip(), proc(t, "wchan")) == (name, where) for t in tasks)


if __name__ == "__main__":
    main()
