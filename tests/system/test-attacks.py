# SPDX-License-Identifier: LGPL-2.1-or-later
"""Attacks by ordinary users on what the service shares among them: its CPU time, and its file-descriptor store."""

import ctypes
import os
import pathlib
import pwd
import signal
import struct
import time
import unittest

from inside import CLIENT, SYSTEM_BUS, Case, drop_in, journal, run, show, until

ATTACKER = "/mnt/build/tests/lib/attacker"
HOSTILE, HONEST = "games", "daemon"
BANNED = "backup"  # banned for longer than a test
UID = pwd.getpwnam(HOSTILE).pw_uid
CROWD = 50000
SOCKET = "/run/xschedd-client/socket"
SCHED_GETATTR = 315 if os.uname().machine == "x86_64" else 275
CONNECTS = """
import socket, sys
refused = False
while not refused:
    with socket.socket(socket.AF_UNIX) as s:
        s.setblocking(False)
        try:
            s.connect(sys.argv[1])
        except BlockingIOError:
            pass
        except PermissionError:
            refused = True
print("ready", flush=True)
sys.stdin.read()
"""
CONFIG_PROBLEM = "6aabf4ab9f604647a02033d478817e63"


def cpu(pid, task=""):
    """The seconds of CPU that a process or one of its threads has used."""
    with open(f"/proc/{pid}{task}/schedstat", encoding="utf-8") as f:
        return int(f.read().split()[0]) / 1e9


def threads_of(pid):
    """The names of a process' threads by their numbers."""
    tasks = f"/proc/{pid}/task"
    return {int(t): pathlib.Path(tasks, t, "comm").read_text(encoding="utf-8").strip() for t in os.listdir(tasks)}


def slice_ns(tid):
    """A thread's time slice, or 0 where the kernel does not report it (before 6.12)."""
    attributes = ctypes.create_string_buffer(56)
    if ctypes.CDLL(None).syscall(SCHED_GETATTR, tid, attributes, 56, 0) < 0:
        raise OSError("sched_getattr")
    return struct.unpack_from("Q", attributes.raw, 24)[0]


