#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libxsched on the service's own socket: without the bus, over restarts of the service, and where the socket refuses
it."""

import os
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

ATTACHED = 2


class Sockets(Case):
    config = "[Scheduler]\nAccounting=off\n"

    @property
    def options(self):
        return [f"--socket={self.socket_path}"]

    @property
    def socket_path(self):
        return os.path.join(self.directory, "socket")

    @property
    def address(self):
        """The address as in XSCHED_BUS_ADDRESS=."""
        return f"xsched:path={self.socket_path};{self.bus.address}"

    def start(self, address=None):
        p = self.program(env={"XSCHED_BUS_ADDRESS": address or self.address})
        self.assert_attached(p)
        return p

    def assert_attached(self, p):
        until(lambda: p.counters()["state"] == ATTACHED, "it is attached")
        until(lambda: self.get("NQueues") == 1, "its queue is there")

    def on_the_bus(self, p):
        """The program's connections to the socket."""
        names = [n for n in self.c.bus("ListNames") if n.startswith(":")]
        pids = []
        for n in names:
            try:
                pids.append(self.c.bus("GetConnectionUnixProcessID", "s", n))
            except dbus.DBusError:
                pass  # it has gone
        return pids.count(p.pid)

    def sockets(self, p):
        found = set()
        for n in os.listdir(f"/proc/{p.pid}/fd"):
            try:
                found.add(os.readlink(f"/proc/{p.pid}/fd/{n}"))
            except FileNotFoundError:
                pass  # it was closed meanwhile
        return {f for f in found if f.startswith("socket:")}

    def connections(self):
        """The connections to the service's socket: it is this end of each that has the socket's name."""
        with open("/proc/net/unix", encoding="utf-8") as f:
            rows = [line.split() for line in f]
        return sum(len(r) == 8 and r[7] == self.socket_path and r[5] == "03" for r in rows)

    def assert_direct(self, p):
        until(lambda: self.connections() == 1, "it has a connection to the service's socket")
        until(lambda: self.on_the_bus(p) == 0, "it has no connection to the bus")

    def held_and_let_go(self, p):
        """The service's decisions reach the program."""
        path = self.call("GetClientByPID", "u", p.pid)
        self.c.call(NAME, path, CLIENT, "Suspend")
        until(lambda: self.get("State", path, CLIENT) == "suspended", "it is suspended")
        p.tell("begin 0")
        self.c.call(NAME, path, CLIENT, "Resume")
        p.expect("tracked|untracked")
        self.assertEqual(p.ask("complete 0"), "completed")


class Alone(Sockets):
    def test_registers_while_the_bus_stands_still(self):
        self.bus.process.kill(signal.SIGSTOP)
        try:
            p = self.program(env={"XSCHED_BUS_ADDRESS": self.address})
            until(lambda: p.counters()["state"] == ATTACHED, "it is attached")
        finally:
            self.bus.process.kill(signal.SIGCONT)
        self.assert_attached(p)
        self.assert_direct(p)
        self.held_and_let_go(p)

    def test_needs_no_bus_at_all(self):
        p = self.start(f"xsched:path={self.socket_path}")
        self.service.stop()
        until(lambda: p.counters()["state"] != ATTACHED, "it has lost the service")
        self.assertEqual(p.ask("begin 0"), "untracked")
        self.assertEqual(p.ask("complete 0"), "completed")
        self.service.start()
        self.c = self.connect()
        self.assert_attached(p)
        self.held_and_let_go(p)

    def test_the_process_ends(self):
        p = self.start()
        p.process.kill()
        self.assert_gone()


class Ends(Sockets):
    def test_service_stops_and_starts(self):
        p = self.start()
        self.assert_direct(p)
        for _ in range(3):
            self.service.stop()
            self.c = self.connect()
            until(lambda: self.on_the_bus(p) == 1, "it waits at the bus")
            self.assertEqual(p.ask("begin 0"), "untracked")
            self.assertEqual(p.ask("complete 0"), "completed")
            self.service.start()
            self.c = self.connect()
            self.assert_attached(p)
            self.assert_direct(p)
        self.held_and_let_go(p)

    def test_an_older_service_and_a_newer_one(self):
        self.service.stop()
        now, self.service.options = self.service.options, []
        self.service.start()
        self.c = self.connect()
        p = self.start()
        self.assertEqual(self.on_the_bus(p), 1)
        self.held_and_let_go(p)
        self.service.stop()
        self.service.options = now
        self.service.start()
        self.c = self.connect()
        self.assert_attached(p)
        self.assert_direct(p)


