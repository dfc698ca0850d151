#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Registering clients and queues: who may do it, refusals, and the state after they end."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *


class Registration(Case):
    config = "[Scheduler]\nAccounting=off\n"

    def test_client_and_queue(self):
        self.c.match(f"type='signal',sender='{NAME}'")
        p = self.program(queues=3)
        added = self.c.signal("ClientAdded").body
        self.assertEqual([self.c.signal("QueueAdded").body[0] for _ in range(3)], [1, 2, 3])
        clients = self.call("ListClients")
        self.assertEqual([(c[0], c[1], c[2], c[5]) for c in clients], [(added[0], p.pid, os.getuid(), added[1])])
        self.assertEqual(len(self.call("ListQueues")), 3)
        self.assertEqual(self.call("GetClientByPID", "u", p.pid), added[1])
        pid, start = process_id(p.pid)
        self.assertEqual(self.call("GetClientByProcess", "ut", pid, start), added[1])
        self.assertEqual(self.call("GetClientByProcess", "ut", pid, 0), added[1])
        for other in ((pid, start + 1), (0, 0), (0, start)):  # a former or a later process with this pid; the caller
            self.assert_error(ERROR + "NoSuchClient", self.call, "GetClientByProcess", "ut", *other)
        self.assertEqual(self.get("PID", added[1], CLIENT), p.pid)
        self.assertEqual(self.get("NQueues", added[1], CLIENT), 3)

        self.assertEqual(p.ask("run 100"), "ran")
        self.assertEqual(p.counters()["launches"], 300)
        self.assertEqual(self.get("Submitted", added[1], CLIENT), 300)

        p.close_input()
        self.assertEqual(p.process.wait(), 0)
        self.assertEqual(self.c.signal("ClientRemoved").body, added)
        self.assert_gone()
        self.assert_error(ERROR + "NoSuchClient", self.call, "GetClientByPID", "u", p.pid)

    def test_every_method_checks_its_arguments(self):
        r = self.raw()
        queue = {"Device": ("s", "pci:0000:01:00.0"), "Backend": ("s", "test")}
        register = lambda **p: self.call("RegisterQueue", "oa{sv}", r.path, {**queue, **p})

        for bit in (1, 1 << 31, 1 << 63):
            self.assert_error(INVALID_ARGS, self.call, "RegisterClient", "ta{sv}", bit, {})
        for wrong in ("", " ", "a/b", "pci:0000:01:00.0\n", "ü", "x" * 5000, "all", "device:all", "device:x"):
            self.assert_error(INVALID_ARGS, register, Device=("s", wrong))
        self.assert_error(INVALID_ARGS, register, Device=("u", 1))
        self.assert_error(INVALID_ARGS, register, Backend=("s", ""))
        self.assert_error(INVALID_ARGS, register, PriorityHint=("i", 1))
        self.assert_error(INVALID_ARGS, register, PriorityHint=("t", 1))
        self.assert_error(INVALID_ARGS, register, KfdQueueId=("i", 1))
        self.assert_error(INVALID_ARGS, self.call, "RegisterQueue", "oa{sv}", r.path, {"Backend": ("s", "test")})
        for path in (
            "/",
            PATH,
            PATH + "/client/0",
            PATH + "/client/99",
            PATH + "/client/1x",
            PATH + "/client/18446744073709551617",
            PATH + "/queue/1",
        ):
            self.assert_error((ERROR + "NoSuchClient", INVALID_ARGS), self.call, "RegisterQueue", "oa{sv}", path, queue)
        for id_ in (0, 99, (1 << 64) - 1):
            self.assert_error(ERROR + "NoSuchQueue", self.call, "UnregisterQueue", "t", id_)
        register(PriorityHint=("i", -(1 << 31)))
        register(Label=("s", "x"), SomethingNew=("a{sv}", {"y": ("t", 1)}))
        id_, _ = register(KfdGpuId=("u", 0xFFFF), KfdQueueId=("u", 3))
        self.assertEqual([self.get(p, f"{PATH}/queue/{id_}", QUEUE) for p in ("KfdGpuId", "KfdQueueId")], [0xFFFF, 3])
        self.assertEqual(self.get("NQueues"), 3)

    def test_settings_are_checked(self):
        r = self.raw()
        r.queue()
        setters = [
            lambda s: self.call("SetGroup", "sta{sv}", "/some/group", 0, s),
            lambda s: self.c.call(NAME, r.path, CLIENT, "Set", "ta{sv}", 0, s),
            lambda s: self.call("Hint", "ta{sv}", 0, s),
            lambda s: self.call("Hint", "ta{sv}", r.ids[0], s),
            lambda s: self.call("RegisterClient", "ta{sv}", 0, s),
        ]
        wrong = [
            {"Priority": ("i", 256)},
            {"Priority": ("i", -256)},
            {"Priority": ("i", -(1 << 31))},
            {"Priority": ("u", 1)},
            {"Priority": ("s", "1")},
            {"Priority": ("v", ("i", 1))},
            {"Weight": ("u", 0)},
            {"Weight": ("u", 10001)},
            {"Weight": ("u", (1 << 32) - 1)},
            {"Weight": ("i", 5)},
            {"Threshold": ("u", 65536)},
            {"Class": ("u", 1)},
        ]
        for setter in setters:
            for settings in wrong:
                with self.subTest(settings=settings):
                    e = self.assert_error(ERROR + "InvalidSetting", setter, settings)
                    self.assertIn(next(iter(settings)), e.text)
        for setter in setters[:4]:
            self.assert_error(ERROR + "InvalidSetting", setter, {"Unknown": ("i", 1)})
            self.assert_error(
                (ERROR + "NoSuchClass", ERROR + "InvalidSetting"), setter, {"Class": ("s", "no-such-class")}
            )

    def test_wishes_only_lower(self):
        r = self.raw(Priority=("i", 100), Weight=("u", 9000))
        r.queue()
        self.assertEqual((r.get("Priority"), r.get("Weight")), (0, 100))
        self.call("Hint", "ta{sv}", 0, {"Priority": ("i", -5)})
        self.assertEqual(r.get("Priority"), -5)
        self.call("Hint", "ta{sv}", 0, {"Priority": ("i", 50)})
        self.assertEqual(r.get("Priority"), 0)

    def test_the_service_speaks_log_control(self):
        path, interface = "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1"
        self.assertEqual(self.c.get(NAME, path, interface, "SyslogIdentifier"), "xschedd")
        self.c.set(NAME, path, interface, "LogLevel", "s", "debug")
        self.assertEqual(self.c.get(NAME, path, interface, "LogLevel"), "debug")
        with self.assertRaises(dbus.DBusError):
            self.c.set(NAME, path, interface, "LogLevel", "s", "shouting")
        self.assertEqual(self.c.get(NAME, path, interface, "LogLevel"), "debug")

    def test_fork_and_exec(self):
        # A child that keeps the lifeline open does not keep its parent's client.
        holder = self.program(command=["sh", "-c", 'exec "$@"', "sh"])
        self.assertEqual(self.get("NClients"), 1)
        holder.process.kill()
        self.assert_gone()

        ours, theirs = socket.socketpair()
        parent = os.fork()
        if parent == 0:
            try:
                ours.close()
                Raw(self.bus.connect()).queue()
                theirs.send(b"registered")
                if os.fork() == 0:
                    theirs.recv(1)  # until the test is over
            finally:
                os._exit(0)
        theirs.close()
        self.assertEqual(ours.recv(10), b"registered")
        os.waitpid(parent, 0)
        self.assert_gone()
        ours.close()

    def test_who_is_not_the_client_is_refused_without_a_look_at_its_process(self):
        """There is none to look at: the process that made the connection is gone."""
        r = self.raw()
        r.queue()
        hint = {"Priority": ("i", -1)}
        queue = {"Device": ("s", "pci:0000:01:00.0"), "Backend": ("s", "test")}
        calls = (
            (ERROR + "NotOwner", "RegisterQueue", "oa{sv}", r.path, queue),
            (ERROR + "NotOwner", "UnregisterQueue", "t", r.ids[0]),
            (ERROR + "NotOwner", "Hint", "ta{sv}", r.ids[0], hint),
            (ACCESS_DENIED, "Hint", "ta{sv}", 0, hint),
            (ACCESS_DENIED, "RegisterClient", "ta{sv}", 0, {}),
        )
        ours, theirs = socket.socketpair()
        maker = os.fork()
        if maker == 0:
            try:
                ours.close()
                c = self.bus.connect()
                if os.fork() == 0:
                    theirs.recv(1)  # until the maker is gone
                    for _, *args in calls:
                        try:
                            c.call(NAME, PATH, MANAGER, *args)
                            theirs.send(b"allowed\n")
                        except dbus.DBusError as e:
                            theirs.send(e.name.encode() + b"\n")
            finally:
                os._exit(0)
        theirs.close()
        os.waitpid(maker, 0)
        ours.send(b".")
        with ours, ours.makefile() as answers:
            self.assertEqual(answers.read().split(), [name for name, *_ in calls])
        self.assertEqual((r.get("Priority"), self.get("NQueues"), self.get("NClients")), (0, 1, 1))

    def test_slots_are_used_again(self):
        r = self.raw()
        first = r.queue()
        kept = r.queue()
        for _ in range(50):
            first.edge(1)
            first.edge(0)
            r.unregister(0)
            first = r.queue()
            r.ids.insert(0, r.ids.pop())
            self.assertEqual((first.verdict & HOLD, first.threshold, first.watch), (0, 0, 0))
        self.assertNotEqual(first.number, kept.number)
        self.assertEqual(self.get("NQueues"), 2)
        self.assertEqual(len({q[0] for q in self.call("ListQueues")}), 2)


@unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
class OtherUser(Case):
    config = "[Limits]\nMaxClientsPerUser=3\nMaxQueuesPerClient=4\nMaxQueuesPerUser=6\nMaxJobsPerUser=2\n"

    def test_what_a_stranger_may(self):
        owner = self.raw(Job=("s", self.job("mine")[0]))
        owner.queue()
        group = owner.get("Group")
        token = self.job("other")[0]
        address = self.bus.address
        queue = {"Device": ("s", "pci:0000:01:00.0"), "Backend": ("s", "test")}

        def stranger():
            c = dbus.Connection(address)

            def refused(names, *args):
                try:
                    c.call(NAME, *args)
                except dbus.DBusError as e:
                    if e.name not in names:
                        raise
                    return
                raise AssertionError(f"{args} was allowed")

            denied = (ACCESS_DENIED, "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired")
            props = "org.freedesktop.DBus.Properties"
            refused((ERROR + "NotOwner",), PATH, MANAGER, "RegisterQueue", "oa{sv}", owner.path, queue)
            refused((ERROR + "NotOwner",), PATH, MANAGER, "UnregisterQueue", "t", owner.ids[0])
            refused((ERROR + "NotOwner",), PATH, MANAGER, "Hint", "ta{sv}", owner.ids[0], {"Priority": ("i", -1)})
            refused((ERROR + "NoSuchJob",), PATH, MANAGER, "RegisterClient", "ta{sv}", 0, {"Job": ("s", token)})
            refused((ERROR + "NoSuchJob",), PATH, MANAGER, "RegisterClient", "ta{sv}", 0, {"Job": ("s", "guess")})
            refused(denied, PATH, MANAGER, "SetGroup", "sta{sv}", group, 0, {"Priority": ("i", -1)})
            refused(denied, PATH, MANAGER, "SetGroup", "sta{sv}", "/unheard/of", 0, {"Priority": ("i", 1)})
            refused(denied, PATH, MANAGER, "ResetGroup", "st", group, 0)
            refused(denied, PATH, MANAGER, "SetPolicy", "ssta{sv}", "", "tree", 0, {})
            refused(denied, PATH, MANAGER, "Reload")
            refused(denied, PATH, MANAGER, "Dump")
            for member in ("Suspend", "Resume"):
                refused(denied, owner.path, CLIENT, member)
            refused(denied, owner.path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", -1)})
            refused(denied, owner.path, props, "Set", "ssv", CLIENT, "Priority", ("i", -1))
            refused(denied, PATH, MANAGER, "CreateJob", "sa{sv}utt", "j", {"Priority": ("i", 9)}, 0, 0, 0)
            mine = Raw(c)
            mine.queue()
            c.call(NAME, mine.path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", -1)})
            refused(denied, mine.path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", 1)})

        as_nobody(stranger)
        self.assertEqual((owner.get("Priority"), owner.get("Suspended")), (0, False))
        self.assert_gone(clients=1, queues=1)

    def test_quotas_are_a_users_own(self):
        address = self.bus.address

        def greedy():
            c = dbus.Connection(address)

            def refused(function, *args):
                try:
                    function(*args)
                except dbus.DBusError as e:
                    if e.name != ERROR + "QuotaExceeded":
                        raise
                    return
                raise AssertionError("no quota")

            clients = [Raw(c) for _ in range(3)]
            refused(Raw, c)
            for _ in range(4):
                clients[0].queue()
            refused(clients[0].queue)
            clients[1].queue()
            clients[1].queue()
            refused(clients[1].queue)
            clients[0].unregister()
            clients[1].queue()
            jobs = lambda: c.call(NAME, PATH, MANAGER, "CreateJob", "sa{sv}utt", "j", {}, 0, 0, 0)
            jobs()
            jobs()
            refused(jobs)
            clients[2].close()
            until(lambda: c.get(NAME, PATH, MANAGER, "NClients") == 2)
            Raw(c)

        for _ in range(2):  # the first round's quota is given back
            as_nobody(greedy)
            self.assert_gone()
        self.raw().queue()


if __name__ == "__main__":
    main()
