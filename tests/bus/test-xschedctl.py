#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl against a real xschedd with real clients: lists, show, set, suspend, run, explain, and failures."""

import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from harness import (
    DEADLINE,
    DEVICE,
    TEST_CLIENT,
    XSCHEDCTL,
    Client,
    EmptyBus,
    ctl,
    ctl_json,
    environment,
    main,
    wait_until,
)

# The columns of each table: the title, and the key of the same value in JSON.
METRICS = {
    "utilisation_percent",
    "vram_used_bytes",
    "vram_total_bytes",
    "temperature_celsius",
    "power_watts",
    "metrics_source",
}
COLUMNS = {
    "list-devices": "DEVICE=device NAME=name BACKEND=backend POLICY=policy CONC=concurrency SLICE=timeslice_usec "
    "THRESH=threshold "
    "ENTITIES=entities READY=ready PREEMPTED=preempted",
    "list-clients": "CLIENT=client PID=pid USER=user COMMAND=command STATE=state CLASS=class PRIO=priority "
    "WEIGHT=weight "
    "SOURCE=source QUEUES=queues HELD=held_usec GROUP=group",
    "list-queues": "QUEUE=queue CLIENT=client PID=pid DEVICE=device LABEL=label STATE=state HOOKED=hooked "
    "WATCHED=watched PRIO=priority WEIGHT=weight BACKLOG=backlog SUBMITTED=submitted "
    "COMPLETED=completed HELD=held_usec MEAN=mean_usec",
    "list-groups": "GROUP=group UNIT=unit STATE=state CLASS=class PRIO=priority WEIGHT=weight MAX=max MIN=min "
    "SOURCE=source CLIENTS=clients "
    "GPU=gpu_time_usec RUN=run_usec WAIT=wait_usec PREEMPTED=preempted",
    "list-policies": "POLICY=policy DESCRIPTION=description",
    "list-classes": "CLASS=class PRIO=priority WEIGHT=weight THRESH=threshold MAX=max MIN=min DESCRIPTION=description",
}
TEXTS = {
    "preemption",
    "accounting",
    "gpu_time_source",
    "device",
    "name",
    "backend",
    "policy",
    "user",
    "command",
    "state",
    "class",
    "source",
    "group",
    "unit",
    "label",
    "description",
    "slice",
    "kind",
    "parent",
    "container",
    "pod",
    "pod_qos",
    "slurm_job",
    "suspended_by",
    "hooked",
    "watched",
}


