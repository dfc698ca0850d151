#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How launches are seen, by queue: the clients' reports, the places that show them, and launches that a hold does not
stop."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID = "pci:0000:01:00.0"
KINDS = ["unknown", "calls", "doorbell", "create", "poll", "none"]  # common/page.h: PageHooked
GATE, INTERRUPT = 1, 3
CHANGES_MAX = 8  # service/core/queue.c: HOOKED_CHANGES_MAX


class Hooked(Case):
    def queue(self, r, hooked, level=GATE, **more):
        return r.queue(Hooked=("s", hooked), Level=("u", level), **more)

    def of(self, r, index=0):
        path = f"{PATH}/queue/{r.ids[index]}"
        return self.get("Hooked", path, QUEUE), self.get("Unheld", path, QUEUE)

    def counts(self):
        told = self.call("ListStatistics", "t", 0)
        (values,) = [v for kind, _, device, v in told if (kind, device) == ("device", DEVICE_ID)]
        counts = {k: values[f"NQueues{k.title()}"] for k in KINDS if values[f"NQueues{k.title()}"]}
        self.assertEqual(sum(counts.values()), values["NQueues"])
        return counts, values["NQueuesUnheld"]

    def is_degraded(self):
        return [d for d in self.get("Degraded") if d.startswith("unheld queues: ")] != []

    def test_what_a_library_says(self):
        """A client that calls for each launch need not report it."""
        self.program(queues=2)
        self.assertEqual([self.get("Hooked", q[4], QUEUE) for q in self.call("ListQueues")], ["calls"] * 2)
        self.assertEqual(self.counts(), ({"calls": 2}, 0))

    def test_registered(self):
        r = self.raw()
        r.queue()
        for kind in [*KINDS[1:], "gate", ""]:
            self.queue(r, kind)
        expected = ["unknown", *KINDS[1:], "unknown", "unknown"]
        self.assertEqual([self.of(r, i) for i in range(len(expected))], [(k, k in ("poll", "none")) for k in expected])
        self.assertEqual(self.counts(), ({**{k: 1 for k in KINDS[1:]}, "unknown": 3}, 2))
        self.assertTrue(self.is_degraded())
        self.assert_error(
            INVALID_ARGS,
            self.call,
            "RegisterQueue",
            "oa{sv}",
            r.path,
            {"Device": ("s", DEVICE_ID), "Backend": ("s", "test"), "Hooked": ("u", 1)},
        )
        for kind in ("poll", "none"):
            self.assertTrue(self.is_degraded())
            r.unregister([k for k in expected].index(kind))
            expected.remove(kind)
        self.assertFalse(self.is_degraded())
        self.assertEqual(self.counts()[1], 0)

    def test_what_the_driver_can_stop(self):
        """The queue is held all the same, unless the administrator allows only the gate."""
        r = self.raw()
        self.queue(r, "poll", INTERRUPT)
        self.assertEqual((self.of(r), self.counts(), self.is_degraded()), (("poll", False), ({"poll": 1}, 0), False))
        self.call("SetPolicy", "ssta{sv}", DEVICE_ID, "", 0, {"Preemption": ("s", "1")})
        self.assertEqual((self.of(r), self.is_degraded()), (("poll", True), True))
        self.call("SetPolicy", "ssta{sv}", DEVICE_ID, "", 0, {"Unset": ("as", ["Preemption"])})
        self.assertEqual((self.of(r), self.is_degraded()), (("poll", False), False))

    def test_it_turns_out(self):
        """The service takes the slot's word where it is valid, and reads it again: subscribers get a signal for each
        change."""
        r = self.raw()
        slot = self.queue(r, "create")
        self.assertEqual(self.of(r), ("create", False))
        for wrong in (0, len(KINDS), 0xFFFFFFFF):
            slot.hooked = wrong
            self.assertEqual(self.of(r), ("create", False))
        slot.hooked = KINDS.index("poll")
        self.assertEqual((self.of(r), self.counts(), self.is_degraded()), (("poll", True), ({"poll": 1}, 1), True))
        slot.hooked = KINDS.index("doorbell")
        self.assertEqual((self.of(r), self.counts()), (("doorbell", False), ({"doorbell": 1}, 0)))
        self.assertFalse(self.is_degraded())
        for i in range(2, CHANGES_MAX + 6):
            slot.hooked = KINDS.index("doorbell" if i % 2 else "poll")
            last = self.of(r)
        self.assertEqual(last, ("doorbell", False))
        slot.hooked = KINDS.index("poll")
        self.assertEqual(self.of(r), last)

    def test_an_edge_tells(self):
        """Where the service looks at the queue anyway, it reports a change without a call."""
        r, other = self.raw(), self.raw()
        slot, beside = self.queue(r, "create"), other.queue()
        slot.edge(1)
        until(lambda: slot.watch)
        slot.hooked = KINDS.index("poll")
        slot.edge(0)
        until(self.is_degraded)
        beside.edge(1)

    def test_client_goes(self):
        r = self.raw()
        self.queue(r, "none")
        self.assertTrue(self.is_degraded())
        r.close()
        until(lambda: not self.is_degraded())

    def test_check(self):
        r = self.raw()
        self.queue(r, "calls")
        self.queue(r, "poll", INTERRUPT)
        self.queue(r, "none")
        options = f"--bus-address={self.bus.address}", "--json=short"
        p = subprocess.run(
            [os.environ["XSCHEDCTL"], *options, "check", str(os.getpid())],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        self.assertEqual(p.returncode, 1)
        said = [(row["state"], row["detail"]) for row in json.loads(p.stdout) if row["check"] == "hooked"]
        self.assertEqual([state for state, _ in said], ["warning", "failed"])
        self.assertIn("past the gate (poll): it is held by being taken off its device", said[0][1])
        self.assertIn("past the gate (none), and cannot be taken off its device: nothing holds it", said[1][1])


if __name__ == "__main__":
    main()
