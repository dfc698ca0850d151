# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an ordinary user can make the service keep: little, for as long as he is there, and nothing when he has left."""

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
# Many registrations of one process, many queues of each, each on a device that nobody has heard of.
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
for _ in range(1500):
    os.mkdir("a")
    os.chdir("a")
with open("cgroup.procs", "w") as f:
    f.write("0")
try:
    c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
    c.call(NAME, PATH, NAME, "RegisterClient", "ta{sv}", 0, {})
    print("registered", flush=True)
except dbus.DBusError as e:
    print(e.name, flush=True)
"""


class Memory(Case):
    def setUp(self):
        super().setUp()
        if subprocess.run(["id", "mallory"], capture_output=True, check=False).returncode != 0:
            run("useradd", "--create-home", "mallory")
        # The first client makes what every other one shares.
        self.client().end()
        until(lambda: self.get("NClients") == 0, "the first to go")

    def service_kb(self):
        with open(f"/proc/{show('xsched', 'MainPID')}/status", encoding="utf-8") as f:
            return int(next(line for line in f if line.startswith("RssAnon:")).split()[1])

    def as_mallory(self, program, *options):
        return subprocess.Popen(
            ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "-p", "User=mallory", *options, "--", "/usr/bin/python3", "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def test_the_unit_is_bounded(self):
        """By what slows it down, and not by what kills it."""
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
        # Another user has devices of his own all the while.
        c = self.client(device="pci:0000:77:00.0")
        self.assertEqual(c.ask("run 10"), "ran")
        c.end()
        p.stdin.close()
        p.wait()
        until(lambda: self.get("NClients") == 0, "mallory to go")
        self.assertLessEqual(len(self.call("ListDevices")[0]), 32 + 1)
        self.assertLess(self.service_kb() - before, 4 << 10)

    def test_a_deep_cgroup(self):
        """A group is made for each level of a cgroup's path, by no more than so many."""
        pid, before = show("xsched", "MainPID"), self.service_kb()
        p = self.as_mallory(DEEP, "-p", "Delegate=yes")
        answer = p.stdout.readline().strip()
        p.stdin.close()
        p.wait()
        self.assertEqual(answer, "org.xsched.Scheduler.Error.QuotaExceeded")
        self.assertEqual(show("xsched", "MainPID"), pid)
        self.assertLess(self.service_kb() - before, 4 << 10)


if __name__ == "__main__":
    main()