def pattern_of(key, value):
    """The expected text of a table's cell."""
    if value is None or value == "":
        return "-"
    if key.endswith("_usec"):
        return r"[0-9.]+(us|ms|s|min|h|d)( [0-9]+(s|min|h))?"
    if key in ("max", "min"):
        return f"{value}%" if value else "-"
    return re.escape(str(value))


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.first = Client(queues=2)
        cls.second = Client(prefix=(XSCHEDCTL, "run", "--name=hot", "--priority=7", "--weight=300", "--"))
        for c in (cls.first, cls.second):
            assert c.do("run 10") == "ran"

    @classmethod
    def tearDownClass(cls):
        cls.first.end()
        cls.second.end()

    def test_table_and_json_are_the_same_rows(self):
        for verb, columns in COLUMNS.items():
            with self.subTest(verb):
                columns = [c.split("=") for c in columns.split()]
                rows = ctl_json(verb)
                lines = ctl(verb, "--full").split("\n")
                self.assertEqual(lines[0].split(), [title for title, _ in columns])
                self.assertEqual(lines[1 + len(rows)], "")
                self.assertRegex(lines[2 + len(rows)], rf"^{len(rows)} [a-z]+ listed\.$")
                self.assertGreater(len(rows), 0)
                for row, line in zip(rows, lines[1:]):
                    wanted = " +".join(pattern_of(key, row[key]) for _, key in columns)
                    self.assertRegex(line, f"^[ │├└─|`-]*{wanted} *$")

    def test_json_is_typed(self):
        for verb in COLUMNS:
            for row in ctl_json(verb):
                for key, value in row.items():
                    if value is None and key not in METRICS:
                        self.assertEqual(verb, "list-classes", "only a class may leave something open")
                    elif value is None:
                        self.assertEqual(verb, "list-devices", "of a device that nobody measures")
                    elif key in TEXTS:
                        self.assertIsInstance(value, str, key)
                    else:
                        self.assertIsInstance(value, float if isinstance(value, float) else int, key)
                        self.assertNotIsInstance(value, bool, key)

    def test_json_modes(self):
        short = ctl("list-devices", "--json=short")
        pretty = ctl("list-devices", "--json=pretty")
        self.assertEqual(short.count("\n"), 1)
        self.assertGreater(pretty.count("\n"), 5)
        self.assertEqual(json.loads(short), json.loads(pretty))
        self.assertEqual(ctl("list-devices", "--json=off"), ctl("list-devices"))
        self.assertIn("short, pretty, off", ctl("list-devices", "--json=yaml", status=1))

    def test_values(self):
        one, two = (next(c for c in ctl_json("list-clients") if c["pid"] == x.pid) for x in (self.first, self.second))
        self.assertEqual(
            (one["queues"], one["submitted"], one["uid"], one["command"]), (2, 20, os.getuid(), "test-client")
        )
        self.assertEqual((two["queues"], two["submitted"], two["priority"], two["weight"]), (1, 10, 7, 300))
        self.assertRegex(two["group"], r"^job:\d+:hot$")
        queues = [q for q in ctl_json("list-queues") if q["client"] == one["client"]]
        self.assertEqual(
            [(q["device"], q["backend"], q["submitted"], q["pid"]) for q in queues],
            [(DEVICE, "test", 10, self.first.pid)] * 2,
        )
        device = next(d for d in ctl_json("list-devices") if d["device"] == DEVICE)
        self.assertEqual((device["name"], device["backend"]), ("Device of a test", "test"))
        group = next(g for g in ctl_json("list-groups") if g["group"] == two["group"])
        self.assertEqual((group["kind"], group["source"], group["clients"]), ("job", "job", 1))

    def test_no_legend(self):
        for verb in COLUMNS:
            self.assertEqual(len(ctl(verb, "--no-legend").splitlines()), len(ctl_json(verb)))

    def test_status_of_a_target(self):
        first, second = self.first.row(), self.second.row()
        mine = [q["queue"] for q in ctl_json("list-queues") if q["client"] == second["client"]]
        for target in (second["pid"], self.second.target, second["group"], f"queue:{mine[0]}"):
            with self.subTest(target):
                status = ctl_json("status", target)
                self.assertEqual([d["device"] for d in status["devices"]], [DEVICE])
                self.assertEqual([g["group"] for g in status["groups"]], [second["group"]])
                self.assertEqual([c["client"] for c in status["clients"]], [second["client"]])
                self.assertEqual([q["queue"] for q in status["queues"]], mine)
        # All groups below the root, and all on the device.
        for target in (f"device:{DEVICE}", "device:all", "/"):
            clients = {c["client"] for c in ctl_json("status", target)["clients"]}
            self.assertLessEqual({first["client"], second["client"]}, clients)
        both = ctl_json("status", self.first.target, self.second.target)
        self.assertEqual({c["client"] for c in both["clients"]}, {first["client"], second["client"]})
        text = ctl("status", second["pid"])
        self.assertIn(second["group"], text)
        self.assertNotIn("Events:", text)

    def test_status(self):
        status = ctl_json("status")
        self.assertIs(status["running"], True)
        self.assertEqual(status["version"], ctl("--version").split()[1])
        self.assertEqual(status["n_clients"], len(status["clients"]))
        self.assertEqual(status["clients"], ctl_json("list-clients"))
        self.assertEqual(status["devices"], ctl_json("list-devices"))
        self.assertEqual([g["group"] for g in status["groups"]], [g["group"] for g in ctl_json("list-groups")])
        text = ctl()
        self.assertIn(f'xschedd {status["version"]} on the bus', text)
        for word in (DEVICE, str(self.first.pid), str(self.second.pid), "hot", "running\n"):
            self.assertIn(word, text)

    def test_show(self):
        target = self.first.target
        lines = dict(line.split("=", 1) for line in ctl("show", target).splitlines())
        self.assertEqual(
            (lines["PID"], lines["Command"], lines["NQueues"], lines["Suspended"]),
            (str(self.first.pid), "test-client", "2", "no"),
        )
        self.assertEqual(ctl("show", self.first.pid, "-p", "PID", "--value"), f"{self.first.pid}\n")
        self.assertEqual(
            ctl("show", target, "-pPID,Id", "--property=Command").splitlines(),
            [f"Id={target[7:]}", f"PID={self.first.pid}", "Command=test-client"],
        )
        shown = ctl_json("show", target)
        self.assertEqual((shown["PID"], shown["Suspended"]), (self.first.pid, False))
        both = ctl_json("show", target, f"device:{DEVICE}")
        self.assertEqual([both[0]["PID"], both[1]["Id"]], [self.first.pid, DEVICE])
        self.assertEqual(ctl("show", "--value", "-pVersion").strip(), ctl("--version").split()[1])
        group = self.second.row()["group"]
        for name in (group, f"group:{group}"):
            self.assertEqual(ctl("show", name, "-pPriority"), "Priority=7\n")
        queue = ctl_json("list-queues")[0]["queue"]
        self.assertEqual(ctl_json("show", f"queue:{queue}")["Id"], queue)
        self.assertEqual(
            [d["Id"] for d in ctl_json("show", "device:all")], [d["device"] for d in ctl_json("list-devices")]
        )
        self.assertIn(f"Id={DEVICE}\n", ctl("show", "device:all", "-pId"))

    def test_explain(self):
        chain = ctl_json("explain", self.second.pid)
        self.assertIn(("job", 7), [(link["source"], link["value"]) for link in chain])
        text = ctl("explain", self.second.pid)
        self.assertRegex(text, r"(?m)^Priority +7 +job +set with job:")
        self.assertRegex(text, r"(?m)^[│├└─|`-]+Priority +0 +default +built in$")
        self.assertEqual(ctl("explain", self.second.target), text)
        for setting in {link["setting"] for link in chain}:
            links = [i for i, link in enumerate(chain) if link["setting"] == setting]
            self.assertEqual(links, list(range(links[0], links[-1] + 1)), "what is overruled stands below what counts")

    def test_bus_by_option(self):
        address = os.environ["XSCHED_BUS_ADDRESS"]
        clients = ctl("list-clients", "--no-legend")
        self.assertEqual(ctl("--bus-address", address, "list-clients", "--no-legend", XSCHED_BUS_ADDRESS=None), clients)
        self.assertEqual(
            ctl("list-clients", f"--bus-address={address}", "--no-legend", XSCHED_BUS_ADDRESS="unix:path=/x"), clients
        )

    def test_harmful_characters_stay_out_of_the_terminal(self):
        harmful = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u202e]"
        with tempfile.TemporaryDirectory() as d:
            name = "a\x1b[2J\u009b\u202e\u061c"  # as long as the kernel keeps
            os.symlink(TEST_CLIENT, f"{d}/{name}")
            with Client(program=f"{d}/{name}") as c:
                self.assertIn(str(c.pid), ctl("list-clients"))
                for args in (
                    ["list-clients"],
                    ["status"],
                    ["show", c.pid],
                    ["check", c.pid],
                    ["top", "-bcn1", "-d1ms"],
                ):
                    self.assertNotRegex(ctl(*args), harmful)
                for args in (["list-clients"], ["show", c.pid]):
                    self.assertNotRegex(ctl("--json=short", *args), harmful)

    def test_names_are_shown_as_they_are(self):
        """A unit with an escaped dash is gpu\\x2dbatch.service, and its name can be copied from a list."""
        with tempfile.TemporaryDirectory() as d:
            os.symlink(TEST_CLIENT, f"{d}/a\\x2db")
            with Client(program=f"{d}/a\\x2db"):
                for args in (["list-clients"], ["status"], ["top", "-bcn1", "-d1ms"]):
                    self.assertIn(" a\\x2db ", ctl(*args))
            ctl("set", "--runtime", "/system.slice/a\\x2db.service", "weight=5")
            self.addCleanup(ctl, "reset", "a\\x2db.service")
            self.assertIn("a\\x2db.service ", ctl("list-settings"))


