#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The CUDA layer stops channels of held programs. There is a real service, and a stand-in for libcuda, whose kernels do
work only while their channels are enabled.

The test itself is the client with precedence, so nothing depends on time. The environment has the paths: STOP_APP,
XSCHED_LAYER, FAKE_CUDA_DIR, FAKE_NVIDIACTL_LIBRARY, LIBXSCHED and XSCHEDD.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

APP, LAYER, NVIDIACTL = (os.environ[n] for n in ("STOP_APP", "XSCHED_LAYER", "FAKE_NVIDIACTL_LIBRARY"))
LIBRARIES = f"{os.path.dirname(os.environ['LIBXSCHED'])}:{os.environ['FAKE_CUDA_DIR']}"
GPUS = ("pci:0000:a0:00.0", "pci:0000:a1:00.0")
CHANNELS = 10  # channels of a context
COMPUTE = 4  # compute channels; those of copy engines are never stopped
LONG = 300_000  # microseconds
BUSY_RETRY, TIMEOUT = 0x03, 0x65
ENODEV = 19


class App(Program):
    """tests/cuda/stop-app.c"""

    def __init__(self, case, usec=LONG, gpus=(0,), **env):
        self.case, self.gpus = case, gpus
        out_r, out_w = os.pipe()
        in_r, in_w = os.pipe()
        ours = {
            "LD_LIBRARY_PATH": LIBRARIES,
            "LD_PRELOAD": f"{LAYER}:{NVIDIACTL}",
            "XSCHED_BUS_ADDRESS": case.bus.address,
            "XSCHED_JOB": case.job("low")[0],
        }
        self.process = Process([APP, str(usec), *map(str, gpus)], env={**ours, **env}, stdin=in_r, stdout=out_w)
        os.close(out_w)
        os.close(in_r)
        self.out, self.into, self.buffer = out_r, in_w, b""
        case.addCleanup(self.end)
        self.expect("ready")
        until(lambda: len(self.paths()) == len(gpus), "its queues are registered")

    def paths(self):
        clients = {c[5] for c in self.case.call("ListClients") if c[1] == self.pid}
        return [q[4] for q in self.case.call("ListQueues") if self.of(q[4], "Client") in clients]

    def get(self, name):
        return {self.of(p, name) for p in self.paths()}

    def of(self, path, name):
        """Returns a property of a queue; None if the program has registered it anew since it was listed."""
        try:
            return self.case.get(name, path, QUEUE)
        except dbus.DBusError as e:
            if e.name != "org.freedesktop.DBus.Error.UnknownObject":
                raise
            return None

    def disabled(self):
        """Returns the numbers of channels that are disabled not at all, once, and twice."""
        return tuple(map(int, self.ask("disabled").split()))

    def is_off(self, channels=CHANNELS):
        stopped = channels // CHANNELS * COMPUTE
        return self.disabled() == (channels - stopped, stopped, 0)

    def is_on(self, channels=CHANNELS):
        return self.disabled() == (channels, 0, 0)

    def progress(self, gpu=0):
        return int(self.ask(f"progress {gpu}"))

    def stands(self, gpu=0):
        """Checks that the program answers, and that its kernels do nothing meanwhile."""
        before = self.progress(gpu)
        for _ in range(500):
            self.case.assertEqual(self.progress(gpu), before)

    def goes_on(self, gpu=0):
        before = self.progress(gpu)
        until(lambda: self.progress(gpu) > before, "its kernels go on")

    def finish(self):
        """Checks that each kernel ran once, with the right result."""
        self.close_input()
        for _ in self.gpus:
            self.expect(r"[1-9]\d* right")
        self.case.assertEqual(self.process.wait(), 0)