class Attacks(Case):
    def attack(self, *args):
        return self.client(f"--uid={HOSTILE}", "--property=LimitNOFILE=16384", program=(ATTACKER, *map(str, args)))

    def honest(self):
        return self.client(f"--uid={HONEST}")

    def degraded(self):
        return " ".join(self.get("Degraded"))

    def share(self, attack):
        """The CPU time of the service's main thread, as a share of the attacker's CPU time or of the elapsed time,
        whichever is more. The service limits a user's cost by elapsed time, and on a busy machine the attacker gets
        less CPU time than that."""
        service, attacker = int(show("xsched", "MainPID")), int(show(attack.unit, "MainPID"))
        ours, theirs, since = cpu(service, f"/task/{service}"), cpu(attacker), time.monotonic()
        until(lambda: cpu(attacker) - theirs > 1, "the attacker to have a second of CPU")
        return (cpu(service, f"/task/{service}") - ours) / max(cpu(attacker) - theirs, time.monotonic() - since)

    def test_storm(self):
        client = self.honest()
        self.assertLess(self.share(self.attack("-c", 8, "storm")), 0.2)
        self.assertEqual(self.get("NClients"), 9, "a client was disconnected")
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))

    def test_crowd(self):
        client = self.honest()
        self.assertLess(self.share(self.attack("-n", CROWD, "wake")), 0.2)
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))

    def in_cgroups(self, *args):
        """Runs an attack in a cgroup that is delegated to the attacker. The attack often waits for locks in the kernel
        and so uses less CPU itself, which makes the service's share larger."""
        attack = self.client(
            f"--uid={HOSTILE}",
            "--property=Delegate=yes",
            "--property=LimitNOFILE=16384",
            program=(ATTACKER, *map(str, args)),
        )
        self.assertLess(self.share(attack), 0.6)

    def test_moves(self):
        """Each move is an event, and a look at it costs time by the number of processes."""
        client = self.honest()
        self.in_cgroups("-n", 3000, "move")
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))

    def test_attributes(self):
        """Each change costs time by the number of clients below, and its values are refused, which is logged."""
        since = journal("-n", "1")[-1]["__CURSOR"]
        client = self.honest()
        self.in_cgroups("-n", 4, "-c", 64, "-q", 4, "attribute")
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))
        said = journal("--after-cursor", since, "-u", "xsched.service", f"MESSAGE_ID={CONFIG_PROBLEM}")
        self.assertGreater(len(said), 0)
        self.assertLess(len(said), 500, "messages of one user")

    def test_descriptors(self):
        """The bus passes no file descriptors to the service, whatever message they come with: the thread that closes
        one might wait for ever."""
        client = self.honest()
        lingering = ("/usr/bin/python3", "-B", "/mnt/source/tests/lib/lingering.py", SYSTEM_BUS)
        self.client(f"--uid={HOSTILE}", program=lingering)
        self.assertEqual(self.get("NClients"), 1)
        self.assertNotIn("strangers", threads_of(int(show("xsched", "MainPID"))).values(), "the bus has passed one")
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))

    def test_descriptors_at_the_socket(self):
        """Descriptors that arrive faster than they can be closed are put aside. The service's hardened unit allows the
        calls that this takes."""
        n, pid = 120, int(show("xsched", "MainPID"))  # door.c: BACKLOG is 128
        program = ("/usr/bin/python3", "-B", "/mnt/source/tests/lib/lingering.py", SYSTEM_BUS, SOCKET, str(n))
        os.kill(pid, signal.SIGSTOP)
        try:
            self.client(f"--uid={HOSTILE}", program=program)
        finally:
            os.kill(pid, signal.SIGCONT)
        until(lambda: "aside" in threads_of(pid).values(), "some to be put aside")
        self.assertIn(self.honest().ask("begin 0"), ("tracked", "untracked"))

    def test_connects_on_and_on(self):
        """The kernel refuses this user, and no other, for a while. The hardened unit allows the service to write the
        socket's access control list."""
        uid = pwd.getpwnam(BANNED).pw_uid
        self.client(f"--uid={BANNED}", program=("/usr/bin/python3", "-c", CONNECTS, SOCKET))
        self.assertTrue(os.getxattr(SOCKET, "system.posix_acl_access"))
        self.assertIn(self.honest().ask("begin 0"), ("tracked", "untracked"))
        self.assertIn(
            f"User {uid} has connected to the socket too often", run("journalctl", "-b", "-u", "xsched.service")
        )
        his = self.client(f"--uid={BANNED}")  # a client over the bus
        self.assertIn(his.ask("begin 0"), ("tracked", "untracked"))
        self.assertEqual(self.get("UID", self.client_of(his), CLIENT), uid)

    def test_time_slices_of_the_threads_that_pass_messages(self):
        """They ask the kernel for a short time slice, which the hardened unit allows and Linux knows since 6.12."""
        self.honest()
        threads = threads_of(int(show("xsched", "MainPID")))
        slices = {name: slice_ns(tid) for tid, name in threads.items()}
        if slices["xschedd"] > 0:
            self.assertEqual((slices["relay"], slices["door"]), (100000, 100000))

    def test_full_store(self):
        """Systemd keeps 42 fds: two for the state, and five for each of eight clients; a user has a fourth of that."""
        drop_in("xsched.service", "store", "[Service]\nFileDescriptorStoreMax=42\n")
        self.addCleanup(
            lambda: (
                run("rm", "-r", "/run/systemd/system/xsched.service.d"),
                run("systemctl", "daemon-reload"),
                run("systemctl", "restart", "xsched"),
            )
        )
        run("systemctl", "restart", "xsched")
        self.attack("-c", 9, "-q", 0, "idle")
        client = self.honest()
        path, pid = self.client_of(client), int(show("xsched", "MainPID"))
        self.assertIn(f"clients of user {UID}: 2 are kept", self.degraded())

        run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "xsched")
        until(
            lambda: int(show("xsched", "MainPID")) not in (0, pid) and show("xsched", "ActiveState") == "active",
            "another process",
        )
        self.assertEqual(self.client_of(client), path, "the honest one was taken over")
        uids = [self.get("UID", c[-1], CLIENT) for c in self.call("ListClients")[0]]
        self.assertEqual(uids.count(UID), 2)
        self.assertIn(client.ask("begin 0"), ("tracked", "untracked"))


unittest.main(verbosity=2)
