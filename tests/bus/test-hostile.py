#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hostile clients: the service survives, stays correct for the others, and stays small."""

import os
import random
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from harness import *
from lingering import PEER, Lingering, send_along


def misbehave(function):
    """Runs function() for ever in a child that dies with the test. Returns its pid and a pipe that ends with it."""
    r, w = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            import ctypes

            ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
            if os.getppid() == parent:
                function(lambda: os.write(w, b"."))
        finally:
            os._exit(0)
    os.close(w)
    os.read(r, 1)  # the child has begun
    os.close(r)
    return pid


class Hostile(Case):
    config = "[Scheduler]\nStarveAfter=1h\n"

    def setUp(self):
        super().setUp()
        self.service_pid = self.service.pid
        _, self.low = self.tenant("low", Priority=-10)
        _, self.high = self.tenant("high", Priority=10)
        self.low.edge(1)

    def tearDown(self):
        self.assert_same_service(self.service_pid)
        super().tearDown()

    def the_others_are_scheduled(self, times=30):
        until(lambda: not self.low.held)
        for _ in range(times):
            self.high.edge(1)
            until(lambda: self.low.held, "the low one is held")
            self.assertFalse(self.high.held)
            self.high.edge(0)
            until(lambda: not self.low.held, "the low one is let go")

    def beside(self, function):
        pid = misbehave(function)
        try:
            self.the_others_are_scheduled()
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)

    def test_a_page_of_random_bytes(self):
        client, slot = self.tenant("scribbler", Priority=-20)
        more = [client.queue() for _ in range(15)]

        def scribble(begun):
            rng = random.Random(1)
            begun()
            while True:
                client.page[:] = rng.randbytes(PAGE_SIZE)
                for _ in range(200):
                    at = rng.randrange(4096 + 16 * SLOT_SIZE)
                    client.page[at : at + 8] = rng.randbytes(8)
                    client.wake_up()

        # With random bytes the client is mostly ready; as the lowest of all it delays no other.
        self.beside(scribble)
        for s in [slot, *more]:
            queue = next(
                q[4]
                for q in self.call("ListQueues")
                if self.get("Slot", q[4], QUEUE) == s.number and q[1] == self.get("Id", client.path, CLIENT)
            )
            for name in ("State", "Backlog", "Submitted", "Completed", "HeldUSec", "MeanUSec"):
                self.get(name, queue, QUEUE)
        self.call("Describe")
        client.close()
        until(lambda: self.get("NClients") == 2)

    def test_an_eventfd_that_never_rests(self):
        client, _ = self.tenant("flood")

        def flood(begun):
            begun()
            one = struct.pack("Q", 1)
            while True:
                os.write(client.wake, one)

        os.set_blocking(client.wake, True)
        self.beside(flood)

    def test_an_eventfd_with_all_bits_dirty(self):
        client, _ = self.tenant("dirty")

        def flood(begun):
            begun()
            while True:
                client.page[128 : 128 + 512] = b"\xff" * 512
                client.wake_up()

        self.beside(flood)

    def test_a_full_eventfd(self):
        # The service never reads the eventfd's count, and honest writes add one: a client that fills the counter is no
        # longer noticed, with no other harm.
        client, slot = self.tenant("full", Priority=-20)
        os.write(client.wake, struct.pack("Q", (1 << 64) - 2))
        slot.edge(1)
        self.the_others_are_scheduled()
        self.assertEqual(self.get("NClients"), 3)

    def test_a_wake_that_blocks(self):
        # The client owns the open file description, too: it can remove O_NONBLOCK, and read the service's events. It
        # may do both at any moment, also between the service's wake-up and its read, because work for others comes
        # between.
        client, _ = self.tenant("blocking")
        others = [self.tenant(f"other-{n}", Priority=-20)[0] for n in range(8)]
        os.set_blocking(client.lifeline, True)
        for n in range(2000):
            os.set_blocking(client.wake, False)
            for c in (*others, client):
                c.wake_up()
            for _ in range(n % 50):
                os.getppid()
            try:
                os.read(client.wake, 8)
            except BlockingIOError:
                pass
            os.set_blocking(client.wake, True)
            self.assertEqual(self.get("NClients"), 11, "the service answers")
        self.the_others_are_scheduled()

    def test_nothing_is_sent_to_a_lifeline(self):
        client, _ = self.tenant("chatter")
        s = socket.socket(fileno=os.dup(client.lifeline))
        with self.assertRaises(BrokenPipeError):
            s.send(b"x" * 2000)
        # A client that never reads its own eventfd: the service does not block on it.
        self.the_others_are_scheduled(60)
        s.close()

    def test_halves_of_a_lifeline(self):
        # The half towards the service is shut from the beginning; without the other half the service can send the
        # client nothing.
        client, slot = self.tenant("half", Priority=20)
        slot.edge(1)
        until(lambda: self.low.held)
        s = socket.socket(fileno=os.dup(client.lifeline))
        s.shutdown(socket.SHUT_WR)
        self.is_still_heard(slot)
        s.shutdown(socket.SHUT_RD)
        until(lambda: self.get("NClients") == 2)
        until(lambda: not self.low.held)

    def is_still_heard(self, slot):
        """Its edges are still read, and it holds the others."""
        slot.edge(0)
        until(lambda: not self.low.held)
        slot.edge(1)
        until(lambda: self.low.held)

    def test_edges_that_did_not_happen(self):
        client, slot = self.tenant("liar", Priority=-20)
        for outstanding in (1, UNTRACKED, UNTRACKED | 7, 0xFFFFFFFF, 0):
            slot.outstanding = outstanding
            slot.mean_ns, slot.boost, slot.ready_since_ns = 0xFFFFFFFF, 0xFFFFFFFF, (1 << 64) - 1
            slot.submitted = slot.completed = slot.held_ns = slot.busy_ns = (1 << 64) - 1
            slot.waiters, slot.launched_ns, slot.drained_ns = outstanding ^ 1, (1 << 64) - 1, (1 << 64) - 1
            slot.verdict, slot.threshold, slot.watch = 0xFFFFFFFF, 0xFFFFFFFF, 0
            for _ in range(20):
                for n in range(0, 4096, 7):
                    client.mark_dirty(n)
                client.wake_up()
            self.the_others_are_scheduled(3)
        self.assertEqual(self.get("NReady", self.call("ListDevices")[0][5], DEVICE), 1)

    def test_boost_does_not_raise_above_its_own(self):
        client, slot = self.tenant("boosted", Priority=-20)
        slot.boost = 1
        slot.edge(1)
        self.the_others_are_scheduled(5)
        self.high.edge(1)
        until(lambda: slot.held and self.low.held)

    def test_messages_that_are_none(self):
        rng = random.Random(2)
        good, _ = dbus.encode(
            dbus.CALL,
            7,
            {1: ("o", PATH), 2: ("s", MANAGER), 3: ("s", "RegisterClient"), 6: ("s", NAME)},
            "ta{sv}",
            (0, {"Job": ("s", "x")}),
        )
        for i in range(150):
            c = self.bus.connect()
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(4, len(data))] = rng.randrange(256)
            try:
                c.send_raw(bytes(data) if i % 3 else rng.randbytes(rng.randrange(1, 400)))
                c.send_raw(good)
            except dbus.Disconnected:
                pass
            c.close()
        self.the_others_are_scheduled(3)
        self.assertEqual(self.get("NClients"), 2)

    def test_no_group_is_outside_of_the_tree(self):
        """No path leads out of the caller's cgroup, or names another group in another form."""
        before = self.call("ListGroups")
        for name in (
            "/..",
            "/../..",
            "/../../etc",
            "/a/..",
            "/a/../b.service",
            "/./a",
            "/a/.",
            "//",
            "//a",
            "/a//b",
            "/a/",
            "..",
            ".",
            "../..",
            "a/../b.service",
            "/" + "x" * 256,
            "/x" * 3000,
        ):
            for flags in (0, 1):
                for settings in ({"Priority": ("i", 1)}, {"Weight": ("u", 5)}, {}):
                    with self.subTest(name=name[:20], flags=flags, settings=settings):
                        with self.assertRaisesRegex(
                            dbus.DBusError, "NoSuchGroup|InvalidArgs|NotStored|NotSupported|Quota"
                        ):
                            self.call("SetGroup", "sta{sv}", name, flags, settings)
            for member, signature, *args in (("GetGroup", "s"), ("ResetGroup", "st", 0)):
                with self.assertRaisesRegex(dbus.DBusError, "NoSuchGroup"):
                    self.call(member, signature, name, *args)
        self.assertEqual(self.call("ListGroups"), before)

    def test_wrong_signatures(self):
        calls = [
            ("RegisterClient", "s", "x"),
            ("RegisterClient", ""),
            ("RegisterClient", "ta{ss}", 0, {"a": "b"}),
            ("RegisterClient", "ta{sv}s", 0, {}, "more"),
            ("RegisterClient", "xa{sv}", -1, {}),
            ("RegisterQueue", "sa{sv}", "/", {}),
            ("RegisterQueue", "oa{sv}", "/", {}),
            ("UnregisterQueue", "u", 1),
            ("UnregisterQueue", "x", -1),
            ("Hint", "ta{si}", 0, {"Priority": 1}),
            ("GetClientByProcess", "i", 1),
            ("GetClientByProcess", "ut", 1 << 31, 0),
            ("GetClientByPID", "u", 0),
            ("GetClientByPID", "u", 0xFFFFFFFF),
            ("SetGroup", "sta{sv}", "x" * 100000, 0, {}),
            ("SetGroup", "sta{sv}", "../..", 1 << 63, {}),
            ("GetGroup", "s", ""),
            ("SetPolicy", "ssta{sv}", "x", "tree", 0, {"Concurrency": ("u", 0)}),
            ("SetPolicy", "ssta{sv}", "", "tree", 0, {"TimeSliceUSec": ("t", (1 << 64) - 1)}),
            ("HoldPriority", "sst", "", "", 1),
            ("NoSuchMethod", ""),
            ("Explain", "s", "x"),
        ]
        for member, signature, *args in calls:
            with self.subTest(member=member, args=args):
                with self.assertRaises(dbus.DBusError):
                    self.call(member, signature, *args)
        for member, signature, args in (
            ("GetClientByProcess", "ut", (1, 1)),
            ("Explain", "ut", (1, 1)),
            ("Explain", "h", (0,)),
            ("CreateJob", "sa{sv}utt", ("j", {}, 1, 1, 0)),
            ("CreateJob", "sa{sv}utt", ("j", {}, 1 << 31, 0, 0)),
            ("CreateJob", "sa{sv}ht", ("j", {}, 0, 0)),
        ):
            with self.assertRaises(dbus.DBusError):
                self.call(member, signature, *args)
        self.the_others_are_scheduled(3)

    def test_long_names_are_answered(self):
        """Names in error texts are cut at whole characters: otherwise the bus would refuse the answer."""
        path = self.raw().path
        for n in (63, 127, 255):
            name = "a" * n + "é" * 40
            for where, interface, member, *args in (
                (path, CLIENT, "Set", "ta{sv}", 0, {name: ("i", 1)}),
                (path, CLIENT, "Set", "ta{sv}", 0, {"Unset": ("as", [name])}),
                (PATH, MANAGER, "GetGroup", "s", name),
                (PATH, MANAGER, "SetGroup", "sta{sv}", name, 0, {}),
                (PATH, MANAGER, "ResetGroup", "st", name, 0),
                (PATH, MANAGER, "SuspendGroup", "st", name, 0),
                (PATH, MANAGER, "SetPolicy", "ssta{sv}", name, "", 0, {}),
                (PATH, MANAGER, "SetPolicy", "ssta{sv}", "", name, 0, {}),
                (PATH, MANAGER, "SetPolicy", "ssta{sv}", "", "", 0, {name: ("u", 1)}),
            ):
                with self.assertRaises(dbus.DBusError) as caught:
                    self.c.call(NAME, where, interface, member, *args)
                self.assertIn(name, caught.exception.text)

    def test_oversize(self):
        before = rss_kb(self.service.pid)
        big = "x" * (8 << 20)
        nested = ("v", 0)
        for _ in range(60):
            nested = ("v", nested) if nested[1] else ("u", 1)
        attempts = [
            ("RegisterClient", "ta{sv}", 0, {"ShimVersion": ("s", big)}),
            ("RegisterClient", "ta{sv}", 0, {"Job": ("s", big)}),
            ("RegisterClient", "ta{sv}", 0, {f"k{i}": ("u", i) for i in range(100000)}),
            ("RegisterClient", "ta{sv}", 0, {"Nested": nested}),
            ("SetGroup", "sta{sv}", big, 0, {"Priority": ("i", 1)}),
            ("CreateJob", "sa{sv}utt", big, {}, 0, 0, 0),
            ("HoldPriority", "sst", "", big, 0),
        ]
        for member, signature, *args in attempts:
            c = self.bus.connect()
            try:
                c.call(NAME, PATH, MANAGER, member, signature, *args)
            except (dbus.DBusError, dbus.Disconnected):
                pass
            c.close()
        self.the_others_are_scheduled(3)
        self.assert_not_grown(before, 24 << 10)
        for c in self.call("ListClients"):
            self.assertLess(len(self.get("ShimVersion", c[5], CLIENT)), 4096)

    def test_devices_that_are_none(self):
        """Clients choose the names of devices. Each device costs little, their number is bounded, and they end with
        their clients."""
        before = rss_kb(self.service.pid)
        client, _ = self.tenant("inventor")
        named = 1
        with self.assertRaises(dbus.DBusError) as refused:
            for named in range(1, 1000):
                client.queue(f"invented:{named}")
        self.assertEqual(refused.exception.name, ERROR + "QuotaExceeded")
        self.assertLess(named, 200)
        self.assert_not_grown(before, 8 << 10)
        client.close()
        until(lambda: self.get("NClients") == 2)
        self.assertLess(len(self.call("ListDevices")), 40)
        self.the_others_are_scheduled(5)

    def test_a_caller_that_never_reads(self):
        c = self.bus.connect()
        c.socket.setblocking(False)
        data, _ = dbus.encode(dbus.CALL, 9, {1: ("o", PATH), 2: ("s", MANAGER), 3: ("s", "Describe"), 6: ("s", NAME)})
        try:
            for _ in range(3000):
                c.socket.send(data)
        except (BlockingIOError, BrokenPipeError):
            pass
        self.the_others_are_scheduled(10)
        c.close()

    def test_descriptors_that_take_long_to_close(self):
        # Descriptors with any messages that the bus passes on. The service has the last copies; the bus itself closes
        # those of messages that it drops.
        with self.bus.connect() as c:
            messages = (dbus.CALL, PATH, "Ping"), (dbus.CALL, "/none", "NoSuch"), (dbus.SIGNAL, PATH, "Ping")
            for kind, path, member in messages:
                stranger = Lingering()
                self.addCleanup(stranger.end)
                send_along(c, [stranger.socket.fileno()] * 3, PEER, member, kind=kind, path=path)
                stranger.leave_to_others()
            self.the_others_are_scheduled()
            self.assertEqual(c.get(NAME, PATH, MANAGER, "NClients"), 2)

    def test_descriptors_in_vain(self):
        # No descriptor stays open, however many calls wait.
        n = len(os.listdir(f"/proc/{self.service_pid}/fd"))
        null = os.open("/dev/null", os.O_RDWR)
        with self.bus.connect() as c:
            c.get(NAME, PATH, MANAGER, "NClients")  # a caller that is not known yet may not have 200 calls waiting
            serials = [send_along(c, [null] * 16, PEER, "Ping") for _ in range(200)]
            for s in serials:
                c.reply(s)
            os.close(null)
            self.the_others_are_scheduled()
            until(lambda: len(os.listdir(f"/proc/{self.service_pid}/fd")) <= n, "all are closed")


if __name__ == "__main__":
    main()
