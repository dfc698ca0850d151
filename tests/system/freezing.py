# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of tests about Freeze=yes: a unit of such a class, whose progress can be measured, with the real polkitd,
the example's rule, and the real freezer."""

import os
import time

from inside import GROUP, Case, run, show, until, write

RULE = "/etc/polkit-1/rules.d/50-xsched-freeze.rules"
EXAMPLE = "/usr/share/doc/xsched/examples/xsched-freeze.rules"
CLASS = "/etc/xsched/classes.d/cold.class"
RECORD = "/run/xschedd/frozen"


told = ""


def set_rule(text):
    """Sets polkitd's rule, and restarts polkitd unless it has that rule already: by itself it would read the rule again
    only some time later."""
    global told
    if text == told:
        return
    told = text
    if text:
        write(RULE, text)
        os.chmod(RULE, 0o644)
    elif os.path.exists(RULE):
        os.unlink(RULE)
    run("systemctl", "reset-failed", "polkit", status=None)
    run("systemctl", "restart", "polkit")


class FreezeCase(Case):
    def setUp(self):
        with open(EXAMPLE, encoding="utf-8") as f:
            set_rule(f.read())
        write(CLASS, "[Class]\nPriority=-5\nFreeze=yes\nFreezeAfter=200ms\n")
        run("systemctl", "restart", "xsched")
        super().setUp()
        # Beside the client, the unit has a process that writes all the time, and which freezing has to stop.
        self.counter = f"/run/count-{self.id()}"
        script = f'while :; do echo >>{self.counter}; sleep 0.002; done & shift; exec "$@"'
        self.c = self.client(
            unit="cold.service",
            command=[
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=cold.service",
                "-p",
                "LogExtraFields=XSCHED_CLASS=cold",
                "--",
                "sh",
                "-c",
                script,
                "sh",
            ],
        )
        until(lambda: self.get_group("Class") == "cold", "the class")

    def tearDown(self):
        self.let_go()
        super().tearDown()

    def let_go(self):
        """Thaws everything that the test has left frozen."""
        with open(EXAMPLE, encoding="utf-8") as f:
            set_rule(f.read())
        run("systemctl", "start", "xsched")
        if self.group():
            run("xschedctl", "resume", "cold.service")
        run("systemctl", "thaw", "cold.service", status=None)
        run("systemctl", "stop", "cold.service", status=None)

    def group(self):
        return next((g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/cold.service")), None)

    def get_group(self, name):
        return self.get(name, self.group(), GROUP)

    def count(self):
        return os.path.getsize(self.counter)

    def check_runs(self):
        until(lambda: show("cold.service", "FreezerState") == "running", "systemd to say so")
        before = self.count()
        until(lambda: self.count() > before, "progress")

    def check_frozen(self):
        """Checks that the unit is frozen: by systemd's state, by the kernel's, and because it writes nothing in the
        time of many writes."""
        until(lambda: show("cold.service", "FreezerState") == "frozen", "systemd to say so")
        with open("/sys/fs/cgroup/system.slice/cold.service/cgroup.events", encoding="utf-8") as f:
            self.assertIn("frozen 1", f.read())
        before = self.count()
        for _ in range(50):
            time.sleep(0.002)  # a running unit writes once in this time
            self.assertEqual(self.count(), before)

    def check_resumed(self):
        self.check_runs()
        until(lambda: not os.path.exists(RECORD), "the record to go")

    def undo_drop_in(self):
        run("rm", "-rf", "/run/systemd/system/xsched.service.d")
        run("systemctl", "daemon-reload")
