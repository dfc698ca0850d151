# SPDX-License-Identifier: LGPL-2.1-or-later
"""[Match] of classes, by real units, slices, users and processes; and a reload of files that have become bad."""

import os

import inside
from inside import CLIENT, SettingsCase, run, show, until, write

CLASSES = "/etc/xsched/classes.d"


class Classes(SettingsCase):
    def setUp(self):
        super().setUp()
        self.files = []

    def tearDown(self):
        for path in self.files:
            os.unlink(path)
        super().tearDown()

    def write_class(self, name, text):
        path = f"{CLASSES}/{name}"
        if path not in self.files:
            self.files.append(path)
        write(path, text)

    def reload(self):
        run("systemctl", "reload", "xsched")

    def explained_class(self, client):
        chain = self.explain(int(show(client.unit, "MainPID")))
        return [(i["source"], i["value"], i["detail"]) for i in chain if i["detail"].startswith("Class:")]

    def test_unit_slice_and_user(self):
        self.write_class(
            "match-a.class", "[Class]\nPriority=-11\n[Match]\nUnit=match-*.service other.service\nSlice=matched.slice\n"
        )
        self.write_class("match-b.class", "[Class]\nPriority=-12\n[Match]\nUser=nobody\nUnit=!*-excluded.service\n")
        self.reload()
        fits = self.client("--slice=matched.slice", unit="match-it.service")
        self.check(fits, -11, "match-a", "class")
        self.check(self.client(unit="match-elsewhere.service"), 0, "default", "default")
        self.check(self.client("--uid=nobody", unit="theirs.service"), -12, "match-b", "class")
        self.check(self.client("--uid=nobody", unit="theirs-excluded.service"), 0, "default", "default")
        # Both classes match: the first by name counts.
        self.check(
            self.client("--uid=nobody", "--slice=matched.slice", unit="match-both.service"), -11, "match-a", "class"
        )
        winner = self.explained_class(fits)[0]
        self.assertEqual(winner[:2], ("class", "match-a"))
        self.assertIn(
            f"{CLASSES}/match-a.class:4: Unit=match-*.service, {CLASSES}/match-a.class:5: Slice=matched.slice",
            winner[2],
        )

    def test_group(self):
        """Group= matches the cgroup's path. The name of a cgroup that a unit made below itself can only lower."""
        self.write_class(
            "group-a.class",
            (
                "[Class]\nPriority=61\n[Match]\nGroup=/grouped.slice !/grouped.slice/grouped-out.slice "
                "/system.slice/by-*.service/*\n"
            ),
        )
        self.reload()
        c = self.client("--slice=grouped-in.slice", unit="group-in.service")
        self.check(c, 61, "group-a", "class")
        self.assertIn(f"{CLASSES}/group-a.class:4: Group=/grouped.slice", self.explained_class(c)[0][2])
        self.check(self.client("--slice=grouped-out.slice", unit="group-out.service"), 0, "default", "default")
        self.check(self.client(unit="by-path.service"), 0, "default", "default")

    def test_a_unit_has_its_share_once(self):
        """A unit's class counts once, whatever cgroups the unit makes below itself: a process in one of them is still
        bound by the limit, and such a cgroup gets no guarantee of its own."""
        self.write_class(
            "once.class", "[Class]\nPriority=-4\nMax=20%\nMin=5%\nWeight=30\n[Match]\nUnit=once.service\nUser=nobody\n"
        )
        self.reload()
        c = self.client("--uid=nobody", "-p", "Delegate=yes", unit="once.service")

        def share(name):
            path = self.call("GetGroup", "s", name)[0]
            return tuple(self.get(k, path, inside.GROUP) for k in ("Priority", "Max", "Min", "Weight"))

        unit = "/system.slice/once.service"
        until(lambda: share(unit) == (-4, 20, 5, 30), "the class of the unit")
        os.mkdir(f"/sys/fs/cgroup{unit}/below")
        write(f"/sys/fs/cgroup{unit}/below/cgroup.procs", show(c.unit, "MainPID"))
        until(lambda: any(g[0] == f"{unit}/below" for g in self.call("ListGroups")[0]), "the cgroup below")
        self.assertEqual((share(unit), share(f"{unit}/below")), ((-4, 20, 5, 30), (-4, 0, 0, 100)))
        details = [i["detail"] for i in self.explain(int(show(c.unit, "MainPID")))]
        self.assertFalse([d for d in details if d.startswith("Max:") and "class" in d], details)

    def test_place_among_the_carriers(self):
        """A class is stronger than the slice, and weaker than the unit's own settings."""
        self.write_class("place.class", "[Class]\nPriority=-21\n[Match]\nUnit=place-*.service\n")
        self.write_class("explicit.class", "[Class]\nWeight=55\n")
        self.reload()
        inside.drop_in("place.slice", "50", "[X-XSched]\nPriority=-5\nWeight=44\n")
        c = self.client("--slice=place.slice", unit="place-a.service")
        self.check(c, -21, "place", "class")
        self.assertEqual(self.get("Weight", self.group("place.slice"), inside.GROUP), 44)
        self.check_explained(c, ("class", -21), ("slice", -5))
        # A class that a stronger source has assigned decides all settings that it has.
        c = self.client("--slice=place.slice", "-p", "LogExtraFields=XSCHED_CLASS=explicit", unit="place-b.service")
        self.check(c, -5, "explicit", "unit")
        self.assertEqual(self.get("Weight", self.group(c.unit), inside.GROUP), 55)

    def test_a_class_appears_and_goes(self):
        c = self.client(unit="late.service")
        self.check(c, 0, "default", "default")
        self.write_class("late.class", "[Class]\nPriority=-31\n[Match]\nUnit=late.service\n")
        self.reload()
        self.check(c, -31, "late", "class")
        self.write_class("late.class.d/10-more.conf", "[Class]\nPriority=-32\n[Match]\nSlice=nowhere.slice\n")
        self.reload()
        self.check(c, 0, "default", "default")
        self.write_class("late.class.d/10-more.conf", "[Class]\nPriority=-32\n")
        self.reload()
        self.check(c, -32, "late", "class")

    def test_executable_only_lowers(self):
        name = os.path.basename(inside.TEST_CLIENT)
        self.write_class("exe-high.class", f"[Class]\nPriority=90\n[Match]\nExecutable={name}\nUnit=exe-high.service\n")
        self.write_class("exe-low.class", f"[Class]\nPriority=-41\n[Match]\nExecutable={name}\nUnit=exe-low.service\n")
        self.reload()
        self.check(self.client(unit="exe-high.service"), 0, "default", "default")
        c = self.client(unit="exe-low.service")
        client = self.client_of(c)
        until(lambda: self.get("Priority", client, CLIENT) == -41, "the client to be lowered")
        self.assertEqual(self.get("PolicySource", client, CLIENT), "class")
        chain = self.check_explained(c, ("class", -41))
        self.assertIn("exe-low", chain[0]["detail"])

    def test_a_bad_file_keeps_what_was_good(self):
        self.write_class("kept.class", "[Class]\nPriority=-51\n[Match]\nUnit=kept.service\n")
        self.reload()
        c = self.client(unit="kept.service")
        self.check(c, -51, "kept", "class")
        self.write_class("kept.class", "[Class]\nPriority=lots\n[Match]\nUnit=*.service\nUnit=any\n")
        self.reload()
        self.check(c, -51, "kept", "class")
        self.check(self.client(unit="not-kept.service"), 0, "default", "default")
        said = [m["MESSAGE"] for m in inside.journal("_SYSTEMD_UNIT=xsched.service")]
        for line in (f"{CLASSES}/kept.class:2: Priority=lots", f"{CLASSES}/kept.class:5: Unit=any"):
            self.assertTrue(any(line in m for m in said), said)
        self.assertTrue(any("configuration" in d for d in self.get("Degraded")), self.get("Degraded"))
        self.write_class("kept.class", "[Class]\nPriority=-52\n[Match]\nUnit=kept.service\n")
        self.reload()
        self.check(c, -52, "kept", "class")
        self.assertEqual(self.get("Degraded"), [])


