#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user who may only lower gains nothing by lowering and taking it back: known attacks, and random ones."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import lowering
from harness import *
from lowering import Refused, Trial

ID = lowering.DEVICE
SEED = int(os.environ.get("LOWERING_SEED", 0)) or int.from_bytes(os.urandom(4), "little")
STEPS = int(os.environ.get("LOWERING_STEPS", 600))


class LoweringCase(Case):
    def setUp(self):
        super().setUp()
        lowering.write_classes(f"{self.directory}/classes.d")
        self.call("Reload")
        self.bus_connection = self.c
        self.agent = lowering.fork_agent(self, self.bus.address, become_nobody)

    def assert_refused(self, function, *args):
        with self.assertRaises(Refused) as caught:
            function(*args)
        self.assertRegex(str(caught.exception), "AccessDenied")


class Attacks(LoweringCase):
    """Each of these attacks once reached priority 200 or 255, without a question to polkit."""

    def setUp(self):
        super().setUp()
        self.path = self.agent.register({})
        self.queue, _ = self.agent.queue(self.path, 0)
        self.queue_path = f"{PATH}/queue/{self.queue}"

    def client(self, name):
        return self.get(name, self.path, CLIENT)

    def check_nothing_won(self):
        self.agent.hint(0, {"Priority": 255, "Weight": 10000})
        self.assertLessEqual(self.client("Priority"), 0)
        self.assertLessEqual(self.get("Priority", self.queue_path, QUEUE), 0)
        for group in self.call("ListGroups"):
            self.assertLessEqual(group[2], 0)

    def test_wish_of_the_registration(self):
        path = self.agent.register({"Priority": -200})
        self.assert_refused(self.agent.set, path, CLIENT, {"Priority": 200})
        self.assert_refused(self.agent.write, path, CLIENT, "Priority", 200)
        self.check_nothing_won()
        self.assertEqual(self.get("Priority", path, CLIENT), 0)

    def test_hint(self):
        self.agent.hint(0, {"Priority": -200})
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Priority": 200})
        self.agent.hint(self.queue, {"Priority": -200})
        self.assert_refused(self.agent.set, self.queue_path, QUEUE, {"Priority": 200})
        self.assert_refused(self.agent.write, self.queue_path, QUEUE, "Priority", 1)
        self.agent.hint(self.queue, {"Priority": 255})
        self.check_nothing_won()

    def test_hints_of_policies(self):
        """A queue shows which of its hints count, and says when they change."""
        group = self.call("GetGroup", "s", self.client("Group"))
        given = {"Deadline": 5000, "Laxity": 2000, "Critical": 9, "Utilization": 80, "Active": True}
        self.c.call(NAME, group, GROUP, "Set", "ta{sv}", 0, lowering.typed(given))
        shown = lambda path, interface: {k: self.get(k, path, interface) for k in given}
        self.assertEqual([shown(self.path, CLIENT), shown(self.queue_path, QUEUE)], [given, given])
        listener = self.connect()
        listener.match(f"type='signal',member='PropertiesChanged',path='{self.queue_path}'")
        hints = {"Deadline": 9000, "Laxity": 7000, "Critical": -9, "Utilization": 30}
        self.agent.hint(self.queue, hints)
        _, changed, _ = listener.signal("PropertiesChanged").body
        self.assertEqual({k: changed.get(k) for k in given}, {**given, **hints})
        self.assertEqual([shown(self.path, CLIENT), shown(self.queue_path, QUEUE)], [given, {**given, **hints}])
        self.agent.hint(self.queue, {"Deadline": 1, "Laxity": 1, "Critical": 100, "Utilization": 100})
        self.assertEqual(shown(self.queue_path, QUEUE), given)

    def test_hold(self):
        self.agent.hold("idle", 0)
        self.assertEqual(self.client("Priority"), -200)
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Priority": 200})
        self.assert_refused(self.agent.set, self.queue_path, QUEUE, {"Priority": 200})
        self.agent.end_hold(0)
        until(lambda: self.client("Priority") == 0, "the hold to end")
        self.check_nothing_won()

    def test_own_override_is_no_shelter(self):
        """The owner's settings do not override the administrator's later ones."""
        for path, interface in ((self.path, CLIENT), (self.queue_path, QUEUE)):
            self.agent.set(path, interface, {"Priority": 0, "Weight": 100})
        self.call("SetGroup", "sta{sv}", self.client("Group"), 0, {"Priority": ("i", -30), "Weight": ("u", 40)})
        for path, interface in ((self.path, CLIENT), (self.queue_path, QUEUE)):
            self.assertEqual([self.get(p, path, interface) for p in ("Priority", "Weight")], [-30, 40])

    def test_gang(self):
        """A gang with a turn on one device has it on all, and that device may be made up: so a user may not set it
        without the right."""
        self.assert_refused(self.agent.job, {"Gang": True}, 0)
        client = self.agent.register({"Gang": True})
        self.assertIs(self.get("Gang", client, CLIENT), False)
        self.assert_refused(self.agent.set, client, CLIENT, {"Gang": True})

    def in_job_of_the_administrator(self, settings):
        """The user's cgroup, with the settings from the start of its program."""
        process = process_id(self.agent.whereabouts()[0])
        self.call("CreateJob", "sa{sv}utt", "night", lowering.typed(settings), *process, 1)

    def test_job_of_the_administrator(self):
        """A user's own job in a cgroup has no more than the cgroup's job, whichever was made first."""
        early, path = self.agent.job({}, 0)
        self.in_job_of_the_administrator({"Priority": -50, "Threshold": 1, "Preemption": "2"})
        self.assertEqual(self.get("Priority", path, GROUP), -50)
        for job in (early, self.agent.job({}, 0)[0], self.agent.job({"Priority": -7}, 0)[0]):
            client = self.agent.register({}, job)
            has = [self.get(p, client, CLIENT) for p in ("Priority", "Threshold", "Preemption")]
            self.assertEqual(has, [-50, 1, "2"])
            self.assertRegex(self.get("Group", client, CLIENT), "^job:")

    def test_class_of_the_user(self):
        """A user does not escape a class that lowers by having another user's process in the cgroup."""
        uid = self.agent.whereabouts()[1]
        with open(f"{self.directory}/classes.d/night.class", "w", encoding="utf-8") as f:
            f.write(f"[Class]\nPriority=-50\nWeight=20\n[Match]\nUser={uid}\n")
        self.call("Reload")
        self.assertEqual([self.client("Priority"), self.client("Weight")], [-50, 20])
        other = self.raw()
        self.assertEqual([self.client("Priority"), self.client("Weight"), other.get("Priority")], [-50, 20, 0])
        other.close()
        self.assertEqual(self.get("PolicySource", self.path, CLIENT), "class")
        with open(f"{self.directory}/classes.d/night.class", "w", encoding="utf-8") as f:
            f.write(f"[Class]\nPriority=50\n[Match]\nUser={uid}\n")
        self.call("Reload")
        until(lambda: self.client("Priority") == 50, "him to be alone again")
        other = self.raw()
        self.assertEqual([self.client("Priority"), other.get("Priority")], [0, 0])  # then it only lowers

    def test_class_in_a_job_of_the_administrator(self):
        """The cgroup's members are the user's, even if another user has made settings for it."""
        uid = self.agent.whereabouts()[1]
        with open(f"{self.directory}/classes.d/night.class", "w", encoding="utf-8") as f:
            f.write(f"[Class]\nPriority=-50\n[Match]\nUser={uid}\n")
        with open(f"{self.directory}/classes.d/root.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=90\n[Match]\nUser=root\n")
        self.call("Reload")
        self.in_job_of_the_administrator({"Weight": 30})
        self.assertEqual([self.client("Priority"), self.client("Weight")], [-50, 30])

    def test_hold_of_the_administrator(self):
        """A claim that only lowers does not hide one that was made above it, also for the holder's children."""
        fd = self.c.call(NAME, PATH, MANAGER, "HoldPriority", "sst", "idle", "night", 1)[0]
        self.assertEqual(self.client("Priority"), -200)
        self.agent.hold("slow", 0)
        self.assertEqual(self.client("Priority"), -200)
        os.close(fd)
        until(lambda: self.client("Priority") == -5, "the first to end")

    def in_flight(self, wish, override=None, by_administrator=None):
        """The threshold in the slot of a new queue."""
        path = self.agent.register({"Threshold": wish})
        if override is not None:
            self.agent.set(path, CLIENT, {"Threshold": override})
        if by_administrator is not None:
            self.c.set(NAME, path, CLIENT, "Threshold", "u", by_administrator)
        return self.agent.threshold(path, self.agent.queue(path, 0)[1])

    def test_threshold_of_the_device(self):
        """A user's own threshold counts where it is less than the device's, which is 1."""
        contender = self.raw(Job=("s", self.job("other", Priority=200)[0]))
        contender.queue().edge(1)  # while this case runs
        self.assertEqual(self.in_flight(65535), 1)
        self.assertEqual(self.in_flight(0, 65535), 1)
        self.call("SetPolicy", "ssta{sv}", "", "", 0, {"Threshold": ("u", 9)})
        self.assertEqual([self.in_flight(*t) for t in ((65535,), (65535, 10), (3,), (0, 3), (4, 3))], [9, 9, 3, 3, 3])
        self.assertEqual(
            [self.in_flight(0, None, 12), self.in_flight(65535, 11, 12), self.in_flight(5, None, 12)], [12, 12, 5]
        )