class Changes(unittest.TestCase):
    def setUp(self):
        self.client = Client(queues=2)
        self.addCleanup(self.client.end)

    def test_set_a_process(self):
        c = self.client
        before = c.row()
        self.assertEqual(ctl("set", c.pid, "priority=-20", "Weight=50"), "")
        row = c.row()
        self.assertEqual((row["priority"], row["weight"], row["source"]), (-20, 50, "override"))
        ctl("set", c.target, "THRESHOLD=3", "preemption=2", "gang=yes")
        row = c.row()
        self.assertEqual((row["priority"], row["weight"], row["threshold"], row["preemption"]), (-20, 50, 3, "2"))
        self.assertIs(ctl_json("show", c.target)["Gang"], True)
        self.assertIn("auto, off, 1, 2, 3 or privileged", ctl("set", c.target, "preemption=4", status=1))
        self.assertIn("boolean", ctl("set", c.target, "gang=perhaps", status=1))
        self.assertIn("override", ctl("explain", c.pid))
        ctl("reset", c.pid)
        self.assertEqual(
            {k: v for k, v in c.row().items() if not k.endswith("usec")},
            {k: v for k, v in before.items() if not k.endswith("usec")},
        )

    def test_set_a_queue(self):
        queues = [q for q in ctl_json("list-queues") if q["pid"] == self.client.pid]
        ctl("set", f'queue:{queues[1]["queue"]}', "priority=-1")
        rows = {q["queue"]: q for q in ctl_json("list-queues")}
        self.assertEqual([rows[q["queue"]]["priority"] for q in queues], [queues[0]["priority"], -1])
        ctl("reset", f'queue:{queues[1]["queue"]}')
        self.assertEqual(ctl_json("show", f'queue:{queues[1]["queue"]}')["Priority"], queues[1]["priority"])

    def test_set_a_group(self):
        group = self.client.row()["group"]
        self.addCleanup(ctl, "reset", group)
        ctl("set", group, "weight=123", "class=batch")
        row = self.client.row()
        self.assertEqual((row["weight"], row["class"], row["priority"]), (123, "batch", -50))
        ctl("reset", group)
        self.assertEqual(self.client.row()["weight"], 100)

    def test_set_a_group_in_advance(self):
        ctl("set", "not-yet.service", "priority=4")
        self.addCleanup(ctl, "reset", "not-yet.service")
        self.assertEqual(ctl_json("show", "not-yet.service")["Priority"], 4)

    def test_nothing_of_a_refused_set_is_done(self):
        before = self.client.row()
        message = ctl("set", self.client.pid, "priority=9", "weight=0", status=1)
        self.assertIn("Weight", message)
        self.assertEqual(self.client.row()["priority"], before["priority"])

    def test_set_a_device(self):
        def device():
            return next(d for d in ctl_json("list-devices") if d["device"] == DEVICE)

        before = device()
        self.addCleanup(
            ctl,
            "set",
            f"device:{DEVICE}",
            "concurrency=1",
            "timeslice=5ms",
            f'threshold={before["threshold"]}',
            "preemption=auto",
        )
        ctl("set", f"device:{DEVICE}", "concurrency=2", "timeslice=1.5ms", "policy=tree", "threshold=4", "preemption=1")
        row = device()
        self.assertEqual(
            (row["policy"], row["concurrency"], row["timeslice_usec"], row["threshold"], row["preemption"]),
            ("tree", 2, 1500, 4, "1"),
        )
        ctl("set", "device:all", "TimeSliceUSec=2ms")
        row = device()
        self.assertEqual((row["concurrency"], row["timeslice_usec"]), (2, 2000))

    def test_every_device_means_those_to_come(self):
        ctl("set", "device:all", "linger=123us")
        self.addCleanup(ctl, "set", "device:all", f'linger={ctl_json("list-devices")[0]["linger_usec"]}us')
        with Client(device="pci:0000:66:00.0"):
            self.assertEqual(ctl_json("show", "device:pci:0000:66:00.0")["LingerUSec"], 123)

    def test_a_device_goes_back_to_its_configuration(self):
        """An empty value removes one key, in one step with others that are set; reset removes all."""
        target = f"device:{DEVICE}"
        keys = ("Concurrency", "TimeSliceUSec", "Policy", "LingerUSec")

        def now():
            shown = ctl_json("show", target)
            return {k: shown[k] for k in keys}

        before = now()
        ctl("set", target, "concurrency=2", "timeslice=7ms")
        ctl("set", target, "timeslice=", "linger=99us", "preemption=1", "accounting=sampled")
        self.assertEqual(now(), dict(before, Concurrency=2, LingerUSec=99))
        found = {"Concurrency": 2, "LingerUSec": 99, "Preemption": "1", "Accounting": "sampled"}
        self.assertEqual(
            [r for r in ctl_json("list-settings") if r["target"] == target],
            [{"target": target, "lifetime": "runtime", "settings": found}],
        )
        ctl("reset", target)
        self.assertEqual(now(), before)
        ctl("set", "device:all", "concurrency=3", "policy=tree")
        ctl("set", target, "concurrency=2")
        ctl("reset", target)
        self.assertEqual(now(), dict(before, Concurrency=3))
        ctl("set", target, "concurrency=2")
        ctl("reset", "device:all")
        self.assertEqual(now(), before)
        self.assertFalse([r for r in ctl_json("list-settings") if r["target"].startswith("device:")])

    def test_a_device_has_ranges(self):
        """Settings of the configuration files, as text."""
        for value in ("1h", "10001ms", "99us", "0", "infinity"):
            self.assertIn("a time span, 100us..10s", ctl("set", f"device:{DEVICE}", f"timeslice={value}", status=1))
        self.assertIn("1..1024", ctl("set", f"device:{DEVICE}", "concurrency=1025", status=1))
        self.assertIn("nonsense", ctl("set", f"device:{DEVICE}", "nonsense=", status=1))

    def test_suspended_client_waits_at_the_gate(self):
        for target in (self.client.target, self.client.pid, self.client.row()["group"]):
            with self.subTest(target):
                ctl("suspend", target)
                self.assertEqual(self.client.row()["state"], "suspended")
                self.client.send("begin 0")
                wait_until(lambda: "waiters=1" in ctl("dump"), "the launch waits")
                self.assertFalse(self.client.answered())
                ctl("resume", target)
                self.assertIn(self.client.read(), ("tracked", "untracked"))
                self.client.do("complete 0")
                self.assertNotEqual(self.client.row()["state"], "suspended")

    def test_reload_and_dump(self):
        self.assertEqual(ctl("reload"), "")
        self.assertIn(f"pid={self.client.pid}", ctl("dump"))


