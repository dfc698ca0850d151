# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service in a virtual machine of its own: cgroups have real controllers, and there are KFD's own
files."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, "/mnt/source/tests/system")
from inside import CLIENT, GROUP, Case, run, show, until  # noqa: E402  pylint: disable=wrong-import-position

ROOT = "/sys/fs/cgroup"
KFD = "/sys/class/kfd/kfd/proc"
NOBODY = 65534


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class Service(Case):
    def state(self, client):
        return self.get("State", self.client_of(client), CLIENT)

    def group(self, client):
        return self.get("Group", self.client_of(client), CLIENT)

    def test_the_controllers_are_real(self):
        controllers = read(f"{ROOT}/cgroup.controllers").split()
        self.assertLessEqual({"cpu", "memory", "io", "pids"}, set(controllers))
        self.assertEqual(show("xsched.service", "ActiveState"), "active")
        self.assertNotEqual(read(f"/proc/{show('xsched.service', 'MainPID')}/status").split("Uid:")[1].split()[0], "0")

    def test_real_time_while_there_is_a_choice(self):
        """The unit's limit allows it, since the service has no capabilities. Containers do not grant that limit."""
        pid = int(show("xsched", "MainPID"))
        policy = lambda: os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK
        self.assertEqual(policy(), os.SCHED_OTHER)
        high, low = self.client(), self.client("-p", "LogExtraFields=XSCHED_PRIORITY=-1")
        high.ask("begin 0")
        low.tell("begin 0")
        until(lambda: policy() == os.SCHED_RR, "real time")
        high.ask("complete 0")
        low.line()
        low.ask("complete 0")
        for c in (high, low):
            c.end()
        until(lambda: policy() == os.SCHED_OTHER, "an ordinary process")

    def test_cpus_stay_awake_while_there_is_a_choice(self):
        """CPULatency= works, with the drop-in that the unit needs for it."""
        drop_in = "/etc/systemd/system/xsched.service.d/50-cpu-latency.conf"
        config = "/etc/xsched/xsched.conf.d/50-cpu-latency.conf"
        self.addCleanup(run, "systemctl", "restart", "xsched")
        self.addCleanup(run, "systemctl", "daemon-reload")
        for path in (drop_in, config):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.addCleanup(os.unlink, path)
        write(drop_in, read("/usr/share/doc/xsched/examples/cpu-latency.conf"))
        write(config, "[Scheduler]\nCPULatency=7us\n")
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", "xsched")

        def latency():
            fd = os.open("/dev/cpu_dma_latency", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return int.from_bytes(os.read(fd, 4), sys.byteorder)
            finally:
                os.close(fd)

        before = latency()
        self.assertGreater(before, 7)
        high, low = self.client(), self.client("-p", "LogExtraFields=XSCHED_PRIORITY=-1")
        high.ask("begin 0")
        low.tell("begin 0")
        until(lambda: latency() == 7, "CPUs that wake in 7 us")
        high.ask("complete 0")
        low.line()
        low.ask("complete 0")
        for c in (high, low):
            c.end()
        until(lambda: latency() == before, "CPUs that sleep")

    def test_priorities_by_cgroup(self):
        """A unit waits for one of higher priority in another slice; both have limits that the kernel enforces."""
        high = self.client("--slice=online.slice", "-pCPUWeight=500", "-pMemoryMax=256M", unit="high.service")
        low = self.client("--slice=batch.slice", "-pCPUQuota=50%", "-pTasksMax=64", unit="low.service")
        for c, group, file, value in (
            (high, "/online.slice/high.service", "cpu.weight", "500"),
            (low, "/batch.slice/low.service", "pids.max", "64"),
        ):
            self.assertEqual(self.group(c), group)
            self.assertEqual(read(f"{ROOT}{group}/{file}").strip(), value)
        run("xschedctl", "set", "high.service", "priority=20")
        run("xschedctl", "set", "low.service", "priority=-20")
        self.assertEqual([self.get("Priority", self.client_of(c), CLIENT) for c in (high, low)], [20, -20])

        self.assertEqual(high.ask("begin 0"), "tracked")
        low.tell("begin 0")
        until(lambda: self.state(low) == "held", "the lower to be held")
        self.assertEqual(self.state(high), "running")
        high.ask("complete 0")
        self.assertEqual(low.line(), "tracked")
        low.ask("complete 0")
        for c in (high, low):
            self.assertEqual(c.ask("counters").split()[2], "1")

    def test_a_move_between_cgroups_with_controllers(self):
        c = self.client(unit="moving.service")
        path = self.client_of(c)
        pid = show("moving.service", "MainPID")
        write(f"{ROOT}/cgroup.subtree_control", "+cpu +memory")
        os.makedirs(f"{ROOT}/moves/there")
        write(f"{ROOT}/moves/cgroup.subtree_control", "+cpu +memory")
        self.call("SetGroup", "sta{sv}", "/moves/there", 0, {"Priority": ("i", 7)})
        write(f"{ROOT}/moves/there/cgroup.procs", pid)
        until(lambda: self.get("Group", path, CLIENT) == "/moves/there", "the move to be seen")
        self.assertEqual(self.get("Priority", path, CLIENT), 7)
        group = next(g[-1] for g in self.call("ListGroups")[0] if g[0] == "/moves/there")
        self.assertEqual(self.get("NClients", group, GROUP), 1)
        c.end()
        until(lambda: read(f"{ROOT}/moves/there/cgroup.procs") == "", "the cgroup to be empty")
        os.rmdir(f"{ROOT}/moves/there")
        os.rmdir(f"{ROOT}/moves")


class QueueFinder(unittest.TestCase):
    """xsched-queues on the driver's own files. No process can have a queue here, since there is no GPU."""

    def setUp(self):
        fd = os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, fd)

    def test_a_process_that_has_opened_it(self):
        self.assertTrue(os.path.isdir(f"{KFD}/{os.getpid()}/queues"))
        self.assertEqual(json.loads(run("xsched-queues", "--json=short", str(os.getpid()))), [])
        self.assertIn(
            f"0 queues listed, from sysfs and debugfs of Linux {os.uname().release}.",
            run("xsched-queues", str(os.getpid())),
        )
        self.assertEqual(json.loads(run("xschedctl", "list-queues", "--kernel", "--json=short")), [])
        self.assertIn(f"Process {os.getpid()} PASID ", read("/sys/kernel/debug/kfd/mqds"))

    def test_as_anybody(self):
        p = subprocess.run(
            ["xsched-queues", str(os.getpid())],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn("0 queues listed, from sysfs of Linux", p.stdout)

    def test_a_process_that_has_not(self):
        run("xsched-queues", "1", status=1)

    def test_inode_numbers_ascend(self):
        """The order of queues depends on this. cgroupfs is kernfs, as sysfs is."""
        numbers = []
        for name in ("c", "a", "d", "b"):
            os.mkdir(f"{ROOT}/{name}")
            numbers.append(os.stat(f"{ROOT}/{name}").st_ino)
            if name == "a":
                os.rmdir(f"{ROOT}/c")
        self.assertEqual(numbers, sorted(set(numbers)))
        for name in "abd":
            os.rmdir(f"{ROOT}/{name}")


class Tap(unittest.TextTestResult):
    def say(self, result, test):
        self.number = getattr(self, "number", 0) + 1
        print(f"{result} {self.number} - {test._testMethodName[5:].replace('_', ' ')}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("not ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say("not ok", test)


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(resultclass=Tap, verbosity=0))
