# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stored settings, together with those until the next boot, on a full or read-only disk, and in damaged files."""

import json
import os
import subprocess

import inside
from inside import CLIENT, DEVICE, GROUP, SettingsCase, run, show, until, write

FILE = "/var/lib/xsched/overrides.json"
FITS = "/run/xsched/xsched.conf.d/50-fits.conf"
STATE_BAD = "5b3f0c1e9d8846c2a1f7e6d4b3c2a190"
PERSISTENT = 1


def refused(*argv):
    """Runs a command that must be refused. Returns its message."""
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1, (argv, done)
    return done.stderr


def stored():
    with open(FILE, encoding="utf-8") as f:
        root = json.load(f)
    return {o["name"]: o["settings"] for o in root["overrides"]}


class Stored(SettingsCase):
    def tearDown(self):
        for name in stored() if os.path.exists(FILE) else ():
            run("xschedctl", "reset", name, status=None)
        super().tearDown()

    def test_stored_by_the_unit(self):
        """Settings are stored by the unit's name, whether they are set by its name, its cgroup or its object."""
        c = self.client(unit="by.service")
        run("xschedctl", "set", "by.service", "priority=3")
        run("xschedctl", "set", "/system.slice/by.service", "weight=5")
        run("busctl", "call", inside.NAME, self.group(c.unit), GROUP, "Set", "ta{sv}", "1", "1", "Threshold", "u", "6")
        self.assertEqual(stored(), {"by.service": {"Priority": 3, "Weight": 5, "Threshold": 6}})
        self.check(c, 3, "default", "override")
        self.assertEqual(os.stat(FILE).st_mode & 0o777, 0o600)

    def test_of_a_unit_that_does_not_run(self):
        """Settings of a unit that does not run are listed and shown, and stored by its name, also if set by alias."""
        with open("/run/systemd/system/away.service", "w", encoding="utf-8") as f:
            f.write("[Service]\nExecStart=/bin/sleep infinity\n[Install]\nAlias=elsewhere.service\n")
        os.symlink("away.service", "/run/systemd/system/elsewhere.service")
        self.addCleanup(run, "systemctl", "daemon-reload")
        self.addCleanup(os.unlink, "/run/systemd/system/away.service")
        self.addCleanup(os.unlink, "/run/systemd/system/elsewhere.service")
        run("systemctl", "daemon-reload")
        over_the_bus = lambda member, *args: run("busctl", "call", inside.NAME, inside.PATH, inside.NAME, member, *args)
        over_the_bus("SetGroup", "sta{sv}", "elsewhere.service", "1", "1", "Weight", "u", "4")
        self.assertEqual(stored(), {"away.service": {"Weight": 4}})
        over_the_bus("ResetGroup", "st", "elsewhere.service", "0")
        self.assertEqual(stored(), {})
        over_the_bus("SetGroup", "sta{sv}", "elsewhere.service", "0", "1", "Weight", "u", "3")
        group_of = lambda name: over_the_bus("GetGroup", "s", name)
        self.assertEqual(group_of("elsewhere.service"), group_of("away.service"))
        over_the_bus("ResetGroup", "st", "elsewhere.service", "0")
        run("xschedctl", "set", "elsewhere", "weight=5")
        self.assertEqual(stored(), {"away.service": {"Weight": 5}})
        self.assertEqual(
            json.loads(run("xschedctl", "--json=short", "list-settings")),
            [{"target": "away.service", "lifetime": "stored", "settings": {"Weight": 5}}],
        )
        self.assertIn("away.service", run("busctl", "call", inside.NAME, inside.PATH, inside.NAME, "ListSettings"))
        for name in ("away", "elsewhere.service"):
            shown = run("xschedctl", "show", name).split()
            self.assertIn("Weight=5", shown)
            self.assertIn("Name=away.service", shown)
        self.assertIn("no settings", refused("xschedctl", "show", "multi-user.service"))
        run("xschedctl", "reset", "elsewhere")
        self.assertEqual(stored(), {})

    def test_the_root_slice(self):
        """The root's settings are set by its name or its path, with and without clients, for either lifetime."""
        for option in ("--runtime",), ():
            with self.subTest(option):
                run("xschedctl", "set", *option, "--", "-.slice", "weight=50")
                c = self.client()
                root = self.call("GetGroup", "s", "/")[0]
                self.assertEqual(self.call("GetGroup", "s", "-.slice")[0], root)
                self.assertEqual(self.get("Weight", root, GROUP), 50)
                run("xschedctl", "set", *option, "--", "-.slice", "weight=51")
                self.assertEqual(self.get("Weight", root, GROUP), 51)
                self.assertNotIn("-.slice", [g[0] for g in self.call("ListGroups")[0]])
                run("xschedctl", "reset", "--", "-.slice")
                self.assertEqual(self.get("Weight", root, GROUP), 100)
                c.end()

    def test_a_single_key_is_forgotten(self):
        """A single key can be unset, of either lifetime, and together with others that are set."""
        c = self.client(unit="single.service")
        run("xschedctl", "set", "single.service", "priority=3", "weight=40")
        run("xschedctl", "set", "--runtime", "single.service", "weight=41", "threshold=4")
        run("xschedctl", "set", "--runtime", "single.service", "weight=")
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 40)
        run("xschedctl", "set", "single.service", "priority=", "weight=7", "threshold=")
        self.check(c, 0, "default", "override")
        self.assertEqual(stored(), {"single.service": {"Weight": 7}})
        self.assertEqual(self.get("Threshold", self.group(c.unit), GROUP), 0)
        run("xschedctl", "set", "single.service", "weight=")
        self.check(c, 0, "default", "default")
        self.assertEqual(stored(), {})
        self.assertIn("nonsense", refused("xschedctl", "set", "single.service", "nonsense="))

    def test_owners_unset_only_their_own(self):
        """A user can unset own settings, and none of the administrator's."""
        c = self.client("--uid=nobody", unit="mine.service")
        as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "xschedctl", "set", "--runtime", "mine.service"]
        run("xschedctl", "set", "mine.service", "priority=-9")
        refused(*as_nobody, "priority=")
        run(*as_nobody, "weight=50")
        refused(*as_nobody, "priority=", "weight=")
        self.assertEqual(
            (self.get("Priority", self.group(c.unit), GROUP), self.get("Weight", self.group(c.unit), GROUP)), (-9, 50)
        )
        run(*as_nobody, "weight=")
        self.assertEqual(
            (self.get("Priority", self.group(c.unit), GROUP), self.get("Weight", self.group(c.unit), GROUP)), (-9, 100)
        )

    def test_typos_are_not_stored(self):
        for name in (
            "tyop.service",
            "tyop",
            "tyop.servce",
            "ty op.service",
            " tyop.service",
            "tyop.service ",
            "@.service",
            ".service",
        ):
            said = refused("xschedctl", "set", name, "weight=5")
            self.assertIn(name.strip(), said)
        for path in ("/system.slice/tyop.service", "/gpu.slice/gpu-batch.slice/tyop.scope"):
            self.assertIn(f"there is no unit {path.rpartition('/')[2]}", refused("xschedctl", "set", path, "weight=5"))
        for assignment in ("weight= 5", "weight=5 ", "weigth=5", " weight=5", "weight =5", "class=inter active"):
            self.assertIn(
                assignment.split("=")[0].strip(), refused("xschedctl", "set", "gpu-batch.slice", assignment).lower()
            )
        for name in ("tyop.servce", "ty op.service", "no-suffix"):
            with self.assertRaisesRegex(inside.dbus.DBusError, "neither"):
                self.call("SetGroup", "sta{sv}", name, PERSISTENT, {"Weight": ("u", 5)})
        self.assertEqual(stored() if os.path.exists(FILE) else {}, {})
        # With --force: the unit may be installed later.
        run("xschedctl", "set", "--force", "tyop.service", "weight=5")
        self.assertEqual(stored(), {"tyop.service": {"Weight": 5}})
        run("xschedctl", "reset", "tyop.service")
        self.assertEqual(stored(), {})
        # A path may also name a cgroup that a unit makes.
        for path in ("/system.slice/tyop.service", "/system.slice/docker.service/tyop.service"):
            run("xschedctl", "set", *(["--force"] if path.count("/") == 2 else []), path, "weight=5")
            run("xschedctl", "reset", path)
        self.assertEqual(stored(), {})

    def test_until_the_next_boot(self):
        """A runtime setting hides the stored one until that is set again; writing a property makes one, too."""
        c = self.client(unit="brief.service")
        run("xschedctl", "set", "brief.service", "priority=3", "weight=40")
        run("xschedctl", "set", "--runtime", "brief.service", "priority=4")
        self.check(c, 4, "default", "override")
        chain = self.check_explained(c, ("override", 4), ("override", 3))
        self.assertIn("until the next boot", chain[0]["detail"])
        self.assertIn("stored", chain[1]["detail"])
        run("busctl", "set-property", inside.NAME, self.group(c.unit), GROUP, "Weight", "u", "41")
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 41)
        self.assertEqual(stored(), {"brief.service": {"Priority": 3, "Weight": 40}})
        run("xschedctl", "set", "brief.service", "priority=5")
        self.check(c, 5, "default", "override")
        self.assertEqual(self.get("Weight", self.group(c.unit), GROUP), 41)
        run("xschedctl", "reset", "brief.service")
        self.check(c, 0, "default", "default")
        self.assertEqual(stored(), {})

    def test_scopes_are_not_stored(self):
        c = self.client(command=["systemd-run", "--quiet", "--scope", "--unit=fleeting.scope"], unit="fleeting.scope")
        run("xschedctl", "set", "fleeting.scope", "priority=2")
        self.check_group(c, 2)
        self.assertNotIn("fleeting.scope", stored() if os.path.exists(FILE) else {})
        run("xschedctl", "reset", "fleeting.scope")

    def check_group(self, client, priority):
        until(lambda: self.get("Priority", self.group(client.unit), GROUP) == priority, "the priority")

    def test_users_store_nothing(self):
        """Users cannot store settings, not even to lower: these would outlive their processes."""
        c = self.client("--uid=nobody", unit="theirs.service")
        as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "xschedctl", "set"]
        run(*as_nobody, "theirs.service", "priority=-5", status=1)
        self.check(c, 0, "default", "default")
        run(*as_nobody, "--runtime", "theirs.service", "priority=-5")
        self.check(c, -5, "default", "owner")

    def refused(self, *argv):
        """Calls SetGroup(), which must be refused with an IOError. Returns the message."""
        try:
            self.call("SetGroup", "sta{sv}", *argv)
        except inside.dbus.DBusError as e:
            self.assertEqual(e.name, "org.freedesktop.DBus.Error.IOError")
            return str(e)
        raise AssertionError("not refused")

    def on_a_small_disk(self):
        run("systemctl", "stop", "xsched")
        run(
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=64k,nr_inodes=16,mode=700,uid=xsched,gid=xsched",
            "tmpfs",
            os.path.dirname(FILE),
        )
        run("systemctl", "start", "xsched")
        self.addCleanup(run, "umount", "--lazy", os.path.dirname(FILE))
        self.addCleanup(run, "systemctl", "stop", "xsched")
        self.bus.close()
        self.bus = inside.dbus.Connection(inside.SYSTEM_BUS)
        self.addCleanup(self.bus.close)

    def test_full_disk(self):
        self.on_a_small_disk()
        c = self.client(unit="full.service")
        run("xschedctl", "set", "full.service", "priority=1")
        before = stored()
        with open(f"{os.path.dirname(FILE)}/ballast", "wb", buffering=0) as f:
            while True:
                try:
                    f.write(bytes(512))
                except OSError:
                    break
        message = self.refused("full.service", PERSISTENT, {"Priority": ("i", 2)})
        self.assertIn("No space left on device", message)
        self.assertIn(os.path.dirname(FILE), message)
        self.refused("absent.service", PERSISTENT, {"Priority": ("i", 2)})
        said = run("xschedctl", "reset", "full.service", status=None)
        self.check(c, 1, "default", "override")
        self.assertEqual(stored(), before, said)
        self.assertEqual(sorted(os.listdir(os.path.dirname(FILE))), ["ballast", "overrides.json"])
        # Runtime settings still work, and so does storing when there is room again.
        self.call("SetGroup", "sta{sv}", "full.service", 0, {"Priority": ("i", 3)})
        self.check(c, 3, "default", "override")
        os.unlink(f"{os.path.dirname(FILE)}/ballast")
        run("xschedctl", "set", "full.service", "priority=4")
        self.check(c, 4, "default", "override")
        run("xschedctl", "reset", "full.service")
        c.end()

    def test_read_only_disk(self):
        self.on_a_small_disk()
        c = self.client(unit="ro.service")
        run("xschedctl", "set", "ro.service", "priority=1")
        run("mount", "-o", "remount,ro", os.path.dirname(FILE))
        self.assertIn("Read-only file system", self.refused("ro.service", PERSISTENT, {"Priority": ("i", 2)}))
        self.check(c, 1, "default", "override")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.check(c, 1, "default", "override")
        run("mount", "-o", "remount,rw", os.path.dirname(FILE))
        run("systemctl", "restart", "xsched")
        run("xschedctl", "reset", "ro.service")
        c.end()

    def damage(self, contents):
        run("systemctl", "stop", "xsched")
        with open(FILE, "wb") as f:
            f.write(contents)
        run("systemctl", "start", "xsched")
        said = [m for m in inside.journal(f"MESSAGE_ID={STATE_BAD}")]
        self.assertTrue(
            said and FILE in said[-1]["MESSAGE"] and "kept as overrides.json.bad" in said[-1]["MESSAGE"], said
        )
        with open(f"{FILE}.bad", "rb") as f:
            self.assertEqual(f.read(), contents)
        until(lambda: any(FILE in d for d in self.get("Degraded")), "Degraded to say so")

    def test_damaged_files(self):
        run("xschedctl", "set", "--force", "one.service", "priority=1")
        run("xschedctl", "set", "--force", "two.service", "priority=2")
        with open(FILE, "rb") as f:
            good = f.read()
        for bad in (
            good[: len(good) // 2],
            b"",
            bytes(1000),
            os.urandom(1000),
            good.replace(b'"version": 1', b'"version": 9'),
        ):
            self.damage(bad)
            c = self.client(unit="one.service")
            self.check(c, 0, "default", "default")
            c.end()
        self.damage(good.replace(b"2", b"2000"))
        self.assertEqual(stored(), {"one.service": {"Priority": 1}})
        c = self.client(unit="one.service")
        self.check(c, 1, "default", "override")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.assertEqual(self.get("Degraded"), [])


class Devices(SettingsCase):
    """A device's policy and parameters are stored as a group's settings are, and Preview() foretells each change."""

    ID = inside.DEVICE_ID
    KEYS = ("Policy", "Concurrency", "TimeSliceUSec", "StarveUSec", "LingerUSec", "Threshold", "Preemption")

    def setUp(self):
        super().setUp()
        self.c = self.client(unit="works.service")
        until(lambda: self.call("ListDevices")[0], "the device")
        self.device = self.call("ListDevices")[0][0][-1]
        self.was = self.effective()

    def tearDown(self):
        run("xschedctl", "reset", f"device:{self.ID}", "device:all", status=None)
        super().tearDown()

    def effective(self):
        return {k: self.get(k, self.device, DEVICE) for k in self.KEYS}

    def change(self, policy, flags, settings, **expected):
        """Changes settings by SetPolicy(), and checks that the result is the expected one, and that of Preview()."""
        said = self.bus.call(inside.NAME, self.device, DEVICE, "Preview", "sta{sv}", policy, flags, settings)[0]
        self.call("SetPolicy", "ssta{sv}", self.ID, policy, flags, settings)
        self.assertEqual(self.effective(), dict(self.was, **expected))
        self.assertEqual({k: said[k] for k in self.KEYS}, self.effective())

    def listed(self):
        rows = json.loads(run("xschedctl", "--json=short", "list-settings"))
        return {(r["target"], r["lifetime"]): r["settings"] for r in rows}

    def test_for_good_and_until_the_next_boot(self):
        target = f"device:{self.ID}"
        run("xschedctl", "set", target, "policy=hpf", "timeslice=7ms")
        self.assertEqual(self.listed(), {(target, "stored"): {"Policy": "hpf", "TimeSliceUSec": 7000}})
        self.change("", 0, {"TimeSliceUSec": ("t", 6000)}, Policy="hpf", TimeSliceUSec=6000)
        self.change("", 0, {"Unset": ("as", ["TimeSliceUSec"])}, Policy="hpf", TimeSliceUSec=7000)
        run("xschedctl", "policy", "--runtime", self.ID, "cfs", "concurrency=2")
        self.assertEqual(self.effective(), dict(self.was, Policy="cfs", Concurrency=2, TimeSliceUSec=7000))
        # A key that is stored replaces the runtime setting of that key, and of no other.
        self.change("up", PERSISTENT, {}, Policy="up", Concurrency=2, TimeSliceUSec=7000)
        self.assertEqual(self.listed()[target, "runtime"], {"Concurrency": 2})
        kept = {"Policy": "up", "TimeSliceUSec": 7000}
        self.assertEqual(self.listed()[target, "stored"], kept)
        with open(FILE, encoding="utf-8") as f:
            self.assertEqual(json.load(f)["devices"], [{"id": self.ID, "settings": kept}])
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.assertEqual(self.effective(), dict(self.was, Policy="up", Concurrency=2, TimeSliceUSec=7000))
        self.assertEqual(set(self.listed()), {(target, "stored"), (target, "runtime")})
        unset = {"TimeSliceUSec": ("t", 8000), "Unset": ("as", ["Policy", "Concurrency"])}
        self.change("", PERSISTENT, unset, TimeSliceUSec=8000)
        run("xschedctl", "reset", target)
        self.assertEqual((self.effective(), self.listed()), (self.was, {}))

    def test_every_device(self):
        """Settings of all devices apply to each, and those that are set for one device later apply to it at once."""
        every, target = "device:all", f"device:{self.ID}"
        run("xschedctl", "set", target, "concurrency=2", "policy=hpf")
        run("xschedctl", "set", "--runtime", every, "concurrency=3")
        self.assertEqual(self.effective(), dict(self.was, Policy="hpf", Concurrency=3))
        self.change("", PERSISTENT, {"Concurrency": ("u", 4)}, Policy="hpf", Concurrency=4)
        self.assertEqual(self.listed()[target, "stored"], {"Concurrency": 4, "Policy": "hpf"})
        run("xschedctl", "set", every, "concurrency=5")
        self.assertEqual(self.effective(), dict(self.was, Policy="hpf", Concurrency=5))
        found = {(every, "stored"): {"Concurrency": 5}, (target, "stored"): {"Policy": "hpf"}}
        self.assertEqual(self.listed(), found)
        run("xschedctl", "reset", every)
        self.assertEqual((self.effective(), self.listed()), (self.was, {}))

    def test_restored(self):
        """RestoreSettings() undoes everything, also the runtime setting that hides one for every device."""
        target = f"device:{self.ID}"
        run("xschedctl", "set", target, "concurrency=2")
        run("xschedctl", "set", "--runtime", "device:all", "concurrency=3")
        before = self.listed()
        of = lambda: [(k, {n: ("u", v) for n, v in s.items()}) for k, s in self.call("GetSettings", "st", target, 0)[0]]
        was = of()
        self.change("", PERSISTENT, {"Concurrency": ("u", 4)}, Concurrency=4)
        self.assertEqual(self.listed()[target, "runtime"], {"Concurrency": 4})
        restore = lambda *layers: self.call("RestoreSettings", "sta(sa{sv})a(sa{sv})", target, 0, *layers)
        now = of()
        os.chmod(os.path.dirname(FILE), 0o500)
        os.chmod(FILE, 0o400)
        try:
            with self.assertRaisesRegex(inside.dbus.DBusError, "could not be stored"):
                restore(now, was)
        finally:
            os.chmod(os.path.dirname(FILE), 0o700)
            os.chmod(FILE, 0o600)
        self.assertEqual(of(), now)
        restore(now, was)
        self.assertEqual((self.listed(), self.effective()), (before, dict(self.was, Concurrency=3)))
        run("xschedctl", "reset", "device:all")
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.assertEqual((self.listed(), self.effective()), ({}, self.was))

    def test_without_the_device(self):
        """Stored settings of an absent device are listed, can be changed and reset, and apply when it comes."""
        target = f"device:{self.ID}"
        run("xschedctl", "set", target, "linger=123us")
        run("systemctl", "stop", self.c.unit)
        run("systemctl", "stop", "xsched")
        run("systemctl", "start", "xsched")
        self.assertEqual(self.call("ListDevices")[0], [])
        self.assertEqual(self.listed(), {(target, "stored"): {"LingerUSec": 123}})
        c = self.client(unit="again.service")
        until(lambda: self.call("ListDevices")[0], "the device")
        self.assertEqual(self.effective(), dict(self.was, LingerUSec=123))
        c.end()
        run("systemctl", "restart", "xsched")
        self.assertIn("no such device", refused("xschedctl", "set", "--runtime", target, "linger=9us"))
        run("xschedctl", "set", target, "linger=", "concurrency=2")
        self.assertEqual(self.listed(), {(target, "stored"): {"Concurrency": 2}})
        run("xschedctl", "reset", target)
        self.assertEqual(self.listed(), {})
        self.assertIn("no such device", refused("xschedctl", "set", target, "linger=9us"))

    def test_refused(self):
        """Refused are settings that contradict each other, also of different lifetimes, those of users, and those that
        cannot be written to the disk."""
        run("xschedctl", "set", f"device:{self.ID}", "starve=20ms")
        before = self.effective(), self.listed()
        wrong = {"StarveRunUSec": ("t", 30000)}
        for member, path, args in (
            ("Preview", self.device, ()),
            ("SetPolicy", inside.PATH, (self.ID,)),
            ("SetPolicy", inside.PATH, ("",)),
        ):
            interface = DEVICE if member == "Preview" else inside.NAME
            types = "s" * len(args) + "sta{sv}"
            for flags in (0, PERSISTENT):
                with self.assertRaisesRegex(inside.dbus.DBusError, "contradict each other"):
                    self.bus.call(inside.NAME, path, interface, member, types, *args, "", flags, wrong)
            with self.assertRaisesRegex(inside.dbus.DBusError, "flag"):
                self.bus.call(inside.NAME, path, interface, member, types, *args, "", 2, {})
        as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "xschedctl", "set"]
        for option in ((), ("--runtime",)):
            refused(*as_nobody, *option, f"device:{self.ID}", "concurrency=2")
        os.chmod(os.path.dirname(FILE), 0o500)
        os.chmod(FILE, 0o400)
        try:
            self.assertIn("could not be stored", refused("xschedctl", "set", f"device:{self.ID}", "concurrency=2"))
            self.assertIn("could not be stored", refused("xschedctl", "set", "device:all", "concurrency=2"))
        finally:
            os.chmod(os.path.dirname(FILE), 0o700)
            os.chmod(FILE, 0o600)
        self.assertEqual((self.effective(), self.listed()), before)

    def test_what_no_longer_fits(self):
        """Stored parameters that contradict a new configuration are left out, and can still be changed."""
        target = f"device:{self.ID}"
        run("xschedctl", "set", target, "starverun=30ms", "concurrency=3")
        self.addCleanup(run, "systemctl", "reload", "xsched")
        self.addCleanup(os.unlink, FITS)
        write(FITS, "[Scheduler]\nStarveAfter=20ms\n")
        run("systemctl", "reload", "xsched")
        self.assertEqual(self.effective(), dict(self.was, StarveUSec=20000))
        self.change("", 0, {"Concurrency": ("u", 2)}, StarveUSec=20000, Concurrency=2)
        self.assertIn("contradict each other", refused("xschedctl", "set", target, "linger=9us"))
        run("xschedctl", "set", target, "starverun=5ms")
        self.assertEqual(self.listed()[target, "stored"], {"StarveRunUSec": 5000, "Concurrency": 3})
        run("xschedctl", "reset", target)
        self.assertEqual(self.effective(), dict(self.was, StarveUSec=20000))


