# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shares hold in three levels of slices, with real kernels (PoCL), whose results are checked. They are measured by the
service's accounting, and, with a larger tolerance because others use the CPUs, too, by the number of completed kernels.
Tenants always have work, and turns are many kernels long, so that a kernel at the end of a turn matters little."""

import glob
import subprocess

import inside
from inside import GROUP, journal, run, until
from shares import PERCENT, SharesCase, main

TENANT = "/mnt/build/tests/opencl/tenant"
GROUP_ENDED = "a92e9df7555545c6a63ea3c2b63219f5"
LAYER = glob.glob("/usr/lib/*/xsched/libxsched-opencl.so")[0]
KERNEL_USEC = 1000


class Tenant:
    def __init__(self, unit, slice_unit):
        self.unit = unit
        self.process = subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                f"--unit={unit}",
                f"--slice={slice_unit}",
                f"--setenv=OPENCL_LAYERS={LAYER}",
                "--setenv=POCL_MAX_PTHREAD_COUNT=1",
                TENANT,
                str(KERNEL_USEC),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def end(self):
        """Ends the tenant, which fails if any result is wrong. Returns the number of its kernels."""
        out, _ = self.process.communicate(timeout=120)
        if self.process.returncode != 0:
            raise AssertionError(f"{self.unit}: {self.process.returncode}\n{inside.log_tail()}")
        return int(out)


class Shares(SharesCase):
    CONFIG = "StarveAfter=1h\nTimeSlice=30ms\n"

    def setUp(self):
        super().setUp()
        self.tenants = []

    def tearDown(self):
        for t in self.tenants:
            if t.process.poll() is None:
                t.end()
        super().tearDown()

    def start(self, *units):
        """Starts a tenant for each (unit, slice), all at once, so that none has the device alone for long."""
        self.tenants = [Tenant(*u) for u in units]
        # A program runs before it is registered, and its group's settings are known a moment later.
        until(lambda: self.get("NClients") == len(units), "the tenants to be clients")
        until(lambda: min(self.runs(unit) for unit, _ in units) > 0, "each to have had its turn")

    def end(self, span):
        """Ends the tenants, and checks that each ran at least as many kernels as the service counted."""
        for t in self.tenants:
            self.assertGreaterEqual(t.end(), span.done[t.unit])
        until(lambda: self.get("NClients") == 0, "the clients to go")

    def test_weights(self):
        """Slices a: 300, b: 100; in a, a-x: 100, a-y: 200; in a-y, two services: 100 and 300."""
        for unit, weight in (("a.slice", 300), ("a-y.slice", 200), ("four.service", 300)):
            self.set(unit, Weight=("u", weight))
        self.start(
            ("one.service", "b.slice"),
            ("two.service", "a-x.slice"),
            ("three.service", "a-y.slice"),
            ("four.service", "a-y.slice"),
        )
        self.assertEqual(self.get("Parent", self.path("four.service"), GROUP), "/a.slice/a-y.slice")
        self.assertEqual(self.get("Parent", self.path("a-y.slice"), GROUP), "/a.slice")
        self.assertEqual(self.get("Parent", self.path("a.slice"), GROUP), "/")
        self.assertEqual(
            [self.get("Weight", self.path(u), GROUP) for u in ("a.slice", "two.service", "four.service")],
            [300, 100, 300],
        )

        span = self.check_span(10, self.check_tree)
        self.check_sums(
            span,
            {
                "a.slice": ("a-x.slice", "a-y.slice"),
                "a-x.slice": ("two.service",),
                "a-y.slice": ("three.service", "four.service"),
                "b.slice": ("one.service",),
            },
        )
        self.end(span)
        left = {g[0] for g in self.call("ListGroups")[0]}
        self.assertNotIn("/a.slice/a-x.slice/two.service", left)

    def check_tree(self, span):
        shares = {"one.service": 2 / 8, "two.service": 2 / 8, "three.service": 1 / 8, "four.service": 3 / 8}
        self.check_shares(span, shares)
        for unit, share in shares.items():
            self.check_share(span.done[unit], sum(span.done.values()), share, f"kernels of {unit}", 30 * PERCENT)
        if max(span.idle(unit) for unit in shares) < 1 * PERCENT:
            self.check_share(span.ran["a.slice"], span.of(*shares), 3 / 4, "a")
            self.check_share(span.ran["a-y.slice"], span.ran["a.slice"], 2 / 3, "a-y")

    def test_guarantee_against_priority(self):
        """A guarantee holds against a higher priority. At both ends of the span a turn of 20 ms may be owed, and each
        tenant's last kernel ends after the span."""
        self.set("a.slice", Min=("u", 20))
        self.set("b.slice", Priority=("i", 50))
        self.start(("one.service", "b.slice"), ("two.service", "a-x.slice"))
        self.assertEqual(self.get("Priority", self.path("one.service"), GROUP), 50)
        self.end(self.check_span(7, self.check_guarantee))

    def check_guarantee(self, span):
        self.check_guaranteed(span.ran["a.slice"], span.of("a.slice", "b.slice"), 0.2, "a")
        self.check_share(span.done["two.service"], sum(span.done.values()), 0.2, "kernels of a", 30 * PERCENT)

    def test_settings_of_unit_files(self):
        """In [X-XSched] of a slice, the weight applies to the slice, and the priority to its members as well."""
        inside.drop_in("c.slice", "50-gpu", "[X-XSched]\nWeight=30\nPriority=-5\nMax=70%\nPeriod=80ms\n")
        self.start(("one.service", "c-z.slice"))
        path, below = self.path("c.slice"), self.path("one.service")
        until(lambda: self.get("Weight", path, GROUP) == 30, "the file's weight")
        self.assertEqual([self.get(p, path, GROUP) for p in ("Priority", "Max", "Period")], [-5, 70, 80000])
        until(lambda: self.get("Priority", below, GROUP) == -5, "the slice's priority")
        self.assertEqual([self.get(p, below, GROUP) for p in ("Weight", "Max", "Period")], [100, 0, 100000])
        span = self.span(0.7)
        self.assertLessEqual(span.ran["c.slice"], 0.7 * (span.most + 0.08))
        self.end(span)
        said = [m["MESSAGE"] for m in journal("_SYSTEMD_UNIT=xsched.service") if m.get("MESSAGE_ID") != GROUP_ENDED]
        self.assertEqual([m for m in said if "c.slice" in str(m)], [])


if __name__ == "__main__":
    main()
