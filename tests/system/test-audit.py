# SPDX-License-Identifier: LGPL-2.1-or-later
"""The audit of changes: the journal's fields of every change that comes over the bus."""

import os
import signal

import inside
from inside import CLIENT, DEVICE, DEVICE_ID, GROUP, NAME, QUEUE, Case, journal, run, show, until

SETTINGS = "85404cfde15345b18f5adefc89d27115"
POLICY = "7d53592a71494d5890e8ccae4a1e327a"
SUSPENDED, RESUMED = "8393b7b32de04fa6bac4fc13815138fe", "fec4eb7266c348109b3439b905f859d0"
RELOADED = "8a8c1774124f412593589417fcce6dfb"
ADDED, GONE = "2e0387fe670b4342a0d5a41baaf865d3", "72c922b8e3164c1cbd4b8529846f0fe6"
LOG = ("/org/freedesktop/LogControl1", "org.freedesktop.LogControl1")


class Audit(Case):
    @classmethod
    def setUpClass(cls):
        for user in ("alice", "bob"):
            run("useradd", "--create-home", user)
        cls.uid = run("id", "-u", "alice").strip()

    def setUp(self):
        super().setUp()
        self.alice = self.client("--uid=alice")
        self.object = self.client_of(self.alice)
        self.group = next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith(self.alice.unit))
        self.queue = self.call("ListQueues")[0][0][-1]
        self.device = self.call("ListDevices")[0][0][-1]
        self.pid = show(self.alice.unit, "MainPID")
        self.n_calls = 0
        self.mark()

    def mark(self):
        """journal() and lines() return only the entries after this call."""
        self.last = journal("-n", "1")[0]["__MONOTONIC_TIMESTAMP"]

    def journal(self, match):
        return [e for e in journal(match) if int(e["__MONOTONIC_TIMESTAMP"]) > int(self.last)]

    def lines(self, message_id):
        return self.journal(f"MESSAGE_ID={message_id}")

    def do(self, *argv, user="root", status=0):
        """Runs a command in a unit of its own. Returns the unit's name."""
        self.n_calls += 1
        unit = f"caller-{self._testMethodName.replace('_', '-')}-{self.n_calls}.service"
        run(
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            f"--unit={unit}",
            f"--uid={user}",
            "--",
            *argv,
            status=status,
        )
        return unit

    def set(self, path, interface, key, signature, value, **kwargs):
        return self.do("busctl", "set-property", NAME, path, interface, key, signature, "--", str(value), **kwargs)

    def check(self, message_id, unit, uid="0", key=None, old=None, new=None, **fields):
        """There is one entry for this caller and key, with these fields, and its message names the caller."""
        found = [
            e for e in self.lines(message_id) if e.get("XSCHED_CALLER_UNIT") == unit and e.get("XSCHED_KEY") == key
        ]
        self.assertEqual(len(found), 1, self.lines(message_id))
        e = found[0]
        expected = {
            "XSCHED_CALLER_UID": uid,
            "XSCHED_CALLER_GROUP": f"/system.slice/{unit}",
            "XSCHED_OLD": old,
            "XSCHED_NEW": new,
            **fields,
        }
        self.assertEqual({k: e.get(k) for k in expected}, expected)
        self.assertGreater(int(e["XSCHED_CALLER_PID"]), 1)
        self.assertRegex(e["MESSAGE"], rf"by \w+ \(pid {e['XSCHED_CALLER_PID']}, uid {uid}, {unit}\)$")
        return e

    def id(self, path):
        return path.rsplit("/", 1)[1]

    def test_own_client(self):
        unit = self.set(self.object, CLIENT, "Priority", "i", -5, user="alice")
        self.check(
            SETTINGS, unit, self.uid, "Priority", "0", "-5", XSCHED_CLIENT=self.id(self.object), OBJECT_PID=self.pid
        )
        unit = self.do("xschedctl", "set", self.pid, "priority=-7", "weight=50", user="alice")
        self.check(SETTINGS, unit, self.uid, "Priority", "-5", "-7", XSCHED_CLIENT=self.id(self.object))
        self.check(SETTINGS, unit, self.uid, "Weight", "100", "50", XSCHED_CLIENT=self.id(self.object))

    def test_what_is_refused_is_no_change(self):
        self.set(self.object, CLIENT, "Priority", "i", 5, user="alice", status=1)
        self.do("xschedctl", "suspend", self.pid, user="alice", status=1)
        self.do("xschedctl", "reload", user="alice", status=1)
        self.assertEqual([self.lines(i) for i in (SETTINGS, SUSPENDED, RELOADED)], [[], [], []])

    def test_queue(self):
        unit = self.set(self.queue, QUEUE, "Weight", "u", 7)
        self.check(
            SETTINGS,
            unit,
            key="Weight",
            old="100",
            new="7",
            XSCHED_QUEUE=self.id(self.queue),
            XSCHED_CLIENT=self.id(self.object),
        )

    def test_group_and_reset(self):
        unit, name = self.alice.unit, f"/system.slice/{self.alice.unit}"
        by = self.set(self.group, GROUP, "Max", "u", 40)
        self.check(SETTINGS, by, key="Max", old="0", new="40", XSCHED_GROUP=name)
        by = self.do("xschedctl", "set", "--runtime", unit, "class=batch", "priority=3")
        self.check(SETTINGS, by, key="Class", old="default", new="batch", XSCHED_GROUP=name)
        self.check(SETTINGS, by, key="Priority", old="0", new="3", XSCHED_GROUP=name)
        by = self.do("xschedctl", "set", unit, "priority=4")
        self.assertIn(
            "(stored)", self.check(SETTINGS, by, key="Priority", old="3", new="4", XSCHED_GROUP=name)["MESSAGE"]
        )
        by = self.do("xschedctl", "set", unit, "weight=50")
        by = self.do("xschedctl", "set", unit, "weight=")
        self.check(
            SETTINGS, by, key="Weight", old="50", new=str(self.get("Weight", self.group, GROUP)), XSCHED_GROUP=name
        )
        by = self.do("xschedctl", "reset", unit)
        self.check(SETTINGS, by, XSCHED_GROUP=name)
        self.check(SETTINGS, by, key="Max", old="40", new="0", XSCHED_GROUP=name)
        self.check(SETTINGS, by, key="Priority", old="4", new="0", XSCHED_GROUP=name)

    def test_what_is_not_there_yet(self):
        by = self.do("xschedctl", "set", "--force", "later.service", "weight=5")
        self.check(SETTINGS, by, key="Weight", old="", new="5", XSCHED_GROUP="later.service")
        by = self.do("xschedctl", "reset", "later.service")
        self.check(SETTINGS, by, XSCHED_GROUP="later.service")
        self.check(SETTINGS, by, key="Weight", old="5", new="", XSCHED_GROUP="later.service")

    def test_suspend_and_resume(self):
        for path, interface, fields in (
            (self.group, GROUP, {"XSCHED_GROUP": f"/system.slice/{self.alice.unit}"}),
            (self.object, CLIENT, {"XSCHED_CLIENT": self.id(self.object), "OBJECT_PID": self.pid}),
            (self.queue, QUEUE, {"XSCHED_QUEUE": self.id(self.queue)}),
        ):
            unit = self.do("busctl", "call", NAME, path, interface, "Suspend")
            self.check(SUSPENDED, unit, **fields)
            unit = self.do("busctl", "call", NAME, path, interface, "Resume")
            self.check(RESUMED, unit, **fields)

    def test_devices(self):
        unit = self.set(self.device, DEVICE, "Concurrency", "u", 3)
        self.check(POLICY, unit, key="Concurrency", old="1", new="3", XSCHED_DEVICE=DEVICE_ID)
        before = str(self.get("TimeSliceUSec", self.device, DEVICE))
        unit = self.do("xschedctl", "set", f"device:{DEVICE_ID}", "timeslice=20ms", "preemption=off")
        self.check(POLICY, unit, key="TimeSliceUSec", old=before, new="20000", XSCHED_DEVICE=DEVICE_ID)
        self.check(POLICY, unit, key="Preemption", old="auto", new="off", XSCHED_DEVICE=DEVICE_ID)
        unit = self.do(
            "busctl",
            "call",
            NAME,
            inside.PATH,
            NAME,
            "SetPolicy",
            "ssta{sv}",
            "",
            "tree",
            "0",
            "1",
            "Concurrency",
            "u",
            "2",
        )
        found = [
            (e["XSCHED_DEVICE"], e["XSCHED_KEY"], e["XSCHED_OLD"], e["XSCHED_NEW"])
            for e in self.lines(POLICY)
            if e["XSCHED_CALLER_UNIT"] == unit
        ]
        self.assertEqual(
            sorted(found),
            [
                ("*", "Concurrency", "1", "2"),
                ("*", "Policy", "tree", "tree"),
                (DEVICE_ID, "Concurrency", "3", "2"),
                (DEVICE_ID, "Policy", "tree", "tree"),
            ],
        )
        unit = self.do("xschedctl", "set", f"device:{DEVICE_ID}", "timeslice=")
        self.check(POLICY, unit, key="TimeSliceUSec", old="20000", new=before, XSCHED_DEVICE=DEVICE_ID)

    def test_reload_and_log(self):
        unit = self.do("busctl", "call", NAME, inside.PATH, NAME, "Reload")
        self.check(RELOADED, unit)
        unit = self.set(*LOG, "LogLevel", "s", "debug")
        self.check(SETTINGS, unit, key="LogLevel", old="info", new="debug")
        self.set(*LOG, "LogLevel", "s", "info")
        # A signal has no caller.
        self.mark()
        os.kill(int(show("xsched", "MainPID")), signal.SIGHUP)
        until(lambda: self.lines(RELOADED), "the configuration is read again")
        self.assertNotIn("XSCHED_CALLER_UID", self.lines(RELOADED)[0])

    def test_jobs_and_holds(self):
        self.do("xschedctl", "run", "--priority=9", "--", "true")
        e = next(e for e in self.lines(SETTINGS) if e.get("XSCHED_KEY") == "Priority")
        self.assertEqual((e["XSCHED_NEW"], e["XSCHED_CALLER_UID"]), ("9", "0"))
        self.assertRegex(e["XSCHED_CALLER_UNIT"], "^run-true-.*[.]scope$")  # it has moved there before it calls
        unit = self.do("busctl", "call", NAME, inside.PATH, NAME, "HoldPriority", "sst", "interactive", "test", "0")
        self.check(SETTINGS, unit, key="Class", old="", new="interactive")
        self.mark()
        self.do("busctl", "call", NAME, inside.PATH, NAME, "HoldPriority", "sst", "batch", "test", "0", user="alice")
        self.assertEqual(self.lines(SETTINGS), [])

    def test_nobody_fills_the_journal(self):
        """A user's changes of the user's own objects are logged 200 times, and 5 times a second; the administrator's
        always."""
        bob, uid = self.client_of(self.client("--uid=bob")), run("id", "-u", "bob").strip()
        script = (
            "import sys, time; sys.path.insert(0, '/mnt/source/tests/lib'); import dbus\n"
            f"c = dbus.Connection({inside.SYSTEM_BUS!r})\n"
            "begun, changes = time.monotonic(), 0\n"
            "while changes < 300 + 5 * (time.monotonic() - begun):\n"
            "    settings = {'Priority': ('i', -1 - changes % 2), 'Weight': ('u', 99 - changes % 2), "
            "'Threshold': ('u', 2 + changes % 2)}\n"
            f"    c.call({NAME!r}, {bob!r}, {CLIENT!r}, 'Set', 'ta{{sv}}', 0, settings)\n"
            "    changes += len(settings)\n"
            "print(changes, time.monotonic() - begun)\n"
        )
        argv = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--uid=bob",
            "--",
            "/usr/bin/python3",
            "-B",
            "-c",
            script,
        ]
        changes, seconds = map(float, run(*argv).split())
        n = len([e for e in self.lines(SETTINGS) if e["XSCHED_CALLER_UID"] == uid])
        self.assertGreaterEqual(n, 200)
        self.assertLessEqual(n, 200 + 5 * seconds + 1)
        self.assertLess(n, changes)
        said = [e["MESSAGE"] for e in self.journal("_SYSTEMD_UNIT=xsched.service")]
        self.assertEqual(said.count(f"User {uid} causes more messages than are written down"), 1)
        unit = self.set(self.group, GROUP, "Weight", "u", 60)
        self.check(SETTINGS, unit, key="Weight", old="100", new="60")

    def test_registrations_are_for_debugging(self):
        c = self.client()
        c.end()
        self.assertEqual([self.lines(i) for i in (ADDED, GONE)], [[], []])
        self.set(*LOG, "LogLevel", "s", "debug")
        self.addCleanup(run, "busctl", "set-property", NAME, *LOG, "LogLevel", "s", "info")
        c = self.client()
        c.end()
        until(lambda: self.lines(GONE), "the end is written down")
        self.assertEqual([[e["PRIORITY"] for e in self.lines(i)] for i in (ADDED, GONE)], [["7"], ["7"]])


if __name__ == "__main__":
    inside.main()