class Gone(SettingsCase):
    """Settings of a cgroup end with it, unless a cgroup of that name can come again."""

    JOB = "/system.slice/engine.service/job_7"

    def setUp(self):
        super().setUp()
        run("systemd-run", "--quiet", "--unit=engine.service", "-p", "Delegate=yes", "sleep", "infinity")
        self.addCleanup(run, "systemctl", "stop", "engine.service")
        self.make()
        self.n_said = len(self.said())

    def tearDown(self):
        for name in stored() if os.path.exists(FILE) else ():
            run("xschedctl", "reset", name, status=None)
        super().tearDown()

    def said(self):
        return [m for m in inside.journal(f"XSCHED_GROUP={self.JOB}") if "is gone" in m["MESSAGE"]]

    def make(self):
        os.mkdir(f"/sys/fs/cgroup{self.JOB}")

    def remove(self):
        until(self.try_to_remove, "the cgroup to be empty")

    def try_to_remove(self):
        try:
            os.rmdir(f"/sys/fs/cgroup{self.JOB}")
        except OSError:
            return False
        return True

    def names(self):
        return [g[0] for g in self.call("ListGroups")[0]]

    def enter(self):
        c = self.client()
        with open(f"/sys/fs/cgroup{self.JOB}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(show(c.unit, "MainPID"))
        until(lambda: self.JOB in self.names(), "it to be in the job's cgroup")
        return c

    def check_forgotten(self):
        until(lambda: self.JOB not in self.names() and self.JOB not in stored(), "the settings to be forgotten")
        self.assertEqual(len(self.said()), self.n_said + 1)
        self.make()
        c = self.enter()
        self.assertEqual(self.get("Weight", self.client_of(c), CLIENT), 100)

    def test_until_the_next_boot(self):
        c = self.enter()
        run("xschedctl", "set", "--runtime", self.JOB, "weight=7")
        self.assertEqual(self.get("Weight", self.client_of(c), CLIENT), 7)
        c.end()
        self.remove()
        self.check_forgotten()

    def test_stored(self):
        """Stored settings of a cgroup that had a client are forgotten with it."""
        c = self.enter()
        run("xschedctl", "set", self.JOB, "weight=7")
        self.assertEqual(stored(), {self.JOB: {"Weight": 7}})
        c.end()
        until(lambda: self.JOB not in self.names(), "the group to go")
        self.remove()
        self.check_forgotten()

    def test_stored_for_nobody(self):
        run("xschedctl", "set", self.JOB, "weight=7")
        self.remove()
        self.check_forgotten()

    def test_gone_while_the_service_was_away(self):
        run("xschedctl", "set", self.JOB, "weight=7")
        run("systemctl", "stop", "xsched")
        self.remove()
        run("systemctl", "start", "xsched")
        self.check_forgotten()

    def test_another_by_the_same_name(self):
        run("xschedctl", "set", self.JOB, "weight=7")
        run("systemctl", "stop", "xsched")
        self.remove()
        self.make()
        run("systemctl", "start", "xsched")
        until(lambda: self.JOB not in stored(), "the settings to be forgotten")

    def test_still_there(self):
        run("xschedctl", "set", self.JOB, "weight=7")
        run("systemctl", "restart", "xsched")
        self.assertEqual(stored(), {self.JOB: {"Weight": 7}})
        self.remove()
        self.check_forgotten()

    def test_in_advance(self):
        """Settings in advance are kept: a cgroup that has never existed is not gone, and a unit can come back."""
        self.remove()
        run("xschedctl", "set", self.JOB, "weight=7")
        run("xschedctl", "set", "--force", "brief.service", "weight=9")
        run("xschedctl", "set", "--force", "--runtime", "/system.slice/brief.service", "priority=3")
        run("systemctl", "restart", "xsched")
        c = self.client(unit="brief.service")
        self.check(c, 3, "default", "override")
        c.end()
        run("systemctl", "restart", "xsched")
        c = self.client(unit="brief.service")
        self.check(c, 3, "default", "override")
        self.assertEqual(stored(), {self.JOB: {"Weight": 7}, "brief.service": {"Weight": 9}})
        run("xschedctl", "reset", "brief.service")

        # Now the cgroup comes, and goes.
        self.make()
        self.enter().end()
        self.remove()
        self.check_forgotten()

    def test_scopes(self):
        c = self.client(command=["systemd-run", "--quiet", "--scope", "--unit=once.scope"])
        run("xschedctl", "set", "once.scope", "weight=7")
        self.assertIn("/system.slice/once.scope", self.names())
        c.end()
        until(lambda: "/system.slice/once.scope" not in self.names(), "it to be forgotten")


if __name__ == "__main__":
    inside.main()
