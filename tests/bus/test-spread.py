#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Changes of thousands of queues' settings in progress: the order of answers, calls that need not wait, and events in
between. Also registrations that end midway. Times are compared with those of the same run."""

import json
import os
import signal
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *

CLIENTS, QUEUES = 6, fewer(1000)


def median(times):
    return sorted(times)[len(times) // 2]


def seconds(function):
    start = now_ns()
    function()
    return (now_ns() - start) / 1e9


def held_after(low, high):
    """Seconds from an edge of the high queue to the verdict that holds the low one."""
    start = now_ns()
    high.edge(1)
    until(lambda: low.held, "the low one is held", nap=0)
    took = (now_ns() - start) / 1e9
    high.edge(0)
    until(lambda: not low.held, "the low one is let go", nap=0)
    return took


class Crowd:
    """A child of another user with a job of many clients and queues; it executes requests."""

    def __init__(self, address):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
                    self.run(address)
            finally:
                os._exit(0)
        theirs.close()
        self.group, self.name = self.answer().split()

    def run(self, address):
        self.c = dbus.Connection(address)
        token, path = self.c.call(NAME, PATH, MANAGER, "CreateJob", "sa{sv}utt", "crowd", {}, 0, 0, 0)
        self.clients = [Raw(self.c, {"Job": ("s", token)}) for _ in range(CLIENTS)]
        for r in self.clients:
            r.queues(QUEUES, "pci:0000:09:00.0")
        self.ours.sendall(f"{path} {self.c.name}".encode())
        while word := self.ours.recv(64):
            self.ours.sendall(str(getattr(self, word.decode())(path)).encode())

    # in the child

    def send(self, path):
        self.c.send(NAME, path, GROUP, "Set", "ta{sv}", 0, {"Priority": ("i", -7)})
        self.c.bus("GetId")  # the bus has passed the call on

    def come_and_go(self, path):
        """Queues end and are made, and a client hangs up."""
        for r in self.clients[1:]:
            for _ in range(40):
                r.unregister()
                r.queue("pci:0000:09:00.0")
        self.clients.pop(0).close()

    # in the test

    def tell(self, word):
        self.ours.sendall(word.encode())

    def answer(self):
        data = self.ours.recv(256).decode()
        if not data:
            raise AssertionError("the other user's process has failed")
        return data

    def ask(self, word):
        self.tell(word)
        return self.answer()

    def end(self):
        self.ours.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0


class Spread(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def setUp(self):
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        super().setUp()

    def crowd(self):
        crowd = Crowd(self.bus.address)
        self.addCleanup(crowd.end)
        return crowd

    def said(self, name="Priority"):
        """The property of all queues."""
        queues = json.loads(self.call("Describe"))["queues"]
        return len(queues), {q[name.lower()] for q in queues}

    def test_who_has_an_answer_reads_what_was_set(self):
        crowd = self.crowd()
        set_ = lambda key, type_, value: self.c.call(
            NAME, crowd.group, GROUP, "Set", "ta{sv}", 0, {key: (type_, value)}
        )
        n = CLIENTS * QUEUES
        set_("Priority", "i", -20)
        self.assertEqual(self.said(), (n, {-20}))
        self.c.set(NAME, crowd.group, GROUP, "Priority", "i", 30)
        self.assertEqual(self.said(), (n, {30}))
        name = self.get("Name", crowd.group, GROUP)
        self.call("SetGroup", "sta{sv}", name, 0, {"Priority": ("i", 40)})
        self.assertEqual(self.said(), (n, {40}))
        self.call("ResetGroup", "st", name, 0)
        self.assertEqual(self.said(), (n, {0}))
        client = self.call("ListClients")[-1][5]
        self.c.set(NAME, client, CLIENT, "Priority", "i", 50)
        self.assertEqual(self.said(), (n, {0, 50}))

    def test_a_setter_that_fails_sets_nothing(self):
        path = self.raw().path
        self.assert_error(ERROR + "InvalidSetting", self.c.set, NAME, path, CLIENT, "Priority", "i", 100000)
        self.assert_error(INVALID_ARGS, self.c.set, NAME, path, CLIENT, "Priority", "s", "x")
        self.assertEqual(self.get("Priority", path, CLIENT), 0)

    def answers(self, sent, names):
        """The order in which these connections get the service's next answers, if `sent` is called while it is
        stopped."""
        monitor = self.connect()
        monitor.monitor("type='method_return'")
        self.service.freeze()
        sent().bus("GetId")
        self.service.thaw()
        owner = self.c.bus("GetNameOwner", "s", NAME)
        order = []
        while len(order) < len(names):
            m = monitor.next_message()
            if m.type == 2 and m.sender == owner and m.destination in names:
                order.append(names[m.destination])
        return order

    def test_a_registration_does_not_wait_for_it(self):
        crowd, other = self.crowd(), self.connect()
        other.call(NAME, PATH, MANAGER, "ListDevices")  # the service knows it

        def sent():
            crowd.ask("send")
            other.send(NAME, PATH, MANAGER, "RegisterClient", "ta{sv}", 0, {})
            return other

        self.assertEqual(self.answers(sent, {crowd.name: "set", other.name: "registered"}), ["registered", "set"])

    def test_the_later_one_wins(self):
        """Root changes settings while the user's own change is in progress, and both count for their keys. Both changes
        take many steps by turns; the time of a queue decides which ends first."""
        crowd, other = self.crowd(), self.connect()
        client = self.call("ListClients")[-1][5]
        other.call(NAME, PATH, MANAGER, "ListDevices")

        def sent():
            crowd.ask("send")
            other.send(NAME, client, CLIENT, "Set", "ta{sv}", 0, {"Weight": ("u", 50)})
            other.send(NAME, crowd.group, GROUP, "Set", "ta{sv}", 0, {"Weight": ("u", 60), "Threshold": ("u", 3)})
            return other

        self.answers(sent, {crowd.name: "theirs", other.name: "ours"})
        self.assertEqual(self.get("Weight", client, CLIENT), 50)
        until(lambda: self.get("Threshold", crowd.group, GROUP) == 3)
        other.call(NAME, PATH, MANAGER, "ListDevices")  # after both changes
        n = CLIENTS * QUEUES
        self.assertEqual(self.said(), (n, {-7}))
        self.assertEqual(self.said("Weight"), (n, {50, 60}))
        self.assertEqual(self.said("Threshold"), (n, {3}))

    def test_verdicts_beside_it(self):
        """An edge waits only for a part of a change of all settings: beside changes it takes its usual time, and at
        most a sixteenth of one change more."""
        crowd, other = self.crowd(), self.connect()
        _, low = self.tenant("low", Priority=-10)
        _, high = self.tenant("high", Priority=10)
        low.edge(1)
        set_ = lambda n: other.send(NAME, crowd.group, GROUP, "Set", "ta{sv}", 0, {"Priority": ("i", -n)})
        one = min(seconds(lambda n=n: other.reply(set_(n))) for n in range(1, 10))
        quiet = [held_after(low, high) for _ in range(200)]
        late = []
        while len(late) < 50:  # one pause of the machine can outlast all changes
            last = [set_(n) for n in range(60)][-1]
            while last not in other.replies:
                late.append(held_after(low, high))
                while select.select([other.socket], [], [], 0)[0]:
                    other._receive(time.monotonic() + DEADLINE)
                while m := other._parse():
                    other.replies[m.reply_to] = m
        self.assertLess(median(late), median(quiet) + one / 16, f"{sorted(late)}, one call {one}")

    def test_what_goes_and_comes_meanwhile(self):
        crowd = self.crowd()
        crowd.tell("come_and_go")
        serials = [
            self.c.send(NAME, crowd.group, GROUP, "Set", "ta{sv}", 0, {"Priority": ("i", -n)}) for n in range(1, 41)
        ]
        for s in serials:
            self.c.reply(s, 60)
        crowd.answer()
        until(lambda: self.get("NClients") == CLIENTS - 1)
        self.assertEqual(self.said(), ((CLIENTS - 1) * QUEUES, {-40}))
        crowd.end()
        self.assert_gone()


class Dies(Case):
    keep = True
    config = "[Scheduler]\nStarveAfter=1h\n[Limits]\nMaxClientsPerUser=8\n"

    def test_the_service_while_settings_are_on_their_way(self):
        r = self.raw()
        r.queues(QUEUES)
        self.all_kept()
        told = self.connect()
        told.match(f"type='signal',path='{r.path}'")
        for n in range(1, 6):
            self.c.send(NAME, r.path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", -n)})
            told.signal("PropertiesChanged")  # the setting counts, and the queues follow
            self.service.kill()
            self.service.start()
            self.assertFalse(r.hung_up())
            self.assertEqual([q["priority"] for q in json.loads(self.call("Describe"))["queues"]], [-n] * QUEUES)

    def test_who_registers_leaves_nothing(self):
        """Killed at any point between the call and the answer: no client, no place in a quota, no descriptor, nothing
        in the store."""
        self.raw().close()
        self.assert_gone()
        until(lambda: all(n == "manager-state" for n in self.service.store.names()), "nothing is kept")
        fds, names = len(os.listdir(f"/proc/{self.service.pid}/fd")), len(self.c.bus("ListNames"))
        for n in range(40):
            pid = os.fork()
            if pid == 0:
                try:
                    c = dbus.Connection(self.bus.address)
                    c.send(NAME, PATH, MANAGER, "RegisterClient", "ta{sv}", 0, {})
                    if n % 2:
                        c._receive(time.monotonic() + DEADLINE)  # the answer or a part of it
                finally:
                    os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(pid, 0)
        until(lambda: len(self.c.bus("ListNames")) <= names, "their connections end")
        self.assert_gone()
        until(lambda: all(n == "manager-state" for n in self.service.store.names()), "nothing is kept")
        until(lambda: len(os.listdir(f"/proc/{self.service.pid}/fd")) <= fds, "no descriptor is left")
        clients = [self.raw() for _ in range(8)]
        self.assertEqual(self.get("NClients"), len(clients))
        self.assert_error(ERROR + "QuotaExceeded", self.raw)


if __name__ == "__main__":
    main()
