# SPDX-License-Identifier: LGPL-2.1-or-later
"""After each kind of restart with working clients, systemd's fd store brings back clients, queues and settings, and no
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
        """Returns everything that a restart has to preserve."""
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
        """Makes the high client run, and a launch of the low one wait at the gate. Returns the low client's queue."""
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
        """Waits for another process of the service, which has to have everything that the former one had."""
        until(lambda: self.main_pid() not in (0, pid) and show("xsched", "ActiveState") == "active", "another process")
        until(lambda: self.state() == self.before, f"everything to be back: {self.before} {self.state()}")
        invocation = show("xsched", "InvocationID")
        self.assertEqual(len(inside.journal(f"MESSAGE_ID={ADOPTED}", f"_SYSTEMD_INVOCATION_ID={invocation}")), 1)
        self.check_scheduled()

    def check_scheduled(self):
        """Checks that the high client still holds the low one, and that this goes on afterwards."""
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
        """A held client goes on when its lease runs out, long before the watchdog kills the hanging service."""
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
        """PID 1 keeps the stored descriptors when it re-executes itself: a restart after that finds them."""
        pid = self.main_pid()
        run("systemctl", "daemon-reexec")
        self.assertEqual(self.main_pid(), pid)
        self.assertEqual(self.state(), self.before)
        self.check_scheduled()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        self.check_restarted(pid)

    def test_bus_is_killed(self):
        """systemd starts the bus again, and then the service. No client registers again, and those that were held are
        held again."""
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
        until(lambda: self.get("NClients") == 1 and self.get("NQueues") == 1, "only the other client to be left")

    @staticmethod
    def answered_registrations(monitor):
        """Yields the error's name for each answered call of RegisterClient, or None if the call succeeded."""
        asked = set()
        while True:
            m = monitor.next_message()
            if m.member == "RegisterClient":
                asked.add((m.sender, m.serial))
            elif (m.destination, m.reply_to) in asked:
                yield m.error

    def test_stopped_means_stopped(self):
        """Calls of clients, old ones and a new one, do not start a stopped service. They register once it is
        started."""
        starts = len(inside.journal(f"MESSAGE_ID={STARTED}"))
        run("systemctl", "enable", "xsched")  # otherwise the bus could not start it at all
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
        # Neither do xschedctl's queries.
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