class Stops(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def setUp(self):
        super().setUp()
        _, self.high = self.tenant("high", GPUS[0], Priority=10)

    def take(self, low, channels=CHANNELS):
        self.high.edge(1)
        until(lambda: low.is_off(channels), "its channels are stopped")

    def give_back(self, low, channels=CHANNELS):
        self.high.edge(0)
        until(lambda: low.is_on(channels), "its channels run again")

    def check(self, low):
        """xschedctl's output about the program's process."""
        words = [os.environ["XSCHEDCTL"], f"--bus-address={self.bus.address}", "check", str(low.pid)]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def device(self, name):
        path = next(d[5] for d in self.call("ListDevices") if d[0] == GPUS[0])
        return self.get(name, path, DEVICE)


class Holds(Stops):
    def test_stopped_in_the_middle(self):
        low = App(self)
        self.assertEqual(low.get("MaxLevel"), {3})
        self.assertIn("can be held by stopping its kernels", self.check(low))
        for _ in range(4):
            low.goes_on()
            self.take(low)
            until(lambda: low.get("State") == {"held"}, "it is held")
            self.assertEqual(low.get("Level"), {3})
            low.stands()
            self.give_back(low)
        low.goes_on()
        self.take(low)
        self.assertGreater(self.device("HoldCostUSec"), 0)
        self.assertGreater(self.device("ReleaseCostUSec"), 0)
        self.give_back(low)
        low.finish()

    def test_suspended(self):
        low = App(self)
        client = self.call("GetClientByPID", "u", low.pid)
        self.c.call(NAME, client, CLIENT, "Suspend", "")
        until(low.is_off)
        low.stands()
        self.c.call(NAME, client, CLIENT, "Resume", "")
        until(low.is_on)
        low.finish()

    def test_several_streams(self):
        """Queues that share channels are all held, or none."""
        low = App(self, gpus=(0, 0, 0))
        for _ in range(3):
            self.take(low)
            low.stands()
            self.give_back(low)
        low.finish()

    def test_short_kernels_by_the_gate(self):
        """A program is held at the gate alone if a stop is known to take longer than its launches in flight."""
        low = App(self, usec=2000, FAKE_NVIDIACTL="cost=30000")
        client = self.call("GetClientByPID", "u", low.pid)
        while self.device("HoldCostUSec") < 20000 or self.device("ReleaseCostUSec") < 20000:
            low.goes_on()
            self.c.call(NAME, client, CLIENT, "Suspend", "")
            until(low.is_off)
            self.c.call(NAME, client, CLIENT, "Resume", "")
            until(low.is_on)
        before = int(low.ask("calls"))
        for _ in range(10):
            low.goes_on()
            self.high.edge(1)
            until(lambda: low.get("State") == {"held"})
            self.assertEqual(low.get("Level"), {1})
            until(lambda: self.is_quiet(low), "what was in flight is done")
            self.high.edge(0)
            until(lambda: low.get("State") != {"held"})
        self.assertEqual(int(low.ask("calls")), before)
        low.finish()

    def is_quiet(self, low):
        before = low.progress()
        return all(low.progress() == before for _ in range(100))


class Objects(Stops):
    """Queues are made and destroyed while the program is stopped."""

    def test_context_made(self):
        for words in ("", "strict"):
            with self.subTest(words):
                low = App(self, FAKE_NVIDIACTL=words)
                self.take(low)
                self.assertEqual(low.ask("context"), "made")
                self.assertTrue(low.is_off(2 * CHANNELS))
                self.give_back(low, 2 * CHANNELS)
                low.finish()

    def test_context_destroyed(self):
        low = App(self)
        low.ask("context")
        self.take(low, 2 * CHANNELS)
        self.assertEqual(low.ask("drop"), "dropped")
        self.assertTrue(low.is_off())
        low.stands()
        self.give_back(low)
        low.finish()

    def test_child(self):
        """A forked child stops nothing, and releases nothing."""
        low = App(self)
        self.take(low)
        self.assertEqual(int(low.ask("fork")), ENODEV)
        self.assertTrue(low.is_off())
        low.stands()
        self.give_back(low)
        low.finish()

    def test_two_gpus(self):
        """The program is held on one GPU, and goes on on the other."""
        low = App(self, gpus=(0, 1))
        self.high.edge(1)
        until(lambda: low.disabled() == (2 * CHANNELS - COMPUTE, COMPUTE, 0))
        low.stands(0)
        low.goes_on(1)
        self.high.edge(0)
        until(lambda: low.is_on(2 * CHANNELS))
        low.goes_on(0)
        low.finish()

    def test_time_slices(self):
        """Time slices are the driver's, unless the program's environment sets others, and never of copy engines."""
        for words, usec, n in (({}, 0, 4), ({"XSCHED_CUDA_SLICE": "500"}, 500, 1), ({"XSCHED_CUDA_SLICE": "5x"}, 0, 4)):
            with self.subTest(words):
                low = App(self, **words)
                self.assertEqual(int(low.ask(f"sliced {usec}")), n)
                low.ask("context")
                self.assertEqual(int(low.ask(f"sliced {usec}")), 2 * n)
                self.take(low, 2 * CHANNELS)
                self.give_back(low, 2 * CHANNELS)
                low.finish()


class Ends(Stops):
    def test_killed(self):
        victim, other = App(self), App(self)
        self.take(victim)
        until(other.is_off)
        victim.process.kill()
        victim.process.wait()
        until(lambda: self.get("NClients") == 2, "it is forgotten")
        self.assertTrue(other.is_off())
        self.give_back(other)
        other.finish()

    def test_exits(self):
        """The program ends in any way, with kernels in flight."""
        low = App(self)
        self.take(low)
        low.tell("exit")
        self.assertEqual(low.process.wait(), 0)
        until(lambda: self.get("NClients") == 1)

    def test_exits_while_the_driver_does_not_answer(self):
        """A thread of the program is in a call of ours that never returns."""
        low = App(self)
        low.ask("stuck")
        low.tell("exit")
        self.assertEqual(low.process.wait(), 0)

    def test_lease(self):
        """If the service hangs, the lease runs out, and the program goes on."""
        low = App(self)
        self.take(low)
        self.service.freeze()
        until(low.is_on, "it runs again by itself")
        low.goes_on()
        low.finish()
        self.service.thaw()

    def test_service_is_killed(self):
        low = App(self)
        self.take(low)
        self.service.kill()
        until(low.is_on)
        low.finish()
        self.service.start()


class Refusals(Stops):
    def never_stopped(self, **env):
        low = App(self, usec=20000, **env)
        self.assertEqual(low.get("MaxLevel"), {1})
        self.assertIn("is held at the gate alone, see xsched-cuda(7)", self.check(low))
        for _ in range(3):
            low.goes_on()
            self.high.edge(1)
            until(lambda: low.get("State") == {"held"})
            self.assertEqual(low.get("Level"), {1})
            self.high.edge(0)
            until(lambda: low.get("State") != {"held"})
        self.assertEqual(int(low.ask("calls")), 0)
        low.finish()

    def test_unknown_version(self):
        self.never_stopped(FAKE_NVIDIACTL="version=470.256.02")
        self.never_stopped(FAKE_NVIDIACTL="version=601.1")

    def test_switched_off(self):
        self.never_stopped(XSCHED_CUDA_STOP="0")

    def test_not_seen_at_work(self):
        """A driver branch of which only the headers were read has to be enabled by the user."""
        self.never_stopped(FAKE_NVIDIACTL="version=550.163.01")
        self.never_stopped(FAKE_NVIDIACTL="version=550.163.01", XSCHED_CUDA_STOP="1")

    def test_half_applied(self):
        """After a refusal no channel stays stopped, and the next hold is tried."""
        low = App(self)
        low.ask(f"fail 2 {BUSY_RETRY}")
        before = int(low.ask("calls"))
        self.high.edge(1)
        until(lambda: int(low.ask("calls")) > before)
        until(low.is_on, "what was stopped runs")
        self.high.edge(0)
        until(lambda: low.get("State") != {"held"})
        self.take(low)
        self.give_back(low)
        self.assertEqual(low.get("MaxLevel"), {3})
        low.finish()

    def test_fails_for_good(self):
        """The failure is logged, and only the gate is used from then on."""
        low = App(self)
        low.ask(f"fail 3 {TIMEOUT}")
        self.high.edge(1)
        until(lambda: low.get("MaxLevel") == {1}, "the service knows")
        until(low.is_on)
        low.goes_on()
        self.high.edge(0)
        before = int(low.ask("calls"))
        self.high.edge(1)
        until(lambda: low.get("State") == {"held"})
        self.assertEqual(low.get("Level"), {1})
        self.high.edge(0)
        self.assertEqual(int(low.ask("calls")), before)
        low.finish()


if __name__ == "__main__":
    main()
