#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's counts of a client that is alone: by libnvidia-ml (a test double under its name), by KFD and fdinfo (a
directory), and when it hangs, crashes or sees nothing."""

import os
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

DEVICE_ID = "pci:0000:65:00.0"
PERIOD = 0.25  # ACCOUNT_DRIVER_NS of xschedd-quick

# The service starts this program in place of xsched-metrics; the test talks to it by the directory alone.
SCRIPT = """#!/bin/sh
[ "$1" = --usage ] && echo $$ >>{d}/started
FAKE_NVML={d}/mode LD_LIBRARY_PATH=$(cat {d}/path) METRICS_ROOT={d}/root exec {program} "$@"
"""


class Driver(Case):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="xsched-driver-")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.put("script", SCRIPT.format(d=self.scratch, program=os.environ["XSCHED_METRICS_PROGRAM"]))
        os.chmod(f"{self.scratch}/script", 0o755)
        self.put("started", "")
        self.put("none/libnvidia-ml.so.1", "")  # shadows a real library of this machine
        self.put("path", f"{self.scratch}/none")
        os.environ["XSCHED_METRICS"] = f"{self.scratch}/script"
        super().setUp()
        self.p = self.program(DEVICE_ID)
        self.group = self.call("GetGroup", "s", self.get("Group", self.call("GetClientByPID", "u", self.p.pid), CLIENT))
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.launch)
        self.addCleanup(self.stop)

    def put(self, name, text):
        os.makedirs(os.path.dirname(f"{self.scratch}/{name}"), exist_ok=True)
        with open(f"{self.scratch}/{name}.new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(f"{self.scratch}/{name}.new", f"{self.scratch}/{name}")

    def nvml(self, mode):
        self.put("mode", mode + "\n")
        self.put("path", os.environ["FAKE_NVML_USAGE_DIR"])

    def launch(self):
        """Launches as fast as it can until it is told to end."""
        while not self.ended.is_set():
            self.p.ask("run 20000")

    def begin(self):
        self.thread.start()

    def stop(self):
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()

    def ran(self):
        return self.get("GPUTimeUSec", self.group, GROUP)

    def source(self):
        return self.get("GPUTimeSource", self.group, GROUP)

    def started(self):
        with open(f"{self.scratch}/started", encoding="utf-8") as f:
            return [int(line) for line in f]

    def share(self, seconds=5 * PERIOD):
        """Makes the driver report a run time for the next seconds."""
        since, before = time.monotonic(), self.ran()
        time.sleep(seconds)  # the measured time
        return (self.ran() - before) / 1e6 / (time.monotonic() - since)

    def check_share(self, part):
        """The first of these windows also corrects the estimate from before."""
        until(lambda: abs(self.share() - part) <= 0.1, f"{part} of the time to be told")

    def check_driver(self, part):
        until(lambda: self.source() == "driver", "the driver's count")
        self.check_share(part)
        self.assertLessEqual(len(self.started()), 3)  # a helper that is not asked for a while ends

    def check_sampled(self, n_started=1):
        """Now and then a window falls into a pause of the program, on a busy machine: it counts as tracked until the
        next look."""
        until(lambda: self.source() == "sampled" and len(self.started()) == n_started, "samples")
        for _ in range(8):
            before = self.ran()
            until(lambda: self.ran() > before, "it to be counted")
            self.assertNotEqual(self.source(), "driver")
        self.assertEqual(len(self.started()), n_started)  # the helper is not started again

    def test_nvml(self):
        self.nvml(f"40 {self.p.pid} 1 2")
        self.begin()
        self.check_driver(0.4)
        tracked = self.p.process and self.get("NEdges")
        self.assertLess(self.get("NEdges") - tracked, 10)

    def test_nvml_changes(self):
        """The driver's later answers count, not the first one."""
        self.nvml(f"90 {self.p.pid}")
        self.begin()
        self.check_driver(0.9)
        self.nvml(f"20 {self.p.pid}")
        self.check_share(0.2)

    def test_child_ends_with_the_work(self):
        """The work ends first: a driver that sees none of what still runs is not asked again, and its child ends at
        once, while samples count."""
        self.nvml(f"40 {self.p.pid}")
        self.begin()
        until(lambda: self.source() == "driver", "the driver's count")
        self.stop()
        self.nvml("none")
        until(lambda: not os.path.exists(f"/proc/{self.started()[-1]}"), "the child to end")
        ran = self.ran()
        self.assertEqual(self.share(2 * PERIOD), 0)
        self.assertEqual(self.ran(), ran)

    def test_hangs(self):
        """The service does not wait for the program's answer, and does not ask it again."""
        self.nvml("hang")
        self.begin()
        until(lambda: self.started(), "the child")
        self.check_sampled()
        until(lambda: not os.path.exists(f"/proc/{self.started()[-1]}"), "the child to be ended")
        self.check_sampled()

    def test_crashes(self):
        self.nvml("crash")
        self.begin()
        self.check_sampled()

    def test_refuses(self):
        self.nvml("refuse")
        self.begin()
        self.check_sampled()

    def test_no_library(self):
        self.begin()
        self.check_sampled()

    def test_sees_nothing(self):
        """The driver's counts are of other processes, or of another namespace: the service's own counts are used."""
        self.nvml("none")
        self.begin()
        self.check_sampled()

    def test_kfd(self):
        node = "root/sys/devices/virtual/kfd/kfd/topology/nodes/0"
        self.put(f"{node}/gpu_id", "777\n")
        self.put(f"{node}/properties", "simd_count 8\nlocation_id 25856\ndomain 0\n")
        self.put(f"root/sys/class/kfd/kfd/proc/{self.p.pid}/stats_777/cu_occupancy", "40\n")
        self.begin()
        self.check_driver(1.0)

    def test_not_asked_where_nobody_wants_it(self):
        self.nvml(f"40 {self.p.pid}")
        self.c.call(NAME, PATH, NAME, "SetPolicy", "ssta{sv}", "", "", 0, {"Accounting": ("s", "sampled")})
        self.begin()
        self.check_sampled(0)


if __name__ == "__main__":
    main()
