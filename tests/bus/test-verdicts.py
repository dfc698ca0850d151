#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Verdicts: which client is held for which other, that leases end holds, and that a stopped client delays no other."""

import json
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

LOW = {"XSCHED_PRIORITY": "-10"}


class Lateness(threading.Thread):
    """How late timers are at most, while the body runs: the lateness of this machine now."""

    def __enter__(self):
        self.most, self.over = 0, threading.Event()
        self.start()
        return self

    def run(self):
        due = time.monotonic()
        while not self.over.is_set():
            due = max(due + LEASE / 100, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0))
            self.most = max(self.most, time.monotonic() - due)

    def __exit__(self, *_):
        self.over.set()
        self.join()


class VerdictCase(Case):
    # The starvation floor and the accounting of a client alone have their own tests.
    config = "[Scheduler]\nStarveAfter=1h\nAccounting=off\n"

    def held_program(self):
        """A program of low priority whose launch waits at the gate, because the slot that is returned is ready."""
        _, high = self.tenant("high")
        p = self.program(env=LOW)
        high.edge(1)
        p.tell("begin 0")
        path = self.call("GetClientByPID", "u", p.pid)
        until(lambda: self.get("State", path, CLIENT) == "held", "the low one is held")
        self.assertIsNone(p.line(0))
        return p, high, path


