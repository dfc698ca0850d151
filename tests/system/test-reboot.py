# SPDX-License-Identifier: LGPL-2.1-or-later
"""test-reboot.py STATE BOOT: settings stored in the first system apply in the second, and those reset there do not
apply in the third."""

import os
import shutil
import sys

import inside
from inside import SettingsCase, run, show, until, write

STATE, BOOT = sys.argv[1], int(sys.argv[2])
DIRECTORY = "/var/lib/xsched"


class Reboot(SettingsCase):
    """A test for each boot. It copies the state directory from boot to boot; everything else of the system is new."""

    @classmethod
    def setUpClass(cls):
        if BOOT > 1:
            run("cp", "--archive", "--no-target-directory", f"{STATE}/xsched", DIRECTORY)
        write("/etc/xsched/classes.d/stored.class", "[Class]\nWeight=77\n")

    def tearDown(self):
        super().tearDown()
        run("systemctl", "stop", "xsched")
        shutil.rmtree(f"{STATE}/xsched", ignore_errors=True)
        run("cp", "--archive", DIRECTORY, f"{STATE}/xsched")

    def test_boot(self):
        getattr(self, f"boot_{BOOT}")()

    def boot_1(self):
        c = self.client("--slice=kept.slice", unit="kept.service")
        self.check(c, 0, "default", "default")
        run("xschedctl", "set", "kept.service", "priority=9", "class=stored")
        run("xschedctl", "set", "--runtime", "kept.service", "threshold=3")
        run("xschedctl", "set", "kept.slice", "priority=3", "weight=31")
        run("xschedctl", "set", "--force", "--runtime", "brief.service", "priority=4")
        run("xschedctl", "set", "/system.slice/nested.service/below", "priority=6")
        run("xschedctl", "set", f"device:{inside.DEVICE_ID}", "policy=hpf", "timeslice=7ms")
        run("xschedctl", "set", "--runtime", f"device:{inside.DEVICE_ID}", "concurrency=2")
        self.check_device("hpf", 7000, 2)
        self.check(c, 9, "stored", "override")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.check(c, 9, "stored", "override")
        self.assertEqual(self.get("Threshold", self.group(c.unit), inside.GROUP), 3)
        self.check_device("hpf", 7000, 2)

    def check_device(self, *expected):
        device = self.call("ListDevices")[0][0][-1]
        keys = ("Policy", "TimeSliceUSec", "Concurrency")
        self.assertEqual(tuple(self.get(k, device, f"{inside.NAME}.Device") for k in keys), expected)

    def boot_2(self):
        c = self.client("--slice=kept.slice", unit="kept.service")
        self.check(c, 9, "stored", "override")
        self.assertEqual(self.get("Weight", self.group(c.unit), inside.GROUP), 77)
        self.assertEqual(self.get("Threshold", self.group(c.unit), inside.GROUP), 0)
        self.check_device("hpf", 7000, 1)
        run("xschedctl", "reset", f"device:{inside.DEVICE_ID}")
        chain = self.check_explained(c, ("override", 9))
        self.assertIn("stored for kept.service", chain[0]["detail"])
        # A runtime setting is gone; a slice passes its stored setting on to its units.
        self.check(self.client(unit="brief.service"), 0, "default", "default")
        other = self.client("--slice=kept.slice", unit="other.service")
        self.check(other, 3, "default", "slice")
        self.assertEqual(self.get("Weight", self.group("kept.slice"), inside.GROUP), 31)
        nested = self.client("-p", "Delegate=yes", unit="nested.service")
        below = "/system.slice/nested.service/below"
        os.mkdir(f"/sys/fs/cgroup{below}")
        write(f"/sys/fs/cgroup{below}/cgroup.procs", show(nested.unit, "MainPID"))
        until(lambda: any(g[0] == below and g[2] == 6 for g in self.call("ListGroups")[0]), "the cgroup's priority")
        run("xschedctl", "reset", "kept.service")
        self.check(c, 3, "default", "slice")
        run("xschedctl", "set", "kept.slice", "weight=32")
        # Settings of a unit without processes can be reset once; then there are none left.
        run("xschedctl", "reset", "absent.service", status=1)
        run("xschedctl", "set", "--force", "absent.service", "weight=3")
        run("xschedctl", "reset", "absent.service")
        run("xschedctl", "reset", "absent.service", status=1)

    def boot_3(self):
        c = self.client("--slice=kept.slice", unit="kept.service")
        self.check(c, 3, "default", "slice")
        self.assertEqual(self.get("Weight", self.group("kept.slice"), inside.GROUP), 32)
        self.check_device("tree", 20000, 1)


if __name__ == "__main__":
    sys.argv[1:] = []
    inside.main()
