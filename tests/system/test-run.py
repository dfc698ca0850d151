# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl run, hold and set with a real systemd: scopes, services, terminals, signals, exit statuses, and the user's
manager."""

import os
import re
import signal
import subprocess

import inside
from inside import CLIENT, GROUP, Case, run, show, until
from terminal import Terminal

CGROUP = ["sed", "-n", "s/^0:://p", "/proc/self/cgroup"]


def ctl(*argv, status=0, stdin="", env=None, **kwargs):
    done = subprocess.run(
        ["xschedctl", *argv], input=stdin, capture_output=True, text=True, check=False, env=env, **kwargs
    )
    if done.returncode != status:
        raise AssertionError(
            f"xschedctl {' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}\n{inside.log_tail()}"
        )
    return done


class Run(Case):
    def group(self, name):
        return next((g[-1] for g in self.call("ListGroups")[0] if g[0] == name), None)

    def only_client(self):
        clients = self.call("ListClients")[0]
        self.assertEqual(len(clients), 1, clients)
        return clients[0][-1]

    def by_run(self, *options):
        return self.client(command=["xschedctl", "run", *options])


class Scope(Run):
    def test_command_takes_our_place(self):
        p = subprocess.Popen(
            ["xschedctl", "run", "--unit=here", "--", "sh", "-c", 'pwd; echo $$ "$X"; read x; exit 6'],
            cwd="/usr",
            env={**os.environ, "X": "y z"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertEqual([p.stdout.readline() for _ in range(2)], ["/usr\n", f"{p.pid} y z\n"])
        self.assertEqual(show("here.scope", "ControlGroup"), "/system.slice/here.scope")
        self.assertEqual(show("here.scope", "Description"), 'sh -c pwd; echo $$ "$X"; read x; exit 6')
        self.assertEqual(p.communicate("\n"), ("", ""))
        self.assertEqual(p.returncode, 6)
        until(lambda: show("here.scope", "ActiveState") == "inactive", "the scope to go")

    def test_signal_is_the_commands(self):
        self.assertEqual(ctl("run", "sh", "-c", "kill -9 $$", status=-9).stderr, "")

    def test_settings(self):
        """The settings are those of the scope's group, and go with it."""
        c = self.by_run("--unit=train", "--slice=gpu-batch", "--priority=-5", "--weight=42")
        name = "/gpu.slice/gpu-batch.slice/train.scope"
        path = self.only_client()
        self.assertEqual(
            [self.get(p, path, CLIENT) for p in ("Group", "Unit", "Priority", "Weight", "PolicySource")],
            [name, "train.scope", -5, 42, "job"],
        )
        run("xschedctl", "set", "train.scope", "priority=7")  # it is a unit like any other
        self.assertEqual(self.get("Priority", path, CLIENT), 7)
        run("xschedctl", "reset", "train.scope")
        self.assertEqual(self.get("Priority", path, CLIENT), -5)
        run("systemctl", "restart", "xsched")
        until(lambda: self.get("NClients") == 1, "the client")
        self.assertEqual(self.get("Priority", self.only_client(), CLIENT), -5)
        c.end()
        until(lambda: self.group(name) is None, "the group to go")

    def test_without_settings(self):
        self.by_run("--unit=plain")
        self.assertEqual(
            [self.get(p, self.only_client(), CLIENT) for p in ("Group", "Priority")], ["/system.slice/plain.scope", 0]
        )

    def test_name_is_told_when_asked(self):
        said = ctl("run", "-v", *CGROUP)
        name = re.fullmatch(r"Running as unit: (run-sed-[0-9a-f]{8}\.scope)\n", said.stderr)[1]
        self.assertEqual(said.stdout, f"/system.slice/{name}\n")
        self.assertEqual(ctl("run", "-v", "--name=my job", "true").stderr[:28], "Running as unit: run-my_job-")

    def test_options_of_the_process(self):
        said = ctl(
            "run",
            "--uid=nobody",
            "--working-directory=/usr",
            "-E",
            "A=b c",
            "-E",
            "PASSED",
            "--",
            "sh",
            "-c",
            'id -un; pwd; echo "$A$PASSED"',
            env={**os.environ, "PASSED": "!"},
        )
        self.assertEqual(said.stdout, "nobody\n/usr\nb c!\n")
        self.assertIn("no such user", ctl("run", "--uid=nosuch", "true", status=125).stderr)
        self.assertIn("/nonexistent", ctl("run", "--working-directory=/nonexistent", "true", status=125).stderr)

    def test_properties(self):
        said = ctl(
            "run",
            "--unit=p",
            "-p",
            "MemoryMax=1G",
            "-p",
            "CPUWeight=50",
            "--description=D",
            "sh",
            "-c",
            "systemctl show -P MemoryMax -P CPUWeight -P Description p.scope",
        )
        self.assertEqual(sorted(said.stdout.split()), ["1073741824", "50", "D"])

    def test_refused(self):
        for argv, words in (
            (["--scope", "--wait", "true"], "options of a service"),
            (["--unit=x.service", "--scope", "true"], "options of a service"),
            (["-p", "Nice=1", "true"], "a scope has no such property"),
            (["-p", "x", "true"], "not NAME=VALUE"),
            (["--weight=0", "true"], "Weight must be"),
            (["--class=nope", "true"], "no class"),
            (["--unit=/", "true"], "Invalid|not valid"),
        ):
            done = ctl("run", *argv, status=125)
            self.assertRegex(done.stderr, words)
            self.assertRegex(done.stderr, r"\Axschedctl: [^\n]*\n\Z")
        self.assertEqual(ctl("run", "/nonexistent", status=127).stdout, "")
        self.by_run("--unit=taken")
        self.assertIn("taken.scope", ctl("run", "--unit=taken", "true", status=125).stderr)

    def test_without_the_scheduler(self):
        run("systemctl", "stop", "xsched")
        said = ctl("run", "--priority=-3", "sh", "-c", "echo ran; exit 4", status=4)
        self.assertEqual(
            (said.stdout, said.stderr),
            ("ran\n", "xschedctl: xschedd is not running on the system bus: sh runs unscheduled\n"),
        )

    def test_job_where_there_is_no_systemd_to_ask(self):
        """On a private bus, without systemd, the command runs as a job."""
        said = run(
            "xsched-session",
            "--",
            "sh",
            "-c",
            "xschedctl run -v --name=j sh -c 'echo ${#XSCHED_JOB}; xschedctl list-groups' 2>&1",
        )
        self.assertRegex(said, r"Running as a job, [^\n]*\n32\n")
        self.assertIn("job:1:j", said)


