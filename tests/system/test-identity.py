# SPDX-License-Identifier: LGPL-2.1-or-later
"""The group of a process: services, scopes, user managers, delegated trees; and that it is scheduled by its unit's
settings."""

import json
import os
import platform
import re
import subprocess
import time

import inside
from inside import CLIENT, GROUP, NAME, TEST_CLIENT, DEVICE_ID, Case, run, show, until
from terminal import Terminal

BUS, BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"

# Enters the cgroup, and executes the program.
ENTER = """import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
with open(sys.argv[1] + "/cgroup.procs", "w") as f:
    f.write("0")
os.execv(sys.argv[3], sys.argv[3:])"""


class Identity(Case):
    def check(self, client, group, unit, slice_, path=None):
        path = path or self.client_of(client)
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Group", "Unit", "Slice")], [group, unit, slice_])
        listed = json.loads(run("xschedctl", "--json=short", "list-groups"))
        self.assertIn(group, [g["group"] for g in listed], listed)
        found = next(g for g in self.call("ListGroups")[0] if g[0] == group)
        self.assertEqual(self.get("Unit", found[-1], GROUP), unit)

    def test_service(self):
        self.check(self.client(unit="train.service"), "/system.slice/train.service", "train.service", "system.slice")

    def test_service_in_a_slice_of_slices(self):
        c = self.client("--slice=gpu-batch-night.slice", unit="night@7.service")
        group = "/gpu.slice/gpu-batch.slice/gpu-batch-night.slice/night@7.service"
        self.check(c, group, "night@7.service", "gpu-batch-night.slice")

    def test_escaped_names(self):
        c = self.client(unit="a\\x2db\\x20c.service")
        self.check(c, "/system.slice/a\\x2db\\x20c.service", "a\\x2db\\x20c.service", "system.slice")

    def test_names_of_any_bytes(self):
        """A cgroup may have any name. Each is a group of its own. xschedctl prints its name in a form that can be typed
        and that is not taken for an option, a pattern, a unit or an escape sequence."""
        names = (b"-x", b" ", b"a b", b'a"b', b"a\\b", b"it's", b"{}", b"$(id)", b"%s%n", b"<b>&amp;", b"a\rb")
        names += (b"\x1b[31mred", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xae", b".slice", b"-.slice", b"x" * 255)
        there = [
            self.client(command=["/usr/bin/python3", "-c", ENTER, os.fsdecode(b"/sys/fs/cgroup/odd/" + n)])
            for n in names
        ]
        groups = [g[0] for g in self.call("ListGroups")[0] if g[0].startswith("/odd/")]
        self.assertEqual(len(set(groups)), len(names), groups)
        for g in groups:
            run("xschedctl", "set", "--runtime", f"group:{g}", "weight=50")
            self.assertIn("Weight=50", run("xschedctl", "show", f"group:{g}"))
            run("xschedctl", "reset", f"group:{g}")
        listed = run("xschedctl", "list-groups", "--json=short")
        self.assertLessEqual(set(groups), {g["group"] for g in json.loads(listed)})
        for argv in (("list-groups",), ("list-clients",), ("status",), ("dump",)):
            self.assertNotRegex(run("xschedctl", *argv, errors="strict"), r"[\x00-\x09\x0b-\x1f\x7f\u202e]")
        run("systemctl", "restart", "xsched")
        self.assertEqual({g[0] for g in self.call("ListGroups")[0] if g[0] in groups}, set(groups))
        until(lambda: self.get("NClients") == len(there), "all to be there again")

    def test_scope(self):
        c = self.client(command=["systemd-run", "--quiet", "--scope", "--unit=adhoc.scope", "--slice=gpu-batch.slice"])
        self.check(c, "/gpu.slice/gpu-batch.slice/adhoc.scope", "adhoc.scope", "gpu-batch.slice", self.only_client())

    def only_client(self):
        clients = self.call("ListClients")[0]
        self.assertEqual(len(clients), 1, clients)
        return clients[0][-1]

    def test_delegated_tree(self):
        """Cgroups that a unit makes below itself are groups of their own, and still belong to the unit."""
        inner = (
            "mkdir -p /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/job_1/step_2 && echo 0 > "
            '/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/job_1/step_2/cgroup.procs && exec "$@"'
        )
        c = self.client(
            command=[
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=trees.service",
                "-p",
                "Delegate=yes",
                "--",
                "sh",
                "-c",
                inner,
                "sh",
                "env",
            ]
        )
        self.check(c, "/system.slice/trees.service/job_1/step_2", "trees.service", "system.slice", self.only_client())

    def test_user_manager(self):
        """user@UID.service is the system manager's unit. What counts is the user's unit within it."""
        run("useradd", "--create-home", "carol")
        uid = run("id", "-u", "carol").strip()
        run("loginctl", "enable-linger", "carol")
        until(lambda: show(f"user@{uid}.service", "ActiveState") == "active", "the user's manager")
        c = self.client(
            command=[
                "setpriv",
                "--reuid",
                uid,
                "--regid",
                uid,
                "--clear-groups",
                "env",
                f"XDG_RUNTIME_DIR=/run/user/{uid}",
                "systemd-run",
                "--user",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=mine.service",
            ]
        )
        group = f"/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/mine.service"
        path = self.only_client()
        self.assertEqual(self.get("Group", path, CLIENT), group)
        self.assertEqual(self.get("UID", path, CLIENT), int(uid))
        self.check(c, group, "mine.service", "app.slice", path)
        c.end()
        run("loginctl", "disable-linger", "carol")

    def test_processes_of_one_unit_are_one_group(self):
        a = self.client(unit="pair.service")
        pid = int(show("pair.service", "MainPID"))
        b = subprocess.Popen(
            [TEST_CLIENT, DEVICE_ID, "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: self.join("/system.slice/pair.service"),
        )
        self.assertEqual(b.stdout.readline().strip(), "ready")
        groups = [g for g in self.call("ListGroups")[0] if "pair" in g[0]]
        self.assertEqual(len(groups), 1)
        self.assertEqual(self.get("NClients", groups[0][-1], GROUP), 2)
        self.assertNotEqual(b.pid, pid)
        b.communicate()
        until(lambda: self.get("NClients", groups[0][-1], GROUP) == 1, "it to go")
        self.assertEqual(a.ask("run 1"), "ran")

    @staticmethod
    def join(cgroup):
        with open(f"/sys/fs/cgroup{cgroup}/cgroup.procs", "w", encoding="utf-8") as f:
            f.write(str(os.getpid()))


class Impostor(Case):
    """A connection whose process number now belongs to another process. The impostor, a user, keeps the socket of a
    child that has ended. The victim, in a unit with more precedence than the impostor's, gets the child's number."""

    PROGRAM = ("/usr/bin/python3", "-B", "/mnt/source/tests/system/impostor.py")
    PROC = "/run/impostor-proc"  # where the next process number can be set: /proc/sys is read-only in here

    @classmethod
    def setUpClass(cls):
        run("useradd", "eve")
        run("useradd", "alice")
        os.mkdir(cls.PROC)
        run("mount", "-t", "proc", "proc", cls.PROC)

    @classmethod
    def tearDownClass(cls):
        run("umount", cls.PROC)
        os.rmdir(cls.PROC)

    def setUp(self):
        super().setUp()
        self.eve = self.client("--uid=eve", "--slice=gpu-batch.slice", unit="eve.service", program=self.PROGRAM)
        self.victim = self.client("--slice=gpu-online.slice", unit="victim.service", program=self.PROGRAM)

    def takes_over(self, user):
        """Gives the victim the number of the connection's process. The victim starts in a later tick of the clock than
        the connection was made: the kernel tells the start of a process by ticks."""
        pid = self.eve.ask("connect")
        self.get("NClients")  # by now the service knows the connection
        tick = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 10**7
        until(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 10**7 > tick, "the next tick")
        self.assertEqual(self.victim.ask(f"become {pid} {run('id', '-u', user).strip()}"), "become")
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
            self.assertIn("/victim.service\n", f.read())

    def check_refused(self, user):
        self.takes_over(user)
        for member in ("RegisterClient", "HoldPriority", "Hint"):
            self.assertEqual(self.eve.ask(f"call {member}"), "org.freedesktop.DBus.Error.AccessDenied", member)
        self.assertEqual(self.call("ListClients")[0], [])
        self.assertEqual(self.call("ListHolds")[0], [])

    def test_of_another_user(self):
        self.check_refused("alice")

    def test_of_the_same_user(self):
        self.check_refused("eve")

    def test_process_that_connected_is_gone(self):
        self.eve.ask("connect")
        self.assertEqual(self.eve.ask("call RegisterClient"), "org.freedesktop.DBus.Error.AccessDenied")

    def test_process_that_connected_is_there(self):
        """The connection is that process', even if others hold the socket, too."""
        pid = int(self.eve.ask("keep"))
        self.assertRegex(self.eve.ask("call RegisterClient"), "^done /")
        path = self.call("GetClientByPID", "u", pid)[0]
        self.assertEqual(self.get("Group", path, CLIENT), "/gpu.slice/gpu-batch.slice/eve.service")
        self.assertRegex(self.eve.ask("call HoldPriority"), "^done")
        self.assertRegex(self.eve.ask("call Hint"), "^done")

    def test_what_the_bus_knows(self):
        """The bus of Debian 13 has a pidfd of the process that connected, the bus of Debian 12 only its number."""
        system = platform.freedesktop_os_release()
        if system["ID"] != "debian":
            self.skipTest("what the bus reports is known for Debian only")
        of = self.bus.call(BUS, BUS_PATH, BUS, "GetConnectionCredentials", "s", NAME)[0]
        self.assertEqual("ProcessFD" in of, int(system["VERSION_ID"]) >= 13)
        self.assertEqual(of["ProcessID"], int(show("xsched", "MainPID")))

    def test_connection_from_before_the_service(self):
        """The connection is older than the service, so the service does not know when it was made."""
        pid = int(self.eve.ask("keep"))
        run("systemctl", "restart", "xsched")
        self.assertRegex(self.eve.ask("call RegisterClient"), "^done /")
        self.assertEqual(self.call("ListClients")[0][0][1], pid)
        self.eve.ask("connect")
        run("systemctl", "restart", "xsched")
        self.assertEqual(self.eve.ask("call RegisterClient"), "org.freedesktop.DBus.Error.AccessDenied")


class Order(Case):
    """Settings of units, made with busctl alone, decide the order."""

    def group(self, unit):
        return next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/" + unit))

    def held(self, client):
        return self.get("State", self.client_of(client), CLIENT) == "held"

    def check_first(self, first, second):
        """While the first is on the device the second waits at its gate, and not the other way round."""
        self.assertIn(first.ask("begin 0"), ("tracked", "untracked"))
        second.tell("begin 0")
        until(lambda: self.held(second), f"{second.unit} to be held for {first.unit}")
        self.assertEqual(first.ask("complete 0"), "completed")
        self.assertEqual(second.line(), "tracked")
        # Now the second is on the device, and the first is still admitted.
        self.assertEqual(first.ask("begin 0"), "tracked")
        self.assertEqual(second.ask("complete 0"), "completed")
        second.tell("begin 0")
        until(lambda: self.held(second), f"{second.unit} to be held again")
        self.assertEqual(first.ask("complete 0"), "completed")
        self.assertEqual(second.line(), "tracked")
        self.assertEqual(second.ask("complete 0"), "completed")

    def test_busctl_set_property(self):
        a, b = self.client(unit="a.service"), self.client(unit="b.service")
        for first, second in ((a, b), (b, a)):
            run("busctl", "set-property", NAME, self.group(first.unit), GROUP, "Priority", "i", "10")
            run("busctl", "set-property", NAME, self.group(second.unit), GROUP, "Priority", "i", "--", "-10")
            self.check_first(first, second)

    def test_set_before_it_starts(self):
        """A setting that was made for a unit waits for it."""
        run(
            "busctl",
            "call",
            NAME,
            inside.PATH,
            NAME,
            "SetGroup",
            "sta{sv}",
            "/system.slice/later.service",
            "0",
            "1",
            "Priority",
            "i",
            "10",
        )
        early = self.client(unit="early.service")
        later = self.client(unit="later.service")
        self.check_first(later, early)

    def narrow(self, columns):
        t = Terminal("list-groups", "--no-pager", columns=columns)
        self.assertEqual(t.wait(), 0)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", t.text).replace("\r", "").splitlines()
        self.assertLessEqual(max(map(len, lines)), columns, lines)
        return lines

    def test_engines_on_a_narrow_terminal(self):
        """Containers and Slurm's jobs have a column of their own. Where space is short it is shortened, so that the
        table fits 80 columns, and --full shows what is left out."""
        container = "0123456789abcdef" * 4
        for name in (f"docker-{container}.scope", f"libpod-{container[::-1]}.scope"):
            self.client(command=["systemd-run", "--quiet", "--scope", f"--unit={name}"], unit=name)
        task = "/system.slice/slurmstepd.scope/job_123456/step_0/user/task_0"
        os.makedirs(f"/sys/fs/cgroup{task}")
        self.addCleanup(lambda: [os.rmdir(f"/sys/fs/cgroup{'/'.join(task.split('/')[:n])}") for n in range(7, 2, -1)])
        enter = f'echo $$ >/sys/fs/cgroup{task}/cgroup.procs && shift && exec "$@"'
        self.client(command=["sh", "-c", enter, "sh"], unit="task_0")
        self.addCleanup(self.tearDown)  # before the cgroups go
        whole = run("xschedctl", "list-groups")
        self.assertIn(f" docker:{container} ", whole)
        self.assertIn(f"{task} ", whole)
        lines = self.narrow(80)
        # In the tree, a group's name is relative to the line above it. On a deep level the name may be shortened.
        self.assertTrue(any(re.search("─job_123456 +slurm:123456 ", i) for i in lines), lines)
        self.assertTrue(any(re.search("─(user/)?task_0 ", i) for i in lines), lines)
        for columns in range(64, 80):
            self.assertEqual(len(self.narrow(columns)), len(lines))
        self.assertLessEqual(
            {"GROUP", "ENGINE", "STATE", "CLASS", "PRIO", "WEIGHT", "CLIENTS", "GPU"}, set(lines[0].split())
        )
        self.assertNotIn("PREEMPTED", lines[0].split())
        self.assertEqual(len(lines), len(whole.splitlines()))
        t = Terminal("list-groups", "--no-pager", "-l", columns=80)
        self.assertEqual(t.wait(), 0)
        self.assertIn(f"docker:{container}", t.text)
        self.assertIn("PREEMPTED", t.text)

    def test_outside_of_the_services_namespace(self):
        """A process whose cgroup the service does not see belongs to the topmost group that the service sees. No name
        of a group leads out of that."""
        session = subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--unit=inner",
                "unshare",
                "--cgroup",
                "xsched-session",
                "--",
                "sh",
                "-c",
                'echo "$XSCHED_BUS_ADDRESS"; read line',
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        address = session.stdout.readline().strip()
        outside = self.client(f"--setenv=XSCHED_BUS_ADDRESS={address}", "--slice=other.slice")
        groups = json.loads(run("xschedctl", f"--bus-address={address}", "--json=short", "list-groups"))
        clients = json.loads(run("xschedctl", f"--bus-address={address}", "--json=short", "list-clients"))
        self.assertEqual([c["group"] for c in clients], ["/"])
        self.assertEqual([g["group"] for g in groups], ["/"])
        self.assertEqual(outside.ask("run 1"), "ran")
        outside.end()
        session.communicate("\n")
        self.assertEqual(session.returncode, 0)


if __name__ == "__main__":
    inside.main()
