# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each row of the table in xsched.conf(5) that says which sources of settings can raise holds in a real system."""

import os
import re
import subprocess

import inside
import lowering
from inside import CLIENT, GROUP, NAME, PATH, Case, run, show, until, write
from processes import process_id

MANUAL = "/mnt/source/man/xsched.conf.5.scd"
CLASSES = "/etc/xsched/classes.d"
UP, DOWN = 7, -7
ID, POD = "0123456789abcdef" * 4, "01234567_89ab_cdef_0123_456789abcdef"
# Names that engines give to cgroups, and lines of [Match] that match them.
ENGINES = (
    ("docker-" + ID + ".scope", "Container=docker:*"),
    (f"kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{ID}.scope", "Pod=guaranteed:*"),
    (f"kubepods/burstable/pod{POD.replace('_', '-')}/{ID}", "Pod=burstable:*"),
    ("node_slurmstepd.scope/job_7/step_0/user/task_0", "SlurmJob=7"),
)


def rows():
    """Returns (source, effect, PolicySource) of each row, without scdoc's markup."""
    with open(MANUAL, encoding="utf-8") as f:
        section = f.read().split("\n# WHO MAY RAISE\n", 1)[1].split("\n# ", 1)[0]
    cells = [
        re.sub(r"[*_\\]", "", c)
        for c in re.findall(r"^[:|\[]\[?  ?(.*)$", section[section.index("[[ ") :].split("\n\n")[0], re.M)
    ]
    table = [tuple(cells[i : i + 4]) for i in range(0, len(cells), 4)]
    return [(r[0], r[2], r[3]) for r in table[1:]]


