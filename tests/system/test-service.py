# SPDX-License-Identifier: LGPL-2.1-or-later
"""The installed service, as an administrator uses it: enable, status, bus, journal, reload, hardening."""

import os
import re
import subprocess

import inside
from inside import NAME, PATH, STARTED, Case, run, show


class Service(Case):
    def test_enabled_and_active(self):
        run("systemctl", "enable", "--now", "xsched")
        self.assertEqual(run("systemctl", "is-enabled", "xsched").strip(), "enabled")
        self.assertEqual(run("systemctl", "is-active", "xsched").strip(), "active")
        self.assertEqual(show("xsched", "Type"), "notify")
        self.assertEqual(show("xsched", "StatusText"), "Scheduling")
        run("systemctl", "disable", "xsched")
        self.assertEqual(run("systemctl", "is-enabled", "xsched", status=1).strip(), "disabled")

    def test_runs_as_its_own_user(self):
        uid = int(run("id", "-u", "xsched"))
        pid = show("xsched", "MainPID")
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            status = f.read()
        self.assertIn(f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n", status)
        self.assertIn("CapEff:\t0000000000000000\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)
        self.assertTrue(0 < uid < 1000, uid)

    def test_journal(self):
        run("systemctl", "restart", "xsched")
        invocation = show("xsched", "InvocationID")
        found = inside.journal(f"MESSAGE_ID={STARTED}", f"_SYSTEMD_INVOCATION_ID={invocation}")
        self.assertEqual(len(found), 1, inside.log_tail())
        self.assertRegex(found[0]["MESSAGE"], r"^xschedd \S+ is up$")
        self.assertEqual(found[0]["SYSLOG_IDENTIFIER"], "xschedd")
        self.assertEqual(found[0]["_SYSTEMD_UNIT"], "xsched.service")

    def test_catalog(self):
        run("journalctl", "--update-catalog")
        self.assertIn("Subject:", run("journalctl", "--dump-catalog", STARTED))

    def test_tree_and_introspection(self):
        tree = run("busctl", "tree", "--list", NAME).split()
        for path in (PATH, f"{PATH}/client", f"{PATH}/device", f"{PATH}/group", "/org/freedesktop/LogControl1"):
            self.assertIn(path, tree)
        shown = run("busctl", "introspect", NAME, PATH)
        self.assertRegex(shown, r"(?m)^\.RegisterClient +method +ta\{sv\} +ohhh ")
        self.assertRegex(shown, r'(?m)^\.Version +property +s +"\d')

    def test_bus_activation(self):
        run("systemctl", "enable", "xsched")
        run("systemctl", "stop", "xsched")
        self.assertEqual(show("xsched", "ActiveState"), "inactive")
        version = run("busctl", "get-property", NAME, PATH, NAME, "Version")
        self.assertRegex(version, r'^s "\d')
        self.assertEqual(show("xsched", "ActiveState"), "active")

    def test_no_activation_where_it_was_not_enabled(self):
        """A call does not start a service that is disabled."""
        run("systemctl", "disable", "--now", "xsched")
        run("busctl", "get-property", NAME, PATH, NAME, "Version", status=1)
        self.assertEqual(show("xsched", "ActiveState"), "inactive")

    def test_cpu_latency_without_the_file(self):
        """The drop-in for CPULatency= does not keep the service from starting on a kernel without that file."""
        self.assertFalse(os.path.exists("/dev/cpu_dma_latency"))
        with open("/usr/share/doc/xsched/examples/cpu-latency.conf", encoding="utf-8") as f:
            inside.drop_in("xsched.service", "50-cpu-latency", f.read())
        self.addCleanup(run, "systemctl", "restart", "xsched")
        self.addCleanup(inside.drop_in, "xsched.service", "50-cpu-latency", "")
        run("systemctl", "restart", "xsched")
        self.assertEqual(show("xsched", "ActiveState"), "active")

    def test_status_exit_statuses(self):
        self.assertIn("running", run("xschedctl", "status"))
        run("systemctl", "stop", "xsched")
        run("xschedctl", "status", status=3)
        self.assertEqual(show("xsched", "ActiveState"), "inactive")  # a query does not start the service

    def test_reload(self):
        """systemctl reload reads a new class file, and does not restart the process."""
        pid = show("xsched", "MainPID")
        self.assertNotIn("brand-new", run("xschedctl", "--json=short", "list-classes"))
        run("mkdir", "-p", "/run/xsched/classes.d")
        with open("/run/xsched/classes.d/brand-new.class", "w", encoding="utf-8") as f:
            f.write("[Class]\nPriority=3\n")
        run("systemctl", "reload", "xsched")
        self.assertIn("brand-new", run("xschedctl", "--json=short", "list-classes"))
        self.assertEqual(show("xsched", "MainPID"), pid)

    def test_status_says_degraded(self):
        """The unit's status says that the service is degraded, and why; also after a restart, and until it is cured."""
        path = "/run/xsched/xsched.conf.d/50-broken.conf"
        inside.write(path, "[Scheduler]\nTimeSlice=no time\n")
        run("systemctl", "reload", "xsched")
        degraded = "Scheduling, degraded: configuration: 1 problem in the configuration, see the journal"
        self.assertEqual(show("xsched", "StatusText"), degraded)
        run("systemctl", "restart", "xsched")
        self.assertEqual(show("xsched", "StatusText"), degraded)
        self.assertIn(degraded, run("systemctl", "status", "xsched"))
        run("rm", path)
        run("systemctl", "reload", "xsched")
        self.assertEqual(show("xsched", "StatusText"), "Scheduling")

    def test_status_says_degraded_at_once(self):
        """The status also says so about a broken file of stored settings, until a restart without it."""
        run("systemctl", "stop", "xsched")
        with open("/var/lib/xsched/overrides.json", "w", encoding="utf-8") as f:
            f.write("{")
        run("systemctl", "start", "xsched")
        self.assertIn("Scheduling, degraded: ", show("xsched", "StatusText"))
        self.assertEqual(
            show("xsched", "StatusText").split("degraded: ")[1].split(":")[0], self.get("Degraded")[0].split(":")[0]
        )
        run("rm", "-f", "/var/lib/xsched/overrides.json.bad")
        run("systemctl", "restart", "xsched")
        self.assertEqual(show("xsched", "StatusText"), "Scheduling")

    def test_log_level(self):
        run("systemctl", "service-log-level", "xsched", "debug")
        self.assertEqual(run("systemctl", "service-log-level", "xsched").strip(), "debug")
        run("systemctl", "service-log-level", "xsched", "info")
        self.assertEqual(run("systemctl", "service-log-level", "xsched").strip(), "info")
        self.assertEqual(run("systemctl", "service-log-target", "xsched").strip(), "journal")

    def test_units_are_valid(self):
        done = subprocess.run(
            ["systemd-analyze", "verify", "xsched.service"], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_hardening(self):
        done = subprocess.run(
            ["systemd-analyze", "security", "--no-pager", "--threshold=20", "xsched.service"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        level = float(re.search(r"exposure level for xsched.service: ([0-9.]+)", done.stdout)[1])
        self.assertLessEqual(level, 2.0)

    def test_stop_is_in_order(self):
        run("systemctl", "stop", "xsched")
        self.assertEqual(show("xsched", "Result"), "success")
        self.assertEqual(show("xsched", "ExecMainStatus"), "0")


if __name__ == "__main__":
    inside.main()