class Errors(unittest.TestCase):
    def fails(self, *args, says, status=1, **changes):
        message = ctl(*args, status=status, **changes)
        self.assertRegex(message, r"^xschedctl: [^\n]*\n$")
        self.assertIn(says, message)
        return message

    def test_no_such_object(self):
        self.fails("show", "client:987654", says="client:987654: no such")
        self.fails("show", "queue:987654", says="queue:987654: no such")
        self.fails("show", "device:pci:dead", says="device:pci:dead: no such")
        for name, says in ("", "the name of the target is empty"), ("group:", "the name of the group is empty"):
            for verb, *words in ("show",), ("status",), ("explain",), ("set", "weight=1"), ("suspend",), ("reset",):
                self.fails(verb, name, *words, says=says)
        # An empty device, as of an unset shell variable, must not mean all devices.
        for words in (("reset", "device:"), ("set", "device:", "timeslice=9ms"), ("policy", "", "hpf")):
            self.fails(*words, says="names no device")
        self.fails("show", "nobody.service", says="nobody.service: no such group")
        self.fails("suspend", "nobody.service", says="nobody.service: no such group")
        self.fails("set", "client:987654", "weight=1", says="client:987654: no such")
        self.fails("show", os.getpid(), says=f"process {os.getpid()}: no such client")
        self.fails("explain", os.getpid(), says=f"process {os.getpid()}: no such client")
        child = subprocess.Popen(["true"])
        child.wait()
        self.fails("show", child.pid, says=f"{child.pid}: no such process")

    def test_bad_words(self):
        with Client() as c:
            self.fails("set", c.pid, "weight", says="weight: not KEY=VALUE")
            self.fails("set", c.pid, "bogus=1", says="bogus: no such setting of a client")
            self.fails("set", c.pid, "timeslice=1ms", says="timeslice: no such setting of a client")
            self.fails("set", f"device:{DEVICE}", "weight=1", says="weight: no such setting of a device")
            self.fails("set", c.pid, "weight=many", says="weight=many: not a number")
            self.fails("set", f"device:{DEVICE}", "timeslice=soon", says="timeslice=soon: not a time span")
            self.fails("set", c.pid, "priority=99999999999", says="priority=99999999999: out of range")
            self.fails("set", c.pid, "priority=256", says="Priority")
            self.fails("set", "/", "min=infinity", says="min=infinity: not a percentage, like 25%\n")
            self.fails("set", c.pid, "class=nosuch", says="nosuch")
            self.fails("set", f"device:{DEVICE}", "policy=nosuch", says="nosuch")
            self.fails("set", "device:pci:dead", "policy=tree", says="device:pci:dead: no such device")
            self.fails("show", c.pid, "-p", "Bogus", says="no such property: Bogus")
            self.fails("suspend", f"device:{DEVICE}", says="only groups, clients and queues")
        self.fails("show", "client:one", says="client:one: not a number")
        for kind in ("client", "queue"):
            for verb, *rest in ("show",), ("set", "weight=1"), ("hint", "weight=1"), ("suspend",):
                self.fails(verb, f"{kind}:0", *rest, says=f"{kind}:0: the number of the first {kind} is 1")
                self.fails(verb, f"{kind}:", *rest, says=f"{kind}: names no {kind}")
                self.fails(verb, f"{kind}:{1 << 64}", *rest, says=f"{kind}:{1 << 64}: no such {kind}")
        for verb, target in ("status", "client:987654"), ("explain", "client:987654"), ("explain", "queue:987654"):
            self.fails(verb, target, says=f"{target}: no such")
        self.fails("explain", f"device:{DEVICE}", says="only of processes, queues, units and groups")

    def test_command_line(self):
        self.fails("bogus", says="bogus: no such verb; try --help")
        self.fails("lst-client", says="lst-client: no such verb; did you mean list-clients?")
        self.fails("set", says="set wants TARGET KEY=VALUE")
        self.fails("list-clients", "x", says="list-clients: too many arguments")
        self.fails("list-clients", "--class=x", says="--class is an option of run, not of list-clients")
        self.fails("top", "-d", "0", says="--delay=0")
        self.fails("top", "-n", "x", says="--iterations=x")
        self.fails("top", "--sort=x", says="--sort=")
        ctl("--bogus", status=1)
        self.assertEqual(ctl("--help", "bogus", status=1).count("\n"), 1)

    def test_what_was_typed_does_nothing_to_the_terminal(self):
        self.fails("set", "a\033[31m\nb\177.service", "weight", says="weight: not KEY=VALUE")
        for args in (("fro\033[31m\n",), ("set", "x.service", "k\033\007=1"), ("status", "queue:\033[2J")):
            with self.subTest(args=args):
                said = self.fails(*args, says="\\x1b")
                self.assertEqual([c for c in said[:-1] if c < " " or c == "\177"], [])

    def test_no_service(self):
        with EmptyBus() as address:
            for verb in ("list-clients", "list-policies", "show", "dump", "reload", "top"):
                self.fails(verb, f"--bus-address={address}", says=f"xschedd is not running on the bus {address}")
            self.assertIn("not running", ctl("status", f"--bus-address={address}", status=3))
            self.assertEqual(ctl_json("status", f"--bus-address={address}", status=3), {"running": False})
        for verb in ("list-clients", "set 1 weight=1", "monitor"):
            self.fails(
                *verb.split(),
                "--bus-address=unix:path=/nonexistent",
                says="cannot reach the bus unix:path=/nonexistent",
            )
        self.assertIn("not running", ctl("--bus-address=unix:path=/nonexistent", status=3))
        self.assertIn("cannot be reached: No such file", ctl("--bus-address=unix:path=/nonexistent", status=3))

    def test_a_command_runs_without_a_bus(self):
        """`run` runs its command unscheduled, `hold` without the class. Both return what the command returns."""
        away = "--bus-address=unix:path=/nonexistent"
        cases = (
            (("run",), "unscheduled"),
            (("hold", "interactive"), "without the hold"),
            (("register", "pci:0000:65:00.0"), "unscheduled"),
        )
        for verb, says in cases:
            argv = (away, *verb, "--", "sh", "-c")
            with self.subTest(verb):
                self.assertIn(f"sh runs {says}", ctl(*argv, "exit 5", status=5))
                self.assertEqual(ctl(*argv, "echo done"), "done\n")
        ctl(away, "hold", "interactive", "--", "sh", "-c", "kill -9 $$", status=128 + 9)
        ctl(away, "hold", "interactive", "--", "/nonexistent", status=127)


