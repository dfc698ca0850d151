# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sources of settings: each real source, their order, and explain's account of them."""

import os

import inside
from inside import CLIENT, GROUP, SettingsCase, run, show, until, write


class Carriers(SettingsCase):
    @classmethod
    def setUpClass(cls):
        for name, priority in (("low", -7), ("lower", -8), ("high", 7)):
            write(f"/etc/xsched/classes.d/{name}.class", f"[Class]\nPriority={priority}\n")
        run("systemctl", "restart", "xsched")

    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for name in self.started:
            run("systemctl", "stop", name)
        super().tearDown()

    def test_log_extra_fields(self):
        c = self.client("-p", "LogExtraFields=XSCHED_CLASS=low", "-p", "LogExtraFields=OTHER=1")
        self.check(c, -7, "low", "unit")
        chain = self.check_explained(c, ("unit", -7))
        self.assertNotEqual(chain[0]["detail"], "")

    def test_environment(self):
        c = self.client("-p", "Environment=XSCHED_CLASS=high XSCHED_WEIGHT=33")
        self.check(c, 7, "high", "unit")
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 33)

    def test_environment_of_the_process_raises_nothing(self):
        """Only systemd's Environment= may raise: a process that sets the variable itself can only lower."""
        c = self.client(
            unit="liar.service",
            command=[
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=liar.service",
                "--",
                "env",
                "XSCHED_CLASS=high",
                "sh",
                "-c",
                'shift; exec "$@"',
                "sh",
            ],
        )
        self.assertEqual(c.ask("run 1"), "ran")
        self.assertEqual(self.settings(c)[0], 0)
        self.assertEqual(self.get("Priority", self.call("ListClients")[0][0][-1], CLIENT), 0)

    def test_bad_values_are_named(self):
        c = self.client(
            "-p", "LogExtraFields=XSCHED_PRIORITY=1000", "-p", "LogExtraFields=XSCHED_WEIGHT=50", unit="bad.service"
        )
        until(lambda: self.get("Weight", self.group(c.unit), GROUP) == 50, "the good one to apply")
        self.assertEqual(self.settings(c)[0], 0)
        said = [m["MESSAGE"] for m in inside.journal("_SYSTEMD_UNIT=xsched.service") if "bad.service" in m["MESSAGE"]]
        self.assertTrue(any("XSCHED_PRIORITY=1000" in m and "-255..255" in m for m in said), said)

    def service_file(self, name, section):
        """Writes a unit file whose last section begins in line 6."""
        write(
            f"/run/systemd/system/{name}",
            (
                f"[Service]\nStandardInput=file:/run/client.in\n"
                f"ExecStart={inside.TEST_CLIENT} {inside.DEVICE_ID} \\\n1\n\n{section}"
            ),
        )

    def start(self, name):
        """Starts a unit that has a unit file. Its client runs until the unit is stopped."""
        if not os.path.exists("/run/client.in"):
            os.mkfifo("/run/client.in")
        fd = os.open("/run/client.in", os.O_RDWR)
        self.addCleanup(os.close, fd)
        run("systemctl", "daemon-reload")
        run("systemctl", "start", name)
        self.started.append(name)
        until(lambda: any(g[0].endswith("/" + name) for g in self.call("ListGroups")[0]), f"{name} to register")

        class Unit:
            unit = name

        return Unit

    def test_unit_file(self):
        self.service_file("filed.service", "[X-XSched]\nPriority=11\nWeight=321\n")
        c = self.start("filed.service")
        self.check(c, 11, "default", "unit-file")
        chain = self.check_explained(c, ("unit-file", 11))
        self.assertIn("/run/systemd/system/filed.service", chain[0]["detail"])
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 321)

    def test_drop_ins_of_every_kind(self):
        """Unit, template and prefix drop-ins, by systemd's own precedence; daemon-reload is enough."""
        self.service_file("drop-a@.service", "[X-XSched]\nPriority=1\n")
        c = self.start("drop-a@x.service")
        self.check(c, 1, "default", "unit-file")
        for path, priority in (("drop-.service.d", 2), ("drop-a@.service.d", 3), ("drop-a@x.service.d", 4)):
            write(f"/run/systemd/system/{path}/50.conf", f"[Unit]\nDescription=x\n[X-XSched]\nPriority={priority}\n")
            run("systemctl", "daemon-reload")
            until(lambda p=path: p in show(c.unit, "DropInPaths"), "systemd to have it")
        # Of files with the same name, the one in the most specific directory counts.
        self.check(c, 4, "default", "unit-file")
        write("/run/systemd/system/drop-a@x.service.d/60.conf", "[X-XSched]\nPriority=\nClass=low\n")
        run("systemctl", "daemon-reload")
        self.check(c, -7, "low", "unit-file")

    def test_a_unit_that_runs(self):
        """A drop-in of a running unit counts for its clients as soon as systemd has reloaded, also for a transient
        unit. systemd refuses any other change to such a unit, so there is no other event to wait for."""
        c = self.client(unit="live.service")
        self.check(c, 0, "default", "default")
        for priority in (7, -8):
            inside.drop_in("live.service", "50", f"[X-XSched]\nPriority={priority}\n")
            self.check(c, priority, "default", "unit-file")
        for refused in ("Environment=XSCHED_CLASS=low", "LogExtraFields=XSCHED_CLASS=low", "Slice=low.slice"):
            run("systemctl", "set-property", "--runtime", "live.service", refused, status=1)
        run("systemctl", "set-property", "--runtime", "live.service", "CPUWeight=50")
        self.check(c, -8, "default", "unit-file")
        os.unlink("/run/systemd/system/live.service.d/50.conf")
        run("systemctl", "daemon-reload")
        self.check(c, 0, "default", "default")

    def test_bad_line_of_a_unit_file(self):
        self.service_file("line.service", "[X-XSched]\nPriority=soon\nWeight=77\n")
        c = self.start("line.service")
        until(lambda: self.get("Weight", self.group(c.unit), GROUP) == 77, "the good line to apply")
        said = [m["MESSAGE"] for m in inside.journal("_SYSTEMD_UNIT=xsched.service")]
        self.assertTrue(any("/run/systemd/system/line.service:7" in m for m in said), said)

    def test_unit_file_over_properties(self):
        self.service_file("both.service", "LogExtraFields=XSCHED_CLASS=low\n[X-XSched]\nPriority=5\n")
        c = self.start("both.service")
        until(lambda: self.settings(c)[0] == 5, "the file's priority")
        self.check_explained(c, ("unit-file", 5), ("unit", -7))

    def test_override_over_everything(self):
        c = self.client("-p", "LogExtraFields=XSCHED_CLASS=low", unit="over.service")
        self.check(c, -7, "low", "unit")
        run("xschedctl", "set", "over.service", "priority=3")
        self.check(c, 3, "low", "override")
        self.check_explained(c, ("override", 3), ("unit", -7))
        run("xschedctl", "reset", "over.service")
        self.check(c, -7, "low", "unit")

    def test_slices_hand_down(self):
        """A slice's settings count for all below it, and the nearer slice is stronger."""
        inside.drop_in("hand.slice", "50", "[X-XSched]\nPriority=-3\nWeight=44\n")
        c = self.client("--slice=hand-down.slice")
        self.check(c, -3, "default", "slice")
        inside.drop_in("hand-down.slice", "50", "[X-XSched]\nClass=lower\n")
        self.check(c, -8, "lower", "slice")
        # The weight is the slice's own, and does not count for units in it.
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 100)
        self.assertEqual(self.get("Weight", self.group("hand.slice"), GROUP), 44)
        own = self.client("--slice=hand-down.slice", "-p", "LogExtraFields=XSCHED_CLASS=low")
        self.check(own, -7, "low", "unit")
        self.check_explained(own, ("unit", -7), ("slice", -8), ("slice", -3))

    def test_override_of_a_slice(self):
        """busctl and xschedctl set slices, before and after a client is in them."""
        c = self.client("--slice=set-me.slice")
        self.check(c, 0, "default", "default")
        run("xschedctl", "set", "set.slice", "priority=-2")
        self.check(c, -2, "default", "slice")
        late = self.client("--slice=set-me.slice")
        self.check(late, -2, "default", "slice")
        run("xschedctl", "reset", "set.slice")
        self.check(c, 0, "default", "default")

    def set_attr(self, directory, **attributes):
        for key, value in attributes.items():
            os.setxattr(directory, f"user.xsched.{key}", str(value).encode())

    def test_attributes_by_root(self):
        """Attributes count at once, are stronger than systemd's settings, and end when they are removed."""
        c = self.client("-p", "LogExtraFields=XSCHED_CLASS=low", unit="attr.service")
        self.check(c, -7, "low", "unit")
        directory = "/sys/fs/cgroup/system.slice/attr.service"
        self.set_attr(directory, priority=9, weight=12)
        self.check(c, 9, "low", "attribute")
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 12)
        self.check_explained(c, ("attribute", 9), ("unit", -7))
        os.removexattr(directory, "user.xsched.priority")
        until(lambda: self.settings(c)[0] == -7, "the unit's priority again")

    def test_attributes_of_a_unit_that_comes_again(self):
        """A unit that is started again has a new cgroup directory. Settings made over the bus are still in force, and
        the new directory's attributes count like the first one's."""
        for weight in (41, 42, 43):
            c = self.client(unit="again.service")
            run("xschedctl", "set", "--runtime", "again.service", "priority=3")
            self.set_attr("/sys/fs/cgroup/system.slice/again.service", weight=weight)
            until(
                lambda w=weight: self.get("Weight", self.group("again.service"), GROUP) == w, "the attribute to count"
            )
            c.end()
            until(lambda: self.get("NClients") == 0, "the client to go")
        run("xschedctl", "reset", "again.service")

    def test_attributes_that_others_may_write(self):
        """Attributes of a directory that belongs to root but that others may write can only lower."""
        c = self.client(unit="shared.service")
        directory = "/sys/fs/cgroup/system.slice/shared.service"
        os.chmod(directory, 0o775)
        self.set_attr(directory, priority=9, weight=12)
        until(lambda: self.get("Weight", self.group(c.unit), GROUP) == 12, "the weight")
        self.assertEqual(self.settings(c)[0], 0)

    def test_attributes_of_a_slice(self):
        c = self.client("--slice=attr-nested.slice")
        self.set_attr("/sys/fs/cgroup/attr.slice", **{"class": "lower"})
        self.check(c, -8, "lower", "slice")

    def test_bad_attributes_are_named(self):
        c = self.client(unit="badattr.service")
        self.set_attr("/sys/fs/cgroup/system.slice/badattr.service", priority="soon", weight=9)
        until(lambda: self.get("Weight", self.group(c.unit), GROUP) == 9, "the good one to apply")
        self.assertEqual(self.settings(c)[0], 0)
        said = [m["MESSAGE"] for m in inside.journal("_SYSTEMD_UNIT=xsched.service")]
        self.assertTrue(any("user.xsched.priority=soon" in m for m in said), said)

    def test_attributes_by_a_user(self):
        """An owner of the directory who is not root may lower; a raise is refused, and logged."""
        c = self.client(
            "-p", "LogExtraFields=XSCHED_PRIORITY=-2", "--uid=nobody", "-p", "Delegate=yes", unit="own.service"
        )
        self.check(c, -2, "default", "unit")
        directory = "/sys/fs/cgroup/system.slice/own.service"
        self.assertEqual(os.stat(directory).st_uid, 65534)
        set_as_nobody = [
            "setpriv",
            "--reuid=nobody",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            "import os, sys; os.setxattr(sys.argv[1], 'user.xsched.priority', sys.argv[2].encode())",
            directory,
        ]
        run(*set_as_nobody, "20")
        until(
            lambda: any(
                "only lower" in m["MESSAGE"] and "own.service" in m["MESSAGE"]
                for m in inside.journal("_SYSTEMD_UNIT=xsched.service")
            ),
            "the refusal in the journal",
        )
        self.check(c, -2, "default", "unit")
        run(*set_as_nobody, "-5")
        self.check(c, -5, "default", "attribute")

    def test_all_of_it_after_a_restart(self):
        c = self.client("-p", "LogExtraFields=XSCHED_CLASS=high")
        self.check(c, 7, "high", "unit")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.check(c, 7, "high", "unit")


if __name__ == "__main__":
    inside.main()
