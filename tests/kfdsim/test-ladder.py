#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The levels above the gate, end to end: AQL tenants on simulated GPUs, with the layer, and a real service on a bus of
its own.

A low tenant keeps its queues busy. The test itself is the client with precedence, so nothing depends on time. In the
end each tenant checks with the simulated hardware that each of its dispatches was executed once and in order."""

import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

TENANT, LAYER, KFDSIM, MAPPED = (os.environ[n] for n in ("KFD_TENANT", "LAYER", "KFDSIM", "KFDSIM_MAPPED"))
GPU = "pci:0000:01:00.0"
FOREVER = ("--run-ms=0", "--count=0")


class Tenant:
    def __init__(self, case, token, *options, queues=2, gpu=0):
        out_r, out_w = os.pipe()
        self.case, self.queues, self.out = case, queues, os.fdopen(out_r)
        preload = " ".join(filter(None, (os.environ.get("SANITIZER"), LAYER, KFDSIM)))
        self.process = Process(
            [TENANT, f"--queues={queues}", f"--gpu={gpu}", "--duration-us=1000", *options],
            env={**case.sim, "LD_PRELOAD": preload, "XSCHED_BUS_ADDRESS": case.bus.address, "XSCHED_JOB": token},
            stdout=out_w,
        )
        os.close(out_w)
        case.addCleanup(self.out.close)
        case.addCleanup(self.process.end)
        until(lambda: len(self.paths()) == queues, "its queues are registered")

    @property
    def pid(self):
        return self.process.pid

    def paths(self):
        """Returns the bus paths of the tenant's queues."""
        clients = {c[5] for c in self.case.call("ListClients") if c[1] == self.pid}
        return [q[4] for q in self.case.call("ListQueues") if self.case.get("Client", q[4], QUEUE) in clients]

    def get(self, name):
        return [self.case.get(name, p, QUEUE) for p in self.paths()]

    def mapped(self):
        return sum(self.case.hardware()[0].get(self.pid, ()))

    def is_off(self):
        return self.mapped() == 0

    def is_on(self):
        return self.mapped() == self.queues

    def finish(self):
        """Ends the tenant unless it has ended, and checks that it executed its launches."""
        if not self.process.ended():
            self.process.kill(signal.SIGTERM)
        status = self.process.wait(60)
        report = self.out.read()
        self.case.assertEqual(status, 0, report)
        self.case.assertGreater(int(re.search(r"executed=(\d+)", report)[1]), 0)