class Verdicts(VerdictCase):
    def test_high_holds_low_and_lets_go(self):
        _, low = self.tenant("low", Priority=-10)
        client, high = self.tenant("high")
        device = self.call("ListDevices")[0][5]
        # Until its first edge a queue counts as ready, and the new one would hold the other.
        until(lambda: self.get("NReady", device, DEVICE) == 0, "both are known to be idle")
        low.edge(1)
        until(lambda: self.get("NReady", device, DEVICE) == 1 and not low.held, "the low one is ready, and alone")
        for _ in range(20):
            high.edge(1)
            until(lambda: low.held, "the low one is held")
            self.assertFalse(high.held)
            self.assertGreater(low.raw.lease_until, now_ns())
            high.edge(0)
            until(lambda: not low.held, "the low one is let go")
        self.assertGreater(
            self.get("NPreempted", low.raw.get("Group") and self.call("GetGroup", "s", low.raw.get("Group")), GROUP), 0
        )

    def test_a_launch_waits_at_the_gate(self):
        p, high, path = self.held_program()
        before = now_ns()
        high.edge(0)
        p.expect("tracked")
        self.assertGreater(now_ns(), before)
        self.assertEqual(p.counters()["waited"], 1)
        p.ask("complete 0")
        until(lambda: self.get("State", path, CLIENT) == "idle" or high.outstanding == 0, "it is idle")
        self.assertEqual(self.get("LeaseExpired", path, CLIENT), 0)
        self.assertEqual(self.get("Completed", path, CLIENT), 1)
        self.assertGreater(self.get("HeldUSec", path, CLIENT), 0)

    def test_alone_nothing_is_watched(self):
        p = self.program(queues=4)
        p.ask("run 1000")
        c = p.counters()
        self.assertEqual((c["launches"], c["tracked"], c["waited"]), (4000, 0, 0))
        self.assertEqual((self.get("NEdges"), self.get("NVerdicts")), (0, 0))

    def test_what_ran_unwatched_is_drained(self):
        p = self.program()
        p.ask("run 10")
        _, low = self.tenant("low", Priority=-10)
        low.edge(1)
        # The program's untracked launches have completed: no other client may wait for them.
        until(
            lambda: not low.held and self.get("NReady", self.call("ListDevices")[0][5], DEVICE) == 1, "the drain ends"
        )

    def test_weights_between_equals(self):
        tenants = [self.tenant(f"w{w}", Weight=w) for w in (100, 300)]
        groups = [self.call("GetGroup", "s", c.get("Group")) for c, _ in tenants]
        for _, slot in tenants:
            slot.edge(1)
        run = lambda: [self.get("RunUSec", g, GROUP) for g in groups]

        def three_to_one():
            for _, slot in tenants:
                slot.wait_at_gate(int(slot.held))  # its earlier launches have ended
            light, heavy = (b - a for a, b in zip(before, run()))
            return light + heavy > 500_000 and abs(heavy / (light + heavy) - 0.75) < 0.06

        # Shares are those of the long run: the next slices make up for one that ended late on a busy machine.
        before = run()
        until(three_to_one, "three to one", nap=0.0005)
        self.assertTrue(all(s.threshold > 0 for _, s in tenants))

    def test_a_group_gets_one_verdict(self):
        token = self.job("pair", Priority=-10)[0]
        slots = [self.raw(Job=("s", token)).queue() for _ in range(2)]
        _, high = self.tenant("high")
        slots[0].edge(1)
        for _ in range(10):
            high.edge(1)
            until(lambda: all(s.held for s in slots), "both are held")
            high.edge(0)
            until(lambda: not any(s.held for s in slots), "both are let go")

    def test_devices_are_separate(self):
        _, low = self.tenant("low", "pci:0000:01:00.0", Priority=-10)
        _, elsewhere = self.tenant("elsewhere", "pci:0000:02:00.0", Priority=-10)
        _, high = self.tenant("high", "pci:0000:01:00.0")
        for s in (low, elsewhere, high):
            s.edge(1)
        until(lambda: low.held)
        self.assertFalse(elsewhere.held)

    def test_suspend_and_resume(self):
        client, slot = self.tenant("a")
        p = self.program()
        path = self.call("GetClientByPID", "u", p.pid)
        group = self.call("GetGroup", "s", client.get("Group"))
        for target, interface, watched in ((client.path, CLIENT, slot), (group, GROUP, slot)):
            self.c.call(NAME, target, interface, "Suspend")
            until(lambda: watched.held)
            self.assertEqual(client.get("State"), "suspended")
            self.c.call(NAME, target, interface, "Resume")
            until(lambda: not watched.held)
        # A program waits at the gate, and dies there.
        self.c.call(NAME, path, CLIENT, "Suspend")
        p.tell("begin 0")
        until(lambda: self.get("Waits", path, CLIENT), "it waits")
        self.assertIsNone(p.line(0))
        p.process.kill()
        until(lambda: self.get("NClients") == 1)

    def test_priority_can_change_at_any_time(self):
        first, a = self.tenant("a", Priority=1)
        second, b = self.tenant("b", Priority=2)
        a.edge(1)
        b.edge(1)
        until(lambda: a.held and not b.held)
        self.c.set(NAME, first.path, CLIENT, "Priority", "i", 3)
        until(lambda: b.held and not a.held)
        self.call("SetGroup", "sta{sv}", second.get("Group"), 0, {"Priority": ("i", 4)})
        until(lambda: a.held and not b.held)
        self.call("ResetGroup", "st", second.get("Group"), 0)
        until(lambda: b.held and not a.held)

    def test_a_stopped_client_holds_up_nobody(self):
        p = self.program()
        _, low = self.tenant("low", Priority=-10)
        path = self.call("GetClientByPID", "u", p.pid)
        low.edge(1)
        until(lambda: self.get("NReady", self.call("ListDevices")[0][5], DEVICE) == 1)
        p.ask("begin 0")
        until(lambda: low.held, "the low one is held")
        p.process.kill(signal.SIGSTOP)
        until(lambda: not low.held, "nobody waits for the stopped one")
        p.process.kill(signal.SIGCONT)
        p.ask("complete 0")
        p.ask("begin 0")
        until(lambda: low.held, "it counts again")
        p.process.kill()
        until(lambda: not low.held, "a dead one holds nobody")

    def test_a_stopped_client_goes_on_with_work_in_flight(self):
        """The client's work never ends, so that no edge tells of it, and another client has had the device
        meanwhile."""
        p = self.program()
        _, low = self.tenant("low", Priority=-10)
        low.edge(1)
        p.ask("begin 0")
        until(lambda: low.held, "the low one is held")
        p.process.kill(signal.SIGSTOP)
        until(lambda: not low.held, "nobody waits for the stopped one")
        state = lambda: json.loads(self.call("Describe"))["devices"][0]["state"]
        until(lambda: state() == "sole", "the low one to have it alone")
        p.process.kill(signal.SIGCONT)
        p.ask("begin 0")
        until(lambda: low.held, "it counts again")

    def test_policy_and_reload_lose_nothing(self):
        p, high, path = self.held_program()
        device = self.call("ListDevices")[0][5]
        group = high.raw.get("Group")
        for i in range(10):
            self.call("SetPolicy", "ssta{sv}", "", self.get("Policies")[0], 0, {"TimeSliceUSec": ("t", 1000 + i)})
            self.service.configure(f"[Scheduler]\nStarveAfter=1h\nLinger={i}us\n")
            self.call("Reload")
            self.assertEqual(self.get("TimeSliceUSec", device, DEVICE), 1000 + i)
            self.assertIsNone(p.line(0))
        self.assertEqual((self.get("Priority", path, CLIENT), high.raw.get("Group")), (-10, group))
        for wrong in ("nonsense", "[Scheduler]\nTimeSlice=fast\n"):
            self.service.configure(wrong)
            try:
                self.call("Reload")
            except Exception:  # the refusal comes as an error or in the log: both are right
                pass
        self.service.process.kill(signal.SIGHUP)
        self.assert_error(ERROR + "NoSuchPolicy", self.call, "SetPolicy", "ssta{sv}", "", "none", 0, {})
        self.assertEqual(self.get("State", path, CLIENT), "held")
        high.edge(0)
        p.expect("tracked")