class Owner(LoweringCase):
    """A lowered setting can be taken back, and gives way to the administrator's."""

    def setUp(self):
        super().setUp()
        self.path = self.agent.register({})
        self.name = self.get("Group", self.path, CLIENT)
        self.group = self.call("GetGroup", "s", self.name)

    def both(self, name="Priority"):
        return [self.get(name, self.path, CLIENT), self.get(name, self.group, GROUP)]

    def test_lowers_and_takes_back(self):
        self.agent.set(self.path, CLIENT, {"Priority": -20})
        self.assertEqual((self.both(), self.get("PolicySource", self.path, CLIENT)), ([-20, 0], "owner"))
        self.agent.set(self.path, CLIENT, {"Priority": -10})  # the user may go up again, to the granted value
        self.assertEqual(self.both(), [-10, 0])
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Priority": 1})
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Priority": -30, "Weight": 101})
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Class": "heavy"})
        self.agent.reset(self.path, CLIENT)
        self.assertEqual(self.both(), [0, 0])
        self.assert_refused(self.agent.reset, self.path, CLIENT)

    def test_class(self):
        self.agent.set(self.group, GROUP, {"Class": "idle"})
        self.assertEqual((self.both(), self.both("Weight")), ([-200, -200], [10, 10]))
        self.agent.set(self.group, GROUP, {"Priority": -3})
        self.assertEqual((self.both(), self.both("Weight")), ([-3, -3], [10, 10]))

    def test_the_administrator_is_heard(self):
        for settings in ({"Priority": -20, "Weight": 20}, {"Class": "idle"}):
            self.agent.set(self.group, GROUP, settings)
            self.agent.set(self.path, CLIENT, settings)
            self.call("SetGroup", "sta{sv}", self.name, 0, {"Priority": ("i", 30)})
            self.c.set(NAME, self.path, CLIENT, "Priority", "i", 40)
            self.assertEqual(self.both(), [40, 30])
            self.assertLess(self.get("Weight", self.group, GROUP), 100)  # the administrator has not set the weight
            self.call("ResetGroup", "st", self.name, 0)
            self.c.call(NAME, self.path, CLIENT, "Reset", "t", 0)
            self.assertEqual((self.both(), self.both("Weight")), ([0, 0], [100, 100]))

    def test_override_is_the_administrators(self):
        self.c.set(NAME, self.path, CLIENT, "Priority", "i", -40)
        self.agent.set(self.path, CLIENT, {"Weight": 20})
        self.agent.reset(self.path, CLIENT)
        self.assertEqual((self.both(), self.both("Weight")), ([-40, 0], [100, 100]))
        self.assert_refused(self.agent.reset, self.path, CLIENT)
        self.assert_refused(self.agent.set, self.path, CLIENT, {"Priority": -39})

    def test_limits_of_a_group(self):
        self.agent.set(self.group, GROUP, {"Max": 50, "Period": 10000})
        self.assertEqual([self.get(p, self.group, GROUP) for p in ("Max", "Period")], [50, 10000])
        self.call("SetGroup", "sta{sv}", self.name, 0, {"Max": ("u", 80)})
        self.assertEqual([self.get(p, self.group, GROUP) for p in ("Max", "Period")], [80, 100000])
        self.assert_refused(self.agent.set, self.group, GROUP, {"Period": 10000000})
        self.assert_refused(self.agent.set, self.group, GROUP, {"Min": 1})
        self.agent.set(self.group, GROUP, {"Max": 30})
        self.assertEqual([self.get(p, self.group, GROUP) for p in ("Max", "Period")], [30, 100000])

    def test_accounting_of_a_group(self):
        """A client that is not counted would have more than its share."""
        for value in ("off", "sampled"):
            self.assert_refused(self.agent.set, self.group, GROUP, {"Accounting": value})
            self.assert_refused(self.agent.write, self.group, GROUP, "Accounting", value)
            self.assert_refused(self.agent.set_group, self.name, 0, {"Accounting": value})
            self.assert_refused(self.agent.job, {"Accounting": value}, 1)
        self.agent.set(self.group, GROUP, {"Accounting": "exact"})
        self.assertEqual(self.get("Accounting", self.group, GROUP), "exact")
        self.c.set(NAME, self.group, GROUP, "Accounting", "s", "sampled")
        self.assertEqual(self.get("Accounting", self.group, GROUP), "sampled")
        self.assert_refused(self.agent.set, self.group, GROUP, {"Accounting": "auto"})

    def test_nobody_lowers_others(self):
        """A user's settings for a group end when another user's process comes to it, or below it."""
        self.agent.set(self.group, GROUP, {"Priority": -50, "Max": 1})
        token = self.agent.job({}, 0)[0]
        inner = self.agent.register({}, token)
        self.assertEqual([self.get("Priority", inner, CLIENT), self.get("Priority", self.group, GROUP)], [-50, -50])
        for settings in ({}, {"Job": ("s", self.job("mine")[0])}):
            mine = self.raw(**settings)
            self.assertEqual((mine.get("Priority"), self.both(), self.get("Max", self.group, GROUP)), (0, [0, 0], 0))
            self.assertEqual(self.get("Priority", inner, CLIENT), 0)
            self.assert_refused(self.agent.set, self.group, GROUP, {"Priority": -50})
            mine.close()
            until(lambda: self.both() == [-50, -50], "him to be alone again")
            self.assertEqual((self.get("Priority", inner, CLIENT), self.get("Max", self.group, GROUP)), (-50, 1))

    def test_ends_with_the_job(self):
        token, path = self.agent.job({}, 0)
        client = self.agent.register({}, token)
        self.agent.set(path, GROUP, {"Priority": -50})
        self.assertEqual(self.get("Priority", client, CLIENT), -50)
        self.agent.end_job(0)
        self.agent.hang_up(client)
        until(lambda: [g[0] for g in self.call("ListGroups")] == [self.name], "the group to go")


