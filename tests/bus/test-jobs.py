#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs and claims: the processes that they are for, their lifetimes, and the users who may make them."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

OF_CGROUP, CHECK_ONLY, DESCENDANTS = 1, 2, 1
DENIED = (ACCESS_DENIED, "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired")


def create_job(c, settings, pid, flags, name="j"):
    return c.call(NAME, PATH, MANAGER, "CreateJob", "sa{sv}utt", name, settings, *process_id(pid), flags)


class Sleeper:
    """A process that ends on request."""

    def __init__(self, case):
        r, self.w = os.pipe()
        self.process = Process(["cat"], stdin=r)
        os.close(r)
        case.addCleanup(self.end)
        self.pid = self.process.pid

    def end(self):
        if self.w >= 0:
            os.close(self.w)
            self.w = -1
            self.process.wait()


class Jobs(Case):
    def groups(self):
        return {g[0]: g[2] for g in self.call("ListGroups")}

    def test_of_a_cgroup(self):
        """The cgroup has the settings as long as the process or any client of it exists."""
        r = self.raw()
        r.queue()
        name = r.get("Group")
        process = Sleeper(self)
        self.assertEqual(self.groups(), {name: 0})
        token, path = create_job(self.c, {"Priority": ("i", 7)}, process.pid, OF_CGROUP)
        self.assertEqual((token, self.get("Name", path, GROUP)), ("", name))
        self.assertEqual((r.get("Priority"), r.get("PolicySource"), r.get("Group")), (7, "job", name))
        self.assert_error(INVALID_ARGS, create_job, self.c, {}, os.getpid(), OF_CGROUP)  # a second one
        process.end()
        self.assertEqual(r.get("Priority"), 7)
        r.close()
        until(lambda: not self.groups(), "the group to go with its last client")
        r = self.raw()
        self.assertEqual(r.get("Priority"), 0)

    def test_of_a_cgroup_ends_with_its_process(self):
        process = Sleeper(self)
        path = create_job(self.c, {"Weight": ("u", 7)}, process.pid, OF_CGROUP)[1]
        self.assertEqual((self.get("NClients", path, GROUP), self.get("Weight", path, GROUP)), (0, 7))
        process.end()
        until(lambda: not self.groups(), "it to go")

    def test_override_is_above_it(self):
        process = Sleeper(self)
        path = create_job(self.c, {"Priority": ("i", 7)}, process.pid, OF_CGROUP)[1]
        name = self.get("Name", path, GROUP)
        self.call("SetGroup", "sta{sv}", name, 0, {"Priority": ("i", -3)})
        self.assertEqual((self.get("Priority", path, GROUP), self.get("PolicySource", path, GROUP)), (-3, "override"))
        self.call("ResetGroup", "st", name, 0)
        self.assertEqual(self.get("Priority", path, GROUP), 7)

    def test_check_only(self):
        process = Sleeper(self)
        for flags in (CHECK_ONLY, CHECK_ONLY | OF_CGROUP):
            self.assertEqual(create_job(self.c, {"Priority": ("i", 7)}, process.pid, flags)[0], "")
            self.assert_error(ERROR + "InvalidSetting", create_job, self.c, {"Weight": ("u", 0)}, process.pid, flags)
            self.assert_error(ERROR + "NoSuchClass", create_job, self.c, {"Class": ("s", "x")}, process.pid, flags)
        self.assertEqual(self.groups(), {})
        self.assert_error(INVALID_ARGS, create_job, self.c, {}, process.pid, 4)

    def test_inherits_from_where_it_was_made(self):
        """A job does not get around the cgroup's settings."""
        r = self.raw()
        cgroup = r.get("Group")
        self.call("SetGroup", "sta{sv}", cgroup, 0, {"Priority": ("i", -20), "Weight": ("u", 50)})
        path = self.job("inside", Weight=60)[1]
        self.assertEqual([self.get(p, path, GROUP) for p in ("Priority", "Weight")], [-20, 60])
        self.call("SetGroup", "sta{sv}", cgroup, 0, {"Priority": ("i", -30)})
        self.assertEqual(self.get("Priority", path, GROUP), -30)
        address = self.bus.address

        def user():
            c = dbus.Connection(address)
            made = create_job(c, {"Priority": ("i", 0), "Weight": ("u", 40)}, os.getpid(), 0)[1]
            if [c.get(NAME, made, GROUP, p) for p in ("Priority", "Weight")] != [-30, 40]:
                raise AssertionError("a user's job raises, or does not lower")
            mine = Raw(c, {"Job": ("s", create_job(c, {"Weight": ("u", 40)}, os.getpid(), 0)[0])})
            chain = c.call(NAME, PATH, MANAGER, "Explain", "ut", 0, 0)[0]
            if [line[2] for line in chain if line[1].startswith("Weight:")][:2] != [40, 100]:
                raise AssertionError(chain)
            mine.close()

        as_nobody(user)

    def test_of_others(self):
        """A caller cannot make a job of a cgroup that is another's, not even to lower it."""
        address = self.bus.address

        def user():
            c = dbus.Connection(address)
            for settings in ({}, {"Priority": ("i", -5)}, {"Priority": ("i", 5)}):
                try:
                    create_job(c, settings, os.getpid(), OF_CGROUP)
                except dbus.DBusError as e:
                    if e.name not in DENIED:
                        raise
                    continue
                raise AssertionError(f"{settings} was allowed")

        as_nobody(user)
        self.assertEqual(self.groups(), {})


