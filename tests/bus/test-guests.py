#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service's own socket: the calls that it answers, how it finds the caller's process and user, and how it ends
attacks."""

import array
import os
import re
import resource
import select
import signal
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import dbus
from guests import *
from harness import *


class Guests(GuestCase):
    # --- use ---

    def test_registers_while_the_bus_stands_still(self):
        low, high = self.tenant("low", Priority=-10)[1], self.tenant("high", Priority=10)[1]
        low.edge(1)
        self.bus.process.kill(signal.SIGSTOP)
        try:
            c = self.guest()
            r = self.raw(c)
            slot = r.queue()
            slot.edge(1)
            high.edge(1)
            until(lambda: slot.held and low.held, "both are held")
            high.edge(0)
            until(lambda: not slot.held, "the guest goes on")
            slot.edge(0)
            # A wish counts for the whole process, and all three clients are of this one: `high` would be no higher
            # after it.
            c.call(NAME, PATH, MANAGER, "Hint", "ta{sv}", 0, {"Priority": ("i", -5)})
            r.unregister()
        finally:
            self.bus.process.kill(signal.SIGCONT)
        self.assertEqual([self.of(r, p) for p in ("PID", "NQueues", "Priority")], [os.getpid(), 0, -5])

    def test_calls_may_follow_the_authentication_at_once(self):
        for address in ("unix:path=" + self.socket_path, self.bus.address):
            with dbus.Connection(address, hello=address == self.bus.address, ahead=True) as c:
                r = self.raw(c)
                r.queue()
                self.assertEqual(self.of(r, "NQueues"), 1)

    def test_a_registration_says_the_same_as_on_the_bus(self):
        there, here = self.raw(), self.raw(self.guest())
        for name in ("PID", "UID", "Command", "Group", "Priority", "Weight"):
            self.assertEqual(self.of(there, name), self.of(here, name), name)
        self.assertEqual(self.get("NClients"), 2)

    def test_nothing_else_is_answered(self):
        c = self.guest()
        r = self.raw(c)
        text = self.c.call(NAME, PATH, "org.freedesktop.DBus.Introspectable", "Introspect")[0]
        members = {}
        for interface, body in re.findall(r'<interface name="([^"]+)">(.*?)</interface>', text, re.S):
            for member, args in re.findall(r'<method name="([^"]+)">(.*?)</method>', body, re.S):
                taken = re.findall(r'type="([^"]+)" (?:name="[^"]*" )?direction="in"', args)
                members[interface, member] = "".join(taken)
        mine = {m for i, m in members if i == MANAGER}
        self.assertTrue(set(GUESTS) < mine and len(mine) > 20, mine)
        values = {"s": "x", "t": 0, "u": 1, "o": "/", "h": None, "a{sv}": {}, "v": ("i", 200)}
        for (interface, member), signature in members.items():
            if (interface, member) in [(MANAGER, m) for m in GUESTS] or "h" in signature:
                continue
            args = [values[t] if t in values else [] for t in dbus.split(signature)]  # an array of structs is empty
            with self.subTest(member=member):
                refused = (ACCESS_DENIED, "org.freedesktop.DBus.Error.UnknownInterface")
                self.assert_error(refused, c.call, NAME, PATH, interface, member, signature, *args)
        for path, interface, member, signature, args in (
            (r.path, CLIENT, "Set", "ta{sv}", (0, {"Priority": ("i", -5)})),
            (r.path, CLIENT, "Suspend", "", ()),
            (r.path, "org.freedesktop.DBus.Properties", "Set", "ssv", (CLIENT, "Priority", ("i", -5))),
            (r.path, "org.freedesktop.DBus.Properties", "Get", "ss", (CLIENT, "Priority")),
            (
                "/org/freedesktop/LogControl1",
                "org.freedesktop.DBus.Properties",
                "Set",
                "ssv",
                ("org.freedesktop.LogControl1", "LogLevel", ("s", "debug")),
            ),
            ("/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", "", ()),
            ("/", "org.freedesktop.DBus.Peer", "Ping", "", ()),
        ):
            with self.subTest(member=member):
                names = ("AccessDenied", "UnknownInterface", "UnknownMethod", "UnknownObject")
                e = self.assert_error(
                    tuple("org.freedesktop.DBus.Error." + n for n in names),
                    c.call,
                    NAME,
                    path,
                    interface,
                    member,
                    signature,
                    *args,
                )
                self.assertTrue(e.text)
        self.assertEqual(self.of(r, "Priority"), 0)

    def test_wrong_arguments_are_refused(self):
        c = self.guest()
        r = self.raw(c)
        for member, signature, *args in (
            ("RegisterClient", "t", 0),
            ("RegisterClient", "ta{sv}", 1, {}),
            ("RegisterQueue", "oa{sv}", r.path, {}),
            ("RegisterQueue", "s", "x"),
            ("UnregisterQueue", "u", 1),
            ("Hint", "ta{sv}s", 0, {}, "x"),
        ):
            with self.subTest(member=member, signature=signature):
                self.assert_error(INVALID_ARGS, c.call, NAME, PATH, MANAGER, member, signature, *args)
        self.assert_error(ERROR + "NoSuchQueue", c.call, NAME, PATH, MANAGER, "UnregisterQueue", "t", 99)

    def test_many_calls_at_once_are_answered_in_their_order(self):
        r = self.raw(self.guest())
        slots = r.queues(300)
        self.assertEqual(sorted(r.ids), r.ids)
        self.assertEqual((len(slots), self.of(r, "NQueues")), (300, 300))
        for _ in range(300):
            r.unregister()
        self.assertEqual(self.of(r, "NQueues"), 0)

    # --- identity ---

    def test_another_process_is_not_the_client(self):
        r = self.raw()

        def other():
            c = dbus.Connection("unix:path=" + self.socket_path, hello=False)
            self.assert_error(
                ERROR + "NotOwner", c.call, NAME, PATH, MANAGER, "RegisterQueue", "oa{sv}", r.path, WANTED
            )

        in_child(other)

    def test_the_same_process_is_the_client_by_any_connection(self):
        r = self.raw()
        r.connection = self.guest()
        r.queue()
        other = self.raw(self.guest())
        other.connection = self.guest()
        other.queue()
        other.connection = self.c
        other.queue()
        self.assertEqual([self.of(x, "NQueues") for x in (r, other)], [1, 2])

    def test_a_socket_of_who_is_gone_registers_nobody(self):
        ours, theirs = socket.socketpair()

        def maker():
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.connect(self.socket_path)
            s.sendall(AUTH)
            got = b""
            while b"AGREE_UNIX_FD\r\n" not in got:
                got += s.recv(4096)
            theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [s.fileno()]))])

        in_child(maker)
        _, aux, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
        with socket.socket(fileno=array.array("i", aux[0][2])[0]) as s:
            s.settimeout(DEADLINE)
            s.sendall(call("RegisterClient", "ta{sv}", (0, {})))
            self.assertIn(ACCESS_DENIED.encode(), s.recv(4096))
        ours.close()
        theirs.close()
        self.assertEqual(self.get("NClients"), 0)

    def test_what_a_guest_says_of_itself_does_not_count(self):
        s = self.plain()
        s.sendall(b"\0AUTH EXTERNAL " + b"4242".hex().encode() + b"\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
        s.sendall(call("RegisterClient", "ta{sv}", (0, {})))
        until(lambda: self.get("NClients") == 1, "the guest registers")
        path = self.call("ListClients")[0][5]
        self.assertEqual((self.get("UID", path, CLIENT), self.get("PID", path, CLIENT)), (os.getuid(), os.getpid()))

    def test_a_guest_is_nobody_else(self):
        """Only the bus may fill in the header's sender field."""
        r = self.raw()
        of_bus = self.c.name
        s = self.plain()
        fields = {1: ("o", PATH), 2: ("s", MANAGER), 3: ("s", "RegisterQueue"), 7: ("s", of_bus)}
        s.sendall(AUTH + dbus.encode(1, 7, fields, "oa{sv}", (r.path, WANTED))[0])
        answer = b""
        while b"AccessDenied" not in answer:
            part = s.recv(65536)
            self.assertTrue(part, answer)
            answer += part
        self.assertEqual(self.of(r, "NQueues"), 0)

    # --- attacks ---

    def test_who_never_authenticates_is_hung_up_on(self):
        before = self.n_fds()
        guests = [self.plain() for _ in range(6)]
        begun = (b"\0", b"\0AUTH", b"\0AUTH EXTERNAL\r\n", AUTH[:-7], b"\0AUTH FOO\r\nAUTH\r\n")
        for s, said in zip(guests[1:], begun):
            s.sendall(said)
        for s in guests:
            self.assert_hung_up(s)
        self.assert_fds(before)
        self.raw(self.guest())

    def test_what_is_no_message_ends_the_connection(self):
        before = self.n_fds()
        for said in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0" + b"x" * 5000,
            b"\0" + b"AUTH\r\n" * 1000,
            AUTH + b"\xff" * 64,
            AUTH + header(body=1 << 27),
            AUTH + header(body=0xFFFFFFF8),
            AUTH + header(fields=0xFFFFFFFF),
            AUTH + header(body=MESSAGE_MAX),
            AUTH + struct.pack(">cBBBIII", b"B", 1, 0, 1, 1 << 30, 1, 0),
            AUTH + header() + b"\0" * 64,
        ):
            with self.subTest(said=said[:80]):
                s = self.plain()
                try:
                    s.sendall(said)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                self.assert_hung_up(s)
        self.assert_fds(before)
        self.raw(self.guest())

    def test_half_a_message_costs_nothing(self):
        before, n = rss_kb(self.pid), 100
        half = []
        for _ in range(n):
            s = self.plain()
            s.sendall(AUTH + header(body=MESSAGE_MAX - 1024) + b"x" * (MESSAGE_MAX - 2048))
            half.append(s)
        r = self.raw(self.guest())
        r.queue()
        self.assert_not_grown(before, 2048)
        for s in half:
            self.assertFalse(select.select([s], [], [], 0)[0] and not s.recv(4096), "hung up")

    def test_an_answer_that_is_not_read_is_all_there_is(self):
        c = self.guest()
        r = self.raw(c)
        data = call("UnregisterQueue", "t", (99,))
        before = rss_kb(self.pid)
        c.socket.setblocking(False)
        sent, quiet = 0, 0
        while quiet < 20 and sent < 64 << 20:  # a guest that does not read cannot write for ever
            try:
                sent += c.socket.send(data * 100)
                quiet = 0
            except BlockingIOError:
                quiet += not select.select([], [c.socket], [], 0.05)[1]
            except (BrokenPipeError, ConnectionResetError):
                break
        self.assertLess(sent, 64 << 20)
        self.assert_not_grown(before, 4096)
        other = self.raw(self.guest())
        other.queue()
        p = select.poll()
        p.register(c.socket, select.POLLRDHUP)
        self.assertTrue(p.poll(DEADLINE * 1000), "it is hung up on")
        r.connection = self.c
        r.queue()

    def test_who_makes_the_kernel_slow_is_cut_off(self):
        """A message to a guest wakes all waiters at its end: the deciding thread never sends it."""
        self.assert_cut_off(n_crowds=200, n_copies=4000)

    def test_who_makes_it_a_little_slow_all_the_time_is_cut_off(self):
        self.assert_cut_off(n_crowds=10, n_copies=4000)

    def assert_cut_off(self, n_crowds, n_copies):
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
                attacker()
                c, other = [dbus.Connection("unix:path=" + self.socket_path, hello=False) for _ in range(2)]
                data = call("UnregisterQueue", "t", (99,))
                copies = [os.dup(c.socket.fileno()) for _ in range(n_copies)]
                crowds = [select.epoll() for _ in range(n_crowds)]
                for crowd in crowds:
                    for fd in copies:
                        crowd.register(fd, select.EPOLLIN | select.EPOLLOUT)
                os.write(w, b"x")
                try:
                    while True:
                        c.socket.sendall(data)
                        if not c.socket.recv(4096):
                            break
                except OSError:
                    pass
                p = select.poll()
                p.register(other.socket, select.POLLRDHUP)
                os.write(w, b"y" if p.poll(DEADLINE * 1000) else b"n")
            finally:
                os._exit(0)
        self.assertEqual(os.read(r, 1), b"x")
        os.close(w)
        cpu = self.cpu_ns(lambda: self.assertEqual(os.read(r, 1), b"y"))
        os.waitpid(pid, 0)
        os.close(r)
        self.assertLess(cpu, 1e9)
        self.raw(self.guest()).queue()

    def test_many_calls_of_one_user_keep_nobody_waiting(self):
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        r, w = os.pipe()
        pids = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                try:
                    attacker()
                    c = dbus.Connection("unix:path=" + self.socket_path, hello=False)
                    data = call("RegisterClient", "ta{sv}", (0, {}))
                    os.write(w, b"x")
                    while True:
                        c.socket.sendall(data * 8)
                        c.socket.recv(65536)
                finally:
                    os._exit(0)
            pids.append(pid)
        for _ in pids:
            os.read(r, 1)
        try:
            for _ in range(20):
                x = self.raw(self.guest())
                x.queue()
                x.close()
            for _ in range(20):
                x = self.raw()
                x.queue()
                x.close()
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(r)
            os.close(w)

    def test_who_connects_on_and_on_cannot_after_a_while(self):
        """All connections wait in one queue of the kernel. A user who fills it is refused there, and no other user."""
        self.needs_lists()
        r, w = os.pipe()
        back, go_on = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                attacker()
                banned = False
                while not banned:
                    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                        s.setblocking(False)
                        try:
                            s.connect(self.socket_path)
                        except BlockingIOError:
                            pass
                        except PermissionError:
                            banned = True
                os.write(w, b"x")
                os.read(back, 1)
                while banned:  # only another try shows the ban's end
                    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                        try:
                            s.connect(self.socket_path)
                            banned = False
                        except PermissionError:
                            time.sleep(0.01)
                os.write(w, b"y")
            finally:
                os._exit(1)
        os.close(w)
        self.assertEqual(os.read(r, 1), b"x")

        def other():
            os.setgroups([])
            os.setgid(65533)
            os.setuid(65533)
            dbus.Connection("unix:path=" + self.socket_path, hello=False).close()

        in_child(other)
        self.raw(self.guest()).queue()
        self.assertIn("User 65534 has connected to the socket too often", self.service.messages())
        os.write(go_on, b"x")
        self.assertEqual(os.read(r, 1), b"y")
        os.waitpid(pid, 0)
        for fd in (r, back, go_on):
            os.close(fd)
        self.assertRaises(OSError, os.getxattr, self.socket_path, "system.posix_acl_access")

    def needs_lists(self):
        """Returns an access control list in the kernel's form, which allows everybody and names one user."""
        entries = ((1, 6, -1), (2, 6, 65533), (4, 6, -1), (16, 6, -1), (32, 6, -1))
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        try:
            os.setxattr(self.service.config, "system.posix_acl_access", acl)
        except OSError as e:
            self.skipTest(f"no access control lists: {e}")
        return acl

    def test_a_list_that_an_administrator_made_is_left_alone(self):
        made = self.needs_lists()
        os.setxattr(self.socket_path, "system.posix_acl_access", made)

        def attack():
            become_nobody()
            for _ in range(8000):
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                    s.connect(self.socket_path)

        in_child(attack)
        self.assertEqual(os.getxattr(self.socket_path, "system.posix_acl_access"), made)
        self.raw(self.guest()).queue()

    # --- limits and restarts ---

    def test_the_socket_goes_with_the_service(self):
        self.assertEqual(os.stat(self.socket_path).st_mode & 0o777, 0o666)
        c = self.guest()
        self.service.stop()
        self.assertFalse(os.path.exists(self.socket_path))
        self.assert_hung_up(c.socket)
        self.service.start()
        self.c = self.connect()
        self.raw(self.guest()).queue()

    def test_a_killed_service_is_followed_by_another(self):
        self.service.kill()
        self.assertTrue(os.path.exists(self.socket_path))
        self.service.start()
        self.c = self.connect()
        self.raw(self.guest()).queue()

    def test_nobody_takes_the_socket_of_another_service(self):
        directory = tempfile.mkdtemp(prefix="xsched-test-")
        self.addCleanup(shutil.rmtree, directory)
        bus = Bus(directory)
        self.addCleanup(bus.end)
        other = Service(bus, directory, options=self.options)
        self.addCleanup(other.end)
        self.assertIn("Failed to listen", other.messages())
        other.stop()
        self.raw(self.guest()).queue()
        self.assertEqual(self.get("NClients"), 1)