class Preview(LoweringCase):
    """Preview resolves a change as the change itself does: lowering layers are on top of set ones."""

    keep = True
    KEYS = ("Class", "Priority", "Weight", "Max", "Min")

    def setUp(self):
        super().setUp()
        self.path = self.agent.register({})
        self.name = self.get("Group", self.path, CLIENT)
        self.group = self.call("GetGroup", "s", self.name)

    def effective(self):
        return {k: self.get(k, self.group, GROUP) for k in self.KEYS}

    def change(self, flags, settings):
        """Returns the settings in force after the change. Checks that none of them was in force before, and that
        Preview gave all of them."""
        before, stored = self.effective(), sorted(map(str, self.call("ListSettings")))
        said = self.c.call(NAME, self.group, GROUP, "Preview", "ta{sv}", flags, settings)[0]
        self.assertEqual((self.effective(), sorted(map(str, self.call("ListSettings")))), (before, stored))
        self.c.call(NAME, self.group, GROUP, "Set", "ta{sv}", flags, settings)
        after = self.effective()
        self.assertEqual({k: said[k] for k in self.KEYS}, after)
        return [after[k] for k in self.KEYS[1:]]

    def test_job_that_lowers(self):
        """Max and Min are lowered as Priority and Weight are."""
        process = process_id(self.agent.whereabouts()[0])
        night = {"Priority": -50, "Weight": 20, "Max": 30}
        self.call("CreateJob", "sa{sv}utt", "night", lowering.typed(night), *process, 1)
        settings = {"Priority": ("i", 10), "Weight": ("u", 300), "Max": ("u", 80), "Min": ("u", 60)}
        self.assertEqual(self.change(0, settings)[:3], [10, 300, 80])
        _, job = self.agent.job({"Max": 15, "Weight": 5}, 0)
        self.group = job
        self.assertEqual(self.change(0, settings)[1:3], [5, 15])
        self.assertEqual(self.change(0, {"Max": ("u", 10)})[1:3], [5, 10])

    def test_owner(self):
        """The owner's settings are on top of the keys that the administrator does not name, and give way to those
        named."""
        self.agent.set(self.group, GROUP, {"Max": 20, "Weight": 30})
        self.assertEqual(self.change(0, {"Weight": ("u", 300), "Class": ("s", "heavy")})[1:3], [300, 20])
        said = self.agent.preview(self.group, {"Max": 10}, [])
        self.agent.set(self.group, GROUP, {"Max": 10})
        self.assertEqual((said["Max"], self.effective()["Max"]), (10, 10))

    def test_unset(self):
        """When a setting is removed, the layer below it counts again."""
        self.assertEqual(self.change(0, {"Weight": ("u", 60), "Class": ("s", "idle")})[:2], [-200, 60])
        self.assertEqual(self.change(0, {"Max": ("u", 70), "Unset": ("as", ["Weight"])})[:3], [-200, 10, 70])
        self.assertEqual(self.change(0, {"Unset": ("as", list(self.KEYS))})[:3], [0, 100, 0])

    def test_wrong(self):
        """Preview refuses what Set refuses, and needs no right itself."""
        for settings in ({"Weight": ("u", 0)}, {"Weihgt": ("u", 1)}, {"Class": ("s", "nosuch")}):
            errors = []
            for member in ("Preview", "Set"):
                with self.assertRaises(dbus.DBusError) as caught:
                    self.c.call(NAME, self.group, GROUP, member, "ta{sv}", 0, settings)
                errors.append((caught.exception.name, caught.exception.text))
            self.assertEqual(errors[0], errors[1])
        self.assertEqual(self.agent.preview(self.group, {"Priority": 200}, [])["Priority"], 200)
        self.assertEqual(self.effective()["Priority"], 0)


