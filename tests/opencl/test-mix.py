#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shares of deep queues and of synchronous programs hold on PoCL, by the work that the device really did.

A share has to be within 3 points of the device, plus the uncertainty of the machine. That follows from the same run: it
is the difference of two measurements of what a tenant does alone. A mix that seems off is measured twice more, and the
middle one counts. If other load makes the machine too unsteady to tell, the test is skipped. bench-mix.py measures all
mixes, on a GPU, too.

The same measurements check the service's accounting. It has to be within 3 % of the time in which the device had a
tenant's work, for deep queues and for synchronous programs whose turns have several kernels. For turns of one kernel it
has to be within a tenth: the time from a verdict to the launch that it lets go, and the time in which two tenants'
kernels overlap on the device, count for the tenant of the verdict.

MIX_TENANT is the program; XSCHED_SESSION runs this test inside of a session.
"""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import mix  # noqa: E402
from mix import Kind  # noqa: E402

WITHIN = 0.03
REAL, REAL_SHORT_TURNS = 0.03, 0.1  # error of the accounted time
MANY_QUEUES = 0.06  # a launch of each of its queues may be in flight when a turn ends
WITHOUT_END = 0.15  # once a program that releases each queue at once got half of the device, whatever its weight
SECONDS = 3
CONFIG = os.path.join(HERE, "../bench/bench.conf")


class Mixes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = os.environ["MIX_TENANT"]
        cls.session = mix.Session(program, mix.calibrate(program)["kernels"])
        mix.go_first(cls.session.service.pid())
        cls.tenants = {}

    @classmethod
    def tearDownClass(cls):
        cls.session.end()

    def tenant(self, kind, place):
        if (kind, place) not in self.tenants:
            self.tenants[kind, place] = self.session.start(kind, f"mix-{place}")
        return self.tenants[kind, place]

    def mix(self, kinds, settings, seconds=SECONDS):
        return mix.mix(self.session, [self.tenant(k, n) for n, k in enumerate(kinds)], settings, seconds)

    def judge(self, what, measure, within, **more):
        excess, text = mix.judge(measure, within, **more)
        print(f"{what}: {text}", file=sys.stderr, flush=True)
        if excess is None:
            self.skipTest(f"the machine is too unsteady to tell: {text}")
        self.assertLessEqual(excess, 0, f"{what}: {text}")

    def check_shares(self, what, kinds, weights, real):
        """Checks the shares, and the accounting by the same measurements, or by more where these are not enough."""
        asked, taken = mix.shares(weights), []
        what = f"{what}: {', '.join(map(str, kinds))}"

        def take():
            taken.append(self.mix(kinds, [{"Weight": w} for w in weights]))
            return taken[-1]

        self.judge(what, lambda: mix.judge_shares(take(), asked, WITHIN), WITHIN)
        before = iter(taken[:])
        self.judge(what, lambda: mix.judge_accounted(next(before, None) or take(), real), real, least=3)

    def check_pair(self, kind, weight=300, real=REAL):
        self.check_shares(f"{weight}:100", (kind, kind), (weight, 100), real)

    def test_equal_kernels(self):
        self.check_pair(Kind(1200, "deep"))

    def test_synchronous(self):
        self.check_pair(Kind(1200, "sync"))

    def test_long_synchronous(self):
        self.check_pair(Kind(10000, "sync"))

    def test_nine_to_one(self):
        self.check_pair(Kind(1200, "sync"), 900, REAL_SHORT_TURNS)

    def test_queues_without_end(self):
        """A program that makes a queue for each launch, and releases it at once, gets no more than its share."""
        kinds, weights = (Kind(1200, "churn"), Kind(1200, "deep")), (100, 300)

        def take():
            return mix.judge_shares(self.mix(kinds, [{"Weight": w} for w in weights]), mix.shares(weights), WITHOUT_END)

        self.judge(f"100:300: {', '.join(map(str, kinds))}", take, WITHOUT_END)

    def test_unusual_programs(self):
        """Launches that fail, queues that are out of order, many queues, profiling, callbacks or children give no
        tenant more or less than its share. All kernels are of one length."""
        kinds = [Kind(1200, "deep"), *(Kind(1200, pattern) for pattern in mix.UNUSUAL)]
        tenants = [self.tenant(kind, 0) for kind in kinds]
        asked = 1 / len(kinds)

        def take():
            works = mix.measure(self.session.service, tenants, SECONDS + 1)
            got = mix.shares([works[t].units for t in tenants])
            accounted = mix.shares([works[t].ran for t in tenants])
            text = ", ".join(
                f"{t.kind.pattern} {100 * g:.1f} (accounted {100 * a:.1f})" for t, g, a in zip(tenants, got, accounted)
            )
            within = [MANY_QUEUES if t.kind.pattern == "queues" else WITHIN for t in tenants]
            excess = max(max(abs(g - asked), abs(a - g)) - w for g, a, w in zip(got, accounted, within))
            return mix.Verdict(excess, 0, text)

        self.judge("equals", take, WITHIN)

    def test_three(self):
        self.check_shares("300:200:100", (Kind(1200, "sync"),) * 3, (300, 200, 100), REAL_SHORT_TURNS)


if __name__ == "__main__":
    if "XSCHED_BUS_ADDRESS" in os.environ:
        unittest.main(verbosity=2)
    # start_new_session: the kernel schedules a session as a whole (autogroup).
    inside = [os.environ["XSCHED_SESSION"], f"--config={CONFIG}", "--", sys.executable, "-B", *sys.argv]
    sys.exit(subprocess.run(inside, check=False, start_new_session=True).returncode)
