#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Accounting=: who sets it, how the time of a program that is alone is counted, and the message about a group that
ends"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

LINE = " ran on GPUs for "


class Accounting(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def group(self, client):
        return self.call("GetGroup", "s", client.get("Group"))

    def device(self):
        return self.call("ListDevices")[0][5]

    def of(self, path, name="RunUSec"):
        return self.get(name, path, GROUP)

    def test_busy_and_idle(self):
        """A client alone works twice for a measured time, and is idle in between."""
        client, slot = self.tenant("alone")
        group = self.group(client)
        self.assertEqual(self.of(group, "GPUTimeSource"), "tracked")
        total = 0
        for _ in range(2):
            before = time.monotonic_ns()
            slot.edge(1)
            until(lambda: self.of(group) > total + 200_000, "it runs")
            slot.edge(0)
            until(lambda: self.get("NReady", self.device(), DEVICE) == 0, "it is idle")
            ran = self.of(group) - total
            # All of its run time is between our two looks.
            self.assertLessEqual(ran, (time.monotonic_ns() - before) / 1000)
            self.assertGreater(ran, 200_000)
            total += ran
            self.assertEqual((self.of(group), self.of(group, "GPUTimeUSec")), (total, total))

    def test_a_busy_program_is_never_at_zero(self):
        """A real shim launches as fast as it can: it is sampled, and the reported sum never falls."""
        p = self.program()
        group = self.call("GetGroup", "s", self.get("Group", self.call("GetClientByPID", "u", p.pid), f"{NAME}.Client"))
        seen, source = [0], set()
        for _ in range(100):
            p.ask("run 20000")
            seen.append(self.of(group, "GPUTimeUSec"))
            source.add(self.of(group, "GPUTimeSource"))
        self.assertEqual(seen, sorted(seen))
        self.assertGreater(seen[-1], 0)
        self.assertIn("sampled", source)
        self.assertGreater(p.counters()["launches"], p.counters()["tracked"])
        busy = self.get("BusyUSec", self.device(), DEVICE)
        self.assertGreaterEqual(busy, seen[-1])

    def test_what_samples_cost(self):
        """A program that does nothing but launch is watched for a hundredth of its time on average: the pause after a
        window lasts at least fifty times as long as the window, however late the service is."""
        p = self.program()
        _, unwatched, launches, watched, longest = map(int, p.ask("sample 6000").split())
        self.assertGreater(launches, 0, "it was never watched")
        self.assertGreater(unwatched, 0, "it was always watched")
        # The first and the last window may have no whole pause beside them in the observed time.
        self.assertLessEqual(watched - longest, (watched + unwatched) / 50 + longest)

    def test_exact(self):
        self.c.call(
            "org.xsched.Scheduler", PATH, NAME, "SetPolicy", "ssta{sv}", "", "", 0, {"Accounting": ("s", "exact")}
        )
        p = self.program()
        p.ask("run 20000")
        c = p.counters()
        self.assertEqual(c["tracked"], c["launches"])
        self.assertEqual(self.get("Accounting", self.device(), DEVICE), "exact")

    def test_who_sets_it(self):
        client, _ = self.tenant("one")
        group = self.group(client)
        put = lambda path, what, value: self.c.call(
            NAME, path, "org.freedesktop.DBus.Properties", "Set", "ssv", what, "Accounting", ("s", value)
        )
        self.assertEqual(self.of(group, "Accounting"), "auto")
        put(self.device(), DEVICE, "off")
        self.assertEqual(self.of(group, "GPUTimeSource"), "none")
        put(group, GROUP, "sampled")
        self.assertEqual((self.of(group, "Accounting"), self.of(group, "GPUTimeSource")), ("sampled", "tracked"))
        for path, what in ((group, GROUP), (self.device(), DEVICE)):
            self.assert_error(f"{NAME}.Error.InvalidSetting", put, path, what, "always")
        self.assert_error(
            f"{NAME}.Error.InvalidSetting",
            self.c.call,
            NAME,
            client.path,
            f"{NAME}.Client",
            "Set",
            "ta{sv}",
            0,
            {"Accounting": ("s", "exact")},
        )
        self.c.call(NAME, group, GROUP, "Set", "ta{sv}", 0, {"Unset": ("as", ["Accounting"])})
        self.assertEqual(self.of(group, "Accounting"), "auto")

    def test_reload(self):
        client, slot = self.tenant("one")
        self.assertEqual(slot.watch, 3)
        self.service.configure("[Scheduler]\nAccounting=off\n")
        self.call("Reload")
        self.assertEqual((self.get("Accounting", self.device(), DEVICE), slot.watch), ("off", 0))
        self.service.configure("[Scheduler]\nAccounting=off\n[Device *]\nAccounting=exact\n")
        self.call("Reload")
        self.assertEqual(slot.watch, 3)

    def test_leaving_begins_no_new_period(self):
        """A process that restarts when its group has used up its Max= still has only one quota a period."""
        name = self.raw().get("Group")
        self.call("SetGroup", "sta{sv}", name, 0, {"Max": ("u", 10), "Period": ("t", 1_000_000)})
        group = self.call("GetGroup", "s", name)
        begun = time.monotonic()
        for _ in range(20):
            client = self.raw()
            slot = client.queue()
            slot.edge(1)
            until(lambda: slot.held, "its quota is used up", nap=0.001)
            slot.wait_at_gate(1)
            client.close()
            until(lambda: len(self.call("ListClients")) == 1, "it is gone", nap=0.001)
        ran = self.of(group, "GPUTimeUSec") / 1e6
        self.assertGreater(ran, 0.09)
        self.assertLess(ran, 0.2 + (time.monotonic() - begun) / 10)

    def lines(self):
        return self.service.messages().count(LINE)

    def use(self, busy):
        """A client in this process's own cgroup, which is a group as long as the client is there."""
        client = self.raw()
        slot = client.queue()
        name = client.get("Group")
        if busy:
            group = self.call("GetGroup", "s", name)
            slot.edge(1)
            until(lambda: self.of(group) > 0, "it runs", nap=0.001)
            slot.edge(0)
        client.close()
        until(lambda: name not in [g[0] for g in self.call("ListGroups")], "the group is gone", nap=0.001)
        return name

    def test_the_end_of_a_group_is_told(self):
        """One message for each group that ran, with its name; none for an idle group; and no more than the user's
        messages have room for."""
        self.use(busy=False)
        self.assertEqual(self.lines(), 0)
        name = self.use(busy=True)
        self.assertEqual(self.lines(), 1)
        self.assertIn(name + LINE, self.service.messages())
        before = time.monotonic()
        n = 260
        for _ in range(n):
            self.use(busy=True)
        told = self.lines()
        self.assertGreater(told, 100)
        self.assertLess(told, n)
        self.assertLessEqual(told, 202 + 5 * (time.monotonic() - before))
        self.assertEqual(self.service.messages().count("more messages than are written down"), 1)


if __name__ == "__main__":
    main()
