# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restarts of every kind with clients at work: systemd's fd store brings back clients, queues and settings, and no
client is held for longer than the lease."""

import os
import signal
import subprocess

import inside
from inside import ADOPTED, CLIENT, QUEUE, STARTED, Case, run, show, until


class Restart(Case):
    def setUp(self):
        super().setUp()
        self.low = self.client("--slice=low.slice", queues=3)
        self.high = self.client("--slice=high.slice")
        run("xschedctl", "set", self.high.unit, "priority=20")
        run("xschedctl", "set", self.low.unit, "weight=42")
        run("xschedctl", "set", str(show(self.low.unit, "MainPID")), "threshold=7")
        self.before = self.state()

    def state(self):
        """All that has to be there again."""
        clients = sorted(self.call("ListClients")[0])
        return {
            "clients": clients,
            "queues": sorted(self.call("ListQueues")[0]),
            "groups": sorted(self.call("ListGroups")[0]),
            "settings": [
                [self.get(p, c[-1], CLIENT) for p in ("Priority", "Weight", "Threshold", "Unit", "Slice", "UID")]
                for c in clients
            ],
        }

    def hold_the_low_one(self):
        """The high one runs, and a launch of the low one waits at the gate."""
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        path = self.client_of(self.low)
        queue = next(q[-1] for q in self.call("ListQueues")[0] if q[-1] and self.get("Client", q[-1], QUEUE) == path)
        until(
            lambda: self.get("State", self.client_of(self.high), CLIENT) in ("running", "ready"),
            "the high one to be seen",
        )
        self.low.tell("begin 0")
        until(lambda: self.get("State", path, CLIENT) == "held", "the low one to be held")
        return queue

    def main_pid(self):
        return int(show("xsched", "MainPID"))

    def check_restarted(self, pid):
        """Another process, with everything of the former."""
        until(lambda: self.main_pid() not in (0, pid) and show("xsched", "ActiveState") == "active", "another process")
        until(lambda: self.state() == self.before, f"everything to be back: {self.before} {self.state()}")
        invocation = show("xsched", "InvocationID")
        self.assertEqual(len(inside.journal(f"MESSAGE_ID={ADOPTED}", f"_SYSTEMD_INVOCATION_ID={invocation}")), 1)
        self.check_scheduled()

    def check_scheduled(self):
        """The high one still keeps the low one out, and lets it in when it is done."""
        self.assertIn(self.high.ask("begin 0"), ("tracked", "untracked"))
        self.low.tell("begin 1")
        path = self.client_of(self.low)
        until(lambda: self.get("State", path, CLIENT) == "held", "the low one to be held again")
        self.high.ask("complete 0")
        self.assertEqual(self.low.line(), "tracked")
        self.assertEqual(self.low.ask("complete 1"), "completed")

    def test_restart(self):
        pid = self.main_pid()
        run("systemctl", "restart", "xsched")
        self.check_restarted(pid)

    def test_restart_while_one_is_held(self):
        pid = self.main_pid()
        self.hold_the_low_one()
        run("systemctl", "restart", "xsched")
        until(lambda: self.state() == self.before, "everything to be back")
        self.high.ask("complete 0")
        self.assertEqual(self.low.line(), "tracked")
        self.low.ask("complete 0")
        self.check_restarted(pid)

    def test_kill(self):
        pid = self.main_pid()
        self.hold_the_low_one()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        self.high.ask("complete 0")
        self.assertIn(self.low.line(), ("tracked", "untracked"))
        self.low.ask("complete 0")
        self.check_restarted(pid)

    def test_again_and_again(self):
        for _ in range(5):
            pid = self.main_pid()
            self.low.tell("run 500")
            run("systemctl", "kill", "--signal=KILL", "xsched")
            self.assertEqual(self.low.line(), "ran")
            until(
                lambda: self.main_pid() not in (0, pid) and show("xsched", "ActiveState") == "active", "another process"
            )
        until(lambda: self.state() == self.before, "everything to be back")
        launches = int(self.low.ask("counters").split()[2])
        self.assertEqual(launches, 5 * 500 * 3)

    def test_stopped_and_killed_by_the_watchdog(self):
        """The held one runs on by its lease, long before the watchdog bites."""
        inside.drop_in("xsched.service", "50-watchdog", "[Service]\nWatchdogSec=3s\n")
        run("systemctl", "restart", "xsched")
        until(lambda: self.state() == self.before, "everything to be back")
        pid = self.main_pid()
        self.hold_the_low_one()
        os.kill(pid, signal.SIGSTOP)
        self.assertIn(self.low.line(), ("tracked", "untracked"))
        self.assertEqual(self.main_pid(), pid)
        self.low.ask("complete 0")
        self.high.ask("complete 0")
        self.check_restarted(pid)
        run("rm", "-r", "/run/systemd/system/xsched.service.d")
        run("systemctl", "daemon-reload")

    def test_daemon_reexec(self):
        """PID 1 executes itself anew, and has kept the fds: the restart after it finds them."""
        pid = self.main_pid()
        run("systemctl", "daemon-reexec")
        self.assertEqual(self.main_pid(), pid)
        self.assertEqual(self.state(), self.before)
        self.check_scheduled()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        self.check_restarted(pid)

    def test_bus_is_killed(self):
        """systemd starts another bus where the old one was, and the service after it: no client registers again, and
        those that were held are held again."""
        pid = self.main_pid()
        self.hold_the_low_one()
        self.bus.close()
        run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "dbus")
        until(lambda: self.main_pid() not in (0, pid) and show("xsched", "ActiveState") == "active", "another service")
        self.bus = inside.dbus.Connection(inside.SYSTEM_BUS)
        self.addCleanup(self.bus.close)
        until(lambda: self.state() == self.before, "everything to be back")
        self.high.ask("complete 0")
        self.assertIn(self.low.line(), ("tracked", "untracked"))
        self.low.ask("complete 0")
        self.check_restarted(pid)

    def test_client_that_ends_while_the_service_is_down(self):
        pid = self.main_pid()
        run("systemctl", "stop", "xsched")
        self.assertEqual(self.low.end(), 0)
        run("systemctl", "start", "xsched")
        until(lambda: self.main_pid() not in (0, pid), "another process")
        until(lambda: self.get("NClients") == 1 and self.get("NQueues") == 1, "the other one only")

    @staticmethod
    def answered_registrations(monitor):
        """The names of the errors that calls of RegisterClient get; None for each that is taken."""
        asked = set()
        while True:
            m = monitor.next_message()
            if m.member == "RegisterClient":
                asked.add((m.sender, m.serial))
            elif (m.destination, m.reply_to) in asked:
                yield m.error

    def test_stopped_means_stopped(self):
        """What clients say, those that were there and a new one, starts nothing; and they are there again with the
        service."""
        starts = len(inside.journal(f"MESSAGE_ID={STARTED}"))
        run("systemctl", "enable", "xsched")  # else the bus has nothing to start
        with inside.dbus.Connection(inside.SYSTEM_BUS) as monitor:
            monitor.monitor(
                "interface='org.xsched.Scheduler',member='RegisterClient'", "type='error'", "type='method_return'"
            )
            answers = self.answered_registrations(monitor)
            run("systemctl", "stop", "xsched")
            errors = [next(answers), next(answers)]
            new = subprocess.Popen(
                [
                    "systemd-run",
                    "--quiet",
                    "--pipe",
                    "--wait",
                    "--collect",
                    "--unit=new",
                    inside.TEST_CLIENT,
                    inside.DEVICE_ID,
                    "1",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            errors.append(next(answers))
        self.assertEqual(errors, ["org.freedesktop.DBus.Error.NameHasNoOwner"] * 3)
        self.assertEqual((show("xsched", "ActiveState"), show("xsched", "Job")), ("inactive", ""))
        self.assertEqual(len(inside.journal(f"MESSAGE_ID={STARTED}")), starts)
        for c in (self.low, self.high):
            self.assertEqual(c.ask("run 10"), "ran")
        # To look is not to start, either.
        run("xschedctl", "list-clients", status=1)
        self.assertEqual(show("xsched", "ActiveState"), "inactive")
        run("systemctl", "start", "xsched")
        until(lambda: self.get("NClients") == 3 and self.get("NQueues") == 5, "all to be back")
        self.assertEqual(new.stdout.readline(), "ready\n")
        new.stdin.close()
        self.assertEqual(new.wait(inside.DEADLINE), 0)
        new.stdout.close()
        run("systemctl", "disable", "xsched")


if __name__ == "__main__":
    inside.main()
