# SPDX-License-Identifier: LGPL-2.1-or-later
"""An ordinary user can make the service use only little memory, which it frees when the user's processes have ended."""

import os
import subprocess

from inside import Case, main, run, show, until

INVENTOR = """
import sys
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
named, client, kept, refused = 0, None, [], set()
def call(member, signature, *args):
    return c.call(NAME, PATH, NAME, member, signature, *args)
# Registers many clients of one process, with many queues each, on devices that do not exist.
for _ in range(40):
    try:
        client, *fds = call("RegisterClient", "ta{sv}", 0, {})
        kept.append(fds)
        for _ in range(100):
            named += 1
            call("RegisterQueue", "oa{sv}", client, {"Device": ("s", f"invented:{named}"), "Backend": ("s", "test")})
    except dbus.DBusError as e:
        refused.add(e.name)
print(named, *sorted(refused), flush=True)
sys.stdin.read()
"""

DEEP = """
import os, sys
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
with open("/proc/self/cgroup") as f:
    place = "/sys/fs/cgroup" + next(l for l in f if l.startswith("0::"))[3:].strip()
os.chdir(place)
# Far more levels than a group may have; the path is nearly as long as the kernel can report.
for _ in range(300):
    os.mkdir("deep-down")
    os.chdir("deep-down")
with open("cgroup.procs", "w") as f:
    f.write("0")
try:
    c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
    c.call(NAME, PATH, NAME, "RegisterClient", "ta{sv}", 0, {})
    print("registered", flush=True)
except dbus.DBusError as e:
    print(e.name, flush=True)
"""

CROWD = """
import os, signal, sys, time
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
from harness import Raw
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
with open("/proc/self/cgroup") as f:
    place = "/sys/fs/cgroup" + next(l for l in f if l.startswith("0::"))[3:].strip()
c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
def move(directory):
    with open(directory + "/cgroup.procs", "w") as f:
        f.write("0")
os.mkdir(place + "/home")
for turn in range(3):
    kept = []
    # Each client is in a cgroup of its own and has work, until the record has a frame with all of them.
    for i in range(90):
        name = f"{place}/mallory-{turn}-{i}-".ljust(250 + len(place), "x")
        os.mkdir(name)
        ready, tell = os.pipe()
        kept.append((name, os.fork()))
        if kept[-1][1] == 0:
            move(name)
            r = Raw(dbus.Connection("unix:path=/run/dbus/system_bus_socket"))
            r.queue().edge(1)
            os.write(tell, b"x")
            signal.pause()
        # One after the other, since the number of calls that wait for an authorisation is limited.
        os.close(tell)
        assert os.read(ready, 1) == b"x"
        os.close(ready)
    begun = time.monotonic_ns() // 1000
    while c.call(NAME, PATH, NAME, "GetRecord", "tt", begun, 0)[0] <= begun:
        time.sleep(0.05)
    for name, pid in kept:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.rmdir(name)
    print("done", flush=True)
"""


class Memory(Case):
    def setUp(self):
        super().setUp()
        if subprocess.run(["id", "mallory"], capture_output=True, check=False).returncode != 0:
            run("useradd", "--create-home", "mallory")
        # The first client makes the service allocate what all clients share.
        self.client().end()
        until(lambda: self.get("NClients") == 0, "the first to go")

    def service_kb(self):
        with open(f"/proc/{show('xsched', 'MainPID')}/status", encoding="utf-8") as f:
            return int(next(line for line in f if line.startswith("RssAnon:")).split()[1])

    def as_mallory(self, program, *options):
        return subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "-p",
                "User=mallory",
                *options,
                "--",
                "/usr/bin/python3",
                "-c",
                program,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def test_the_unit_is_bounded(self):
        """The unit has a limit that slows it down, and none that kills it."""
        self.assertEqual(show("xsched", "MemoryHigh"), str(512 << 20))
        self.assertEqual(show("xsched", "MemoryMax"), "infinity")

    def test_invented_devices(self):
        before = self.service_kb()
        p = self.as_mallory(INVENTOR)
        named, *refused = p.stdout.readline().split()
        self.assertEqual(refused, ["org.xsched.Scheduler.Error.QuotaExceeded"])
        self.assertGreater(int(named), 128)
        self.assertLessEqual(len(self.call("ListDevices")[0]), 128 + 32)
        self.assertLess(self.service_kb() - before, 8 << 10)
        # Meanwhile another user's client can register a new device.
        c = self.client(device="pci:0000:77:00.0")
        self.assertEqual(c.ask("run 10"), "ran")
        c.end()
        p.stdin.close()
        p.wait()
        until(lambda: self.get("NClients") == 0, "mallory to go")
        self.assertLessEqual(len(self.call("ListDevices")[0]), 32 + 1)
        self.assertLess(self.service_kb() - before, 4 << 10)

    def test_a_deep_cgroup(self):
        """The service makes a group for each level of a cgroup's path, and refuses a path with too many levels."""
        pid, before = show("xsched", "MainPID"), self.service_kb()
        p = self.as_mallory(DEEP, "-p", "Delegate=yes")
        answer = p.stdout.readline().strip()
        p.stdin.close()
        p.wait()
        self.assertEqual(answer, "org.xsched.Scheduler.Error.QuotaExceeded")
        self.assertEqual(show("xsched", "MainPID"), pid)
        self.assertLess(self.service_kb() - before, 4 << 10)

    def test_the_record(self):
        """The record of the last minutes stays small, and still has others in it, while hundreds of groups with the
        longest possible names come and go."""
        steady = self.client(unit="steady.service")
        self.assertEqual(steady.ask("stream"), "streaming")
        before = self.service_kb()
        p = self.as_mallory(CROWD, "-p", "Delegate=yes")
        for _ in range(3):
            self.assertEqual(p.stdout.readline().strip(), "done")
        p.stdin.close()
        p.wait()
        until(lambda: self.get("NClients") == 1, "mallory to go")
        _, frames, groups = self.call("GetRecord", "tt", 0, 0)
        self.assertIn("/system.slice/steady.service", groups)
        # mallory's groups are in it, but no more names than the record may have.
        self.assertTrue(1 <= sum("mallory" in g for g in groups) <= 256, len(groups))
        self.assertLessEqual(max(len(d[4]) for f in frames for d in f[2]), 64 + 1)
        self.assertLess(self.service_kb() - before, 4 << 10)
        self.assertRegex(steady.ask("rest"), r"^\d+ \d+$")


if __name__ == "__main__":
    main()
