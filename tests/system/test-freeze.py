# SPDX-License-Identifier: LGPL-2.1-or-later
"""Freeze=: a suspended unit makes no progress, and runs again after every end of the freeze."""

import os
import signal

import inside
from freezing import CLASS, EXAMPLE, RECORD, FreezeCase, set_rule
from inside import run, show, until, write


class Freeze(FreezeCase):
    SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")

    def suspend(self):
        run("xschedctl", "suspend", "cold.service")
        self.check_frozen()
        until(lambda: self.get_group("Frozen"), "the service to know")

    def test_suspend_and_resume(self):
        self.check_runs()
        self.suspend()
        with open(RECORD, encoding="utf-8") as f:
            self.assertEqual(f.read(), "cold.service\n")
        run("xschedctl", "resume", "cold.service")
        self.check_resumed()
        until(lambda: not self.get_group("Frozen"), "the service to know")
        self.assertEqual(self.c.ask("run 3"), "ran")
        self.assertEqual(self.get("Degraded"), [])

    def test_again_and_again(self):
        """Changes come faster than systemd answers: the last one counts."""
        for _ in range(5):
            run("xschedctl", "suspend", "cold.service")
            run("xschedctl", "resume", "cold.service")
        until(lambda: not os.path.exists(RECORD), "it to settle")
        self.check_resumed()
        run("xschedctl", "resume", "cold.service")
        self.suspend()

    def test_only_where_the_class_says_so(self):
        other = self.client(unit="warm.service")
        run("xschedctl", "suspend", "warm.service")
        self.assertEqual(show("warm.service", "FreezerState"), "running")
        self.assertFalse(os.path.exists(RECORD))
        run("xschedctl", "resume", "warm.service")
        self.assertEqual(other.ask("run 1"), "ran")

    def test_another_class(self):
        self.suspend()
        run("xschedctl", "set", "cold.service", "class=default")
        self.check_resumed()
        self.assertTrue(self.get_group("Suspended"))
        run("xschedctl", "reset", "cold.service")
        self.check_frozen()

    def test_configuration(self):
        self.suspend()
        write(CLASS, "[Class]\nPriority=-5\n")
        run("systemctl", "reload", "xsched")
        self.check_resumed()
        write(CLASS, "[Class]\nPriority=-5\nFreeze=yes\n")
        run("systemctl", "reload", "xsched")
        self.check_frozen()

    def test_service_stops(self):
        self.suspend()
        run("systemctl", "stop", "xsched")
        self.check_resumed()

    def test_service_restarts(self):
        """A suspended unit stays suspended after a restart of the service."""
        self.suspend()
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.check_frozen()
        self.assertTrue(self.get_group("Suspended"))
        run("xschedctl", "resume", "cold.service")
        self.check_resumed()

    def test_service_is_killed(self):
        inside.drop_in("xsched.service", "50-stay", "[Service]\nRestart=no\n")
        self.addCleanup(self.undo_drop_in)
        self.suspend()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        self.check_resumed()
        # The unit is thawed by ExecStopPost=, which ends a little later.
        until(lambda: show("xsched", "ActiveState") == "failed", "the end")

    def test_service_is_killed_and_nobody_cleans_up(self):
        """The next start of the service thaws the unit."""
        inside.drop_in("xsched.service", "50-stay", "[Service]\nRestart=no\nExecStopPost=\n")
        self.addCleanup(self.undo_drop_in)
        self.suspend()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        until(lambda: show("xsched", "ActiveState") == "failed", "the end")
        self.check_frozen()
        write(CLASS, "[Class]\nPriority=-5\n")
        run("systemctl", "start", "xsched")
        self.check_resumed()

    def test_service_is_killed_by_the_watchdog(self):
        inside.drop_in("xsched.service", "50-watchdog", "[Service]\nWatchdogSec=1s\nRestart=no\n")
        self.addCleanup(self.undo_drop_in)
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.suspend()
        os.kill(int(show("xsched", "MainPID")), signal.SIGSTOP)
        self.check_resumed()

    def test_unit_stops(self):
        self.suspend()
        run("systemctl", "stop", "cold.service")
        self.assertEqual(show("cold.service", "ActiveState"), "inactive")
        until(lambda: self.get("NClients") == 0 and not os.path.exists(RECORD), "it to be forgotten")
        self.assertEqual(self.get("Degraded"), [])

    def test_thawed_by_somebody_else(self):
        """The service does not undo an administrator's thaw. The unit is still held at the GPU."""
        self.suspend()
        run("systemctl", "thaw", "cold.service")
        self.check_runs()
        self.assertTrue(self.get_group("Suspended"))
        run("xschedctl", "resume", "cold.service")
        self.check_resumed()

    def test_refused(self):
        """The unit is held at the GPU, and the reason is reported; no caller waits for the freeze."""
        set_rule(None)
        run("xschedctl", "suspend", "cold.service")
        until(lambda: any("cold.service could not be frozen" in d for d in self.get("Degraded")), "the reason")
        self.check_resumed()
        self.assertTrue(self.get_group("Suspended"))
        run("xschedctl", "resume", "cold.service")
        self.assertEqual(self.c.ask("run 3"), "ran")

    def test_right_to_thaw_is_lost(self):
        """The freeze is requested again and again, and the reason is reported."""
        self.suspend()
        set_rule(None)
        run("xschedctl", "resume", "cold.service")
        until(lambda: any("cold.service could not be thawed" in d for d in self.get("Degraded")), "the reason")
        with open(EXAMPLE, encoding="utf-8") as f:
            set_rule(f.read())
        self.check_resumed()
        until(lambda: self.get("Degraded") == [], "it to be well again")

    def test_right_to_freeze_is_no_right_to_stop(self):
        """polkit has one action for all of them, but the bus' policy tells the methods apart."""
        for argv in (
            ["call", *self.SYSTEMD, f"{self.SYSTEMD[0]}.Manager", "StopUnit", "ss", "cold.service", "replace"],
            ["call", *self.SYSTEMD, f"{self.SYSTEMD[0]}.Manager", "StartUnit", "ss", "cold.service", "replace"],
            [
                "call",
                self.SYSTEMD[0],
                f"{self.SYSTEMD[1]}/unit/cold_2eservice",
                f"{self.SYSTEMD[0]}.Unit",
                "Stop",
                "s",
                "replace",
            ],
        ):
            done = inside.subprocess.run(
                ["setpriv", "--reuid=xsched", "--regid=xsched", "--clear-groups", "busctl", *argv],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("Access denied", done.stderr)
        self.assertEqual(show("cold.service", "ActiveState"), "active")

    def test_scope_of_a_session_is_not_frozen(self):
        c = self.client(command=["systemd-run", "--quiet", "--scope", "--unit=session-99.scope"])
        run("xschedctl", "set", "session-99.scope", "class=cold")
        run("xschedctl", "suspend", "session-99.scope")
        self.assertTrue(any("session-99.scope could not be frozen" in d for d in self.get("Degraded")))
        self.assertEqual(show("session-99.scope", "FreezerState"), "running")
        run("xschedctl", "resume", "session-99.scope")
        run("xschedctl", "reset", "session-99.scope")
        self.assertEqual(c.ask("run 1"), "ran")


if __name__ == "__main__":
    inside.main()