class Leases(VerdictCase):
    """Long lists are passed in pages, on either bus."""

    def a_lease_passes(self, slot):
        """Leases are renewed: a hold lasts longer than one lease, also by the words of a held slot."""
        until(lambda: slot.held, "it is held")
        begun = now_ns()
        until(lambda: slot.raw.lease_until > begun + 2.25 * LEASE * 1e9, "the lease to be renewed again and again")

    def test_stopped_service_frees_within_the_lease(self):
        p, _, path = self.held_program()
        self.service.freeze()
        with Lateness() as late:
            stopped = time.monotonic()
            p.expect("tracked")
            waited = time.monotonic() - stopped
        # The lease, and what three wake-ups may take: of the gate, of who reads the client's line, and one more.
        self.assertLess(waited, 1.25 * LEASE + 3 * late.most, f"timers were late by {late.most} s")
        p.ask("complete 0")
        self.service.thaw()
        self.assertGreaterEqual(self.get("LeaseExpired", path, CLIENT), 1)
        # A service that goes on holds the program again.
        p.tell("begin 0")
        until(lambda: self.get("State", path, CLIENT) == "held")

    def test_a_lease_is_renewed(self):
        p, high, _ = self.held_program()
        _, low = self.tenant("low", Priority=-10)
        low.edge(1)
        self.a_lease_passes(low)
        self.assertIsNone(p.line(0))
        high.edge(0)
        p.expect("tracked")

    def test_the_lease_of_who_is_suspended_is_renewed(self):
        client, slot = self.tenant("a")
        p = self.program()
        path = self.call("GetClientByPID", "u", p.pid)
        for target in (client.path, path):
            self.c.call(NAME, target, CLIENT, "Suspend")
        p.tell("begin 0")
        until(lambda: self.get("Waits", path, CLIENT), "it waits")
        self.a_lease_passes(slot)
        self.assertIsNone(p.line(0), "a suspended client passed: its lease is not renewed")
        self.c.call(NAME, path, CLIENT, "Resume")
        p.expect("tracked|untracked")


class Floor(Case):
    config = "[Scheduler]\nStarveAfter=50ms\nStarveRun=10ms\n"

    def test_nobody_starves(self):
        _, low = self.tenant("low", Priority=-10)
        _, high = self.tenant("high")
        low.edge(1)
        high.edge(1)
        group = self.call("GetGroup", "s", low.raw.get("Group"))

        def turn():
            until(lambda: low.held, nap=0.0005)
            low.wait_at_gate(1)  # the launch of its turn has ended: it is charged until then
            until(lambda: not low.held, "the low one has its turn", nap=0.0005)
            low.wait_at_gate(0)
            run = self.get("RunUSec", group, GROUP)
            return 0 < run < self.get("WaitUSec", group, GROUP)

        for _ in range(3):
            turn()
        # A turn is longer when this program gets no CPU: on a busy machine it takes more turns.
        until(turn, "it waits for longer than it runs")


if __name__ == "__main__":
    main()
