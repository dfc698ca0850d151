#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Users beside each other: one user's calls, however many and long, do not delay another's registration, answer or
verdict.

A bound is never a fixed time, but a multiple of the time of one of the attacker's calls in the same run; the attacker
has many more of them waiting."""

import json
import mmap
import os
import select
import signal
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

LIMITS_EXCEEDED = "org.freedesktop.DBus.Error.LimitsExceeded"
OBJECT_MANAGER, INTROSPECTABLE, PROPERTIES = (
    f"org.freedesktop.DBus.{i}" for i in ("ObjectManager", "Introspectable", "Properties")
)
UNKNOWN_WAITS = "Too many calls wait until the bus has said whose they are"
QUEUES_PER_CLIENT = fewer(1000)
CONNECTIONS, PIPELINE = 4, 60  # as many calls as may wait


def seconds(function):
    start = now_ns()
    function()
    return (now_ns() - start) / 1e9


class Attacker:
    """A child that runs the steps of function(self) as another user, each on request."""

    def __init__(self, address, function):
        self.address = address
        self.ours, theirs = socket.socketpair()
        self.told = 0
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                import ctypes

                self.ours.close()
                self.ours = theirs
                become_nobody()
                ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
                if os.getppid() == parent:
                    function(self)
                    self.done()
            finally:
                os._exit(0)
        theirs.close()

    # in the child

    def connect(self):
        return dbus.Connection(self.address)

    def done(self):
        """Reports the end of a step, and waits for the next request."""
        self.ours.sendall(b".")
        if not self.ours.recv(1):
            os._exit(0)

    # in the test

    def step(self):
        if self.told:
            self.ours.sendall(b".")
        self.told = 1
        if self.ours.recv(1) != b".":
            raise AssertionError("the attacker has failed")

    def go_on(self):
        self.ours.sendall(b".")

    def end(self):
        if self.pid:
            self.ours.close()
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


@unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
class Fairness(Case):
    config = "[Scheduler]\nStarveAfter=1h\n[Limits]\nMaxQueuesPerUser=20000\nMaxJobsPerUser=200\n"
    n_queues = 3 * QUEUES_PER_CLIENT

    def attacker(self, function):
        a = Attacker(self.bus.address, function)
        self.addCleanup(a.end)
        return a

    def crowd(self, a):
        """In the attacker: clients with many queues."""
        clients = []
        for n in range(self.n_queues // QUEUES_PER_CLIENT):
            clients.append(Raw(a.connect()))
            clients[-1].queues(QUEUES_PER_CLIENT, "pci:0000:09:00.0")
        return clients

    def ask_much(self, a, member="Describe", path=PATH, interface=MANAGER, arguments=()):
        """In the attacker, from the second step on: as many calls as may wait, and their answers, for ever."""
        clients = self.crowd(a)
        connections = [a.connect() for _ in range(CONNECTIONS)]
        a.done()
        ask = lambda c: c.send(NAME, path, interface, member, *arguments)
        pending = [[ask(c) for _ in range(PIPELINE)] for c in connections]
        a.ours.sendall(b".")
        while clients:
            for c, p in zip(connections, pending):
                try:
                    c.reply(p.pop(0), 1000)
                except dbus.DBusError as e:
                    if e.name != LIMITS_EXCEEDED:
                        raise
                p.append(ask(c))

    def beside(self, **what):
        """Begins the attack. Returns the time of one of its calls without others."""
        a = self.attacker(lambda a: self.ask_much(a, **what))
        a.step()
        until(lambda: self.get("NQueues") >= self.n_queues)
        path, interface, member = (
            what.get(k, v) for k, v in (("path", PATH), ("interface", MANAGER), ("member", "Describe"))
        )
        arguments = what.get("arguments", ())
        one = min(seconds(lambda: self.c.call(NAME, path, interface, member, *arguments)) for _ in range(3))
        a.step()
        return one

    def register(self):
        r = self.raw()
        r.queue()
        r.close()

    def check_registers(self, one):
        times = sorted(seconds(self.register) for _ in range(15))
        self.assertLess(times[len(times) // 2], 10 * one, f"{times}, one call {one}")

    def test_registrations_beside_descriptions(self):
        self.check_registers(self.beside())

    def test_registrations_beside_lists(self):
        self.check_registers(self.beside(member="ListQueues"))

    def test_registrations_beside_the_tree(self):
        self.check_registers(self.beside(interface=OBJECT_MANAGER, member="GetManagedObjects"))

    def test_registrations_beside_introspection(self):
        self.check_registers(self.beside(path=PATH + "/queue", interface=INTROSPECTABLE, member="Introspect"))

    def test_registrations_beside_shares(self):
        """Of as many groups as may be asked for, one of them changed."""
        for i in range(128):
            self.tenant(f"tenant-{i}")
        names = [g[0] for g in self.call("ListGroups") if g[0].startswith("job:")]
        self.assertEqual(len(names), 128)
        wanting = [("pci:0000:01:00.0", names)]
        self.check_registers(
            self.beside(member="ListShares", arguments=("a(sas)sta{sv}", wanting, names[0], 0, {"Weight": ("u", 5)}))
        )

    def test_an_object_costs_the_same_among_many(self):
        """The service finds a queue without a search among all others of its group."""

        def tree():
            n = len(self.c.call(NAME, PATH, OBJECT_MANAGER, "GetManagedObjects")[0])
            one = lambda: self.cpu_ns(lambda: self.c.call(NAME, PATH, OBJECT_MANAGER, "GetManagedObjects"))
            return min(one() for _ in range(10)) / n  # what else the machine does takes caches away now and then

        clients = [self.raw() for _ in range(4)]
        clients[0].queue()
        clients[0].queues(100, "pci:0000:09:00.0")
        few = tree()
        for r in clients:
            r.queues(700, "pci:0000:09:00.0")
        many = tree()
        self.assertLess(2 * many, 3 * few, "ns for two, and three")

    def test_long_answers_leave_room_for_others(self):
        """A long answer occupies the bus, and all other callers wait. So a user who calls beside others gets a bounded
        number of bytes per second."""
        a_second, at_once = 4_000_000, 1_000_000

        def attack(a):
            clients = self.crowd(a)
            a.done()
            c = a.connect()
            start, n, longest = now_ns(), 0, 0
            pending = [c.send(NAME, PATH, MANAGER, "Describe") for _ in range(8)]
            while not select.select([a.ours], [], [], 0)[0]:
                size = len(c.reply(pending.pop(0), 1000)[0])
                pending.append(c.send(NAME, PATH, MANAGER, "Describe"))
                n, longest = n + size, max(longest, size)
            assert clients
            assert n >= longest > 64 << 10, n
            a.ours.recv(1)
            a.ours.sendall(struct.pack("QQQ", n, longest, now_ns() - start))
            a.ours.recv(1)

        self.n_queues = QUEUES_PER_CLIENT
        a = self.attacker(attack)
        a.step()
        a.go_on()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.register()
        a.go_on()
        n, longest, took = struct.unpack("QQQ", a.ours.recv(24))
        self.assertLess(n, at_once + a_second * took / 1e9 + longest)

    def test_lists_beside_descriptions(self):
        one = self.beside()
        times = sorted(seconds(lambda: self.call("ListDevices")) for _ in range(9))
        self.assertLess(times[len(times) // 2], 20 * one, f"{times}, one call {one}")

    def check_verdicts(self, **what):
        """A verdict does not wait for answers in progress."""
        _, low = self.tenant("low", Priority=-10)
        _, high = self.tenant("high", Priority=10)
        low.edge(1)
        one = self.beside(**what)
        late = []
        for n in range(40):
            start = now_ns()
            high.edge(1)
            until(lambda: low.held, "the low one is held", nap=0)
            late.append((now_ns() - start) / 1e9)
            high.edge(0)
            until(lambda: not low.held, "the low one is let go", nap=0)
        late.sort()
        self.assertLess(late[len(late) // 2], one / 8, f"{late}, one call {one}")

    def test_verdicts_beside_descriptions(self):
        self.check_verdicts()

    def test_verdicts_beside_the_tree(self):
        self.check_verdicts(interface=OBJECT_MANAGER, member="GetManagedObjects")

    def test_first_calls_beside_first_calls(self):
        """A first call is answered in time, also beside all other users' first and longest calls."""

        def attack(a):
            connections = [a.connect() for _ in range(4)]
            a.done()
            for c, length in zip(connections, [60000] * 3 + [100]):
                for _ in range(60):
                    c.send(NAME, PATH, MANAGER, "GetGroup", "s", "x" * length)
                c.bus("GetId")  # the bus has passed it on

        a = self.attacker(attack)
        a.step()
        late = self.connect()
        self.service.freeze()
        a.step()
        serials = [late.send(NAME, PATH, MANAGER, "ListDevices")]
        serials.append(late.send(NAME, PATH, MANAGER, "RegisterClient", "ta{sv}", 0, {}))
        late.bus("GetId")
        self.service.thaw()
        for s in serials:
            late.reply(s)

    def test_registrations_beside_registrations(self):
        """A first call does not wait for many changing calls before it, either."""

        def attack(a):
            connections = [a.connect() for _ in range(8)]
            Raw(connections[0])
            a.done()
            while True:
                for c in connections:
                    for _ in range(250):
                        c.send(NAME, PATH, MANAGER, "Hint", "ta{sv}", 0, {"Priority": ("i", -1)})
                a.ours.send(b".", socket.MSG_DONTWAIT)
                for c in connections:
                    try:
                        c.call(NAME, PATH, MANAGER, "Hint", "ta{sv}", 0, {}, timeout=1000)
                    except dbus.DBusError as e:
                        if e.name != LIMITS_EXCEEDED:
                            raise

        def median():
            return sorted(seconds(self.register) for _ in range(15))[7]

        a = self.attacker(attack)
        a.step()
        a.step()
        rounds = []
        for _ in range(10):  # other load of the machine is not there each time
            os.kill(a.pid, signal.SIGSTOP)
            self.register()  # behind the waiting calls
            quiet = median()
            while select.select([a.ours], [], [], 0)[0]:
                a.ours.recv(4096)
            os.kill(a.pid, signal.SIGCONT)
            a.ours.recv(1)  # the attacker has as many calls waiting as it can
            rounds.append((median(), quiet))
            if rounds[-1][0] < 20 * quiet:
                return
        self.fail(f"with and without: {rounds}")

    def test_few_calls_wait_for_whose_they_are(self):
        """The bus's answer to who calls comes behind all calls that wait to be read."""
        with self.bus.connect() as c:
            self.service.freeze()
            serials = [c.send(NAME, PATH, MANAGER, "ListQueues") for _ in range(100)]
            c.bus("GetId")  # the bus has passed them on
            self.service.thaw()
            refused = []
            for s in serials:
                try:
                    c.reply(s)
                except dbus.DBusError as e:
                    refused.append((e.name, e.text))
        self.assertEqual(set(refused), {(LIMITS_EXCEEDED, UNKNOWN_WAITS)})
        self.assertTrue(100 - 64 <= len(refused) < 100 - 48, len(refused))

    def test_who_asks_too_much_is_refused(self):
        """Checks that calls are answered in order, each once."""

        def attack(a):
            self.crowd(a)
            c = a.connect()
            c.get(NAME, PATH, MANAGER, "NClients")  # the service knows the caller's user before the calls come
            serials = [c.send(NAME, PATH, MANAGER, "ListQueues") for _ in range(1000)]
            n = 0
            for s in serials:
                try:
                    c.answered(s, 1000)
                    n += 1
                except dbus.DBusError as e:
                    if e.name != LIMITS_EXCEEDED:
                        raise
            assert 256 <= n < 1000, n
            c.call(NAME, PATH, MANAGER, "ListQueues")

        a = self.attacker(attack)
        a.step()

    def test_who_does_not_read_costs_little(self):
        """Answers that their caller does not read are kept by the bus, within its limits, and not by the service."""

        def attack(a):
            self.crowd(a)
            a.done()
            connections = [a.connect() for _ in range(4)]
            for c in connections:
                for _ in range(60):
                    c.send(NAME, PATH, MANAGER, "ListQueues")
            a.done()

        a = self.attacker(attack)
        a.step()
        before = rss_kb(self.service.pid)
        a.step()
        for _ in range(20):
            self.register()
        self.assertGreater(len(self.call("ListQueues")), self.n_queues - 1)
        self.assert_not_grown(before, 32 << 10)
        self.assertEqual(self.get("NClients"), self.n_queues // QUEUES_PER_CLIENT)

    def test_the_tree_is_what_the_objects_say(self):
        """Answers that are made in steps equal sd-bus's answers for each object."""
        self.tenant("one", Weight=7)
        self.tenant("two", device="pci:0000:02:00.0")
        tree = self.c.call(NAME, PATH, OBJECT_MANAGER, "GetManagedObjects")[0]
        kinds = {"device": DEVICE, "group": GROUP, "client": CLIENT, "queue": QUEUE}
        found = set()
        for kind, interface in kinds.items():
            path = f"{PATH}/{kind}"
            xml = self.c.call(NAME, path, INTROSPECTABLE, "Introspect")[0]
            nodes = re.findall(r'<node name="([^"]+)"/>', xml)
            self.assertTrue(nodes, kind)
            self.assertIn("org.freedesktop.DBus.Peer", xml)
            for node in nodes:
                o = f"{path}/{node}"
                found.add(o)
                said = self.c.call(NAME, o, PROPERTIES, "GetAll", "s", interface)[0]
                for counts in {"IdleUSec"} & said.keys():  # values that change with time
                    self.assertLessEqual(tree[o][interface].pop(counts), said.pop(counts))
                self.assertEqual(tree[o][interface], said)
                self.assertEqual(set(tree[o]), {interface, PROPERTIES, INTROSPECTABLE, "org.freedesktop.DBus.Peer"})
                self.assertIn(interface, self.c.call(NAME, o, INTROSPECTABLE, "Introspect")[0])
        self.assertEqual(set(tree), found)
        self.assertEqual(len([o for o in tree if "/queue/" in o]), 2)
        everything = json.loads(self.call("Describe"))
        self.assertEqual(
            [len(everything[k]) for k in ("devices", "groups", "clients", "queues")],
            [len(self.call(m)) for m in ("ListDevices", "ListGroups", "ListClients", "ListQueues")],
        )
        self.assertLessEqual({"version", "degraded", "statistics"}, set(everything))

    def test_what_goes_while_it_is_listed(self):
        """A list made while queues come and go is well-formed, and has each queue that was there all the time once."""

        def attack(a):
            clients = self.crowd(a)
            a.done()
            c = a.connect()
            for _ in range(30):
                serial = c.send(NAME, PATH, MANAGER, "ListQueues")
                for r in clients[1:]:
                    r.unregister()
                    r.queue("pci:0000:09:00.0")
                ids = [q[0] for q in c.reply(serial)[0]]
                assert len(set(ids)) == len(ids)
                assert set(clients[0].ids) <= set(ids)
                assert len(json.loads(c.call(NAME, PATH, MANAGER, "Describe")[0])["queues"]) == self.n_queues

        a = self.attacker(attack)
        a.step()
        a.step()


if __name__ == "__main__":
    main()
