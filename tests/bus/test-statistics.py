#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Statistics for monitoring: ListStatistics compared with the objects, histograms compared with the latencies. Shares
by the settings: ListShares."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID, OTHER_ID = "pci:0000:01:00.0", "pci:0000:02:00.0"
GROUP_VALUES = {
    "Unit",
    "Class",
    "Priority",
    "Weight",
    "NClients",
    "Container",
    "Pod",
    "SlurmJob",
    "NQueues",
    "GPUTimeSource",
    "RunUSec",
    "KeptUSec",
    "WaitUSec",
    "DrainWaitUSec",
    "ServiceWaitUSec",
    "NPreempted",
    "NHeld",
    "HeldReason",
    "HeldUSec",
}
HOOKED = {f"NQueues{kind}" for kind in ("Calls", "Doorbell", "Create", "Poll", "None", "Unknown", "Unheld")}
DEVICE_VALUES = HOOKED | {
    "Name",
    "Backend",
    "Policy",
    "NEntities",
    "NReady",
    "NQueues",
    "NPreempted",
    "BusyUSec",
    "KeptUSec",
    "IdleUSec",
    "ReadyToRunHistogram",
    "Metrics",
}
SERVICE_VALUES = {
    "Version",
    "NClients",
    "NQueues",
    "NEdges",
    "NVerdicts",
    "NWakeups",
    "NLeaseExpired",
    "Degraded",
    "DecisionHistogram",
}


