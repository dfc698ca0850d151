#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-demo --device=amd-sim runs all phases, says what is simulated, and leaves no file of the simulated device.

No time is asserted, so that it passes on a busy machine."""

import glob
import json
import os
import subprocess
import time
import unittest

DEADLINE = 100
DEMO = os.environ["XSCHED_DEMO"]
# A sanitizer's library has to come first, also in processes that preload others.
ENVIRONMENT = {**os.environ, **({"LD_PRELOAD": os.environ["SANITIZER"]} if os.environ.get("SANITIZER") else {})}
SHORT = [
    "--device=amd-sim",
    "--duration=1",
    "--low=1",
    "--period-ms=50",
    "--kernel-us=300",
    "--batch-kernels=20",
    "--quiet",
    "--no-plot",
]


def demo(*arguments, status=0):
    p = subprocess.run(
        [DEMO, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False, env=ENVIRONMENT
    )
    if p.returncode != status:
        raise AssertionError(f"status {p.returncode}\n{p.stdout}{p.stderr}")
    return p.stdout if status == 0 else p.stderr


class AmdSim(unittest.TestCase):
    def setUp(self):
        self.before = self.directories()

    def tearDown(self):
        """The demo has removed its directory. Those of other demos on this machine go when these end."""
        left, end = self.directories() - self.before, time.monotonic() + DEADLINE
        while left and time.monotonic() < end:
            time.sleep(0.1)
            left &= self.directories()
        self.assertEqual(left, set())

    @staticmethod
    def directories():
        return set(glob.glob("/tmp/xsched-demo-*"))

    def test_three_phases(self):
        result = json.loads(demo(*SHORT, "--json"))
        self.assertIn("simulated", result["device"])
        self.assertEqual(result["kernel_us"], 300)
        self.assertEqual([p["phase"] for p in result["phases"]], ["alone", "shared", "xsched"])
        for p in result["phases"]:
            self.assertGreater(p["latency"]["tasks"], 0)
        for p in result["phases"][1:]:
            self.assertGreater(p["batch"]["tasks_per_s"], 0)

    def test_table_says_what_it_is(self):
        table = demo(*SHORT, "--only=alone")
        self.assertIn("simulated AMD GPU", table)
        self.assertIn("kernels are timers", table)
        self.assertIn("an unmap and map costs 50 us", table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