class Sources(Case):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["useradd", "--create-home", "alice"], check=True)
        cls.uid = run("id", "-u", "alice").strip()
        cls.as_alice = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--uid=alice",
            f"--setenv=XDG_RUNTIME_DIR=/run/user/{cls.uid}",
            "--",
        ]
        run("loginctl", "enable-linger", "alice")
        until(lambda: show(f"user@{cls.uid}.service", "ActiveState") == "active", "the user's manager")
        for name, value in (("up", UP), ("down", DOWN)):
            write(f"{CLASSES}/{name}.class", f"[Class]\nPriority={value}\n")

    def setUp(self):
        super().setUp()
        self.undo, self.n_started = [], 0

    def start(self, *options):
        """Starts alice's agent in a unit that is delegated to her. Returns (agent, its cgroup, its client)."""
        self.n_started += 1
        process = subprocess.Popen(
            [
                "systemd-run",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                f"--unit=agent-{self.n_started}.service",
                "--uid=alice",
                "-p",
                "Delegate=yes",
                *options,
                "--",
                "/usr/bin/python3",
                "-B",
                "/mnt/source/tests/lib/lowering.py",
                inside.SYSTEM_BUS,
                inside.TEST_CLIENT,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def end():
            process.stdin.close()
            process.wait()
            process.stdout.close()
            until(lambda: self.get("NClients") == 0, "the agent to go")

        self.undo.append(end)
        agent = lowering.Remote(process.stdin, process.stdout)
        return agent, agent.whereabouts()[2], agent.register({})

    def file(self, path, text, reload):
        """Writes a file, which is removed after this row."""
        write(path, text)

        def remove():
            os.unlink(path)
            reload()

        self.undo.append(remove)
        reload()

    def reload(self):
        self.call("Reload")

    @staticmethod
    def daemon_reload():
        run("systemctl", "daemon-reload")

    @staticmethod
    def tried(function, *args):
        """Calls a function that may be refused. Only the resulting settings are checked."""
        try:
            return function(*args)
        except lowering.Refused:
            return None

    # --- for each row, a function that sets the value by this source, and returns the client's object ---

    def override(self, value):
        _, home, client = self.start()
        self.call("SetGroup", "sta{sv}", home, 0, {"Priority": ("i", value)})
        self.undo.insert(0, lambda: self.call("ResetGroup", "st", home, 0))
        return client

    def owner(self, value):
        agent, home, client = self.start()
        self.tried(agent.set_group, home, 0, {"Priority": value})
        self.tried(agent.set, client, CLIENT, {"Priority": value})
        return client

    def in_step(self, attribute, value):
        agent, _, client = self.start()
        step = "/system.slice/node_slurmstepd.scope/job_6/step_0/user/task_0"
        os.makedirs(lowering.CGROUPS + step, exist_ok=True)
        with open(f"{lowering.CGROUPS}{step}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(self.get("PID", client, CLIENT)))
        for name, text in ((attribute, str(value)), ("user.xsched.weight", "42")):
            os.setxattr(lowering.CGROUPS + step, name, text.encode())
            self.undo.insert(0, lambda name=name: os.removexattr(lowering.CGROUPS + step, name))
        until(lambda: (self.get("Group", client, CLIENT), self.get("Weight", client, CLIENT)) == (step, 42), "the step")
        self.tried(agent.attribute, step, "Priority", "99")
        return client

    def attribute_of_root(self, value):
        """As Slurm's plugins do: on a cgroup of root's, in which a user's step runs."""
        return self.in_step("user.xsched.priority", value)

    def attribute_that_lowers(self, value):
        """As Slurm's plugins do for a user's options."""
        return self.in_step("user.xsched.lower.priority", value)

    def attribute_of_user(self, value):
        agent, home, client = self.start()
        agent.attribute(home, "Priority", str(value))
        agent.attribute(home, "Weight", "42")
        until(lambda: self.get("Weight", client, CLIENT) == 42, "the attributes to count")
        return client

    def unit_file(self, value):
        self.file(
            "/run/systemd/system/agent-.service.d/50.conf",
            f"[X-XSched]\nPriority={value}\nWeight=42\n",
            self.daemon_reload,
        )
        client = self.start()[2]
        until(lambda: self.get("Weight", client, CLIENT) == 42, "systemd's answer")
        return client

    def unit(self, value):
        client = self.start("-p", f"LogExtraFields=XSCHED_PRIORITY={value}", "-p", "Environment=XSCHED_WEIGHT=42")[2]
        until(lambda: self.get("Weight", client, CLIENT) == 42, "systemd's answer")
        return client

    def user_unit(self, value):
        c = self.client(
            command=[
                *self.as_alice,
                "systemd-run",
                "--user",
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "-p",
                f"LogExtraFields=XSCHED_PRIORITY={value}",
                "-p",
                "LogExtraFields=XSCHED_WEIGHT=42",
            ]
        )
        self.undo.append(c.end)
        client = self.call("ListClients")[0][0][-1]
        self.assertEqual(self.get("Weight", client, CLIENT), 42)
        return client

    def match(self, value):
        self.file(
            f"{CLASSES}/row.class",
            f"[Class]\nPriority={value}\n[Match]\nUnit=agent-*.service\nUser=alice\n",
            self.reload,
        )
        return self.start()[2]

    def in_class(self, value, match):
        self.file(f"{CLASSES}/row.class", f"[Class]\nPriority={value}\n[Match]\n{match}\n", self.reload)

    def engine_of_root(self, name, match, value):
        """Matches a cgroup of an engine, in which a user's process runs."""
        self.in_class(value, match)
        client = self.start()[2]
        place = "/system.slice/" + name
        os.makedirs(lowering.CGROUPS + place, exist_ok=True)
        with open(f"{lowering.CGROUPS}{place}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(self.get("PID", client, CLIENT)))
        until(lambda: self.get("Group", client, CLIENT) == place, "it to be the engine's")
        return client

    def engine_of_user(self, name, match, value):
        """Matches a cgroup with such a name that the user has made in a delegated one."""
        self.in_class(value, match)
        agent, home, client = self.start()
        agent.move(f"{home}/{name}")
        until(lambda: self.get("Group", client, CLIENT) == f"{home}/{name}", "the agent to be there")
        return client

    def match_of_executable(self, value):
        name = os.path.realpath("/usr/bin/python3")
        self.file(
            f"{CLASSES}/row.class",
            f"[Class]\nPriority={value}\n[Match]\nExecutable={os.path.basename(name)} python3\n",
            self.reload,
        )
        return self.start()[2]

    def job(self, value):
        """Root makes the job for a cgroup."""
        client = self.start()[2]
        process = process_id(self.get("PID", client, CLIENT))
        self.call("CreateJob", "sa{sv}utt", "row", {"Priority": ("i", value)}, *process, 1)
        return client

    def job_of_user(self, value):
        agent, _, client = self.start()
        made = self.tried(agent.job, {"Priority": value}, 0)
        return agent.register({}, made[0]) if made else client

    def hold(self, value):
        """Root holds the class for the processes that it starts."""
        fd = self.bus.call(NAME, PATH, NAME, "HoldPriority", "sst", "up" if value > 0 else "down", "row", 1)[0]
        process = subprocess.Popen(
            [
                "setpriv",
                f"--reuid={self.uid}",
                "--clear-groups",
                "/usr/bin/python3",
                "-B",
                "/mnt/source/tests/lib/lowering.py",
                inside.SYSTEM_BUS,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.undo += [lambda: os.close(fd), lambda: process.communicate()]  # pylint: disable=unnecessary-lambda
        return lowering.Remote(process.stdin, process.stdout).register({})

    def hold_of_user(self, value):
        agent, _, client = self.start()
        self.tried(agent.hold, "up" if value > 0 else "down", 0)
        return client

    def slice(self, value):
        self.file("/run/systemd/system/row.slice.d/50.conf", f"[X-XSched]\nPriority={value}\n", self.daemon_reload)
        client = self.start("--slice=row-deeper.slice")[2]
        until(lambda: self.get("Priority", client, CLIENT) == value, "systemd's answer")
        return client

    def default(self, value):
        self.file(f"{CLASSES}/default.class.d/50-row.conf", f"[Class]\nPriority={value}\n", self.reload)
        return self.start()[2]

    def wish(self, value):
        """A process asks in all of its ways: by its environment, when it registers, and later."""
        agent, _, _ = self.start()
        started = self.call("GetClientByPID", "u", agent.start({"XSCHED_PRIORITY": str(value)}))[0]
        registered = agent.register({"Priority": value})
        self.assertEqual(self.get("Priority", registered, CLIENT), self.get("Priority", started, CLIENT))
        agent.hint(0, {"Priority": value})
        id_ = (self.tried(agent.queue, registered, value) or agent.queue(registered, 0))[0]
        self.assertLessEqual(self.get("Priority", f"{PATH}/queue/{id_}", f"{NAME}.Queue"), 0)
        return started

    CASES = {
        "xschedctl set, writing properties": override,
        "the same, for the user's own groups, clients and queues": owner,
        "user.xsched. of a cgroup that root owns": attribute_of_root,
        "user.xsched. of a cgroup that a user owns": attribute_of_user,
        "lower. behind user.xsched., of any cgroup": attribute_that_lowers,
        "[X-XSched] of the system's units": unit_file,
        "Environment=, LogExtraFields= of the system's units": unit,
        "units of user managers": user_unit,
        "[Match] by names that root has given": match,
        "[Match] by Executable=, or by names below a delegated unit": match_of_executable,
        "xschedctl run, CreateJob": job,
        "the same, by a user": job_of_user,
        "xschedctl hold, HoldPriority": hold,
        "the same, by a user, for the user's own processes": hold_of_user,
        "any of these of slices and cgroups above": slice,
        "the class default": default,
        "the process's environment, hints, PriorityHint": wish,
    }

    # Further cases of a row, each for all of ENGINES.
    OF_ENGINES = {
        "[Match] by names that root has given": engine_of_root,
        "[Match] by Executable=, or by names below a delegated unit": engine_of_user,
    }

    def cases(self, source):
        yield source, lambda value: self.CASES[source](self, value)
        if source in self.OF_ENGINES:
            for name, match in ENGINES:
                yield name, lambda value, n=name, m=match: self.OF_ENGINES[source](self, n, m, value)

    def value_of(self, bring, value):
        try:
            client = bring(value)
            return self.get("Priority", client, CLIENT), self.get("PolicySource", client, CLIENT)
        finally:
            while self.undo:
                self.undo.pop()()
            until(lambda: self.get("NClients") == 0, "clients to go")

    def labelled(self, attribute, match, value, place):
        """Sets a label on a container's cgroup, which root or alice has made."""
        self.in_class(value, match)
        agent, home, client = self.start()
        name = f"cri-containerd-{ID}.scope"
        group = f"/kubepods.slice/{name}" if place == "root" else f"{home}/{name}"
        if place == "root":
            os.makedirs(lowering.CGROUPS + group, exist_ok=True)
            with open(f"{lowering.CGROUPS}{group}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(self.get("PID", client, CLIENT)))
        else:
            agent.move(group)
        until(lambda: self.get("Group", client, CLIENT) == group, "it to be there")
        # The second attribute shows when the first one has been read, too.
        for key, text in (attribute, ("lower.weight", "42")):
            os.setxattr(lowering.CGROUPS + group, f"user.xsched.{key}", text.encode())
            if place == "root":  # alice's cgroup goes with her unit
                self.undo.insert(0, lambda key=key: os.removexattr(lowering.CGROUPS + group, f"user.xsched.{key}"))
        until(lambda: self.get("Weight", client, CLIENT) == 42, "the attributes to count")
        return client

    def test_labels(self):
        """Labels by the engine can raise. Those by the pod's author, and attributes that a user has set, only lower."""
        cases = (
            (("label.namespace", "prod"), "Namespace=prod", "root", UP),
            (("label.pod-label.example.com/app", "x" * 253), "PodLabel=example.com/app=x*", "root", UP),
            (("label.priority-class", "online"), "PriorityClass=online", "root", UP),
            (("claim.priority-class", "online"), "PriorityClass=online", "root", 0),
            (("claim.pod-label.app", ""), "PodLabel=app", "root", 0),
            (("label.namespace", "prod"), "Namespace=prod", "alice", 0),
        )
        for attribute, match, place, raised in cases:
            with self.subTest(attribute, place=place):
                bring = lambda value, a=attribute, m=match, p=place: self.labelled(a, m, value, p)
                up, _ = self.value_of(bring, UP)
                down, _ = self.value_of(bring, DOWN)
                self.assertEqual((up, down), (raised, DOWN))

    def test_every_row(self):
        table = rows()
        self.assertEqual([r[0] for r in table], list(self.CASES))
        for source, effect, shown in table:
            for name, bring in self.cases(source):
                with self.subTest(source, name=name):
                    up, _ = self.value_of(bring, UP)
                    down, said = self.value_of(bring, DOWN)
                    self.assertEqual((up, down, said), ({"raises": UP, "only lowers": 0}[effect], DOWN, shown))


if __name__ == "__main__":
    inside.main()