class Restored(LoweringCase):
    """Restore puts back former settings layer by layer, if the current ones are still those that the caller
    expects."""

    keep = True

    def setUp(self):
        super().setUp()
        self.path = self.agent.register({})
        self.name = self.get("Group", self.path, CLIENT)
        self.group = self.call("GetGroup", "s", self.name)

    def listed(self, target=None):
        target = target or self.name
        listed = {k: v for t, k, v in self.call("ListSettings") if t == target}
        self.assertEqual(dict(self.call("GetSettings", "st", target, 0)), listed)
        return listed

    def weight(self):
        return self.get("Weight", self.group, GROUP)

    def set(self, settings):
        self.c.call(NAME, self.group, GROUP, "Set", "ta{sv}", 0, lowering.typed(settings))

    def restore(self, expected, then, target=None, types=lowering.TYPES):
        pairs = lambda lifetimes: [(k, {n: (types[n], x) for n, x in v.items()}) for k, v in lifetimes.items()]
        self.call("RestoreSettings", "sta(sa{sv})a(sa{sv})", target or self.name, 0, pairs(expected), pairs(then))

    def test_lowering_of_the_owner(self):
        """An administrator's setting removes the owner's. After a restore it is the owner's again, and only lowers."""
        self.agent.set(self.group, GROUP, {"Weight": 40, "Max": 30})
        self.set({"Priority": 3})
        before = self.listed()
        self.set({"Weight": 300})
        after = self.listed()
        self.assertEqual((self.weight(), after["owner"]), (300, {"Max": 30}))
        self.restore(after, before)
        self.assertEqual((self.listed(), self.weight()), (before, 40))
        self.assertEqual(self.get("Weight", self.path, CLIENT), 40)
        self.restore(before, {**before, "owner": {"Weight": 500, "Max": 30}})
        self.assertEqual(self.weight(), 100)
        self.restore(self.listed(), before)
        self.agent.unset(self.group, GROUP, ["Weight"], {})
        self.assertEqual((self.listed()["owner"], self.weight()), ({"Max": 30}, 100))

        # Restored after a restart of the service, it is the owner's, too.
        self.restore(self.listed(), {})
        self.all_kept()
        self.service.kill()
        self.service.start()
        self.restore({}, {"owner": {"Weight": 20}})
        self.assertEqual(self.weight(), 20)
        other = self.raw()  # another user's client comes: the setting counts no longer
        self.assertEqual(self.weight(), 100)
        other.close()

    def test_changed_meanwhile(self):
        """A difference from the expected settings is another caller's change: nothing is restored."""
        self.agent.set(self.group, GROUP, {"Max": 30})
        self.set({"Weight": 300})
        now = self.listed()
        for expected in ({}, {**now, "runtime": {"Weight": 299}}, {**now, "owner": {}}, {**now, "stored": {"Max": 1}}):
            self.assert_error(f"{NAME}.Error.Changed", self.restore, expected, {})
            self.assertEqual(self.listed(), now)
        self.restore(now, now)
        self.assertEqual(self.listed(), now)
        self.restore(now, {})
        self.assertEqual((self.listed(), self.weight()), ({}, 100))

    def test_who_may(self):
        """An owner can restore the owner's settings, and nothing else."""
        self.agent.set(self.group, GROUP, {"Weight": 40})
        before = self.listed()
        self.agent.set(self.group, GROUP, {"Weight": 30, "Max": 50})
        self.agent.restore(self.name, self.listed(), before)
        self.assertEqual((self.listed(), self.weight()), (before, 40))
        refused = ({"runtime": {"Weight": 40}}, {**before, "runtime": {"Weight": 40}}, {"owner": {"Weight": 101}})
        for then in (*refused, {"stored": {"Weight": 1}}):
            self.assert_refused(self.agent.restore, self.name, before, then)
        self.set({"Priority": -5})
        now = self.listed()
        self.assert_refused(self.agent.restore, self.name, now, before)
        self.assertEqual(self.listed(), now)
        device = (f"device:{ID}", {}, {"runtime": {}})
        self.agent.queue(self.path, 0)
        self.assert_refused(self.agent.restore, *device)

    def test_class_that_has_gone(self):
        """A setting stays at its group, and reaches no other."""
        self.set({"Class": "heavy", "Weight": 60})
        before = self.listed()
        self.set({"Weight": 70})
        os.unlink(f"{self.directory}/classes.d/heavy.class")
        self.call("Reload")
        self.restore(self.listed(), before)
        self.assertEqual((self.listed(), self.weight()), (before, 60))
        self.restore(before, {})
        self.assert_error(f"{NAME}.Error.NoSuchClass", self.restore, {}, before)
        self.assertEqual(self.listed(), {})

    def test_device(self):
        self.agent.queue(self.path, 0)
        device, target = next(d[-1] for d in self.call("ListDevices") if d[0] == ID), f"device:{ID}"
        types = {"Policy": "s", "TimeSliceUSec": "t", "StarveUSec": "t", "StarveRunUSec": "t", "Concurrency": "u"}
        change = lambda policy, **s: self.call(
            "SetPolicy", "ssta{sv}", ID, policy, 0, {k: (types[k], v) for k, v in s.items()}
        )
        restore = lambda *args: self.restore(*args, target, types)
        change("", TimeSliceUSec=7000)
        before = self.listed(target)
        change("hpf", TimeSliceUSec=9000, Concurrency=2)
        self.assert_error(f"{NAME}.Error.Changed", restore, before, before)
        restore(self.listed(target), before)
        self.assertEqual(self.listed(target), before)
        self.assertEqual([self.get(k, device, DEVICE) for k in ("Policy", "TimeSliceUSec")], ["tree", 7000])
        wrong = {"runtime": {"StarveUSec": 1000, "StarveRunUSec": 2000}}
        self.assert_error(f"{NAME}.Error.InvalidSetting", restore, before, wrong)
        self.assert_error(f"{NAME}.Error.NoSuchPolicy", restore, before, {"runtime": {"Policy": "nosuch"}})
        self.assert_error("org.freedesktop.DBus.Error.InvalidArgs", restore, before, {"owner": {}})
        self.assert_error(f"{NAME}.Error.NoSuchDevice", self.restore, {}, {}, "device:pci:none")
        for target, error in (("device:pci:none", "NoSuchDevice"), ("/none.slice", "NoSuchGroup")):
            self.assert_error(f"{NAME}.Error.{error}", self.call, "GetSettings", "st", target, 0)
        self.assertEqual(self.listed(f"device:{ID}"), before)