class Service(Run):
    def test_exit_status(self):
        for script, status, words in (
            ("exit 0", 0, "success"),
            ("exit 7", 7, "exit-code"),
            ("kill -9 $$", 255, "signal"),
        ):
            said = ctl("run", "--wait", "sh", "-c", script, status=status)
            self.assertIn(f"Finished with result: {words}\n", said.stderr)
            self.assertEqual(ctl("run", "--wait", "-q", "sh", "-c", script, status=status).stderr, "")
        said = ctl("run", "-q", "--wait", "--unit=late", "-p", "RuntimeMaxSec=50ms", "sleep", "1000", status=125)
        self.assertEqual(said.stderr, "xschedctl: late.service: timeout\n")
        self.assertEqual(ctl("run", "--wait", "nosuchcommand", status=127).stderr.count("\n"), 1)
        self.assertEqual(ctl("run", "--wait", "/etc/passwd", status=126).stderr.count("\n"), 1)

    def test_of_systemd(self):
        said = ctl("run", "--unit=svc.service", "-p", "NoSuch=1", "true", status=125)
        self.assertEqual(said.stderr, "xschedctl: --property=NoSuch=1: a service has no such property\n")
        said = ctl("run", "--unit=svc.service", "--wait", "-p", "WorkingDirectory=/nonexistent", "true", status=125)
        self.assertRegex(said.stderr, r"\Axschedctl: svc.service: could not be started: [^\n]* status 200\n\Z")
        self.assertEqual(show("svc.service", "ActiveState"), "failed")
        ctl("run", "--unit=gone.service", "--wait", "-G", "-q", "false", status=1)
        until(lambda: show("gone.service", "ActiveState") == "inactive", "it to be forgotten")

    def test_properties_are_systemds(self):
        """Properties are read as by systemd-run, or refused."""
        properties = ("UMask=027", "RuntimeDirectoryMode=0700", "CoredumpFilter=0x33", "MemoryMax=1G", "TasksMax=7")
        options = [word for p in properties for word in ("-p", p)]
        units = ("ours", "theirs")
        ctl("run", "--service", "-q", "--unit=ours", *options, "sleep", "1000")
        run("systemd-run", "-q", "--unit=theirs", *options, "sleep", "1000")
        for name in (p.partition("=")[0] for p in properties):
            with self.subTest(name):
                self.assertEqual(*(show(u + ".service", name) for u in units))
        self.assertEqual(show("ours.service", "UMask"), "0027")
        run("systemctl", "stop", *units)
        for wrong in ("UMask=9", "UMask=77777", "UMask=", "CapabilityBoundingSet=1", "CoredumpFilter=x"):
            with self.subTest(wrong):
                self.assertIn(f"--property={wrong}: ", ctl("run", "--wait", "-p", wrong, "true", status=125).stderr)
        said = ctl("run", "-q", "--pipe", "--working-directory=bin", "pwd", cwd="/usr")
        self.assertEqual(said.stdout, "/usr/bin\n")

    def test_without_waiting(self):
        said = ctl("run", "--service", "--unit=bg", "sleep", "1000")
        self.assertEqual(said.stderr, "Running as unit: bg.service\n")
        self.assertEqual(show("bg", "ActiveState"), "active")
        run("systemctl", "stop", "bg")
        self.assertEqual(ctl("run", "--service", "-q", "true").stderr, "")

    def test_pipe(self):
        said = ctl(
            "run", "-q", "--pipe", "sh", "-c", "tr a-z A-Z; echo err >&2; exit 3", stdin="some text\n" * 5000, status=3
        )
        self.assertEqual((said.stdout, said.stderr), ("SOME TEXT\n" * 5000, "err\n"))

    def test_arguments_pass_unchanged(self):
        words = ["$HOME", "${HOME}", "$$", "%n", "%%", "\\x41", " ", "", "a;b", "\u00fc", '"q"', "--wait"]
        self.assertEqual(ctl("run", "-q", "--pipe", "--", "printf", "%s\n", *words).stdout.split("\n")[:-1], words)

    def test_environment_is_the_managers_with_ours(self):
        said = ctl(
            "run",
            "-q",
            "--pipe",
            "-E",
            "A=1 2",
            "-E",
            "PASSED",
            "-p",
            'Environment="B=3 4" C=5',
            "env",
            env={**os.environ, "PASSED": "6", "NOT": "7"},
        )
        env = dict(line.split("=", 1) for line in said.stdout.splitlines())
        self.assertEqual(
            [env.get(k) for k in ("A", "B", "C", "PASSED", "NOT", "XSCHED_JOB")], ["1 2", "3 4", "5", "6", None, None]
        )
        self.assertRegex(env["OPENCL_LAYERS"], "libxsched-opencl.so")
        self.assertNotIn(
            "OPENCL_LAYERS", ctl("run", "-q", "--pipe", "--shim=none", "env", env={"PATH": os.environ["PATH"]}).stdout
        )

    def test_options_of_the_process(self):
        said = ctl(
            "run",
            "-q",
            "--pipe",
            "--uid=nobody",
            "--gid=daemon",
            "--working-directory=/usr",
            "sh",
            "-c",
            "id -un; id -gn; pwd",
        )
        self.assertEqual(said.stdout, "nobody\ndaemon\n/usr\n")

    def test_settings_travel_with_the_unit(self):
        c = self.by_run(
            "--pipe", "-q", "--unit=infer", "--class=interactive", "--weight=42", "--slice=gpu-online.slice"
        )
        name = "/gpu.slice/gpu-online.slice/infer.service"
        self.assertEqual(show("infer", "LogExtraFields"), "XSCHED_CLASS=interactive XSCHED_WEIGHT=42")
        settings = lambda: [
            self.get(p, self.group(name), GROUP) for p in ("Priority", "Class", "Weight", "PolicySource")
        ]
        until(lambda: settings() == [50, "interactive", 42, "unit"], "the settings")
        self.assertEqual(c.ask("run 3"), "ran")
        self.assertIn("no class", ctl("run", "--wait", "--class=nope", "true", status=125).stderr)
        self.assertIn("Weight must be", ctl("run", "--wait", "--weight=0", "true", status=125).stderr)

    def waiting(self, *script):
        p = subprocess.Popen(
            ["xschedctl", "run", "-q", "--pipe", "--unit=sig", "--collect", "--", *script],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(p.stdout.readline(), "up\n")
        return p

    def test_interrupt_is_passed_on(self):
        p = self.waiting("sh", "-c", "trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.05; done")
        p.send_signal(signal.SIGINT)
        self.assertEqual((p.stdout.read(), p.wait()), ("int\n", 5))

    def test_terminate_stops_the_unit(self):
        p = self.waiting("sh", "-c", "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        p.send_signal(signal.SIGTERM)
        self.assertEqual((p.stdout.read(), p.wait()), ("term\n", 0))
        p = self.waiting("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
        p.send_signal(signal.SIGTERM)
        until(lambda: show("sig", "ActiveState") == "deactivating", "it to be stopped")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(), 128 + signal.SIGTERM)
        run("systemctl", "kill", "-s", "KILL", "sig")

    def test_terminal(self):
        """Input, output, the terminal's size and Ctrl-C are passed on."""
        t = Terminal(
            "run",
            "-q",
            "--pty",
            "sh",
            "-c",
            'stty size; test -t 0 && test -t 1 && test -t 2; echo tty=$? term=$TERM; read x; echo "got<$x>"; '
            'trap "stty size" WINCH; trap "echo interrupted; exit 9" INT; echo sized; while :; do sleep 0.05; done',
        )
        t.expect(r"33 77\r\n")
        t.expect(r"tty=0 term=\S+\r\n")
        t.type("one two\r")
        t.expect(r"one two\r\ngot<one two>\r\n")
        t.expect("sized")
        t.resize(44, 99)
        t.expect("44 99")
        t.type("\x03")
        t.expect("interrupted")
        self.assertEqual(t.wait(), 9)

    def test_terminal_is_as_it_was(self):
        t = subprocess.run(
            ["script", "-qec", "stty -a; xschedctl run -q --pty true; stty -a", "/dev/null"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        ).stdout.replace("\r", "")
        half = len(t) // 2
        self.assertEqual(t[:half], t[half:])

    def test_what_was_typed_before(self):
        """Lines and ends of file that were typed before the command started are passed on to it."""
        for before, taken in (
            ("\x04", ""),
            ("one\n\x04", "one$\n"),
            ("one\x04\x04", "one"),
            ("one\n\ntwo\n\x04", "one$\n$\ntwo$\n"),
        ):
            t = Terminal("run", "-q", "--pty", "sh", "-c", "cat -A >/run/typed", before=before)
            self.assertEqual(t.wait(), 0)
            self.assertNotIn("^@", t.text)
            with open("/run/typed", encoding="utf-8") as f:
                self.assertEqual(f.read(), taken)

    def test_terminal_is_left(self):
        t = Terminal("run", "--pty", "--unit=stays", "sh", "-c", "trap '' HUP; echo up; sleep 1000")
        t.expect("Press ")
        t.expect("up")
        t.type("\x1d\x1d\x1d")
        t.expect("Disconnected from stays.service")
        self.assertEqual(t.wait(), 0)
        self.assertEqual(show("stays", "ActiveState"), "active")
        run("systemctl", "stop", "stays")

    def test_terminal_without_a_terminal(self):
        said = ctl("run", "-q", "--pty", "sh", "-c", "cat; echo end", stdin="one\ntwo")
        # The terminal may have echoed the input before that.
        self.assertTrue(said.stdout.endswith("one\ntwoend\n"), said.stdout)
        self.assertEqual(ctl("run", "-q", "--pty", "--pipe", "cat", stdin="as it is\n").stdout, "as it is\n")

    def test_everything_printed_comes(self):
        said = ctl("run", "-q", "--pty", "seq", "20000", stdin="")
        self.assertEqual(said.stdout.replace("\r", "").split("\n")[-4:], ["19998", "19999", "20000", ""])
        self.assertEqual(len(said.stdout.split()), 20000)


class UserManager(Run):
    @classmethod
    def setUpClass(cls):
        run("useradd", "--create-home", "dora")
        cls.uid = run("id", "-u", "dora").strip()
        run("loginctl", "enable-linger", "dora")
        until(lambda: show(f"user@{cls.uid}.service", "ActiveState") == "active", "the user's manager")
        cls.top = f"/user.slice/user-{cls.uid}.slice/user@{cls.uid}.service"
        # Runs a process of the user's, as in a session.
        cls.user = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            "--uid=dora",
            f"--setenv=XDG_RUNTIME_DIR=/run/user/{cls.uid}",
            "--",
        ]

    @classmethod
    def tearDownClass(cls):
        run("loginctl", "disable-linger", "dora")

    def as_user(self, *argv, status=0):
        done = subprocess.run(
            [*self.user, *argv], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        self.assertEqual(done.returncode, status, f"{argv}: {done.stdout}{done.stderr}{inside.log_tail()}")
        return done

    def test_is_the_users_by_default(self):
        self.assertEqual(
            self.as_user("xschedctl", "run", "--unit=mine", *CGROUP).stdout, f"{self.top}/app.slice/mine.scope\n"
        )
        self.assertEqual(
            self.as_user("xschedctl", "run", "-q", "--pipe", "--unit=mine", "--slice=my", *CGROUP).stdout,
            f"{self.top}/my.slice/mine.service\n",
        )
        self.assertEqual(self.as_user("xschedctl", "run", "--wait", "-q", "sh", "-c", "exit 3", status=3).stderr, "")
        self.assertIn("access denied", self.as_user("xschedctl", "run", "--system", "true", status=125).stderr)

    def test_settings(self):
        """A user may lower a setting, and not raise it, as with xschedctl set."""
        for options, unit in (([], "low.scope"), (["--pipe", "-q"], "low.service")):
            c = self.client(command=[*self.user, "xschedctl", "run", "--unit=low", *options, "--priority=-9"])
            path = self.only_client()
            self.assertEqual(self.get("Group", path, CLIENT), f"{self.top}/app.slice/{unit}")
            until(lambda: self.get("Priority", path, CLIENT) == -9, "the priority")
            c.end()
            until(lambda: self.get("NClients") == 0, "it to go")
            # Another name, since systemd may not have noticed the end of the first unit yet.
            said = self.as_user("xschedctl", "run", "--unit=high", *options, "--priority=9", "true", status=125)
            self.assertIn("access denied", said.stderr)

    def test_short_commands(self):
        """The exit status is passed on however soon the command ends, with settings and without: xschedctl does not
        miss the unit's end."""
        script = (
            'i=0; while [ $i -lt 50 ]; do xschedctl run -q "$@" sh -c "exit $((i % 7))" </dev/null; echo $?; '
            "i=$((i + 1)); done"
        )
        for options in (["--wait"], ["--pipe"], ["--scope"], ["--wait", "--collect"]):
            for settings in ([], ["--priority=-5", "--weight=50"]):
                said = self.as_user("sh", "-c", script, "sh", *options, *settings)
                self.assertEqual(said.stderr, "", (options, settings))
                self.assertEqual(said.stdout.split(), [str(i % 7) for i in range(50)], (options, settings))

    def test_set_of_a_users_unit(self):
        c = self.client(command=[*self.user, "xschedctl", "run", "--unit=mine"])
        path = self.only_client()
        self.as_user("xschedctl", "--user", "set", "mine.scope", "priority=-4")
        self.assertEqual(self.get("Priority", path, CLIENT), -4)
        self.assertIn(
            "access denied", self.as_user("xschedctl", "--user", "set", "mine.scope", "priority=4", status=1).stderr
        )
        self.assertIn(
            "is not running", self.as_user("xschedctl", "--user", "set", "other.scope", "priority=-4", status=1).stderr
        )
        # There is no scheduler on the user's bus, so it is the system's.
        self.assertIn("on the system bus: ", self.as_user("xschedctl", "--user", "status").stdout)
        self.assertEqual(c.ask("run 1"), "ran")

    def test_where_the_user_has_no_manager(self):
        done = subprocess.run(
            [
                "setpriv",
                "--reuid=nobody",
                "--regid=nogroup",
                "--clear-groups",
                "env",
                "-u",
                "XDG_RUNTIME_DIR",
                "xschedctl",
                "run",
                "-v",
                "sh",
                "-c",
                "echo ${#XSCHED_JOB}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "32\n")
        self.assertIn("Running as a job", done.stderr)


class Hold(Run):
    def test_of_a_command_and_what_it_starts(self):
        c = self.client(
            command=[
                "xschedctl",
                "hold",
                "--why=demo time",
                "interactive",
                "--",
                "sh",
                "-c",
                'shift; "$@"; exit $?',
                "sh",
            ]
        )
        path = self.only_client()
        self.assertEqual([self.get(p, path, CLIENT) for p in ("Priority", "PolicySource")], [50, "hold"])
        listed = inside.json.loads(run("xschedctl", "--json=short", "list-holds"))
        self.assertEqual(
            [(h["pid"], h["user"], h["class"], h["descendants"], h["why"]) for h in listed],
            [(c.process.pid, "root", "interactive", True, "demo time")],
        )
        run("systemctl", "restart", "xsched")
        until(
            lambda: self.get("NClients") == 1 and self.get("Priority", self.only_client(), CLIENT) == 50,
            "the hold to be taken again",
        )
        self.assertEqual(c.end(), 0)
        until(lambda: not self.call("ListHolds")[0], "the hold to end")

    def test_exit_status_and_signals(self):
        self.assertEqual(ctl("hold", "batch", "sh", "-c", "exit 4", status=4).stderr, "")
        ctl("hold", "batch", "sh", "-c", "kill -9 $$", status=137)
        ctl("hold", "batch", "nosuchcommand", status=127)
        self.assertIn("no class", ctl("hold", "nope", "--", "true", status=125).stderr.lower())
        p = subprocess.Popen(
            [
                "xschedctl",
                "hold",
                "batch",
                "--",
                "sh",
                "-c",
                "trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(p.stdout.readline(), "up\n")
        p.terminate()
        self.assertEqual(p.wait(), 6)

    def test_without_the_scheduler(self):
        """Without a service the command runs, and gets the class as soon as the service is up."""
        run("systemctl", "stop", "xsched")
        p = subprocess.Popen(
            ["xschedctl", "hold", "idle", "--", "cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.assertEqual(
            p.stderr.readline(), "xschedctl: xschedd is not running on the system bus: cat runs without the hold\n"
        )
        run("systemctl", "start", "xsched")
        until(lambda: [h[3] for h in self.call("ListHolds")[0]] == ["idle"], "the hold")
        p.communicate()


class Set(Run):
    def test_of_units(self):
        """A target is a unit's name, with or without suffix, a path, a pid, a number, or a slice."""
        c = self.client(unit="set-me.service", queues=2)
        path, pid = self.client_of(c), show(c.unit, "MainPID")
        group = self.group("/system.slice/set-me.service")
        for n, target in enumerate(
            ("set-me.service", "set-me", "/system.slice/set-me.service", "group:/system.slice/set-me.service")
        ):
            run("xschedctl", "set", target, f"priority={n + 1}")
            self.assertEqual(self.get("Priority", group, GROUP), n + 1)
        number = self.get("Id", path, CLIENT)
        for n, target in enumerate((pid, f"client:{number}")):
            run("xschedctl", "set", target, f"weight={n + 7}", f"priority={n + 7}")
            self.assertEqual([self.get(p, path, CLIENT) for p in ("Weight", "Priority")], [n + 7, n + 7])
        queue = self.call("ListQueues")[0][0]
        run("xschedctl", "set", f"queue:{queue[0]}", "priority=-3")
        self.assertEqual(self.get("Priority", queue[-1], inside.QUEUE), -3)
        run("xschedctl", "set", "system.slice", "priority=-8")
        run("xschedctl", "reset", "set-me", f"client:{number}", f"queue:{queue[0]}")
        self.assertEqual(self.get("Priority", group, GROUP), -8)
        run("xschedctl", "reset", "system.slice")
        for target, words in (("nothing/here", "no such group"), ("x", "")):
            run("xschedctl", "reset", target, status=1)


if __name__ == "__main__":
    inside.main()
