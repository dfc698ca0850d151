# SPDX-License-Identifier: LGPL-2.1-or-later
"""GPU time of a program that is alone, with real kernels (PoCL): no less than its kernels' time by the clock, no more
than the elapsed time. Its kernels are of a fixed length by the clock, and it always has one under way."""

import glob
import json
import subprocess
import time

import inside
from inside import GROUP, Case, run, until

TENANT = "/mnt/build/tests/opencl/tenant"
LAYER = glob.glob("/usr/lib/*/xsched/libxsched-opencl.so")[0]
# A sample is one launch in many. What is tracked is exact but for the two kernels at the ends.
SECONDS, SECONDS_TRACKED = 6, 3


class Alone(Case):
    def tearDown(self):
        super().tearDown()
        run("xschedctl", "set", "device:all", "accounting=")

    def look(self):
        """The times before and after the question, the GPU time in seconds, the launches, and the time's source."""
        before = time.monotonic()
        everything = json.loads(self.call("Describe")[0])
        after = time.monotonic()
        group = next(g for g in everything["groups"] if g["name"].endswith("/alone.service"))
        client = next(c for c in everything["clients"] if c["group"] == group["name"])
        return before, after, group["gpu_time_usec"] / 1e6, client["submitted"], group["gpu_time_source"]

    def check(self, accounting, kernel_usec, source, tolerance, seconds=SECONDS):
        run("xschedctl", "set", "device:all", f"accounting={accounting}")
        p = subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=alone.service",
                f"--setenv=OPENCL_LAYERS={LAYER}",
                "--setenv=POCL_MAX_PTHREAD_COUNT=1",
                TENANT,
                str(kernel_usec),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: self.get("NClients") == 1, "the client")
            until(lambda: self.look()[4] == source and self.look()[2] > 0.2, f"it to be {source}")
            first = self.look()
            # On a busy machine, a program that waits for a CPU launches so little that it is tracked for a while.
            last = until(
                lambda: (now := self.look())[2] > first[2] + seconds and now[4] == source and now,
                f"it to run {source}",
                60,
            )
        finally:
            out, _ = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, inside.log_tail())
        self.assertGreaterEqual(int(out), last[3] - first[3])
        ran, took = last[2] - first[2], (last[3] - first[3]) * kernel_usec / 1e6
        what = (
            f"{accounting}, kernels of {kernel_usec} us: told {ran:.3f} s, kernels took {took:.3f} s, passed "
            f"{last[1] - first[0]:.3f} s"
        )
        print(what, flush=True)
        self.assertLessEqual(ran, (last[1] - first[0]) * (1 + tolerance), what)
        self.assertGreaterEqual(ran, took * (1 - tolerance), what)
        until(lambda: self.get("NClients") == 0, "the client to go")

    def test_sampled(self):
        self.check("sampled", 40, "sampled", 0.10)

    def test_sampled_of_long_kernels(self):
        """The program makes so few launches that all are tracked."""
        self.check("sampled", 2000, "tracked", 0.03, SECONDS_TRACKED)

    def test_auto(self):
        """No driver counts for this device."""
        self.check("auto", 40, "sampled", 0.10)

    def test_exact(self):
        self.check("exact", 40, "tracked", 0.03, SECONDS_TRACKED)
        self.check("exact", 2000, "tracked", 0.03, SECONDS_TRACKED)

    def test_off(self):
        """The time is not counted, and its source is reported as none."""
        run("xschedctl", "set", "device:all", "accounting=off")
        c = self.client(unit="alone.service")
        path = self.call("GetGroup", "s", "alone.service")[0]
        before = self.get("GPUTimeUSec", path, GROUP)  # the group keeps the time of earlier clients
        for _ in range(10):
            self.assertEqual(c.ask("run 1000"), "ran")
        self.assertEqual([self.get(p, path, GROUP) for p in ("GPUTimeUSec", "GPUTimeSource")], [before, "none"])
        # The same launches count as soon as the accounting is on.
        run("xschedctl", "set", "device:all", "accounting=sampled")
        until(
            lambda: c.ask("run 1000") == "ran" and self.get("GPUTimeUSec", path, GROUP) > before, "time to be counted"
        )


if __name__ == "__main__":
    inside.main()
