# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl says about a process or a unit why it does not run: it is suspended, held, over its limit, or not
registered."""

import json
import os
import re
import subprocess

import inside
from inside import CLIENT, DEVICE_ID, TEST_CLIENT, Case, run, show, until

REFUSAL = "/etc/dbus-1/system.d/test-refusal.conf"


class Why(Case):
    def setUp(self):
        super().setUp()
        self.alone = False

    def tearDown(self):
        if self.alone:
            run("systemctl", "stop", "alone")
        super().tearDown()

    def said(self, client, words):
        """Checks what `check`, `explain` and `status` print about the process and its unit. Returns the wait."""
        pid = show(client.unit, "MainPID")
        for argv in (
            ["check", pid],
            ["explain", pid],
            ["explain", client.unit],
            ["status", pid],
            ["status", client.unit],
            ["status"],
        ):
            done = subprocess.run(
                ["xschedctl", "--full", "--no-pager", *argv], capture_output=True, text=True, check=False
            )
            self.assertRegex(re.sub(r"\s+", " ", done.stdout + done.stderr), words, argv)
        waits = json.loads(run("xschedctl", "--json=short", "status", client.unit))["waits"]
        self.assertTrue(waits[0]["group"].endswith(client.unit), waits)
        return waits[0]

    def waits(self, client):
        return self.get("Waits", self.client_of(client), CLIENT)

    def test_suspended(self):
        c = self.client(unit="job.service")
        run("xschedctl", "suspend", "job.service")
        self.assertEqual(self.said(c, "suspended with /system.slice/job.service")["reason"], "suspended")
        run("xschedctl", "resume", "job.service")
        self.assertEqual(json.loads(run("xschedctl", "--json=short", "status", "job.service"))["waits"], [])

    def test_suspended_with_its_slice(self):
        c = self.client("--slice=gpu-batch.slice", unit="job.service")
        run("xschedctl", "suspend", "gpu-batch.slice")
        self.assertEqual(self.said(c, "suspended with /gpu.slice/gpu-batch.slice")["by"], "/gpu.slice/gpu-batch.slice")
        run("xschedctl", "resume", "gpu-batch.slice")
        self.assertEqual(self.waits(c), [])

    def test_held(self):
        low = self.client("-p", "LogExtraFields=XSCHED_PRIORITY=-10", unit="low.service")
        until(lambda: self.get("Priority", self.client_of(low), CLIENT) == -10, "its priority")
        high = self.client(unit="high.service")
        self.assertEqual(high.ask("work"), "working")
        self.assertEqual(low.ask("work"), "working")
        held = lambda: int(
            json.loads(run("xschedctl", "--json=short", "list-clients"))[
                [i["pid"] for i in json.loads(run("xschedctl", "--json=short", "list-clients"))].index(
                    int(show("low.service", "MainPID"))
                )
            ]["held_usec"]
        )
        until(lambda: [w[1] for w in self.waits(low)] == ["priority"], "it to be held")
        # The high unit's work has gaps, in which no group is named.
        until(
            lambda: self.waits(low)
            and re.search("high.service runs, with a higher priority", run("xschedctl", "explain", "low.service")),
            "the high unit to be named",
        )
        before = held()
        until(lambda: held() > before, "the time to count")
        self.assertRegex(high.ask("rest"), "^[0-9]+ ")
        low.ask("rest")

    def test_max(self):
        c = self.client(unit="small.service")
        run("xschedctl", "set", "--runtime", "small.service", "max=1%", "period=10s")
        self.addCleanup(run, "xschedctl", "reset", "small.service", status=None)
        self.assertEqual(c.ask("work"), "working")
        until(lambda: [w[1] for w in self.waits(c)] == ["max"], "its quota to be used up")
        wait = self.said(c, r"held for [^:]*: Max= of /system.slice/small.service is used up, for another [0-9.]+m?s")
        self.assertTrue(0 < wait["left_usec"] <= 10_000_000, wait)
        run("xschedctl", "set", "--runtime", "small.service", "max=infinity")
        c.ask("rest")

    def start(self, *options):
        """Starts a process that is refused. Returns its pid."""
        run(
            "systemd-run",
            "--quiet",
            "--collect",
            "--unit=alone",
            *options,
            "--",
            "sh",
            "-c",
            f"sleep 1000 | exec {TEST_CLIENT} {DEVICE_ID} 1",
        )
        self.alone = True
        return until(self.alone_pid, "the process")

    def alone_pid(self):
        for pid in run("cat", f"/sys/fs/cgroup{show('alone', 'ControlGroup')}/cgroup.procs").split():
            if run("cat", f"/proc/{pid}/comm", status=None) == "test-client\n":
                return pid
        return None

    def check_is_told(self, pid, words):
        def look():
            done = subprocess.run(
                ["xschedctl", "--json=short", "check", pid], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 1, done.stdout)
            return next(
                (
                    i["detail"]
                    for i in json.loads(done.stdout)
                    if i["check"] == "registered" and re.search(words, i["detail"])
                ),
                None,
            )

        until(look, words)
        cgroup = show("alone", "ControlGroup")
        names = (pid, "alone", "alone.service", cgroup)
        for verb, what in ((v, n) for v in ("explain", "status", "show") for n in names):
            done = subprocess.run(["xschedctl", verb, what], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, (verb, what, done.stdout))
            self.assertRegex(done.stderr, ("" if what == pid else f"process {pid}: ") + words, (verb, what))

    def test_refused_by_the_bus(self):
        run("useradd", "--create-home", "eve")
        inside.write(
            REFUSAL,
            (
                '<busconfig><policy user="eve"><deny send_destination="org.xsched.Scheduler" '
                'send_interface="org.xsched.Scheduler" send_member="RegisterClient"/></policy></busconfig>'
            ),
        )
        self.addCleanup(
            run,
            "busctl",
            "call",
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus",
            "ReloadConfig",
        )
        self.addCleanup(os.unlink, REFUSAL)
        run("busctl", "call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ReloadConfig")
        # The bus's policy applies only to registrations on the bus, so the process may not use the service's socket.
        bus = "--setenv=XSCHED_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket"
        words = r"not taken by the service: org\.freedesktop\.DBus\.Error\.AccessDenied: \S"
        self.check_is_told(self.start("--uid=eve", bus), words)

    def test_refused_by_the_service(self):
        inside.write("/run/xsched/xsched.conf.d/few.conf", "[Limits]\nMaxClientsPerUser=1\n")
        self.addCleanup(run, "xschedctl", "reload")
        self.addCleanup(os.unlink, "/run/xsched/xsched.conf.d/few.conf")
        run("xschedctl", "reload")
        first = self.client()
        pid = self.start()
        words = r"not taken by the service: org\.xsched\.Scheduler\.Error\.QuotaExceeded: \S"
        self.check_is_told(pid, words)
        # A unit with settings is a group, also without a client in it.
        run("xschedctl", "set", "--runtime", "alone.service", "weight=5")
        self.addCleanup(run, "xschedctl", "reset", "alone.service")
        words = rf"process {pid}: {words}"
        self.check_is_said_of_the_unit(words)
        # The refused process is still reported when the unit has another one, which is registered.
        with open(f"/sys/fs/cgroup{show('alone', 'ControlGroup')}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(show(first.unit, "MainPID"))
        group = self.call("GetGroup", "s", "alone.service")[0]
        until(lambda: self.get("NClients", group, inside.GROUP) == 1, "it to be there")
        self.check_is_said_of_the_unit(words)
        self.assertEqual(first.ask("run 1"), "ran")

    def check_is_said_of_the_unit(self, words):
        self.assertRegex(run("xschedctl", "--full", "explain", "alone"), rf"Waits +- *unregistered {words}")
        self.assertRegex(run("xschedctl", "--full", "status", "alone"), rf"WHY\n\S*alone.service +- +{words}")
        (wait,) = json.loads(run("xschedctl", "--json=short", "status", "alone"))["waits"]
        self.assertRegex(wait["group"], "(^|/)alone.service$")
        self.assertEqual((wait["reason"], wait["device"]), ("unregistered", ""))
        self.assertRegex(wait["why"], words)
        self.assertRegex(run("xschedctl", "show", "--value", "-p", "Unregistered", "alone"), rf"\A{words}")

    def test_registered_later(self):
        """Once a process is registered, nothing says any more that it was not."""
        run("systemctl", "stop", "xsched")
        pid = self.start()
        maps = lambda: run("cat", f"/proc/{pid}/maps")
        until(lambda: "memfd:xsched: no service on the bus" in maps(), "the process to say that it found no service")
        run("systemctl", "start", "xsched")
        until(lambda: self.get("NClients") == 1, "it to register")
        until(lambda: "memfd:xsched: " not in maps(), "this note to go")
        self.assertEqual(run("xschedctl", "check", pid, status=None).count("for nothing"), 1)


if __name__ == "__main__":
    inside.main()