class Kept(Sockets):
    keep = True

    def test_a_restart_is_survived(self):
        p = self.start()
        path = self.call("GetClientByPID", "u", p.pid)
        self.all_kept()
        for _ in range(3):
            self.service.kill()
            self.service.start()
            self.c = self.connect()
            self.assertEqual(self.call("GetClientByPID", "u", p.pid), path)
            self.assertEqual(p.counters()["state"], ATTACHED)
            self.assert_direct(p)
            self.held_and_let_go(p)
        p.close_input()
        self.assert_gone()

    def test_the_service_comes_between(self):
        """It listens and has its name after the program has looked for the socket, and before it watches the name."""
        place = os.path.join(self.directory, "place")
        os.symlink(self.socket_path, place)
        p = self.start(f"xsched:path={place};{self.bus.address}")
        self.all_kept()
        before = self.sockets(p)
        p.process.kill(signal.SIGSTOP)
        self.service.kill()
        os.unlink(place)
        self.service.start()
        self.c = self.connect()
        self.bus.process.kill(signal.SIGSTOP)
        try:
            p.process.kill(signal.SIGCONT)
            until(lambda: self.sockets(p) - before, "it connects to the bus")
            before |= self.sockets(p)
            os.symlink(self.socket_path, place)
        finally:
            self.bus.process.kill(signal.SIGCONT)
        until(lambda: self.sockets(p) - before, "it connects to the service")
        self.assert_direct(p)
        self.held_and_let_go(p)

    def test_the_service_ends_before_it_accepts(self):
        """A service that has not accepted the program yet ends, and the next one has its name before the program is on
        the bus: whoever hung up, the program goes to that one's socket."""
        place = os.path.join(self.directory, "place")
        os.symlink(self.socket_path, place)
        p = self.start(f"xsched:path={place};{self.bus.address}")
        self.all_kept()
        p.process.kill(signal.SIGSTOP)
        self.service.kill()
        os.unlink(place)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ends:
            ends.bind(place)
            ends.listen()
            p.process.kill(signal.SIGCONT)
            self.assertTrue(is_readable(ends.fileno(), DEADLINE), "it connects to the socket")
            p.process.kill(signal.SIGSTOP)
            self.service.start()
            self.c = self.connect()
        os.unlink(place)
        os.symlink(self.socket_path, place)
        p.process.kill(signal.SIGCONT)
        self.assert_direct(p)
        self.held_and_let_go(p)


class Refused(Sockets):
    """A program that the socket refuses uses the bus."""

    options = ()

    def listen(self, answer):
        """A socket that is not the service's: calls answer(connection), and closes the connection."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.bind(self.socket_path)
        s.listen()
        self.taken = []

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                self.taken.append(c)
                answer(c)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(s.close)
        self.addCleanup(s.shutdown, socket.SHUT_RDWR)

    def assert_by_bus(self):
        p = self.start()
        self.assertEqual(self.on_the_bus(p), 1)
        self.held_and_let_go(p)
        self.assertEqual(len(self.taken), 1)

    def test_hung_up_on(self):
        """It tries the socket again when it knows who has the service's name, and once: a service may have ended."""
        self.listen(lambda c: None if len(self.taken) == 2 else c.close())
        p = self.program(env={"XSCHED_BUS_ADDRESS": self.address}, wait=False)
        until(lambda: len(self.taken) == 2 and self.on_the_bus(p) == 0, "it tries the socket again")
        self.taken[1].close()
        until(lambda: self.on_the_bus(p) == 1, "it is on the bus again")
        p.expect("ready")
        self.assert_attached(p)
        self.held_and_let_go(p)
        self.assertEqual((self.on_the_bus(p), len(self.taken)), (1, 2))

    def test_rejected(self):
        self.listen(lambda c: (c.sendall(b"REJECTED\r\n"), c.shutdown(socket.SHUT_WR)))
        self.assert_by_bus()

    def test_nonsense(self):
        self.listen(lambda c: (c.sendall(b"\xff" * 4096), c.shutdown(socket.SHUT_WR)))
        self.assert_by_bus()

    def test_nobody_answers(self):
        self.listen(lambda c: None)
        self.assert_by_bus()

    def test_nobody_listens(self):
        self.listen(lambda c: None)
        os.unlink(self.socket_path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.bind(self.socket_path)
        p = self.start()
        self.assertEqual(self.on_the_bus(p), 1)


class Crowded(Sockets):
    """There are more programs than places."""

    command = ("prlimit", "--nofile=512", "--")
    PLACES = 512 // 4 // 4 // 8

    def test_the_others_are_on_the_bus(self):
        n = self.PLACES + 4
        programs = [self.program(env={"XSCHED_BUS_ADDRESS": self.address}) for _ in range(n)]
        until(lambda: self.get("NQueues") == n, "all have registered")
        until(lambda: [self.on_the_bus(p) for p in programs].count(1) == n - self.PLACES, "the others are on the bus")
        self.assertEqual(self.connections(), self.PLACES)
        for p in programs:
            self.held_and_let_go(p)


if __name__ == "__main__":
    main()