class Statistics(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def statistics(self):
        """{(kind, name of the group, device): values}"""
        got = self.call("ListStatistics", "t", 0)
        found = {(kind, name if kind == "group" else "", device): values for kind, name, device, values in got}
        self.assertEqual(len(found), len(got))
        self.assertEqual(got[-1][0], "service")
        return found

    def check_histogram(self, h):
        bounds, total_usec, n = h
        self.assertEqual([b for b, _ in bounds], [1 << i for i in range(27)])
        counts = [c for _, c in bounds]
        self.assertEqual(counts, sorted(counts))
        self.assertLessEqual(counts[-1], n)
        return counts, total_usec, n

    def held(self):
        """A high client with work on both devices, and a low client that waits for it on one."""
        high, slot = self.tenant("high", Priority=10)
        other = high.queue(OTHER_ID)
        low, low_slot = self.tenant("low")
        third, third_slot = self.tenant("third", OTHER_ID)
        for s in (slot, low_slot, other, third_slot):
            s.edge(1)
        until(lambda: low_slot.held and third_slot.held, "they wait")
        return high, slot, low, low_slot

    def test_nothing(self):
        ((key, values),) = self.statistics().items()
        self.assertEqual(key, ("service", "", ""))
        self.assertEqual(set(values), SERVICE_VALUES)
        self.assertEqual((values["NClients"], values["NLeaseExpired"], values["Degraded"]), (0, 0, []))
        self.assertEqual(values["Version"], self.get("Version"))
        self.assertEqual(self.check_histogram(values["DecisionHistogram"]), ([0] * 27, 0, 0))
        self.assert_error(INVALID_ARGS, self.call, "ListStatistics", "t", 1)

    def test_agrees_with_the_objects(self):
        high, slot, low, low_slot = self.held()
        s = self.statistics()
        groups = {n: self.call("GetGroup", "s", n) for kind, n, _ in s if kind == "group"}
        self.assertEqual({k for k in s if k[0] == "device"}, {("device", "", DEVICE_ID), ("device", "", OTHER_ID)})
        self.assertEqual(sorted(d for k, n, d in s if n == high.get("Group")), [DEVICE_ID, OTHER_ID])
        for (kind, name, device), values in s.items():
            if kind == "group":
                self.assertEqual(set(values), GROUP_VALUES)
                for key in ("Unit", "Class", "Priority", "Weight", "NClients", "Container", "Pod", "SlurmJob"):
                    self.assertEqual(values[key], self.get(key, groups[name], GROUP), key)
        for kind, name, device, values in self.call("ListStatistics", "t", 0):
            if kind == "device":
                self.assertEqual(set(values), DEVICE_VALUES)
                for key in DEVICE_VALUES - HOOKED - {"NQueues", "BusyUSec", "KeptUSec", "IdleUSec"}:
                    self.assertEqual(values[key], self.get(key, name, DEVICE), key)
                self.assertEqual((values["NQueues"], self.get("Id", name, DEVICE)), (2, device))
        waiting = s["group", low.get("Group"), DEVICE_ID]
        self.assertEqual((waiting["NHeld"], waiting["HeldReason"], waiting["NQueues"]), (1, "priority", 1))
        until(
            lambda: self.statistics()["group", low.get("Group"), DEVICE_ID]["HeldUSec"] > waiting["HeldUSec"],
            "it to wait on",
        )
        running = s["group", high.get("Group"), DEVICE_ID]
        self.assertEqual((running["NHeld"], running["HeldReason"], running["HeldUSec"]), (0, "", 0))
        # A group's sums over devices equal its totals.
        for name, path in groups.items():
            then, now = (
                sum(v["WaitUSec"] for k, v in x.items() if k[:2] == ("group", name)) for x in (s, self.statistics())
            )
            self.assertLessEqual(then, self.get("WaitUSec", path, GROUP))
            self.assertGreaterEqual(now, then)

    def test_histograms(self):
        """Each latency is one sample, and each wait counts with its length."""
        high, slot, low, low_slot = self.held()
        began = now_ns()
        n = self.check_histogram(self.get("ReadyToRunHistogram"))[2]
        before = self.statistics()["group", low.get("Group"), DEVICE_ID]["HeldUSec"]
        slot.edge(0)
        until(lambda: not low_slot.held, "the low one runs")
        counts, total_usec, after = self.check_histogram(self.get("ReadyToRunHistogram"))
        self.assertEqual(after, n + 1)
        self.assertGreaterEqual(total_usec, before)
        self.assertLessEqual(total_usec, before + (now_ns() - began) // 1000 + 1_000_000)
        device = next(d[5] for d in self.call("ListDevices") if d[0] == DEVICE_ID)
        other = next(d[5] for d in self.call("ListDevices") if d[0] == OTHER_ID)
        on = [self.check_histogram(self.get("ReadyToRunHistogram", d, DEVICE)) for d in (device, other)]
        self.assertEqual(sum(o[2] for o in on), after)
        self.assertEqual([a + b for a, b in zip(on[0][0], on[1][0])], counts)
        decisions = self.check_histogram(self.get("DecisionHistogram"))
        self.assertEqual(decisions[2], self.get("DecisionLatency")[3])
        described = json.loads(self.call("Describe"))["statistics"]["decision_histogram"]
        self.assertEqual((described["counts"], described["sum_usec"], described["count"]), decisions)

    def test_lease_expiries_of_those_that_are_gone(self):
        client = self.raw()
        slot = client.queue()
        slot.lease_expiries = 3
        expired = lambda: self.statistics()["service", "", ""]["NLeaseExpired"]
        self.assertEqual(expired(), 3)
        client.close()
        self.assert_gone()
        self.assertEqual(expired(), 3)

    def test_counters_stay_with_the_group(self):
        """An ended client's counts stay as long as its group."""
        high, slot, low, low_slot = self.held()
        name = low.get("Group")
        self.call("SetGroup", "sta{sv}", name, 0, {"Weight": ("u", 7)})
        before = self.statistics()["group", name, DEVICE_ID]
        low.close()
        until(lambda: self.get("NClients") == 2, "it goes")
        after = self.statistics()["group", name, DEVICE_ID]
        self.assertGreaterEqual(after["WaitUSec"], before["WaitUSec"])
        self.assertEqual((after["NQueues"], after["NHeld"], after["Weight"]), (0, 0, 7))


class Shares(Case):
    """Parts of a device by its policy; test-policy-divide.c tests the arithmetic."""

    def setUp(self):
        super().setUp()
        self.own = self.raw()  # the group's own work, beside the groups below it
        self.own.queue()
        self.here = self.own.get("Group")
        self.tenants = [self.tenant(f"tenant-{i}", Weight=w)[0] for i, w in enumerate((300, 100))]
        self.names = [t.get("Group") for t in self.tenants]

    def shares(self, *wanting, group="", flags=0, device=DEVICE_ID, **settings):
        codes = {"Priority": "i", "Class": "s"}
        set_ = {k: (codes.get(k, "u"), v) for k, v in settings.items()}
        found = self.call("ListShares", "a(sas)sta{sv}", [(device, list(wanting))], group, flags, set_)
        self.assertEqual({d for d, *_ in found} - {device}, set())
        return {name: round(part, 4) for _, name, part in found if name in (self.here, *self.names)}

    def test_own_work_beside_groups(self):
        one, two = self.names
        self.assertEqual(self.shares(self.here, one), {self.here: 1, one: 0.75})
        self.assertEqual(self.shares(self.here, one, two), {self.here: 1, one: 0.6, two: 0.2})
        self.assertEqual(self.shares(one, two), {self.here: 1, one: 0.75, two: 0.25})
        self.assertEqual(self.shares(self.here), {self.here: 1})
        self.assertEqual(self.shares(), {})
        self.c.call(
            NAME, self.own.path, CLIENT, "Set", "ta{sv}", 0, {"Weight": ("u", 300)}
        )  # a client's own, three times its group's
        self.assertEqual(self.shares(self.here, one), {self.here: 1, one: 0.5})

    def test_as_if(self):
        """Shares under a proposed change: nothing is changed, and groups below inherit it."""
        one, two = self.names
        before = self.call("Describe")
        self.assertEqual(self.shares(one, two, group=one, Weight=100), {self.here: 1, one: 0.5, two: 0.5})
        self.assertEqual(self.shares(one, two, group=two, Priority=1), {self.here: 1, one: 0, two: 1})
        self.assertEqual(self.shares(one, two, group=one, Max=30), {self.here: 1, one: 0.3, two: 0.7})
        self.assertEqual(self.shares(one, two, group=two, Min=40), {self.here: 1, one: 0.6, two: 0.4})
        self.assertEqual(self.shares(one, two, group=self.here, Max=40), {self.here: 0.4, one: 0.3, two: 0.1})
        settings = lambda text: [(g["name"], g["priority"], g["weight"], g["max"]) for g in json.loads(text)["groups"]]
        self.assertEqual(settings(self.call("Describe")), settings(before))
        # Jobs inherit the priority of the cgroup that they were made in; a job with its own priority does not.
        self.call("SetGroup", "sta{sv}", two, 0, {"Priority": ("i", 0)})
        self.assertEqual(self.shares(one, two, group=self.here, Priority=3), {self.here: 1, one: 1, two: 0})
        self.assertEqual(self.shares(one, two), {self.here: 1, one: 0.75, two: 0.25})

    def test_other_policies(self):
        one, two = self.names
        for policy, part in (("hpf", 0.5), ("tree", 0.75)):
            self.call("SetPolicy", "ssta{sv}", DEVICE_ID, policy, 0, {})
            self.assertEqual(self.shares(one, two)[one], part, policy)
        for policy in ("mlfq", "lax", "kedf"):
            self.call("SetPolicy", "ssta{sv}", DEVICE_ID, policy, 0, {})
            self.assertEqual(self.shares(one, two), {}, policy)

    def test_what_is_not_there(self):
        one, two = self.names
        self.assertEqual(self.shares(one, "/none", "x" * 200), {self.here: 1, one: 1})
        self.assertEqual(self.shares(one, device="pci:none"), {})
        self.call("SuspendGroup", "st", one, 0)
        self.assertEqual(self.shares(one, two), {self.here: 1, two: 1})
        error = lambda name, *args, **kwargs: self.assert_error(name, self.shares, *args, **kwargs)
        error(ERROR + "NoSuchGroup", two, group="/none.slice", Weight=1)
        error(ERROR + "InvalidSetting", two, group=one, Weight=0)
        error("org.freedesktop.DBus.Error.InvalidArgs", two, group=one, flags=2)
        error("org.freedesktop.DBus.Error.LimitsExceeded", *[two] * 129)
        self.call("ResumeGroup", "st", one, 0)
        self.assertEqual(self.shares(one, *[two] * 100, self.here)[two], 0.2)


if __name__ == "__main__":
    main()