class Ladder(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"
    gpus = "gfx90a"

    def setUp(self):
        super().setUp()
        self.sim = {
            "KFDSIM_DIR": os.path.join(self.directory, "kfdsim"),
            "KFDSIM_GPUS": self.gpus,
            "KFDSIM_OPTS": "map-us=20",
        }
        _, self.high = self.tenant("high", GPU, Priority=10)

    def low(self, *options, token=None, **kwargs):
        return Tenant(self, token or self.job("low")[0], *(options or FOREVER), **kwargs)

    def hardware(self):
        """Returns {pid: [mapped, ...]} and {gpu: number of unmaps and maps}."""
        queues, maps = {}, {}
        text = subprocess.run(
            [MAPPED], env={**os.environ, **self.sim}, check=True, capture_output=True, text=True
        ).stdout
        for line in text.splitlines():
            words = line.split()
            if words[0] == "gpu":
                maps[int(words[1])] = int(words[2])
            else:
                queues.setdefault(int(words[0]), []).append(int(words[3]))
        return queues, maps

    def reset(self):
        """The GPU hangs, and the driver resets it."""
        subprocess.run(
            [sys.executable, "-c", "import ctypes; ctypes.CDLL(None).kfdsim_reset(0, False)"],
            env={**os.environ, **self.sim, "LD_PRELOAD": KFDSIM},
            check=True,
        )

    def device(self, name):
        path = next(d[5] for d in self.call("ListDevices") if d[0] == GPU)
        return self.get(name, path, DEVICE)

    def bounds(self):
        """Returns the thresholds of the queues that can be taken off the device."""
        with os.fdopen(self.call("Dump")) as f:
            return [int(n) for n in re.findall(r"level=\d/3 threshold=(\d+)", f.read())]

    def take(self, low):
        """Waits until the high client has the device, and the low tenant is off it."""
        self.high.edge(1)
        until(low.is_off, "its queues are unmapped")

    def give_back(self, low):
        self.high.edge(0)
        until(low.is_on, "its queues are mapped again")


class Preemption(Ladder):
    def test_taken_off_and_put_back(self):
        low = self.low(queues=3)
        for _ in range(5):
            self.take(low)
            self.assertEqual(set(low.get("State")), {"held"})
            self.assertEqual(set(low.get("Level")), {3})
            self.give_back(low)
        self.take(low)
        self.assertGreater(self.device("HoldCostUSec"), 0)
        self.assertGreater(self.device("ReleaseCostUSec"), 0)
        self.assertGreater(self.get("DriverLatency")[3], 0)
        self.give_back(low)
        low.finish()

    def test_reset(self):
        """What is left of processes whose GPU was reset does not count as running, and the driver is not asked to move
        it; who comes later is held as ever."""
        held, low = self.low(token=self.job("other")[0]), self.low()
        self.take(low)
        until(held.is_off, "its queues are unmapped, too")
        self.high.edge(0)
        until(low.is_on, "its queues are mapped again")
        self.reset()

        groups = [g[4] for g in self.call("ListGroups")]

        def numbers():
            return self.hardware()[1], [self.get("RunUSec", g, GROUP) for g in groups]

        def stands_still():
            before = numbers()
            for tenant in (low, held):
                client = self.call("GetClientByPID", "u", tenant.pid)
                for member in ("Suspend", "Resume"):
                    self.c.call(NAME, client, CLIENT, member, "")
            try:
                states = set(low.get("State") + held.get("State"))
            except dbus.DBusError:
                return False  # a queue that the driver refuses is registered anew, as one that only has the gate
            return states == {"idle"} and numbers() == before

        until(stands_still, "nothing is moved, nor counts as running")
        self.assertEqual((set(low.get("Unheld") + held.get("Unheld")), self.get("Degraded")), ({False}, []))
        later = self.low(token=self.job("later")[0])
        self.take(later)
        self.give_back(later)
        self.assertEqual(low.mapped() + held.mapped(), 0)
        later.finish()

    def test_two_tenants(self):
        """The high client is a real tenant, too, and takes the device for each of its tasks."""
        low = self.low(queues=2)
        high = Tenant(
            self,
            self.job("real", Priority=10)[0],
            "--role=latency",
            "--count=30",
            "--run-ms=0",
            "--period-us=10000",
            "--duration-us=500",
            "--dispatches=4",
            queues=1,
        )
        until(high.process.ended, "its tasks are done")
        high.finish()
        self.assertGreater(self.device("NPreempted"), 0)
        until(low.is_on)
        low.finish()

    def test_threshold(self):
        """Queues that can be taken off the device may have more in flight, unless a threshold is set."""
        low = self.low(queues=1)

        def bound(n):
            return lambda: self.bounds() == [n]

        self.take(low)
        self.give_back(low)
        until(bound(16))
        for text, n in (
            ("Threshold=3", 3),
            ("Threshold=1", 1),
            ("", 16),
            ("Preemption=1", 1),
            ("Preemption=2", 16),
            ("Threshold=auto", 16),
        ):
            self.service.configure(f"{self.config}{text}\n")
            self.call("Reload")
            until(bound(n), text)
        self.take(low)
        self.give_back(low)
        low.finish()

    def test_settings(self):
        """The level changes during a hold: to the gate alone, to no preemption, and back."""
        low = self.low()
        self.take(low)
        path = self.get("Group", self.call("GetClientByPID", "u", low.pid), CLIENT)
        group = next(g[4] for g in self.call("ListGroups") if g[0] == path)
        put = lambda value: self.c.call(NAME, group, GROUP, "Set", "ta{sv}", 0, {"Preemption": ("s", value)})
        put("1")
        until(low.is_on, "it may drain")
        self.assertEqual(set(low.get("State")), {"held"})
        put("3")
        until(low.is_off)
        put("off")
        until(low.is_on)
        self.assertNotIn("held", low.get("State"))
        put("auto")
        until(low.is_off)
        self.give_back(low)
        low.finish()

    def test_suspended(self):
        low = self.low()
        client = self.call("GetClientByPID", "u", low.pid)
        self.c.call(NAME, client, CLIENT, "Suspend", "")
        until(low.is_off)
        self.c.call(NAME, client, CLIENT, "Resume", "")
        until(low.is_on)
        low.finish()

    def test_held_client_is_killed(self):
        victim, other = self.low(), self.low(queues=1)
        self.take(victim)
        until(other.is_off)
        victim.process.kill()
        victim.process.wait()
        until(lambda: self.get("NClients") == 2, "it is forgotten")
        self.assertTrue(other.is_off())
        self.give_back(other)
        other.finish()


class MES(Ladder):
    gpus = "gfx1100"

    def test_only_when_allowed(self):
        low = self.low()
        before = self.hardware()[1][0]
        for _ in range(3):
            self.high.edge(1)
            until(lambda: set(low.get("State")) == {"held"})
            self.assertEqual(set(low.get("Level")), {1})
            self.high.edge(0)
            until(lambda: "held" not in low.get("State"))
        self.assertTrue(low.is_on())
        self.assertEqual(self.hardware()[1][0], before)

        self.service.configure(self.config + f"[Device {GPU}]\nAllowMESPreemption=yes\n")
        self.call("Reload")
        self.assertIs(self.device("AllowMESPreemption"), True)
        self.take(low)
        self.give_back(low)
        low.finish()


class Gang(Ladder):
    """A job on two GPUs; the high client wants one of these."""

    gpus = "gfx90a,gfx90a"

    def members(self, **settings):
        token, group = self.job("low", **settings)
        return [self.low(token=token, gpu=gpu) for gpu in range(2)], group

    def test_together(self):
        low, _ = self.members(Gang=True)
        for _ in range(5):
            self.high.edge(1)
            until(lambda: all(t.is_off() for t in low), "both are off their GPUs")
            self.high.edge(0)
            until(lambda: all(t.is_on() for t in low), "both are back")
        for t in low:
            t.finish()

    def test_each_by_itself(self):
        """A job that is no gang loses only one GPU. The setting changes while the job is held, and back."""
        low, group = self.members()
        self.take(low[0])
        self.assertTrue(low[1].is_on())
        put = lambda gang: self.c.call(NAME, group, GROUP, "Set", "ta{sv}", 0, {"Gang": ("b", gang)})
        put(True)
        until(low[1].is_off)
        self.assertTrue(low[0].is_off())
        put(False)
        until(low[1].is_on)
        self.assertTrue(low[0].is_off())
        self.give_back(low[0])
        for t in low:
            t.finish()


class Deaths(Ladder):
    def test_service_stops(self):
        """If the service hangs, the lease runs out, and the tenant runs to its end."""
        low = self.low("--run-ms=0", "--count=300")
        self.take(low)
        self.service.freeze()
        until(low.is_on, "it runs again by itself")
        low.finish()
        self.service.thaw()
        until(lambda: self.get("NClients") == 1)

    def test_service_is_killed(self):
        low = self.low("--run-ms=0", "--count=300")
        self.take(low)
        self.service.kill()
        until(low.is_on)
        low.finish()
        self.service.start()


class Adoption(Ladder):
    keep = True

    def test_restart_while_it_is_held(self):
        low = self.low()
        self.take(low)
        paths = low.paths()
        for restart in (self.service.kill, self.service.stop):
            self.all_kept()
            restart()
            self.service.start()
            self.assertEqual(low.paths(), paths)
            # The new service knows that the high client is ready, and takes the device again.
            until(low.is_off)
            until(lambda: set(low.get("Level")) == {3})
            self.give_back(low)
            self.take(low)
        # No other client wants the device: the first verdict of the new service releases the tenant.
        self.service.kill()
        self.high.edge(0)
        self.service.start()
        until(low.is_on)
        low.finish()


if __name__ == "__main__":
    main()