class Restart(Case):
    keep = True

    def test_after_a_restart(self):
        process = Sleeper(self)
        path = create_job(self.c, {"Priority": ("i", 7)}, process.pid, OF_CGROUP)[1]
        own = self.job("own", Priority=3)[1]
        self.service.stop()
        self.service.start()
        self.assertEqual((self.get("Priority", path, GROUP), self.get("Priority", own, GROUP)), (7, 3))
        process.end()
        until(lambda: [g[2] for g in self.call("ListGroups")] == [3], "the first to go")


class Holds(Case):
    def setUp(self):
        super().setUp()
        for name, priority in (("idle", -200), ("batch", -50), ("interactive", 50)):
            with open(f"{self.directory}/classes.d/{name}.class", "w", encoding="utf-8") as f:
                f.write(f"[Class]\nPriority={priority}\n")
        self.call("Reload")

    def hold(self, class_, flags=0, c=None, reason="because"):
        return (c or self.c).call(NAME, PATH, MANAGER, "HoldPriority", "sst", class_, reason, flags)[0]

    def test_of_a_process(self):
        r = self.raw()
        other = self.program()
        client = self.call("GetClientByPID", "u", other.pid)
        fd = self.hold("interactive")
        self.assertEqual((r.get("Priority"), r.get("PolicySource")), (50, "hold"))
        self.assertEqual(self.get("Priority", client, CLIENT), 0)
        uid = os.getuid()
        self.assertEqual(
            [h[:2] + h[3:] for h in self.call("ListHolds")], [(os.getpid(), uid, "interactive", "because", False)]
        )
        second = self.hold("idle")
        self.assertEqual(r.get("Priority"), -200)  # the newest claim counts
        os.close(second)
        until(lambda: r.get("Priority") == 50, "the first hold to count again")
        os.close(fd)
        until(lambda: r.get("Priority") == 0 and not self.call("ListHolds"), "the hold to end")

    def test_of_what_a_process_starts(self):
        before = self.program(command=["sh", "-c", '"$@"; exit $?', "sh"])
        fd = self.hold("interactive", DESCENDANTS)
        after = self.program()
        clients = self.call("ListClients")
        self.assertEqual(len(clients), 2)
        self.assertNotIn(before.pid, [c[1] for c in clients])  # the client is a grandchild
        self.assertEqual([self.get("Priority", c[-1], CLIENT) for c in clients], [50, 50])
        os.close(fd)
        until(lambda: [self.get("Priority", c[-1], CLIENT) for c in clients] == [0, 0], "the hold to end")
        self.assertEqual(after.ask("run 1"), "ran")

    def test_not_of_strangers(self):
        """A claim does not count for processes that are no descendants of the holder, or of another user."""
        r, w = os.pipe()
        address = self.bus.address
        p = self.program()
        client = self.call("GetClientByPID", "u", p.pid)

        def user():
            c = dbus.Connection(address)
            self.hold("batch", DESCENDANTS, c)
            mine = Raw(c)
            if mine.get("Priority") != -50:
                raise AssertionError("not held")
            try:
                self.hold("interactive", 0, c)
            except dbus.DBusError as e:
                if e.name not in DENIED:
                    raise
            else:
                raise AssertionError("raised")
            os.write(w, b"x")
            mine.close()

        as_nobody(user)
        self.assertEqual(os.read(r, 1), b"x")
        self.assertEqual(self.get("Priority", client, CLIENT), 0)

    def test_of_a_user_only_lowers(self):
        self.call("SetGroup", "sta{sv}", self.raw().get("Group"), 0, {"Priority": ("i", -80)})
        address = self.bus.address

        def user():
            c = dbus.Connection(address)
            fd = self.hold("batch", 0, c)
            mine = Raw(c)
            if mine.get("Priority") != -80:
                raise AssertionError("the hold raises")
            os.close(fd)
            self.hold("idle", 0, c)
            until(lambda: mine.get("Priority") == -200)
            mine.close()

        as_nobody(user)

    def test_tells_its_holder_that_the_service_is_gone(self):
        fd = self.hold("interactive")
        poll = select.poll()
        poll.register(fd, 0)
        self.assertEqual(poll.poll(0), [])
        self.service.kill()
        self.assertTrue(poll.poll(DEADLINE * 1000)[0][1] & select.POLLERR)
        os.close(fd)


if __name__ == "__main__":
    main()
