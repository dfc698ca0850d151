#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shares hold, and time is accounted as it was, on a device whose kernels take exactly the time that they should, and
which shares itself among processes as a GPU does: paced-device.h.

Each mix is judged as bench-mix.py does it on a GPU: the work done by each, in relation to its work alone, within 3
points of what was asked, or of what is expected of it where launches are watched; the device's time by its own stamps,
within 3 points; and the service's RunUSec, within 3 % of what the stamps say. What the machine leaves unknown follows
from the same run. A mix that seems off is measured twice more, and the middle one counts.

MIX_TENANT is the program, PACED_OPENCL the runtime; XSCHED_SESSION runs this test inside of a session.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
BENCH = os.path.join(HERE, "../bench")
sys.path[:0] = [os.path.join(HERE, "../lib"), BENCH]
import mix  # noqa: E402
import mix_table  # noqa: E402
from mix import Kind  # noqa: E402

WITHIN = 0.03
SECONDS = 2
LENGTHS = (5, 1200, 8000, 13000)  # us
CONFIG = os.path.join(BENCH, "bench.conf")


def load_bench():
    spec = importlib.util.spec_from_file_location("bench_mix", os.path.join(BENCH, "bench-mix.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Mixes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        module = load_bench()
        cls.bench = module.Bench(os.environ["MIX_TENANT"], "few", module.Options([]), lengths=LENGTHS)
        assert cls.bench.calibration["device"] == mix.PACED, cls.bench.calibration

    @classmethod
    def tearDownClass(cls):
        cls.bench.session.end()

    def judge(self, what, kinds, asked, settings, limit=None):
        def take():
            self.bench.mix(what, SECONDS, kinds, asked, settings, limit)
            self.bench.measure_rest(kinds)
            row = self.bench.row(*self.bench.rows[-1])
            have, expected = mix_table.got(row), mix_table.expected(row)
            by_work = max(abs(have[i] - expected[i]) for i in mix_table.looked_at(row))
            by_work = min(by_work, mix_table.off(row)) - mix_table.unknown(row)
            held = mix_table.held(row)
            by_time = max(
                abs(h - a)
                for i, (h, a) in enumerate(zip(held if limit is not None else mix.shares(held), asked))
                if i in mix_table.looked_at(row)
            )
            accounted = mix_table.accounted_off(row)
            texts = [mix_table.joined(v) for v in (have, held, row["accounted"])]
            text = "got {}, by time {}, accounted {}".format(*texts) + f", {100 * accounted:.1f} % off"
            return mix.Verdict(max(by_work, by_time, accounted) - WITHIN, mix_table.unknown(row), text)

        excess, text = mix.judge(take, WITHIN)
        what = f"{what}: {', '.join(map(str, kinds))}: {text}"
        print(what, file=sys.stderr, flush=True)
        if excess is None:
            self.skipTest(f"the machine is too unsteady to tell: {what}")
        self.assertLessEqual(excess, 0, what)

    def check_pair(self, weight, heavy, light):
        asked = mix.shares([weight, 100])
        self.judge(f"{weight}:100", (heavy, light), asked, [{"Weight": weight}, {}])

    def check_min(self, kind, other):
        settings = [{"Min": 30, "Priority": -10}, {}]
        self.judge("Min=30%", (kind, other), [0.3, 0.7], settings, limit=0)

    def test_tiny_beside_middle(self):
        self.check_pair(300, Kind(5, "deep"), Kind(1200, "deep"))

    def test_light_and_synchronous(self):
        """A turn of the light one has two kernels."""
        self.check_pair(900, Kind(1200, "deep"), Kind(1200, "sync"))

    def test_minimum_of_long_kernels(self):
        """When a turn ends, a launch is left that takes several milliseconds."""
        self.check_min(Kind(8000, "deep"), Kind(1200, "deep"))

    def test_minimum_beside_long_kernels(self):
        self.check_min(Kind(1200, "deep"), Kind(13000, "deep"))


if __name__ == "__main__":
    if "XSCHED_BUS_ADDRESS" in os.environ:
        unittest.main(verbosity=2)
    # Meson's, which leads to another libxsched, of other tests.
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(OCL_ICD_VENDORS=os.environ["PACED_OPENCL"], PACED_DEVICE=f"{directory}/device")
        # start_new_session: the kernel schedules a session as a whole (autogroup).
        inside = [os.environ["XSCHED_SESSION"], f"--config={CONFIG}", "--", sys.executable, "-B", *sys.argv]
        sys.exit(subprocess.run(inside, check=False, start_new_session=True).returncode)
