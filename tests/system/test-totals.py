# SPDX-License-Identifier: LGPL-2.1-or-later
"""Used times of groups survive each kind of restart, the end of the unit, and a reboot; damaged files are set aside;
and at its end a group's times are logged."""

import os
import signal

import inside
from inside import GROUP, SettingsCase, run, show, until

DISK, MEMORY = "/var/lib/xsched/totals", "/run/xschedd/totals"
STATE_BAD = "5b3f0c1e9d8846c2a1f7e6d4b3c2a190"
GROUP_ENDED = "a92e9df7555545c6a63ea3c2b63219f5"
SECOND = 1_000_000


class Totals(SettingsCase):
    def setUp(self):
        super().setUp()
        self.c = self.client("--slice=count.slice", unit="count.service")
        self.before = self.of("GPUTimeUSec")

    def of(self, name, unit="count.service"):
        return self.get(name, self.group(unit), GROUP)

    def there(self):
        return any(g[0].endswith("/count.service") for g in self.call("ListGroups")[0])

    def work(self, least):
        """Keeps the client busy, alone, for at least so long. Returns the group's RunUSec after that."""
        until(lambda: self.get("NClients") == 1, "the client")
        until_more = self.of("RunUSec") + least
        self.assertIn(self.c.ask("begin 0"), ("tracked", "untracked"))
        until(lambda: self.of("RunUSec") > until_more, "it to run")
        self.assertEqual(self.c.ask("complete 0"), "completed")
        until(self.settled, "it to be idle")
        return self.of("RunUSec")

    def settled(self):
        return (
            self.of("RunUSec") == self.of("RunUSec")
            and self.get("NReady", self.call("ListDevices")[0][0][-1], f"{inside.NAME}.Device") == 0
        )

    def again(self, pid):
        until(
            lambda: int(show("xsched", "MainPID")) not in (0, pid) and show("xsched", "ActiveState") == "active",
            "another process",
        )
        until(lambda: self.there() and self.get("NClients") == 1, "the client to be back")

    def pid(self):
        return int(show("xsched", "MainPID"))

    def test_restart_and_stop(self):
        ran = self.work(SECOND // 4)
        above = self.of("GPUTimeUSec", "count.slice")
        self.assertGreaterEqual(above, ran)
        for verbs in (["restart"], ["stop", "start"]):
            pid = self.pid()
            for verb in verbs:
                run("systemctl", verb, "xsched")
            self.again(pid)
            self.assertEqual((self.of("RunUSec"), self.of("GPUTimeUSec", "count.slice")), (ran, above), verbs)
        self.assertEqual(os.stat(DISK).st_mode & 0o777, 0o600)
        self.assertGreater(self.work(SECOND // 10), ran)

    def test_killed(self):
        """Times that were once reported do not decrease after a kill, neither the unit's nor the slice's."""
        self.work(SECOND // 10)
        for _ in range(3):
            self.assertIn(self.c.ask("begin 0"), ("tracked", "untracked"))
            start = self.of("RunUSec")
            until(lambda s=start: self.of("RunUSec") > s + 3 * SECOND // 4, "it to run")
            pid = self.pid()
            told = self.of("RunUSec"), self.of("GPUTimeUSec"), self.of("GPUTimeUSec", "count.slice")
            os.kill(pid, signal.SIGKILL)
            self.c.tell("complete 0")  # while no service runs
            self.again(pid)
            self.assertEqual(self.c.line(), "completed")
            again = self.of("RunUSec"), self.of("GPUTimeUSec"), self.of("GPUTimeUSec", "count.slice")
            self.assertTrue(all(a >= b for a, b in zip(again, told)), (told, again))

    def test_unit_is_started_again(self):
        """A unit's counters go on when it is started again, and each of its runs is logged."""
        ran = self.work(SECOND // 4)
        told = len(inside.journal(f"MESSAGE_ID={GROUP_ENDED}"))
        self.c.end()
        until(lambda: not self.there(), "the group to go")
        until(lambda: len(inside.journal(f"MESSAGE_ID={GROUP_ENDED}")) > told, "the record")
        entry = inside.journal(f"MESSAGE_ID={GROUP_ENDED}")[-1]
        self.assertEqual(entry["XSCHED_GROUP"], "/count.slice/count.service")
        self.assertEqual(
            (entry["XSCHED_UNIT"], entry["XSCHED_SOURCE"], entry["XSCHED_PREEMPTED"]), ("count.service", "tracked", "0")
        )
        self.assertAlmostEqual(int(entry["XSCHED_RUN_USEC"]), ran - self.before, delta=1)  # both are rounded
        self.c = self.client("--slice=count.slice", unit="count.service")
        self.assertEqual(self.of("RunUSec"), ran)
        self.assertGreaterEqual(self.of("GPUTimeUSec", "count.slice"), ran)
        self.c.end()
        until(lambda: not self.there(), "the group to go")
        self.assertEqual(len(inside.journal(f"MESSAGE_ID={GROUP_ENDED}")), told + 1)

    def reboot(self, damage=lambda: None):
        """Restarts the service with only the files on disk, as after a reboot."""
        pid = self.pid()
        run("systemctl", "stop", "xsched")
        if os.path.exists(MEMORY):
            os.unlink(MEMORY)
        damage()
        run("systemctl", "start", "xsched")
        self.again(pid)

    def test_reboot(self):
        ran = self.work(SECOND // 4)
        self.reboot()
        self.assertEqual(self.of("RunUSec"), ran)

    def test_scope(self):
        """A scope's totals survive a restart of the service, and end with the scope: the next of that name has none."""
        c = self.client(command=("systemd-run", "--quiet", "--scope", "--unit=once.scope"), unit="once.scope")
        self.assertIn(c.ask("begin 0"), ("tracked", "untracked"))
        until(lambda: self.of("RunUSec", "once.scope") > SECOND // 10, "it to run")
        c.ask("complete 0")
        ran, pid = self.of("RunUSec", "once.scope"), self.pid()
        run("systemctl", "restart", "xsched")
        until(lambda: self.pid() not in (0, pid) and self.get("NClients") == 2, "the clients to be back")
        self.assertGreater(self.of("RunUSec", "once.scope"), SECOND // 10)
        self.assertLessEqual(self.of("RunUSec", "once.scope"), ran + SECOND)
        c.end()
        c = self.client(command=("systemd-run", "--quiet", "--scope", "--unit=once.scope"), unit="once.scope")
        self.assertEqual(self.of("RunUSec", "once.scope"), 0)
        c.end()

    def test_damaged(self):
        """A damaged file is reported and set aside, and everything counts from zero."""
        self.work(SECOND // 10)
        n = len(inside.journal(f"MESSAGE_ID={STATE_BAD}"))

        def damage():
            with open(DISK, "r+b") as f:
                f.seek(40)
                f.write(b"\xff")

        self.reboot(damage)
        self.assertEqual(self.of("RunUSec"), 0)
        entries = inside.journal(f"MESSAGE_ID={STATE_BAD}")
        self.assertEqual(len(entries), n + 1)
        self.assertIn(DISK, entries[-1]["MESSAGE"])
        self.assertTrue(any(DISK in text for text in self.get("Degraded")))
        self.assertTrue(os.path.exists(DISK + ".bad"))
        self.work(SECOND // 10)
        run("systemctl", "restart", "xsched")


if __name__ == "__main__":
    inside.main()