class Restart(LoweringCase):
    keep = True

    def test_after_a_restart(self):
        paths = [self.agent.register({}) for _ in range(2)]
        id_, _ = self.agent.queue(paths[0], 0)
        queue = f"{PATH}/queue/{id_}"
        group = self.call("GetGroup", "s", self.get("Group", paths[0], CLIENT))
        self.agent.set(group, GROUP, {"Weight": 60})
        self.agent.set(paths[0], CLIENT, {"Priority": -20})
        self.agent.set(queue, QUEUE, {"Priority": -30})

        def all_of_it():
            return [
                self.get("Priority", paths[0], CLIENT),
                self.get("Priority", queue, QUEUE),
                self.get("Weight", group, GROUP),
                self.get("Weight", paths[1], CLIENT),
            ]

        self.assertEqual(all_of_it(), [-20, -30, 60, 60])
        self.all_kept()
        self.service.kill()
        self.service.start()
        self.assertEqual(all_of_it(), [-20, -30, 60, 60])
        self.assertEqual(self.get("PolicySource", queue, QUEUE), "owner")
        self.c.call(NAME, group, GROUP, "Set", "ta{sv}", 0, {"Priority": ("i", 5)})
        self.assertEqual(self.get("Priority", paths[0], CLIENT), -20)
        mine = self.raw()
        self.assertEqual(self.get("Weight", group, GROUP), 100)
        mine.close()

    def test_after_many_restarts(self):
        """The administrator's settings for a client are not lost when its group gets its class again."""
        with open(f"{self.directory}/classes.d/night.class", "w", encoding="utf-8") as f:
            f.write(f"[Class]\nPriority=-50\n[Match]\nUser={self.agent.whereabouts()[1]}\n")
        self.call("Reload")
        client = self.agent.register({})
        self.c.set(NAME, client, CLIENT, "Priority", "i", -200)
        self.agent.set(client, CLIENT, {"Weight": 20})
        self.c.call(NAME, client, CLIENT, "Suspend")
        self.all_kept()
        for _ in range(3):
            self.service.kill()
            self.service.start()
            self.assertEqual(
                [self.get(p, client, CLIENT) for p in ("Priority", "Weight", "Suspended")], [-200, 20, True]
            )

    def test_jobs_after_a_restart(self):
        """A job has the settings of the cgroup that it was made in, also where nothing has changed since the
        restart."""
        token, path = self.agent.job({}, 0)
        client = self.agent.register({}, token)
        self.call("SetGroup", "sta{sv}", "/", 0, {"Priority": ("i", -200), "Preemption": ("s", "2")})
        self.assertEqual([self.get(p, path, GROUP) for p in ("Priority", "Preemption")], [-200, "2"])
        self.all_kept()
        self.service.kill()
        self.service.start()
        for what, interface in ((path, GROUP), (client, CLIENT)):
            self.assertEqual([self.get(p, what, interface) for p in ("Priority", "Preemption")], [-200, "2"])


class Random(LoweringCase):
    """Random sequences of a user's calls, with the administrator's settings and restarts in between."""

    keep = True

    def restart(self):
        self.all_kept()
        self.service.kill()
        self.service.start()

    def trial(self, seed, contended):
        print(f"LOWERING_SEED={seed}", flush=True)
        if contended:  # so that thresholds are in force, and the group is not the user's alone
            contender = self.raw(Job=("s", self.job("contender", Priority=255)[0]))
            contender.queue()
        Trial(self, self.agent, seed, others=[contender.get("Group")] if contended else [], restart=self.restart).run(
            STEPS
        )

    def test_alone(self):
        self.trial(SEED, False)

    def test_beside_another(self):
        self.trial(SEED + 1, True)


if __name__ == "__main__":
    main()
