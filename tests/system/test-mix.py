# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shares of synchronous programs in nested slices hold on PoCL, by the work that was done: within 3 points of the
device, plus the uncertainty of the machine; see tests/opencl/test-mix.py."""

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import inside
import mix
from inside import until
from mix import Kind
from shares import SharesCase, main

PROGRAM = "/mnt/build/tests/opencl/mix-tenant"
LAYER = glob.glob("/usr/lib/*/xsched/libxsched-opencl.so")[0]
BUS = "unix:path=/run/dbus/system_bus_socket"
WITHIN = 0.03
SECONDS = 6


class Units:
    """Like mix.Session, but each tenant is a service of systemd."""

    def __init__(self):
        self.service, self.tenants = mix.Service(BUS), []
        self.kernels = mix.calibrate(PROGRAM)["kernels"]
        mix.go_first(self.service.pid())

    def start(self, kind, unit, slice_unit):
        environment = [f"--setenv={k}={v}" for k, v in {**mix.ENVIRONMENT, "OPENCL_LAYERS": LAYER}.items()]
        t = mix.Tenant(
            kind,
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                f"--unit={unit}",
                f"--slice={slice_unit}",
                *environment,
                PROGRAM,
                *kind.arguments(self.kernels[kind.usec]["rounds"]),
            ],
        )
        self.tenants.append(t)
        t.wait_ready()

        def group():
            t.group = next((c["group"] for c in self.service.describe()["clients"] if c["unit"] == unit), None)
            return t.group

        until(group, f"{unit} to be a client")
        mix.go_first(int(inside.run("systemctl", "show", "--value", "--property=MainPID", unit)))
        return t

    def end(self):
        while self.tenants:
            self.tenants.pop().end()


class Nested(SharesCase):
    def setUp(self):
        super().setUp()
        self.units = Units()

    def tearDown(self):
        self.units.end()
        super().tearDown()

    def test_slices(self):
        """Slices a: 300, b: 100; in a one: 100, two: 200. So the shares are 1:2:1."""
        units = self.units
        self.set("a.slice", Weight=("u", 300))
        tenants = [
            units.start(Kind(1200, "sync"), "one.service", "a.slice"),
            units.start(Kind(1200, "sync"), "two.service", "a-y.slice"),
            units.start(Kind(1200, "sync"), "three.service", "b.slice"),
        ]
        self.set("a-y.slice", Weight=("u", 200))
        asked = [1 / 4, 2 / 4, 1 / 4]
        excess, text = mix.judge(
            lambda: mix.judge_shares(mix.mix(units, tenants, [{}, {}, {}], SECONDS), asked, WITHIN), WITHIN
        )
        print(text, file=sys.stderr)
        if excess is None:
            self.skipTest(f"the machine is too unsteady to tell: {text}")
        self.assertLessEqual(excess, 0, text)


if __name__ == "__main__":
    main()
