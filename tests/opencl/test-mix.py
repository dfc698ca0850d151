#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shares by what the device really did, of deep queues and of synchronous programs, on PoCL.

What is asked holds within 3 points of the device for deep queues, and within 10 for synchronous programs on a device that is one of the CPUs (where equals
got halves, whatever was asked), and what the machine leaves unknown: how well it is known what a tenant does alone is seen in the same run, by how far two measurements of the same differ. A mix that seems off is measured twice more, and the one in the middle counts; where other
work makes the machine so unsteady that nothing can be told, a test is skipped. bench-mix.py measures all mixes, on a GPU too.

MIX_TENANT is the program, XSCHED_SESSION what runs this inside of a session.
"""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import mix  # noqa: E402
from mix import Kind  # noqa: E402

DEEP, SYNCHRONOUS = 0.03, 0.1
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

    def judge(self, what, measure, within):
        excess, text = mix.judge(measure, within)
        print(f"{what}: {text}", file=sys.stderr, flush=True)
        if excess is None:
            self.skipTest(f"the machine is too unsteady to tell: {text}")
        self.assertLessEqual(excess, 0, f"{what}: {text}")

    def check_shares(self, what, kinds, weights, within):
        asked = mix.shares(weights)

        names = ", ".join(map(str, kinds))
        self.judge(f"{what}: {names}", lambda: mix.judge_shares(self.mix(kinds, [{"Weight": w} for w in weights]), asked, within), within)

    def check_pair(self, kind, within, weight=300):
        self.check_shares(f"{weight}:100", (kind, kind), (weight, 100), within)

    def test_equal_kernels(self):
        self.check_pair(Kind(1200, "deep"), DEEP)

    def test_synchronous(self):
        self.check_pair(Kind(1200, "sync"), SYNCHRONOUS)

    def test_nine_to_one(self):
        self.check_pair(Kind(1200, "sync"), SYNCHRONOUS, 900)

    def test_three(self):
        self.check_shares("300:200:100", (Kind(1200, "sync"),) * 3, (300, 200, 100), SYNCHRONOUS)


if __name__ == "__main__":
    if "XSCHED_BUS_ADDRESS" in os.environ:
        unittest.main(verbosity=2)
    # In a session of its own also for the kernel, which schedules those as wholes.
    inside = [os.environ["XSCHED_SESSION"], f"--config={CONFIG}", "--", sys.executable, "-B", *sys.argv]
    sys.exit(subprocess.run(inside, check=False, start_new_session=True).returncode)