class Environment(SettingsCase):
    """XSCHED_CLASS= in a unit reaches its processes, too: it still counts as the unit's setting, and not as theirs."""

    @classmethod
    def setUpClass(cls):
        write(f"{CLASSES}/env-low.class", "[Class]\nPriority=-7\n")
        run("systemctl", "reload-or-restart", "xsched")

    def test_an_override_beats_it(self):
        c = self.client("-p", "Environment=XSCHED_CLASS=env-low XSCHED_WEIGHT=20", unit="env.service")
        self.check(c, -7, "env-low", "unit")
        run("xschedctl", "set", "env.service", "priority=9", "weight=300")
        self.check(c, 9, "env-low", "override")
        self.assertEqual(self.get("Weight", self.client_of(c), CLIENT), 300)
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.check(c, 9, "env-low", "override")
        run("xschedctl", "reset", "env.service")
        self.check(c, -7, "env-low", "unit")

    def test_the_process_still_lowers_itself(self):
        c = self.client(
            "-p",
            "Environment=XSCHED_PRIORITY=4",
            unit="env-own.service",
            command=[
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=env-own.service",
                "-p",
                "Environment=XSCHED_PRIORITY=4",
                "--",
                "env",
                "XSCHED_PRIORITY=2",
                "sh",
                "-c",
                'shift; exec "$@"',
                "sh",
            ],
        )
        until(lambda: self.settings(c)[0] == 4, "the unit's word")
        client = self.call("ListClients")[0][0][-1]
        self.assertEqual(self.get("Priority", client, CLIENT), 2)
        self.assertEqual(self.get("PolicySource", client, CLIENT), "wish")


if __name__ == "__main__":
    inside.main()
