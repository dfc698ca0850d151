# SPDX-License-Identifier: LGPL-2.1-or-later
"""Suspending a slice, unit or cgroup holds all clients below it, also those that come later, and ends with it."""

import os
import subprocess
import inside
from inside import CLIENT, Case, run, show, until
from processes import process_id

BATCH = "/gpu.slice/gpu-batch.slice"
NIGHT = f"{BATCH}/gpu-batch-night.slice"
ONLINE = "/gpu.slice/gpu-online.slice"


def procs(cgroup):
    return f"/sys/fs/cgroup{cgroup}/cgroup.procs"


class Suspend(Case):
    def setUp(self):
        super().setUp()
        self.suspended = []
        run("systemctl", "start", "gpu-batch.slice")

    def tearDown(self):
        for name in self.suspended:
            run("xschedctl", "resume", name, status=None)
        super().tearDown()

    def suspend(self, name):
        self.suspended.append(name)
        run("xschedctl", "suspend", name)

    def fails(self, *argv):
        done = subprocess.run(["xschedctl", *argv], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def suspended_by(self, client):
        path = self.client_of(client)
        by = self.get("SuspendedBy", path, CLIENT)
        if by:
            self.assertTrue(self.get("Suspended", path, CLIENT))
        return by

    def launches(self, client):
        return self.get("Submitted", self.client_of(client), CLIENT)

    def check_held(self, client, by):
        """Checks that a launch waits at the gate, and that the client is suspended by this group."""
        self.assertEqual(self.suspended_by(client), by)
        before = self.launches(client)
        client.tell("begin 0")
        pid = show(client.unit, "MainPID")
        until(lambda: self.waits(pid), "the launch to wait")
        self.assertEqual(self.launches(client), before)
        self.assertEqual(self.get("State", self.client_of(client), CLIENT), "suspended")

    def waits(self, pid):
        """Returns whether a launch of the process waits, by the service's dump of its slots."""
        lines = run("xschedctl", "dump").splitlines()
        number = next(line.split()[1] for line in lines if f" pid={pid} " in line)
        return any(f" client {number} " in line and "waiters=1" in line for line in lines)

    def check_goes_on(self, client):
        self.assertIn(client.line(), ("tracked", "untracked"))
        self.assertEqual(client.ask("complete 0"), "completed")
        self.assertEqual(self.suspended_by(client), "")

    def test_slice_holds_what_is_below(self):
        a = self.client("--slice=gpu-batch-night.slice", unit="a.service")
        b = self.client("--slice=gpu-batch.slice", unit="b.service")
        other = self.client("--slice=gpu-online.slice", unit="other.service")
        self.suspend("gpu-batch.slice")
        for c in (a, b):
            self.check_held(c, BATCH)
        self.assertEqual(other.ask("run 3"), "ran")
        self.assertEqual(self.suspended_by(other), "")

        # Clients that come later are held, too: a new one in a new slice, and one that is moved there.
        late = self.client("--slice=gpu-batch-late.slice", unit="late.service")
        self.check_held(late, BATCH)
        with open(procs(f"{NIGHT}/a.service"), "w", encoding="ascii") as f:
            f.write(show("other.service", "MainPID"))
        until(lambda: self.suspended_by(other) == BATCH, "the moved client to be suspended")
        self.check_held(other, BATCH)

        run("xschedctl", "resume", "gpu-batch.slice")
        for c in (a, b, late, other):
            self.check_goes_on(c)

    def test_lists_say_why(self):
        self.client("--slice=gpu-batch-night.slice", unit="a.service")
        self.suspend("gpu-batch.slice")
        groups = {g["group"]: g for g in inside.json.loads(run("xschedctl", "--json=short", "list-groups"))}
        for name in (BATCH, NIGHT, f"{NIGHT}/a.service"):
            self.assertEqual((groups[name]["state"], groups[name]["suspended_by"]), ("suspended", BATCH))
        self.assertEqual(groups["/gpu.slice"]["suspended_by"], "")
        (client,) = inside.json.loads(run("xschedctl", "--json=short", "list-clients"))
        self.assertEqual((client["state"], client["suspended_by"]), ("suspended", BATCH))
        self.assertRegex(run("xschedctl", "--full", "status", "a.service"), rf"(?s)SUSPENDED BY.*{BATCH}")

    def test_resume_below_a_suspended_slice(self):
        """It would change nothing, so it fails and says why."""
        a = self.client("--slice=gpu-batch-night.slice", unit="a.service")
        self.suspend("gpu-batch.slice")
        for target in ("a.service", "gpu-batch-night.slice", show("a.service", "MainPID")):
            self.assertIn(f"suspended with {BATCH}", self.fails("resume", target))
        run("xschedctl", "suspend", "a.service")
        run("xschedctl", "resume", "a.service")
        self.assertEqual(self.suspended_by(a), BATCH)

    def test_slice_without_clients(self):
        """The suspension of a slice outlives the processes in it, and ends with the slice."""
        run("systemctl", "start", "gpu-online.slice")
        self.suspend("gpu-online.slice")
        for _ in range(2):
            c = self.client("--slice=gpu-online.slice", unit="c.service")
            self.check_held(c, ONLINE)
            run("systemctl", "kill", "--signal=KILL", "c.service")
            c.end()
            until(lambda: self.get("NClients") == 0, "it to go")
        run("systemctl", "stop", "gpu-online.slice")
        until(lambda: not [g for g in self.call("ListGroups")[0] if g[0] == ONLINE], "the suspension to end")
        c = self.client("--slice=gpu-online.slice", unit="c.service")
        self.assertEqual(self.suspended_by(c), "")
        self.assertEqual(c.ask("run 1"), "ran")

    def test_unit_ends(self):
        c = self.client(unit="c.service")
        self.suspend("c.service")
        self.assertEqual(self.suspended_by(c), "/system.slice/c.service")
        run("systemctl", "stop", "c.service")
        c.end()
        until(
            lambda: not [g for g in self.call("ListGroups")[0] if g[0].endswith("/c.service")], "the suspension to end"
        )
        c = self.client(unit="c.service")
        self.assertEqual(self.suspended_by(c), "")
        self.assertEqual(c.ask("run 1"), "ran")

    def test_unit_without_clients(self):
        run("systemd-run", "--quiet", "--unit=still.service", "--slice=gpu-batch.slice", "sleep", "infinity")
        self.addCleanup(run, "systemctl", "stop", "still.service")
        self.suspend("still.service")
        c = self.client(unit="c.service")
        with open(procs(f"{BATCH}/still.service"), "w", encoding="ascii") as f:
            f.write(show("c.service", "MainPID"))
        until(lambda: self.suspended_by(c) == f"{BATCH}/still.service", "it to be suspended")

    def test_nothing_to_suspend(self):
        run("systemctl", "stop", "gpu-online.slice")
        for target in ("nobody.service", "gpu-online.slice", "no-such.slice", "/no/such", f"{BATCH}/..", "/../.."):
            for verb in ("suspend", "resume"):
                said = self.fails(verb, target)
                self.assertIn("no such group", said, target)
                self.assertTrue(target.startswith("/") or f"{target} is not active" in said, said)

    def test_unit_with_settings_that_does_not_run(self):
        run("xschedctl", "set", "--runtime", "--force", "later.service", "weight=3")
        self.addCleanup(run, "xschedctl", "reset", "later.service")
        self.assertIn("no such group", self.fails("suspend", "later.service"))

    def test_users_suspend_nothing(self):
        run("systemctl", "start", "gpu-online.slice")
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        for member in ("SuspendGroup", "ResumeGroup"):
            for name in ("gpu-online.slice", "/gpu.slice/gpu-batch.slice", "/no/such"):
                call = (*user, "busctl", "call", inside.NAME, inside.PATH, inside.NAME, member, "st", name, "0")
                done = subprocess.run(call, capture_output=True, text=True, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, "Not authorised|authentication required|Access denied|nteractive")
        self.assertFalse([g for g in self.call("ListGroups")[0] if ".slice" in g[0]])

    def test_job_of_somewhere_else(self):
        """A client in a job is in the job's group, but is still suspended with its slice."""
        maker = subprocess.Popen(["sleep", "infinity"])
        token = self.call("CreateJob", "sa{sv}utt", "elsewhere", {}, *process_id(maker.pid), 0)[0]
        c = self.client("--slice=gpu-batch.slice", f"--setenv=XSCHED_JOB={token}", unit="c.service")
        self.assertTrue(self.get("Group", self.client_of(c), CLIENT).startswith("job:"))
        self.suspend("gpu-batch.slice")
        self.check_held(c, BATCH)
        run("xschedctl", "resume", "gpu-batch.slice")
        self.check_goes_on(c)
        maker.kill()
        maker.wait()

    def test_restart_of_the_service(self):
        a = self.client("--slice=gpu-batch-night.slice", unit="a.service")
        run("systemctl", "start", "gpu-online.slice")
        self.suspend("gpu-batch.slice")
        self.suspend("gpu-online.slice")
        self.next_service("restart", "xsched")
        self.assertEqual(self.suspended_by(a), BATCH)
        self.next_service("kill", "--signal=KILL", "xsched")
        self.assertEqual(self.suspended_by(a), BATCH)
        self.check_held(a, BATCH)
        b = self.client("--slice=gpu-online.slice", unit="b.service")
        self.assertEqual(self.suspended_by(b), ONLINE)
        b.end()

        # A slice that was stopped and started while the service was down is another one.
        run("systemctl", "kill", "--signal=STOP", "xsched")
        run("systemctl", "stop", "gpu-online.slice")
        run("systemctl", "start", "gpu-online.slice")
        self.next_service("kill", "--signal=KILL", "xsched")
        self.assertFalse([g for g in self.call("ListGroups")[0] if g[0] == ONLINE])
        self.assertEqual(self.suspended_by(a), BATCH)
        run("xschedctl", "resume", "gpu-batch.slice")
        self.check_goes_on(a)

    @staticmethod
    def next_service(*how):
        pid = show("xsched", "MainPID")
        run("systemctl", *how)
        until(
            lambda: show("xsched", "MainPID") not in ("0", pid) and show("xsched", "ActiveState") == "active",
            "the next service",
        )


if __name__ == "__main__":
    inside.main()
