# SPDX-License-Identifier: LGPL-2.1-or-later
"""All uids that /etc/subuid gives a user count as one user: in quotas, in calls that wait for polkit, and in the
journal."""

import os
import signal
import subprocess
import time

import inside
from inside import Case, journal, run, show, until, write

SUBUIDS = (100000, 100001, 131072, 165535)
SUBUID = "/etc/subuid"
LIMITS = {"MaxClientsPerUser": 6, "MaxQueuesPerUser": 9, "MaxJobsPerUser": 3, "MaxDevicesPerUser": 4}
SETTINGS = "85404cfde15345b18f5adefc89d27115"

# Answers each line "WHAT N" with a line: it tries to get N of WHAT, and prints how many it got.
WORKER = """
import sys
sys.path.insert(0, "/mnt/source/tests/lib")
import dbus
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
bus = dbus.Connection(sys.argv[1])
kept = []
def take(n, member, signature, *args):
    got = 0
    for i in range(n):
        try:
            kept.append(bus.call(NAME, PATH, NAME, member, signature, *[a(i) if callable(a) else a for a in args]))
            got += 1
        except dbus.DBusError as e:
            if not e.name.endswith("QuotaExceeded"):
                raise
    return got
def clients(n):
    return take(n, "RegisterClient", "ta{sv}", 0, {})
def queues(n):
    device = {"Device": ("s", "pci:0000:01:00.0"), "Backend": ("s", "null")}
    return take(n, "RegisterQueue", "oa{sv}", kept[0][0], device)
def devices(n):
    device = lambda i: {"Device": ("s", f"invented:{sys.argv[2]}-{i}"), "Backend": ("s", "null")}
    return take(n, "RegisterQueue", "oa{sv}", kept[0][0], device)
def holds(n):
    return take(n, "HoldPriority", "sst", "batch", "test", 0)
def sets(n):
    for i in range(n):
        bus.set(NAME, kept[0][0], NAME + ".Client", "Weight", "u", 99 - i % 2)
    return n
def burst(n):
    global sent
    value = (NAME + ".Client", "Weight", ("u", 90))
    sent = [bus.send(NAME, kept[0][0], "org.freedesktop.DBus.Properties", "Set", "ssv", *value) for _ in range(n)]
    bus.get(NAME, kept[0][0], NAME + ".Client", "Weight")  # is answered after the service has got all of these
    return n
def refused(_):
    n = 0
    for serial in sent:
        try:
            bus.reply(serial)
        except dbus.DBusError as e:
            if not e.name.endswith("LimitsExceeded"):
                raise
            n += 1
    return n
print("ready", flush=True)
for line in sys.stdin:
    what, n = line.split()
    print(globals()[what](int(n)), flush=True)
"""


