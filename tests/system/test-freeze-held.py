# SPDX-License-Identifier: LGPL-2.1-or-later
"""Freeze= and FreezeAfter=: a unit that ignores a hold makes no progress, and runs again after every end of the
freeze."""

import os

import inside
from freezing import CLASS, RECORD, FreezeCase
from inside import CLIENT, GROUP, NAME, run, show, until, write

CONFIG = "/etc/xsched/xsched.conf.d/50-freeze.conf"


class Held(FreezeCase):
    """A launch that does not end goes on past the hold, while a client with precedence wants the device."""

    def setUp(self):
        # A turn of the starvation floor would end a hold, at a time that the test does not control.
        write(CONFIG, "[Scheduler]\nStarveAfter=1h\n")
        super().setUp()
        self.hot = self.client(unit="hot.service")
        run("xschedctl", "set", "hot.service", "priority=20")

    def tearDown(self):
        super().tearDown()
        os.unlink(CONFIG)

    def begin(self, client, queue=0):
        """Begins a launch that the service tracks."""
        until(lambda: client.ask(f"begin {queue}") == "tracked", "a launch to be counted")

    def hold(self):
        self.begin(self.c)
        self.begin(self.hot)

    def wait_until_shut(self, client):
        """Waits until the gate of a client without launches is shut: until then a launch would pass, and not wait."""
        pid = show(client.unit, "MainPID")

        def is_shut():
            lines = run("xschedctl", "dump").splitlines()
            number = next(line.split()[1] for line in lines if f" pid={pid} " in line)
            queue = next(line for line in lines if line.startswith("  queue ") and f" client {number} " in line)
            return int(queue.split(" word=")[1].split()[0]) & 1

        until(is_shut, "the gate to be shut")

    def freeze(self):
        self.hold()
        self.check_frozen()
        until(lambda: self.get_group("Frozen"), "the service to know")
        self.assertFalse(self.get_group("Suspended"))

    def another(self, unit, where="system.slice"):
        """Starts another unit of the class, with a launch that does not end."""
        c = self.client("-p", "LogExtraFields=XSCHED_CLASS=cold", unit=unit)
        until(
            lambda: self.get(
                "Class", next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/" + unit)), GROUP
            )
            == "cold",
            "the class",
        )
        self.begin(c)
        return c

    def check_another_is_frozen(self, unit):
        """Waits until another unit is frozen. A unit that is still running then will not be frozen."""
        until(lambda: show(unit, "FreezerState") == "frozen", f"{unit} to be frozen")
        self.addCleanup(run, "systemctl", "stop", unit, status=None)

    def test_hold_and_release(self):
        self.check_runs()
        self.freeze()
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        self.check_resumed()
        until(lambda: not self.get_group("Frozen"), "the service to know")
        self.assertEqual(self.c.ask("complete 0"), "completed")
        self.assertEqual(self.c.ask("run 3"), "ran")
        self.assertEqual(self.get("Degraded"), [])

    def test_again(self):
        self.freeze()
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        self.check_resumed()
        self.begin(self.hot)
        self.check_frozen()

    def test_precedence_is_taken_away(self):
        self.freeze()
        run("xschedctl", "set", "hot.service", "priority=-20")
        self.check_resumed()

    def test_suspended_meanwhile(self):
        """With two reasons one is enough to keep the unit frozen."""
        self.freeze()
        run("xschedctl", "suspend", "cold.service")
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        until(lambda: self.get("State", self.client_of(self.hot), CLIENT) != "running", "the device to be free")
        self.check_frozen()
        run("xschedctl", "resume", "cold.service")
        self.check_resumed()

    def test_unit_that_obeys_is_not_frozen(self):
        """The client waits at the gate, and the unit's other process goes on."""
        other = self.another("late.service")
        self.begin(self.hot)
        self.wait_until_shut(self.c)
        self.c.tell("begin 0")
        self.check_another_is_frozen("late.service")
        self.check_runs()
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        self.assertEqual(self.c.line(), "tracked")
        self.assertEqual(other.ask("complete 0"), "completed")

    def test_not_while_another_process_of_the_unit_may_run(self):
        """The unit has a second process, with precedence over the client that the first is held for."""
        guest = self.client(unit="guest.service")
        pid = int(show("guest.service", "MainPID"))
        path = self.client_of(guest)
        write("/sys/fs/cgroup/system.slice/cold.service/cgroup.procs", str(pid))
        until(lambda: self.get_group("NClients") == 2, "the process to have moved")
        self.bus.call(NAME, path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", 30)})
        self.another("late.service")
        self.begin(self.c)
        self.begin(guest)
        self.hot.tell("begin 0")
        self.check_another_is_frozen("late.service")
        self.check_runs()
        self.assertEqual(guest.ask("complete 0"), "completed")
        self.assertEqual(self.hot.line(), "tracked")
        self.check_runs()
        self.bus.call(NAME, path, CLIENT, "Set", "ta{sv}", 0, {"Priority": ("i", -30)})
        self.check_frozen()
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        self.check_resumed()

    def test_never_a_unit_of_systemd(self):
        """A unit whose name begins with systemd- may be one that others need."""
        self.another("systemd-like.service")
        self.hold()
        self.check_frozen()
        self.assertEqual(show("systemd-like.service", "FreezerState"), "running")
        self.assertEqual(self.get("Degraded"), [])

    def test_only_when_suspended(self):
        write(CLASS, "[Class]\nPriority=-5\nFreeze=yes\nFreezeAfter=0\n")
        run("systemctl", "reload", "xsched")
        self.hold()
        write(CLASS, "[Class]\nPriority=-5\nFreeze=yes\nFreezeAfter=200ms\n")
        self.check_runs()
        run("systemctl", "reload", "xsched")
        self.check_frozen()

    def test_another_class(self):
        self.freeze()
        run("xschedctl", "set", "cold.service", "class=default")
        self.check_resumed()
        run("xschedctl", "reset", "cold.service")
        self.check_frozen()

    def test_service_stops(self):
        self.freeze()
        run("systemctl", "stop", "xsched")
        self.check_resumed()

    def test_service_restarts(self):
        """A restarted service does not know which units were frozen for a hold. It freezes the unit again once it holds
        the unit itself and the launch goes on."""
        self.freeze()
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 2, "the clients")
        self.check_frozen()
        self.assertEqual(self.hot.ask("complete 0"), "completed")
        self.check_resumed()
        self.assertEqual(self.c.ask("complete 0"), "completed")

    def test_service_is_killed(self):
        inside.drop_in("xsched.service", "50-stay", "[Service]\nRestart=no\n")
        self.addCleanup(self.undo_drop_in)
        self.freeze()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        self.check_resumed()

    def test_service_is_killed_and_nobody_cleans_up(self):
        inside.drop_in("xsched.service", "50-stay", "[Service]\nRestart=no\nExecStopPost=\n")
        self.addCleanup(self.undo_drop_in)
        self.freeze()
        run("systemctl", "kill", "--signal=KILL", "xsched")
        until(lambda: show("xsched", "ActiveState") == "failed", "the end")
        self.check_frozen()
        write(CLASS, "[Class]\nPriority=-5\n")
        run("systemctl", "start", "xsched")
        self.check_resumed()

    def test_unit_stops(self):
        self.freeze()
        run("systemctl", "stop", "cold.service")
        self.assertEqual(show("cold.service", "ActiveState"), "inactive")
        until(lambda: self.get("NClients") == 1 and not os.path.exists(RECORD), "it to be forgotten")
        self.assertEqual(self.get("Degraded"), [])

    def test_client_with_precedence_ends(self):
        self.freeze()
        self.hot.end()
        self.check_resumed()


if __name__ == "__main__":
    inside.main()
