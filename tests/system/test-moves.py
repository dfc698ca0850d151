# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service schedules processes by their new cgroup after they were moved: by hand or by systemd, to an old or a new
cgroup, alone or among others. Nobody calls the service about it."""

import contextlib
import json
import os
import signal
import subprocess

import inside
from inside import CLIENT, GROUP, Case, run, show, until
from processes import process_id

ROOT = "/sys/fs/cgroup"
SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")

MANY = """
import os, sys
home = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().partition("::")[2].strip()
for i in range(17000):
    os.mkdir(f"{home}/{i}")
print("ready", flush=True)
sys.stdin.read()
for i in range(17000):
    os.rmdir(f"{home}/{i}")
"""


def procs(cgroup):
    return f"{ROOT}{cgroup}/cgroup.procs"


def put(pid, cgroup):
    os.makedirs(ROOT + cgroup, exist_ok=True)
    with open(procs(cgroup), "w", encoding="ascii") as f:
        f.write(str(pid))


class Moves(Case):
    @classmethod
    def setUpClass(cls):
        os.makedirs("/etc/xsched/xsched.conf.d", exist_ok=True)
        with open("/etc/xsched/xsched.conf.d/test.conf", "w", encoding="utf-8") as f:
            f.write("[Scheduler]\nStarveAfter=1h\n")
        run("systemctl", "restart", "xsched")

    def setUp(self):
        super().setUp()
        self.sleepers = []

    def tearDown(self):
        super().tearDown()
        for name in [g[0] for g in self.call("ListGroups")[0]]:
            self.call("ResetGroup", "st", name, 0)
        for p in self.sleepers:
            p.kill()
            p.wait()
        for directory, _, _ in os.walk(ROOT + "/moves", topdown=False):
            until(lambda d=directory: self.removed(d), f"{directory} to be empty")

    @staticmethod
    def removed(directory):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
            return True

    def populate(self, cgroup):
        """Puts another process into the cgroup, so that moves of others do not change its cgroup.events."""
        p = subprocess.Popen(["sleep", "infinity"])
        self.sleepers.append(p)
        put(p.pid, cgroup)

    def set(self, group, **settings):
        codes = {"Priority": "i", "Weight": "u"}
        self.call("SetGroup", "sta{sv}", group, 0, {k: (codes[k], v) for k, v in settings.items()})

    def pid(self, client):
        return int(show(client.unit, "MainPID"))

    def wait_for_group(self, path, group):
        until(
            lambda: self.get("Group", path, CLIENT) == group,
            f"{path} to be in {group}, not {self.get('Group', path, CLIENT)}",
        )

    def groups(self):
        """Returns {name: path} of the groups, except those without clients that only exist because of groups below
        them."""
        rows = json.loads(run("xschedctl", "--json=short", "list-groups"))
        above = {r["parent"] for r in rows}
        names = {r["group"] for r in rows if r["group"] not in above or r["clients"] > 0}
        return {g[0]: g[-1] for g in self.call("ListGroups")[0] if g[0] in names}

    def test_among_others(self):
        """A process moves between cgroups that have other processes before and after."""
        c = self.client()
        path, pid, former = self.client_of(c), self.pid(c), f"/system.slice/{c.unit}"
        for place in ("/moves/a", "/moves/b"):
            self.populate(place)
        self.set("/moves/a", Priority=5)
        self.bus.match(f"type='signal',member='PropertiesChanged',path='{path}'")
        self.bus.match("type='signal',member='GroupRemoved'")
        self.assertIn(former, self.groups())

        put(pid, "/moves/a")
        self.wait_for_group(path, "/moves/a")
        self.assertEqual(self.bus.signal("GroupRemoved").body[0], former)
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Priority", "Unit", "Slice")], [5, "", ""])
        while True:
            interface, changed, _ = self.bus.signal("PropertiesChanged").body
            if interface == CLIENT and "Group" in changed:
                self.assertEqual([changed[p] for p in ("Group", "Unit", "Slice")], ["/moves/a", "", ""])
                break
        put(pid, "/moves/b")
        self.wait_for_group(path, "/moves/b")
        self.assertEqual(self.get("Priority", path, CLIENT), 0)
        put(pid, former)
        self.wait_for_group(path, former)
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Unit", "Slice")], [c.unit, "system.slice"])
        self.assertEqual(set(self.groups()), {"/moves/a", former})
        moved = inside.journal("_SYSTEMD_UNIT=xsched.service", f"OBJECT_PID={pid}")
        self.assertEqual(sum("moved from" in m["MESSAGE"] for m in moved), 3)

    def test_verdicts(self):
        """A held process runs after a move to a group that may run, and a running one is held after the opposite."""
        low, high = self.client(queues=2), self.client()
        path, pid = self.client_of(low), self.pid(low)
        for place, priority in (("/moves/low", -10), ("/moves/lower", -20), ("/moves/top", 10)):
            self.populate(place)
            self.set(place, Priority=priority)
        put(pid, "/moves/low")
        self.wait_for_group(path, "/moves/low")
        self.assertIn(high.ask("begin 0"), ("tracked", "untracked"))
        low.tell("begin 0")
        until(lambda: self.get("State", path, CLIENT) == "held", "the low one to be held")

        put(pid, "/moves/lower")
        self.wait_for_group(path, "/moves/lower")
        self.assertEqual(self.get("State", path, CLIENT), "held")
        put(pid, "/moves/top")
        self.assertEqual(low.line(), "tracked")
        until(lambda: self.get("State", self.client_of(high), CLIENT) == "held", "the other one to be held now")
        self.assertEqual(low.ask("complete 0"), "completed")
        until(lambda: self.get("State", self.client_of(high), CLIENT) == "running", "the other one to run")

        put(pid, "/moves/low")
        self.wait_for_group(path, "/moves/low")
        low.tell("begin 1")
        until(lambda: self.get("State", path, CLIENT) == "held", "the low one to be held again")
        self.assertEqual(high.ask("complete 0"), "completed")
        self.assertEqual(low.line(), "tracked")
        self.assertEqual(low.ask("complete 1"), "completed")

    def test_accounting(self):
        """Used time stays with the group in which it was used."""
        c, other = self.client(), self.client()
        path, pid = self.client_of(c), self.pid(c)
        for place in ("/moves/a", "/moves/b"):
            self.populate(place)
            self.set(place, Weight=50)
        put(pid, "/moves/a")
        self.wait_for_group(path, "/moves/a")
        used = lambda place: self.get("RunUSec", self.groups()[place], GROUP)
        self.assertIn(other.ask("begin 0"), ("tracked", "untracked"))
        c.tell("begin 0")
        until(lambda: used("/moves/a") > 0, "it to run")
        put(pid, "/moves/b")
        self.wait_for_group(path, "/moves/b")
        before = used("/moves/a")
        until(lambda: used("/moves/b") > 0, "it to run there")
        self.assertEqual(used("/moves/a"), before)
        self.assertGreater(before, 0)
        self.assertEqual(other.ask("complete 0"), "completed")
        self.assertEqual(c.line(), "tracked")
        c.ask("complete 0")

    def test_made_for_it(self):
        """Three nested cgroups are made at once, and the process moves into the deepest one immediately."""
        c = self.client()
        path, pid = self.client_of(c), self.pid(c)
        for i in range(50):
            place = f"/moves/job_{i}/step_0/task_0"
            put(pid, place)
            self.wait_for_group(path, place)
            self.assertEqual(list(self.groups()), [place])
        self.assertEqual(c.ask("run 10"), "ran")

    def test_names_of_containers(self):
        """The container, the pod and Slurm's step that a path names are on the bus and in xschedctl's lists, and change
        with the path."""
        uid, id_ = "2bb4e2b5-9b5c-4f2c-8c4c-ab06a8ef8e35", "3dc1c7b5e5f8b1f6" * 4
        places = {
            f"/moves/kubepods/burstable/pod{uid}/{id_}": [f"cri:{id_}", uid, "burstable", ""],
            "/moves/slurmstepd.scope/job_7/step_batch/user/task_0": ["", "", "", "7.batch"],
            f"/moves/docker/{id_}": [f"docker:{id_}", "", "", ""],
        }
        c = self.client()
        path, pid = self.client_of(c), self.pid(c)
        for place, expected in places.items():
            put(pid, place)
            self.wait_for_group(path, place)
            for object_, interface in ((path, CLIENT), (self.groups()[place], GROUP)):
                self.assertEqual(
                    [self.get(p, object_, interface) for p in ("Container", "Pod", "PodQOS", "SlurmJob")], expected
                )
            for verb in ("list-clients", "list-groups"):
                row = next(r for r in json.loads(run("xschedctl", "--json=short", verb)) if r["group"] == place)
                self.assertEqual([row[k] or "" for k in ("container", "pod", "pod_qos", "slurm_job")], expected)

    def test_by_systemd(self):
        """systemd moves a process into a new scope, and into an existing unit."""
        c = self.client()
        path, pid = self.client_of(c), self.pid(c)
        self.set("gpu-batch.slice", Priority=-3)
        run(
            "busctl",
            "call",
            *SYSTEMD,
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            "picked.scope",
            "fail",
            "2",
            "PIDs",
            "au",
            "1",
            str(pid),
            "Slice",
            "s",
            "gpu-batch.slice",
            "0",
        )
        self.wait_for_group(path, "/gpu.slice/gpu-batch.slice/picked.scope")
        self.assertEqual(
            [self.get(p, path, CLIENT) for p in ("Unit", "Slice", "Priority")], ["picked.scope", "gpu-batch.slice", -3]
        )
        home = self.client("-p", "Delegate=yes")
        run("busctl", "call", *SYSTEMD, "AttachProcessesToUnit", "ssau", home.unit, "/", "1", str(pid))
        self.wait_for_group(path, f"/system.slice/{home.unit}")
        self.assertEqual(self.get("NClients", self.groups()[f"/system.slice/{home.unit}"], GROUP), 2)
        self.assertEqual(self.get("Priority", path, CLIENT), 0)

    def test_job(self):
        """Processes of a job stay in it when they move; the client's unit and slice change."""
        maker = subprocess.Popen(["sleep", "infinity"])
        self.sleepers.append(maker)
        token, _ = self.call("CreateJob", "sa{sv}utt", "far", {}, *process_id(maker.pid), 0)
        ready = subprocess.Popen(
            [inside.TEST_CLIENT, inside.DEVICE_ID, "1"],
            env={**os.environ, "XSCHED_JOB": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.addCleanup(ready.stdout.close)
        self.addCleanup(ready.kill)
        self.assertEqual(ready.stdout.readline().strip(), "ready")
        client = self.call("ListClients")[0][0]
        pid, group, path = client[1], client[4], client[-1]
        self.assertTrue(group.startswith("job:"), client)
        run("systemd-run", "--quiet", "--slice=other.slice", "--unit=holder.service", "sleep", "infinity")
        put(pid, "/other.slice/holder.service")
        until(lambda: self.get("Unit", path, CLIENT) == "holder.service", "the unit to be told")
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Slice", "Group")], ["other.slice", group])
        ready.stdin.close()
        self.assertEqual(ready.wait(inside.DEADLINE), 0)
        maker.kill()
        until(lambda: group not in self.groups(), "the job to end")
        run("systemctl", "stop", "holder.service")

    def test_user_with_many_cgroups(self):
        """One user's watched cgroups are limited to a fourth of the 65536; beyond that Degraded says so. Cgroups of
        other users are still watched."""
        c = self.client("--uid=daemon", "-p", "Delegate=yes")
        many = self.client("--uid=games", "-p", "Delegate=yes", program=("/usr/bin/python3", "-c", MANY))
        uid = run("id", "-u", "games").strip()
        until(lambda: [d for d in self.get("Degraded") if f"cgroups of user {uid}: " in d], "Degraded to say so")
        self.assertEqual(len(self.get("Degraded")), 1)
        put(self.pid(c), f"/system.slice/{c.unit}/inner")
        self.wait_for_group(self.client_of(c), f"/system.slice/{c.unit}/inner")
        many.end()
        until(lambda: not self.get("Degraded"), "Degraded to be empty")

    def test_cgroups_that_come_and_go(self):
        """Cgroups that are removed leave no watch behind."""
        self.client()
        before = until(self.n_watches, "cgroups to be watched")
        for i in range(300):
            os.makedirs(f"{ROOT}/moves/gone/{i}")
            os.rmdir(f"{ROOT}/moves/gone/{i}")
        os.rmdir(ROOT + "/moves/gone")
        os.makedirs(ROOT + "/moves/last")
        until(lambda: self.n_watches() <= before + 10, "the watches of removed cgroups to end")

    @staticmethod
    def n_watches():
        directory = f"/proc/{show('xsched', 'MainPID')}/fdinfo"
        n = 0
        for fd in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError), open(f"{directory}/{fd}", encoding="ascii") as f:
                n += f.read().count("inotify wd:")
        return n

    def test_restart(self):
        """Moves before a restart, and moves while the service is down, are both known after it."""
        c = self.client()
        path, pid = self.client_of(c), self.pid(c)
        put(pid, "/moves/a")
        self.wait_for_group(path, "/moves/a")
        run("systemctl", "restart", "xsched")
        self.assertEqual(self.get("Group", path, CLIENT), "/moves/a")
        service = int(show("xsched", "MainPID"))
        os.kill(service, signal.SIGSTOP)
        put(pid, "/moves/b")
        os.kill(service, signal.SIGKILL)
        until(
            lambda: int(show("xsched", "MainPID")) not in (0, service) and show("xsched", "ActiveState") == "active",
            "another service",
        )
        self.assertEqual(self.get("Group", path, CLIENT), "/moves/b")
        put(pid, "/moves/a")
        self.wait_for_group(path, "/moves/a")


if __name__ == "__main__":
    inside.main()