class Worker:
    def __init__(self, uid):
        self.process = subprocess.Popen(
            [
                "setpriv",
                f"--reuid={uid}",
                f"--regid={uid}",
                "--clear-groups",
                "/usr/bin/python3",
                "-B",
                "-c",
                WORKER,
                inside.SYSTEM_BUS,
                str(uid),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().strip()

    def tell(self, text):
        self.process.stdin.write(text + "\n")

    def ask(self, text):
        self.tell(text)
        return self.line()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(inside.DEADLINE)


class Subuids(Case):
    @classmethod
    def setUpClass(cls):
        cls.begun = time.monotonic()
        for user in ("alice", "bob"):
            run("useradd", "--create-home", user)
        cls.alice, cls.bob = (int(run("id", "-u", user)) for user in ("alice", "bob"))
        # dbus-daemon refuses connections of uids without a name.
        with open("/etc/passwd", "a", encoding="utf-8") as f:
            f.writelines(
                f"u{uid}:x:{uid}:{uid}::/:/bin/sh\n" for uid in (*SUBUIDS, 99999, 165536, *range(200000, 200011))
            )
        run("systemctl", "stop", "xsched")
        write("/etc/xsched/xsched.conf.d/limits.conf", "[Limits]\n" + "".join(f"{k}={v}\n" for k, v in LIMITS.items()))
        write(SUBUID, "nonsense\nalice:100000:65536\nnobody-of-this-name:300000:65536\n")

    def setUp(self):
        super().setUp()
        self.workers = {}

    def tearDown(self):
        for w in self.workers.values():
            w.end()
        super().tearDown()

    def worker(self, uid):
        if uid not in self.workers:
            self.workers[uid] = Worker(uid)
        return self.workers[uid]

    def take(self, what, n, uids):
        return sum(int(self.worker(uid).ask(f"{what} {n}")) for uid in uids)

    def test_quotas(self):
        everybody = (self.alice, *SUBUIDS)
        self.assertEqual(self.take("clients", 1, everybody), len(everybody))
        self.assertEqual(self.take("queues", 1, everybody), len(everybody))  # all of one device
        self.assertEqual(self.take("devices", 2, everybody), LIMITS["MaxDevicesPerUser"] - 1)
        self.assertEqual(self.take("queues", 1, everybody), LIMITS["MaxQueuesPerUser"] - len(everybody) - 3)
        self.assertEqual(self.take("holds", 2, everybody), LIMITS["MaxJobsPerUser"])
        self.assertEqual(self.take("clients", 3, everybody), LIMITS["MaxClientsPerUser"] - len(everybody))
        # A quota that one uid frees is free for the user's others. Other users are not charged.
        self.assertEqual(self.take("clients", 2, (self.bob, 165536, 99999)), 6)
        self.workers.pop(SUBUIDS[0]).end()
        until(lambda: self.take("clients", 1, SUBUIDS[1:]) == 1, "a place to be free again")
        self.assertEqual(self.take("clients", 1, everybody), 0)

    def test_lines_are_named(self):
        expected = {
            f"{SUBUID}:1: not NAME:FIRST:COUNT, ignoring the line",
            f"{SUBUID}:3: no such user, ignoring the line",
        }
        until(lambda: expected <= {e["MESSAGE"] for e in journal("_SYSTEMD_UNIT=xsched.service")}, "both to be named")

    def test_ranges_that_come_later(self):
        """A range that is added later applies to new connections; those that exist keep their user."""
        self.assertEqual(self.take("clients", 4, (200000, 200001)), 8)
        self.assertEqual(self.take("clients", 7, (self.bob,)), 6)

        def is_bob():
            taken = self.take("clients", 1, (200002,))
            self.workers.pop(200002).end()
            return taken == 0

        self.assertFalse(is_bob())
        run("usermod", "--add-subuids", "200000-200009", "bob")
        until(is_bob, "the range to be seen")
        self.assertEqual(self.take("clients", 1, (200000, 200001, 200009)), 0)
        self.assertEqual(self.take("clients", 1, (200010,)), 1)
        self.workers.pop(200000).end()
        self.workers.pop(200001).end()
        self.assertEqual(self.take("clients", 1, (self.bob, 200000)), 0)
        self.workers.pop(self.bob).end()
        until(lambda: self.take("clients", 1, (200009,)) == 1, "bob's clients to go")
        self.assertEqual(self.take("clients", 9, (200009, 200003)), 5)

    def test_journal(self):
        """The limit of log lines about changes, 200 at once and 5 a second, is for all uids of the user together."""
        self.assertEqual(self.take("clients", 1, SUBUIDS), len(SUBUIDS))
        for uid in SUBUIDS:
            self.worker(uid).ask("sets 90")
        lines = [e for e in journal(f"MESSAGE_ID={SETTINGS}") if int(e["XSCHED_CALLER_UID"]) in SUBUIDS]
        self.assertLessEqual(len(lines), 200 + 5 * (time.monotonic() - self.begun) + 1)
        self.assertGreaterEqual(len(lines), 200)

    def test_authorisation(self):
        """A user may have 64 calls that wait for polkit, from all uids together."""
        uids = (*SUBUIDS, self.bob)
        self.take("clients", 1, uids)
        self.worker(self.bob).ask("sets 1")
        polkit = int(show("polkit", "MainPID"))
        os.kill(polkit, signal.SIGSTOP)
        try:
            self.take("burst", 20, uids)
        finally:
            os.kill(polkit, signal.SIGCONT)
        self.assertEqual(self.take("refused", 0, SUBUIDS), 20 * len(SUBUIDS) - 64)
        self.assertEqual(self.take("refused", 0, (self.bob,)), 0)


if __name__ == "__main__":
    inside.main()
