#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Priority holds of a user with many holds, many clients and many processes: the cost of one hold, and the callers that
wait for it. Times are compared with those of the same run."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

DESCENDANTS = 1
DEPTH, CLIENTS, HOLDS = 40, fewer(20), 20


def seconds(function):
    start = now_ns()
    function()
    return (now_ns() - start) / 1e9


def median(times):
    return sorted(times)[len(times) // 2]


class Line:
    """Another user's chain of processes, each started by the one before. The last but one has clients; the last takes
    holds for its own children, which none of those clients are, and executes requests."""

    def __init__(self, address):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.ours.close()
                self.ours = theirs
                become_nobody()
                self.run(address)
            finally:
                os._exit(0)
        theirs.close()
        self.answer()

    # in its processes

    def run(self, address):
        for _ in range(DEPTH):
            if self.is_parent():
                return
        with dbus.Connection(address) as c:
            clients = [Raw(c) for _ in range(CLIENTS)]
            if not self.is_parent():
                with dbus.Connection(address) as own:
                    self.serve(own, [])
            assert clients

    def is_parent(self):
        """Of a new process, and that has ended."""
        pid = os.fork()
        if pid:
            self.ours.close()
            os.waitpid(pid, 0)
        return pid != 0

    def serve(self, c, holds):
        hold = lambda: c.call(NAME, PATH, MANAGER, "HoldPriority", "sst", "low", "", DESCENDANTS)[0]
        self.ours.sendall(b".")
        while word := self.ours.recv(64).decode():
            if word == "take":
                holds += [hold() for _ in range(HOLDS)]
            elif word == "drop":
                for fd in holds:
                    os.close(fd)
                holds = []
            elif word == "one":
                os.close(hold())
            elif word == "register":
                Raw(c).close()
            self.ours.sendall(b".")

    # in the test

    def answer(self):
        if not self.ours.recv(64):
            raise AssertionError("the other user's process has failed")

    def tell(self, word):
        self.ours.sendall(word.encode())

    def ask(self, word):
        self.tell(word)
        self.answer()

    def end(self):
        self.ours.close()
        os.waitpid(self.pid, 0)


@unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
class Holds(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def setUp(self):
        super().setUp()
        with open(f"{self.directory}/classes.d/low.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=-50\n")
        self.call("Reload")
        self.line = Line(self.bus.address)
        self.addCleanup(self.line.end)
        self.assertEqual(self.get("NClients"), CLIENTS)

    def cpu_ns(self, function):
        """And for what follows from it: what has ended is through when this is answered, because it comes before."""
        return super().cpu_ns(lambda: (function(), self.get("NClients")))

    def test_one_costs_the_same_beside_many(self):
        one = lambda: min(self.cpu_ns(lambda: self.line.ask("one")) for _ in range(5))
        few = one()
        self.line.ask("take")
        self.n_holds = HOLDS
        many = one()
        self.assertLess(many, 3 * few, "ns")

    def test_verdicts_beside_them(self):
        """An edge does not wait for the work of a new or ended hold."""
        _, low = self.tenant("low", Priority=-10)
        _, high = self.tenant("high", Priority=10)
        low.edge(1)
        self.line.ask("take")

        def late():
            start = now_ns()
            high.edge(1)
            until(lambda: low.held, "the low one is held", nap=0)
            took = now_ns() - start
            high.edge(0)
            until(lambda: not low.held, "the low one is let go", nap=0)
            return took / 1e9

        quiet, beside = [], []
        for _ in range(15):
            quiet.append(late())
            self.line.tell("one")
            beside.append(late())
            self.line.answer()
        self.assertLess(median(beside), 40 * median(quiet), f"{sorted(beside)} beside, {sorted(quiet)} without")

    def test_registrations_beside_them(self):
        """A client of the same user costs one look at its ancestors, however many holds may be for it."""
        register = lambda: min(self.cpu_ns(lambda: self.line.ask("register")) for _ in range(5))
        self.line.ask("take")
        few = register()
        for _ in range(3):
            self.line.ask("take")
        many = register()
        self.assertLess(many, 2 * few, "ns")


if __name__ == "__main__":
    main()