class Run(unittest.TestCase):
    def run_ctl(self, *args, **changes):
        return subprocess.run(
            [XSCHEDCTL, "run", *args],
            env=environment(**changes),
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=DEADLINE,
        )

    def test_exit_status(self):
        for status in (0, 1, 3, 125):
            self.assertEqual(self.run_ctl("--", "sh", "-c", f"exit {status}").returncode, status)
        self.assertEqual(self.run_ctl("sh", "-c", "kill -9 $$").returncode, -signal.SIGKILL)
        p = self.run_ctl("/nonexistent")
        self.assertEqual(p.returncode, 127)
        self.assertRegex(p.stderr, "^xschedctl: cannot run /nonexistent: ")
        self.assertEqual(self.run_ctl("/etc/passwd").returncode, 126)

    def test_command_is_this_process(self):
        p = subprocess.Popen(
            [XSCHEDCTL, "run", "sh", "-c", "echo $$"], env=environment(), text=True, stdout=subprocess.PIPE
        )
        self.assertEqual(int(p.communicate()[0]), p.pid)

    def test_arguments_pass_unchanged(self):
        for dashes in ((), ("--",)):
            self.assertEqual(
                self.run_ctl(*dashes, "printf", "%s\n", "--json=short", "", "--").stdout, "--json=short\n\n--\n"
            )

    def test_environment(self):
        p = self.run_ctl("env", OPENCL_LAYERS="/other.so")
        env = dict(line.split("=", 1) for line in p.stdout.splitlines() if "=" in line)
        self.assertGreaterEqual(len(env["XSCHED_JOB"]), 16)
        self.assertRegex(env["OPENCL_LAYERS"], r"^/.*/libxsched-opencl\.so:/other\.so$")
        p = self.run_ctl("--shim=none", "env", OPENCL_LAYERS=None)
        self.assertNotIn("OPENCL_LAYERS", p.stdout)
        address = os.environ["XSCHED_BUS_ADDRESS"]
        p = self.run_ctl(
            f"--bus-address={address}", "--", "sh", "-c", "echo $XSCHED_BUS_ADDRESS", XSCHED_BUS_ADDRESS=None
        )
        self.assertEqual(p.stdout.strip(), address)

    def test_job(self):
        words = ["--name=mine", "--class=batch", "--weight=9", "--threshold=2", "--weight=8", "--max=25%", "--gang=yes"]
        with Client(prefix=(XSCHEDCTL, "run", *words)) as c:
            row = c.row()
            self.assertRegex(row["group"], r"^job:\d+:mine$")
            self.assertEqual((row["class"], row["priority"], row["weight"], row["threshold"]), ("batch", -50, 8, 2))
            shown = ctl_json("show", row["group"])
            self.assertEqual([shown[k] for k in ("Kind", "Max", "Gang")], ["job", 25, True])
            group = row["group"]
        wait_until(lambda: group not in ctl("list-groups"), "the job ends with its process")

    def test_job_includes_children(self):
        with Client(prefix=(XSCHEDCTL, "run", "sh", "-c", '"$@"; exit $?', "sh")) as c:
            groups = [g for g in ctl_json("list-groups") if g["kind"] == "job"]
            self.assertEqual([g["clients"] for g in groups], [1])
            self.assertTrue(groups[0]["group"].endswith(":sh"))
            clients = [r for r in ctl_json("list-clients") if r["group"] == groups[0]["group"]]
            self.assertNotEqual(clients[0]["pid"], c.pid)

    def test_name_comes_from_the_command_whatever_it_is(self):
        with tempfile.TemporaryDirectory() as d:
            os.symlink(TEST_CLIENT, f'{d}/my "job", part 1 ' + "x" * 80)
            with Client(prefix=(XSCHEDCTL, "run", "--"), program=f'{d}/my "job", part 1 ' + "x" * 80) as c:
                self.assertRegex(c.row()["group"], r"^job:\d+:my__job___part_1_x+$")

    def test_refused(self):
        p = self.run_ctl("--weight=0", "echo", "ran")
        self.assertEqual((p.returncode, p.stdout, "Weight" in p.stderr), (125, "", True))
        self.assertEqual(self.run_ctl("--priority=high", "true").returncode, 125)
        self.assertIn("max=lots", self.run_ctl("--max=lots", "true").stderr)  # and no --max-size of record
        self.assertEqual(self.run_ctl("--shim=bogus", "true").returncode, 125)

    def test_without_a_service(self):
        with EmptyBus() as address:
            for a in (address, "unix:path=/nonexistent"):
                p = self.run_ctl("sh", "-c", "echo ran; exit 6", XSCHED_BUS_ADDRESS=a)
                self.assertEqual((p.returncode, p.stdout), (6, "ran\n"))
                self.assertRegex(
                    p.stderr, "^xschedctl: xschedd is not running on the bus [^\n]*: sh runs unscheduled\n$"
                )


if __name__ == "__main__":
    main(unittest)
