#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fifty programs work on one device while the service and the bus are stopped, killed and restarted in every way: no
program is lost or registers twice, none is held for a program that has ended, settings stay, and results are right."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

N = 50
DEVICE_ID = "pci:0000:01:00.0"
ATTACHED = 2


def expected_sum(steps):
    value = 0
    for k in range(1, steps + 1):
        value = (value * 3 + k) & 0xFFFFFFFFFFFFFFFF
    return value


class NothingLost(Case):
    keep = True
    # Short turns, because every program has to be seen at work many times.
    config = "[Scheduler]\nTimeSlice=1ms\n[Limits]\nMaxClientsPerUser=200\n"

    def setUp(self):
        super().setUp()
        # Each asks for a little less than the others, and so is an entity of its own.
        self.programs = [self.program(DEVICE_ID, wait=False, env={"XSCHED_WEIGHT": str(99 - i)}) for i in range(N)]
        for p in self.programs:
            p.expect("ready")
        self.set_something()
        self.before = self.state()
        for p in self.programs:
            p.tell("work")
            p.expect("working")
        self.everybody_gets_on("at the start")
        self.all_kept()

    def tearDown(self):
        steps = 0
        for p in self.programs:
            p.tell("rest")
        for p in self.programs:
            n, value = map(int, p.line().split())
            self.assertEqual(value, expected_sum(n))
            self.assertEqual(p.counters()["launches"], n)
            steps += n
        self.assertGreater(steps, N)
        super().tearDown()

    def set_something(self):
        """Settings at run time, of every kind."""
        self.call("SetGroup", "sta{sv}", "later.service", 0, {"Priority": ("i", 12)})
        self.call("SetPolicy", "ssta{sv}", DEVICE_ID, "", 0, {"LingerUSec": ("t", 123)})
        clients = sorted(self.call("ListClients"))
        for c in clients[:3]:
            self.c.call(NAME, c[5], CLIENT, "Set", "ta{sv}", 0, {"Threshold": ("u", 5)})

    def state(self):
        """The clients, and their settings."""
        clients = sorted(self.call("ListClients"))
        device = next(d[-1] for d in self.call("ListDevices") if d[0] == DEVICE_ID)
        return {
            "clients": clients,
            "queues": sorted(self.call("ListQueues")),
            "weights": [self.get("Weight", c[5], CLIENT) for c in clients],
            "thresholds": [self.get("Threshold", c[5], CLIENT) for c in clients],
            "group": self.get("Priority", self.call("GetGroup", "s", "later.service"), GROUP),
            "linger": self.get("LingerUSec", device, DEVICE),
        }

    def progress(self):
        for p in self.programs:
            p.tell("progress")
        return [int(p.line()) for p in self.programs]

    def everybody_gets_on(self, when):
        start = self.progress()
        until(
            lambda: all(now > then for now, then in zip(self.progress(), start)),
            f"everybody to get on {when}",
            nap=0.02,
        )

    def everybody_is_there(self):
        """Checks that programs are scheduled as before: some wait for others, and all make progress."""
        self.assertEqual(self.state(), self.before)
        verdicts = self.get("NVerdicts")
        until(lambda: self.get("NVerdicts") > verdicts + N, "turns to be taken")
        self.everybody_gets_on("again")
        self.assertEqual(self.state(), self.before)
        self.assertEqual({(c["state"], c["queues"]) for c in (p.counters() for p in self.programs)}, {(ATTACHED, 1)})

    def restart_bus(self):
        """The service cannot work without the bus, ends, and is started again by its manager."""
        self.c.close()
        self.bus.restart()
        self.assertEqual(self.service.process.wait(), 1)
        self.service.start()
        self.c = self.connect()

    def test_restart(self):
        self.service.stop()
        self.service.start()
        self.everybody_is_there()

    def test_kill(self):
        self.service.kill()
        self.everybody_gets_on("without a service")
        self.service.start()
        self.everybody_is_there()

    def test_watchdog(self):
        """The service hangs, and is killed much later for that."""
        self.service.freeze()
        self.everybody_gets_on("while the service hangs")
        self.service.process.kill(signal.SIGABRT)
        self.service.thaw()
        self.assertEqual(self.service.process.wait(), -signal.SIGABRT)
        self.service.start()
        self.everybody_is_there()

    def test_bus_restart(self):
        self.restart_bus()
        self.everybody_is_there()

    def test_bus_dies_with_the_service_hanging(self):
        self.service.freeze()
        self.c.close()
        self.bus.restart()
        self.everybody_gets_on("with neither")
        self.service.thaw()
        self.assertEqual(self.service.process.wait(), 1)
        self.service.start()
        self.c = self.connect()
        self.everybody_is_there()

    def test_upgrade(self):
        """An upgrade to another build, and back."""
        for program, version in ((os.environ["XSCHEDD_NEXT"], "77.0"), (os.environ["XSCHEDD"], None)):
            self.service.program = program
            self.service.stop()
            self.service.start()
            self.everybody_is_there()
            self.assertEqual(self.get("Version") == "77.0", version is not None)

    def test_upgrade_to_another_page(self):
        """Programs with a page of another version run without the service, and register again with one that knows
        it."""
        self.service.program = os.environ["XSCHEDD_NEXT_LAYOUT"]
        self.service.stop()
        self.service.start()
        self.assertEqual(self.get("Version"), "88.0")
        self.assertNotIn("Took over 50", self.service.messages())
        self.everybody_gets_on("with a service that does not know their page")
        until(lambda: self.get("NClients") == 0, "nobody to be taken for a client")
        maps = f"/proc/{self.programs[0].pid}/maps"
        until(lambda: "its page is of another version" in open(maps, encoding="utf-8").read(), "it to say why")
        self.service.program = os.environ["XSCHEDD"]
        self.service.stop()
        self.service.start()
        until(lambda: (self.get("NClients"), self.get("NQueues")) == (N, N), "all to be back")
        state = self.state()
        self.assertEqual(sorted(c[1] for c in state["clients"]), sorted(p.pid for p in self.programs))
        self.assertEqual(sorted(state["weights"]), sorted(self.before["weights"]))
        self.assertEqual((state["group"], state["linger"]), (self.before["group"], self.before["linger"]))
        self.before = state
        self.everybody_is_there()


if __name__ == "__main__":
    main()
