#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reasons of waits: the objects' properties while a client waits, and the counting of its time."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID = "pci:0000:01:00.0"


class Waits(Case):
    # The starvation floor would give the low client turns in between.
    config = "[Scheduler]\nStarveAfter=1h\nTimeSlice=50ms\n"

    def setUp(self):
        super().setUp()
        self.low, self.low_slot = self.tenant("low", Priority=-10)
        self.low_group = self.call("GetGroup", "s", self.low.get("Group"))
        self.low_queue = f"{PATH}/queue/{self.low.ids[0]}"

    def held(self, slot=None):
        """A high client and a low client, both with work."""
        high, slot = self.tenant("high")
        slot.edge(1)
        self.low_slot.edge(1)
        until(lambda: self.low_slot.held and self.waits(), "the low one waits")
        return high, slot

    def waits(self):
        """All three give the same reason, and only the times differ, once nothing changes between the first and the
        last query."""

        def ask(path, interface):
            return [w[:5] for w in self.get("Waits", path, interface)]

        while True:
            first = self.get("Waits", self.low.path, CLIENT)
            said = [ask(self.low_queue, QUEUE), ask(self.low_group, GROUP)]
            same = [w[:5] for w in first]
            if ask(self.low.path, CLIENT) == same:
                self.assertEqual(said, [same] * 2)
                return first

    def test_priority(self):
        self.assertEqual(self.waits(), [])
        before = now_ns() // 1000
        high, slot = self.held()
        device, reason, by, since, until_usec, for_usec = self.waits()[0]
        self.assertEqual((device, reason, by, until_usec), (DEVICE_ID, "priority", high.get("Group"), 0))
        self.assertTrue(before <= since <= now_ns() // 1000)
        self.assertGreater(self.waits()[0][5], for_usec)
        self.assertEqual(high.get("Waits"), [])
        slot.edge(0)
        until(lambda: not self.low_slot.held, "the low one runs")
        self.assertEqual(self.waits(), [])

    def test_share(self):
        other, slot = self.tenant("other", Priority=-10)
        slot.edge(1)
        self.low_slot.edge(1)

        def waits(who, for_whom):
            for s in (slot, self.low_slot):
                s.wait_at_gate(int(s.held))  # what it had launched before has ended
            return [w[1:3] for w in who.get("Waits")] == [("share", for_whom.get("Group"))]

        until(lambda: waits(self.low, other), "the other one's turn")
        until(lambda: waits(other, self.low), "this one's turn")

    def test_suspended(self):
        """The reasons of a suspension, the nearest first."""
        for path, interface, by in (
            (self.low_group, GROUP, self.low.get("Group")),
            (self.low.path, CLIENT, f"client:{self.low.get('Id')}"),
            (self.low_queue, QUEUE, f"queue:{self.low.ids[0]}"),
        ):
            self.c.call(NAME, path, interface, "Suspend")
            self.assertEqual([w[:3] for w in self.waits()], [(DEVICE_ID, "suspended", by)])
        for path, interface in ((self.low_group, GROUP), (self.low.path, CLIENT), (self.low_queue, QUEUE)):
            self.assertTrue(self.waits())
            self.c.call(NAME, path, interface, "Resume")
        self.assertEqual(self.waits(), [])

    def test_max(self):
        self.call("SetGroup", "sta{sv}", self.low.get("Group"), 0, {"Max": ("u", 1), "Period": ("t", 10_000_000)})
        self.low_slot.edge(1)
        until(lambda: [w[1:3] for w in self.waits()] == [("max", self.low.get("Group"))], "the quota to be used up")
        _, _, _, since, until_usec, _ = self.waits()[0]
        self.assertGreater(until_usec, since)
        self.assertLessEqual(until_usec - since, 10_000_000)

    def test_time_counts_while_it_waits(self):
        """Times of the client and its queue before any release; afterwards no time falls, and without work no time
        counts."""
        told = lambda: [self.get("HeldUSec", p, i) for p, i in ((self.low.path, CLIENT), (self.low_queue, QUEUE))]
        _, slot = self.held()
        for _ in range(3):
            before = told()
            until(lambda: all(a > b for a, b in zip(told(), before)), "the time to count")
        self.low_slot.edge(0)
        until(lambda: self.waits() == [], "it is idle")
        after = told()
        self.assertTrue(all(a >= b for a, b in zip(after, before)))
        slot.edge(0)
        self.assertEqual(told(), after)
        self.assertEqual(told(), after)

    def test_time_counts_while_it_is_suspended(self):
        """A suspended client waits though no other client wants the device."""
        self.c.call(NAME, self.low.path, CLIENT, "Suspend")
        self.assertEqual(self.low.get("HeldUSec"), 0)
        self.low_slot.edge(1)
        until(lambda: self.low.get("HeldUSec") > 0, "the time to count")


if __name__ == "__main__":
    main()
