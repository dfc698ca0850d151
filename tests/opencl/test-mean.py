#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""MeanUSec of queues is what launches take on the device, whatever the program does around them

The yardstick comes from the same launches: the program has profiling enabled on its queue, and prints their times from
start to end. The layer does not use these. Other load on the machine is in both times. The same program without the
layer shows that the layer does not change the kernels' own times."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import mix
from harness import *

QUEUE = "org.xsched.Scheduler.Queue"
SECONDS, SECONDS_SHORT = 1.2, 0.5  # beside a kernel of 20 ms, and where none is longer than 1 ms
WARM_UP = 0.3
TURN, TURNS = 0.3, 8
PERCENT = 0.01
LENGTHS = (20, 100, 1000, 20000)  # us


class Timed:
    """The program tests/opencl/timed, with kernels of these lengths, or of this many rounds each."""

    def __init__(self, case, how, *lengths, layer=True, rounds=()):
        env = {**os.environ, "XSCHED_BUS_ADDRESS": case.bus.address, "POCL_MAX_PTHREAD_COUNT": "1"}
        if layer:
            env["OPENCL_LAYERS"] = os.environ["XSCHED_LAYER"]
        self.case, self.usec = case, max(lengths, default=0)
        arguments = [*map(str, lengths), *(f"{r}r" for r in rounds)]
        self.process = subprocess.Popen(
            [os.environ["TEST_TIMED"], how, *arguments],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        case.addCleanup(self.end)
        mix.go_first(self.process.pid)
        ready, *self.rounds = self.process.stdout.readline().split()
        case.assertEqual(ready, "ready")

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.case.assertEqual(self.process.wait(DEADLINE), 0)
        self.process.stdout.close()

    def run(self, seconds, begin=None):
        """Launches from now until some seconds after `begin`, which is now if it is not given. Returns the device's
        (mean, median) in microseconds of the launches that were complete in these seconds; None: there were too few, as
        where the machine has kept the program."""
        begin = begin or time.monotonic_ns()
        self.process.stdin.write(f"{begin} {begin + int(seconds * 1e9)}\n")
        self.process.stdin.flush()
        mean, median, n = map(int, self.process.stdout.readline().split())
        if n < 2:
            return None
        # The device runs one after the other. So these have room in the window, or more were counted.
        self.case.assertLessEqual((n - 1) * min(mean, median) / 1e9, seconds)
        return mean / 1000, median / 1000


class Mean(Case):
    config = "[Scheduler]\nAccounting=exact\n"

    def measure(self, programs):
        """Returns (mean, median, [MeanUSec]) of each program: the device's times, and the service's meanwhile; None: a
        program had too few launches."""
        said, seen = [None] * len(programs), [[] for _ in programs]
        seconds = SECONDS if max(p.usec for p in programs) > 1000 else SECONDS_SHORT
        begin = time.monotonic_ns() + int(WARM_UP * 1e9)

        def work(i):
            said[i] = programs[i].run(seconds, begin)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(programs))]
        for t in threads:
            t.start()
        paths = [self.path_of(p.process.pid) for p in programs]
        mix.sleep_until(begin)
        while time.monotonic_ns() < begin + seconds * 1e9:
            for i, path in enumerate(paths):
                mean = self.get("MeanUSec", path, QUEUE)
                if mean > 0:
                    seen[i].append(mean)
            time.sleep(0.002)
        for t in threads:
            t.join()
        return [(*said[i], seen[i]) for i in range(len(programs))] if all(said) else None

    def path_of(self, pid):
        found = []

        def look():
            state = json.loads(self.call("Describe"))
            for c in state["clients"]:
                if c["pid"] == pid:
                    found[:] = [f"{PATH}/queue/{q['id']}" for q in state["queues"] if q["client"] == c["id"]]
            return bool(found)

        until(look, "its queue is registered")
        return found[0]

    def off(self, what, measured, mixed):
        """Returns by how much MeanUSec is off, less the tolerance. For launches of one length it has to be between
        their median, which an interrupted kernel does not change, and their mean, which it does change, as it changes
        MeanUSec. For mixed lengths it has to be the mean. Most values are read while a long launch runs after a short
        one, which adds half of a launch's weight in the mean to the tolerance."""
        mean, median, seen = measured
        self.assertGreater(len(seen), 10, what)
        low, high = (mean, mean) if mixed else (min(median, mean), max(median, mean))
        seen = statistics.fmean(seen) if mixed else statistics.median(seen)
        print(f"{what}: {median:.1f} to {mean:.1f} us by the device, MeanUSec {seen:.1f}", file=sys.stderr)
        return max(1 - seen / low, seen / high - 1) - 10 * PERCENT - (1 / 16 if mixed else 0)

    def check(self, what, measure, mixed=False):
        """Measures up to three times: on a busy machine MeanUSec may be off by chance, or launches too few, but not
        each time."""
        off = None
        for _ in range(3):
            measured = measure()
            off = max(self.off(what, m, mixed) for m in measured) if measured else off
            if measured and off <= 0:
                return
        self.assertIsNotNone(off, f"{what}: a program had hardly any launches, three times")
        self.assertLessEqual(off, 0, what)

    def test_one_length(self):
        """Kernels of one length: alone, beside their like, short ones beside long ones, synchronous programs beside
        deep ones. Each program starts once."""
        kinds = list(itertools.product(("sync", "deep"), LENGTHS))
        firsts, seconds = ({kind: Timed(self, *kind) for kind in kinds} for _ in range(2))
        pairs = [(kind, kind) for kind in kinds]
        for hows in itertools.product(("sync", "deep"), repeat=2):
            pairs += [tuple(zip(hows, lengths)) for lengths in ((20, 20000), (100, 1000))]
        for kind in kinds:
            self.check("{} {} us alone".format(*kind), lambda p=firsts[kind]: self.measure([p]))
        for one, other in pairs:
            together = [firsts[one], seconds[other]]
            self.check("{} {} us beside {} {} us".format(*one, *other), lambda p=together: self.measure(p))

    def test_mixed(self):
        """With kernels of two lengths in one queue, MeanUSec is the mean of all."""
        program = Timed(self, "deep", 50, 1000)
        self.check("50 us and 1 ms, deep", lambda: self.measure([program]), mixed=True)

    def test_the_layer_changes_nothing(self):
        """The same work takes as long with the layer as without, by the program's own times. Of several turns the
        shortest one counts, since other load makes turns longer, never shorter."""
        plain = Timed(self, "sync", 1000, layer=False)
        layered = Timed(self, "sync", rounds=plain.rounds)
        took = [(plain.run(TURN), layered.run(TURN)) for _ in range(TURNS)]
        medians = [[t[1] for t in of_one if t] for of_one in zip(*took)]
        self.assertTrue(all(medians), f"a program had hardly any launches, each time: {took}")
        alone, beside = map(min, medians)
        self.assertAlmostEqual(beside / alone, 1, delta=10 * PERCENT, msg=took)


if __name__ == "__main__":
    main()
