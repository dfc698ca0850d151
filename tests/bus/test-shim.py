#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libxsched in a process that is suspended, alone on its device: then the service stops, dies and comes back."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *


class Suspended(Case):
    # Launches have to pass uncounted here, so the service does not watch clients for their own accounts.
    config = "[Scheduler]\nAccounting=off\n"

    def setUp(self):
        super().setUp()
        self.p = self.program()

    def path(self):
        return self.call("GetClientByPID", "u", self.p.pid)

    def backlog(self):
        return self.get("Backlog", self.call("ListQueues")[0][4], QUEUE)

    def waits(self):
        with open(self.call("Dump"), encoding="utf-8") as f:
            return "waiters=1 " in f.read()

    def suspend(self, uncounted=0):
        """Suspends the program, and has it wait at its gate. Launches that passed uncounted before that may count as
        one launch by then."""
        self.c.call(NAME, self.path(), CLIENT, "Suspend")
        self.p.tell("begin 0")
        until(self.waits, "it waits")
        until(lambda: 1 <= self.backlog() <= 1 + uncounted, "the service knows of the launch that waits")
        self.assertIsNone(self.p.line(0))

    def resume(self):
        self.c.call(NAME, self.path(), CLIENT, "Resume")
        self.p.expect("tracked")

    def test_resume(self):
        self.assertEqual(self.p.ask("begin 0"), "untracked")
        self.suspend(uncounted=1)
        self.resume()
        self.assertEqual(self.p.ask("complete 0"), "completed")
        self.assertEqual(self.p.counters()["waited"], 1)

    def test_service_stops(self):
        self.suspend()
        self.service.freeze()
        self.p.expect("tracked")
        self.assertEqual(self.p.ask("begin 0"), "tracked")  # does not wait again
        self.service.thaw()
        self.assertEqual(self.p.counters()["state"], 2)

    def test_service_dies(self):
        self.suspend()
        self.service.kill()
        self.p.expect("tracked")
        until(lambda: self.p.counters()["state"] == 3, "it is on its own")
        self.assertEqual(self.p.ask("begin 0"), "untracked")

        # The next service knows nothing of the suspension, and gets the process with all its counts.
        self.service.start()
        until(lambda: self.p.counters()["state"] == 2 and self.get("NQueues") == 1, "it registers again")
        self.suspend(uncounted=1)
        self.resume()
        self.assertEqual(self.p.counters()["launches"], 3)

    def test_client_dies(self):
        self.suspend()
        self.p.process.kill(signal.SIGKILL)
        self.assert_gone()


class Forsaken(Case):
    """A program closes all descriptors but its own, and has the numbers for itself then. It is as if we were not there:
    nothing is written there, read from there or closed; nothing spins."""

    def cpu_s(self, pid):
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def setUp(self):
        super().setUp()
        self.p = self.program(queues=2)
        self.other, self.slot = self.tenant("other")
        self.slot.edge(1)

    def untouched(self):
        self.assertEqual(self.p.ask("read"), "0 0")

    def test_numbers_used_again(self):
        for n in (4, 200, 480):
            with self.subTest(n):
                self.assertEqual(self.p.ask("close"), "closed")
                self.assertEqual(self.p.ask(f"open {n}"), "opened")
                for _ in range(20):
                    self.assertEqual(self.p.ask("run 50"), "ran")
                self.untouched()
                until(lambda: self.get("NClients") == 2 and self.p.counters()["state"] == 2, "it registers again")
                before = self.cpu_s(self.p.pid)
                time.sleep(0.5)  # time of the observation
                self.assertLess(self.cpu_s(self.p.pid) - before, 0.1)
                self.untouched()
        self.service.kill()
        until(lambda: self.p.counters()["state"] == 3, "it is on its own")
        self.assertEqual(self.p.ask("run 50"), "ran")
        self.untouched()


if __name__ == "__main__":
    main()
