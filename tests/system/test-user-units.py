# SPDX-License-Identifier: LGPL-2.1-or-later
"""Settings in units of users' managers, and in the administrator's files for these, can only lower."""

import os
import subprocess

import inside
from inside import CLIENT, DEVICE_ID, GROUP, TEST_CLIENT, Case, run, show, until

RAW = """
import os, sys
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
c = dbus.Connection("unix:path=/run/dbus/system_bus_socket")
told = [tuple(a.split(":", 1)) for a in sys.argv[1:]]
c.call("org.xsched.Scheduler", "/org/xsched/Scheduler", "org.xsched.Scheduler", "RegisterClient", "ta{sv}", 0, \
{"UserUnits": ("a(ss)", told)})
print("ready", flush=True)
sys.stdin.read()
"""


class UserUnits(Case):
    @classmethod
    def setUpClass(cls):
        run("useradd", "--create-home", "dora")
        cls.uid = run("id", "-u", "dora").strip()
        cls.files = "/home/dora/.config/systemd/user"
        cls.admin = "/etc/systemd/user"
        cls.top = f"/user.slice/user-{cls.uid}.slice/user@{cls.uid}.service"
        cls.user = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--uid=dora",
            f"--setenv=XDG_RUNTIME_DIR=/run/user/{cls.uid}",
            "--",
        ]
        run("loginctl", "enable-linger", "dora")
        until(lambda: show(f"user@{cls.uid}.service", "ActiveState") == "active", "the user's manager")

    def setUp(self):
        super().setUp()
        self.units = []
        self.addCleanup(self.reload)
        self.addCleanup(subprocess.run, ["rm", "-rf", self.files, self.admin], check=True)

    def tearDown(self):
        for unit in self.units:
            self.as_user("systemctl", "--user", "stop", unit)
        super().tearDown()

    def as_user(self, *argv):
        return run(*self.user, *argv)

    def reload(self):
        self.as_user("systemctl", "--user", "daemon-reload")

    def only_client(self):
        until(lambda: len(self.call("ListClients")[0]) == 1, "the client")
        return self.call("ListClients")[0][0][-1]

    def by_systemd_run(self, *options):
        c = self.client(
            command=[*self.user, "systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect", *options]
        )
        return c, self.only_client()

    def end(self, c):
        c.end()
        until(lambda: self.get("NClients") == 0, "it to go")

    def settings(self, path):
        group = next(g[-1] for g in self.call("ListGroups")[0] if g[0] == self.get("Group", path, CLIENT))
        return tuple(self.get(p, group, GROUP) for p in ("Priority", "Weight", "PolicySource"))

    def start(self, unit, *sections, where=None, text=""):
        """Starts a unit of the user's, with further files (path, text of their [X-XSched])."""
        inside.write(
            f"{self.files}/{unit}",
            f"[Service]\n{text}ExecStart=/bin/sh -c 'sleep 1000 | exec {TEST_CLIENT} {DEVICE_ID} 1'\n",
        )
        for path, section in sections:
            inside.write(path, f"[X-XSched]\n{section}\n")
        run("chown", "-R", "dora:", "/home/dora")
        self.reload()
        self.as_user("systemctl", "--user", "start", unit)
        self.units.append(unit)
        return self.only_client()

    def test_names_of_units_are_the_systems(self):
        """The administrator's settings are those of system units, also while only the user has a unit or a slice of
        that name."""
        inside.write(
            "/run/systemd/system/train.service",
            f"[Service]\nExecStart=/bin/sh -c 'sleep 1000 | exec {TEST_CLIENT} {DEVICE_ID} 1'\nSlice=gpu-batch.slice\n",
        )
        run("systemctl", "daemon-reload")
        self.addCleanup(run, "systemctl", "daemon-reload")
        self.addCleanup(os.unlink, "/run/systemd/system/train.service")
        self.addCleanup(run, "xschedctl", "reset", "gpu-batch.slice")
        run("systemctl", "start", "gpu-batch.slice")
        run("xschedctl", "set", "--runtime", "train.service", "weight=70")
        path = self.start("train.service", text="Slice=gpu-batch.slice\n")
        before = self.settings(path)
        self.assertEqual(before[:2], (-50, 100))
        own = f"{self.top}/gpu.slice/gpu-batch.slice"
        self.assertIn(
            "no such group",
            subprocess.run(["xschedctl", "status", "gpu.slice"], capture_output=True, check=False, text=True).stderr,
        )
        run("xschedctl", "set", "train.service", "priority=9")
        run("xschedctl", "set", "gpu-batch.slice", "max=30%")
        run("xschedctl", "suspend", "gpu-batch.slice")
        self.assertEqual(self.settings(path), before)
        self.assertFalse(self.get("Suspended", path, CLIENT))
        self.assertEqual(self.get("Max", self.call("GetGroup", "s", own)[0], GROUP), 0)
        run("systemctl", "start", "train.service")
        system = until(lambda: [c[-1] for c in self.call("ListClients")[0] if c[-1] != path], "the system's unit")[0]
        self.assertEqual(self.settings(system), (9, 70, "override"))
        self.assertTrue(self.get("Suspended", system, CLIENT))
        run("xschedctl", "resume", "gpu-batch.slice")
        run("xschedctl", "reset", "train.service")
        self.assertEqual(self.settings(path), before)
        run("systemctl", "stop", "train.service")

    def test_properties(self):
        for options, expected in (
            (["-p", "LogExtraFields=XSCHED_PRIORITY=-9"], (-9, 100, "user-unit")),
            (["-p", "Environment=XSCHED_PRIORITY=-8 XSCHED_WEIGHT=40"], (-8, 40, "user-unit")),
            (
                ["-p", "LogExtraFields=XSCHED_CLASS=batch", "-p", "Environment=XSCHED_PRIORITY=-8"],
                (-50, 100, "user-unit"),
            ),
        ):
            c, path = self.by_systemd_run("--unit=props", *options)
            self.assertEqual(self.settings(path), expected)
            self.assertEqual(self.get("Priority", path, CLIENT), expected[0])
            self.end(c)

    def test_files(self):
        """The user's unit file and drop-in apply, also limits of the group, and after a restart of the service.
        Comments and invalid lines are ignored."""
        path = self.start(
            "low.service",
            (
                f"{self.files}/low.service.d/50.conf",
                (
                    " Priority = -7 \n# Priority=-70\nWeight=30\nMax=25%\nPeriod=50ms\nNosuch=1\nMin=x\n[Unit]\n"
                    "Priority=-90"
                ),
            ),
            text="Nice=1\n[X-XSched]\nPriority=-3\nThreshold=2\n[Service]\n",
        )
        for _ in range(2):
            self.assertEqual(self.settings(path), (-7, 30, "user-unit"))
            group = self.get("Group", path, CLIENT)
            self.assertEqual(group, f"{self.top}/app.slice/low.service")
            of_group = next(g[-1] for g in self.call("ListGroups")[0] if g[0] == group)
            self.assertEqual([self.get(p, of_group, GROUP) for p in ("Threshold", "Max")], [2, 25])
            run("systemctl", "restart", "xsched")
            until(lambda: self.get("NClients") == 1, "the client")
            path = self.only_client()
        chain = [
            (i["source"], i["value"])
            for i in self.explain(self.get("PID", path, CLIENT))
            if i["detail"].startswith("Priority:")
        ]
        self.assertEqual(chain[0], ("user-unit", -7))

    def test_files_of_the_administrator(self):
        """The administrator's files for a unit's prefix and for all services apply."""
        path = self.start(
            "gpu-train.service",
            (f"{self.admin}/gpu-.service.d/50.conf", "Priority=-20"),
            (f"{self.admin}/service.d/10-all.conf", "Weight=50"),
        )
        self.assertEqual(self.settings(path), (-20, 50, "user-unit"))

    def test_nothing_raises(self):
        path = self.start(
            "high.service",
            (f"{self.files}/high.service.d/50.conf", "Priority=99\nWeight=5000"),
            (f"{self.admin}/high.service.d/60.conf", "Class=interactive\nMin=50%"),
        )
        self.assertEqual(self.settings(path)[:2], (0, 100))
        run("xschedctl", "set", "--runtime", f"user@{self.uid}.service", "priority=-30")
        self.addCleanup(run, "xschedctl", "reset", f"user@{self.uid}.service")
        self.assertEqual(self.settings(path)[:2], (-30, 100))

    def test_what_the_administrator_gives_to_a_user(self):
        """A setting of the user's slice among the system's units can raise; the user's own units can lower it."""
        inside.drop_in(f"user-{self.uid}.slice", "gpu", "[X-XSched]\nPriority=60\n")
        self.addCleanup(run, "systemctl", "daemon-reload")
        self.addCleanup(os.unlink, f"/run/systemd/system/user-{self.uid}.slice.d/gpu.conf")
        c, path = self.by_systemd_run("--unit=plain")
        until(lambda: self.settings(path) == (60, 100, "slice"), f"the priority, not {self.settings(path)}")
        self.end(c)
        c, path = self.by_systemd_run("--unit=less", "-p", "LogExtraFields=XSCHED_PRIORITY=55")
        until(lambda: self.settings(path) == (55, 100, "user-unit"), "the priority")
        self.end(c)

    def test_slices(self):
        for slice_, expected in (("gpu-online", 0), ("gpu-batch", -50)):
            c, path = self.by_systemd_run("--unit=sliced", f"--slice={slice_}.slice")
            self.assertEqual(self.get("Group", path, CLIENT), f"{self.top}/gpu.slice/{slice_}.slice/sliced.service")
            self.assertEqual((self.get("Priority", path, CLIENT), self.get("Weight", path, CLIENT)), (expected, 100))
            self.end(c)

    def test_scopes_of_run(self):
        """The slice of xschedctl run applies to a scope, too, in which the command replaces xschedctl."""
        self.client(command=[*self.user, "xschedctl", "run", "--slice=gpu-batch"])
        self.assertEqual(self.get("Priority", self.only_client(), CLIENT), -50)

    def test_after_a_change(self):
        """After a change of its files, a unit's next process has the new settings."""
        path = self.start("now.service", (f"{self.files}/now.service.d/50.conf", "Priority=-7"))
        self.assertEqual(self.settings(path)[0], -7)
        inside.write(f"{self.files}/now.service.d/50.conf", "[X-XSched]\nPriority=\n")
        self.reload()
        self.as_user("systemctl", "--user", "restart", "now.service")
        until(
            lambda: len(self.call("ListClients")[0]) == 1 and self.settings(self.only_client())[0] == 0, "the new one"
        )

    def test_of_others(self):
        """Whatever a process claims about units, it can only lower settings, and only of units of its user's manager
        that it is in."""
        victim = self.client("--slice=shared.slice", unit="victim.service")
        told = [
            f"{unit}:{text}"
            for unit in (
                "victim.service",
                "shared.slice",
                "-.slice",
                "liar.service",
                "user.slice",
                f"user@{self.uid}.service",
                "app.slice",
            )
            for text in ("Priority=-100", "Weight=1")
        ]
        for where in (["--uid=dora", "--slice=shared.slice"], ["--uid=nobody"]):
            c = self.client(*where, unit="liar.service", program=("/usr/bin/python3", "-c", RAW, *told))
            mine = next(i[-1] for i in self.call("ListClients")[0] if i[-1] != self.client_of(victim))
            self.assertEqual([self.get("Priority", p, CLIENT) for p in (self.client_of(victim), mine)], [0, 0])
            c.end()
            until(lambda: self.get("NClients") == 1, "it to go")
        c = self.client(
            command=[*self.user, "systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect", "--unit=liar"],
            program=(
                "/usr/bin/python3",
                "-c",
                RAW,
                "app.slice:Priority=-4",
                "app.slice:Priority=77x",
                "liar.service:Weight=9999",
                "x:",
                *(f"{i}.slice:Priority=-9" for i in range(300)),
            ),
        )
        mine = next(i[-1] for i in self.call("ListClients")[0] if i[-1] != self.client_of(victim))
        self.assertEqual([self.get(p, mine, CLIENT) for p in ("Priority", "Weight")], [-4, 100])
        self.assertEqual(self.get("Priority", self.client_of(victim), CLIENT), 0)


if __name__ == "__main__":
    inside.main()