class Crowds(Guests):
    """A service with a low limit of descriptors, and so with few places."""

    command = ("prlimit", "--nofile=2048", "--")
    config = ""
    PLACES = 2048 // 4 // 4

    def test_a_crowd_of_one_user_leaves_room_for_others(self):
        if os.getuid() != 0:
            self.skipTest("only root has other users")
        n, before = 10000, self.n_fds()
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                attacker()
                held, hung_up = {}, select.poll()
                for i in range(n):
                    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    try:
                        s.connect(self.socket_path)
                    except PermissionError:  # the flood is refused; on a slow machine it may not be
                        if i < n // 2:
                            os.write(w, b"x")
                        break
                    held[s.fileno()] = s
                    hung_up.register(s, select.POLLRDHUP)
                    while len(held) > self.PLACES + 100:
                        for fd, _ in hung_up.poll():
                            hung_up.unregister(fd)
                            held.pop(fd).close()
                    if i == n // 2:
                        os.write(w, b"x")
                while len(held) > self.PLACES:
                    for fd, _ in hung_up.poll():
                        hung_up.unregister(fd)
                        held.pop(fd).close()
                os.write(w, b"%d" % len(held))
                signal.pause()
            finally:
                os._exit(1)
        os.close(w)
        self.assertEqual(os.read(r, 1), b"x")
        for _ in range(10):
            x = self.raw(self.guest())
            x.queue()
            # Four descriptors for each guest, and five for each client, as for ours. Those that wait to be closed add
            # to that for a moment, and are bounded as well (ENDS_HERE_MAX).
            kept = 4 * (self.PLACES // 8 + 10) + 60
            self.assertLess(self.n_fds() - before, kept + 64)
            until(lambda kept=kept: self.n_fds() - before < kept, "what waits to be closed is closed")
        left = int(os.read(r, 100))
        self.assertLessEqual(left, self.PLACES)
        self.raw(self.guest()).queue()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(r)


class Restart(Guests):
    """The kept state of clients that registered by this socket."""

    keep = True

    def test_a_client_goes_on_over_a_restart(self):
        r = self.raw(self.guest())
        r.queue()
        self.all_kept()
        self.service.kill()
        self.service.start()
        self.c = self.connect()
        self.assertEqual(r.connection.socket.recv(1), b"")
        self.assertEqual(self.get("NClients"), 1)
        r.connection = self.guest()  # has the same name as a guest of the former service
        r.queue()
        self.assertEqual(self.get("NQueues"), 2)
        other = self.raw(self.guest())

        def trespass():
            c = dbus.Connection("unix:path=" + self.socket_path, hello=False)
            for path in (r.path, other.path):
                self.assert_error(
                    ERROR + "NotOwner", c.call, NAME, PATH, MANAGER, "RegisterQueue", "oa{sv}", path, WANTED
                )

        in_child(trespass)


def load_tests(loader, tests, pattern):
    """Each class loads only its own tests."""
    suite = unittest.TestSuite()
    for case in (Guests, Crowds, Restart):
        suite.addTests(case(name) for name in sorted(vars(case)) if name.startswith("test_"))
    return suite


if __name__ == "__main__":
    main()
