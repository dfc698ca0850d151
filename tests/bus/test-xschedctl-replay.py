#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl record and replay: real clients' decisions are made again, and other ones with another policy or hint."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from harness import DEVICE, XSCHEDCTL, Client, ctl, ctl_json, environment, main, wait_until


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Two clients share a device, and its policy changes meanwhile."""
        cls.directory = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.directory.name, "tape")
        cls.clients = [
            Client(prefix=(XSCHEDCTL, "run", f"--name={n}", f"--weight={w}", "--"))
            for n, w in (("ours", 300), ("theirs", 100))
        ]
        cls.groups = [c.row()["group"] for c in cls.clients]
        recording = subprocess.Popen(
            [XSCHEDCTL, "record", "-o", cls.file], env=environment(), stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: cls.n_records() > 0, "the recording has begun")
        cls.former, cls.other = (os.path.join(cls.directory.name, name) for name in ("former", "other"))
        with open(cls.former, "w", encoding="utf-8") as f:
            f.write("of yesterday\n")
        cls.refused = [ctl("record", "-o", name, status=1) for name in (cls.former, cls.other)]
        for c in cls.clients:
            c.do("stream")
        wait_until(lambda: cls.n_records() > 300, "something has happened")
        ctl("policy", DEVICE, "cfs", "timeslice=5ms")
        n = cls.n_records()
        wait_until(lambda: cls.n_records() > n + 300, "something has happened under another policy")
        ctl("policy", DEVICE, "policy=", "timeslice=")
        for c in cls.clients:
            c.do("rest")
        recording.send_signal(signal.SIGINT)
        cls.said = recording.communicate()[1]
        cls.status = recording.returncode

    @classmethod
    def tearDownClass(cls):
        for c in cls.clients:
            c.end()
        cls.directory.cleanup()

    @classmethod
    def n_records(cls):
        if not os.path.exists(cls.file):
            return 0
        with open(cls.file, "rb") as f:
            return f.read().count(b"\n")

    def records(self):
        with open(self.file, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def test_recording(self):
        self.assertEqual(self.status, 0, self.said)
        records = self.records()
        self.assertIn(f"{len(records)} records", self.said)
        self.assertEqual((records[0]["is"], records[-1]["is"]), ("begin", "end"))
        self.assertLessEqual(set(self.groups), {r["group"] for r in records if r["is"] == "entity"})
        self.assertIn("cfs", {r["name"] for r in records if r["is"] == "policy"})
        for said in self.refused:
            self.assertIn("one at a time", said)
        with open(self.former, encoding="utf-8") as f:
            self.assertEqual(f.read(), "of yesterday\n")
        self.assertFalse(os.path.exists(self.other))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600, "it shows all users' groups")

    def test_the_same_comes_out(self):
        self.assertIn("the same", ctl("replay", "--check", self.file))

    def test_a_difference_is_named(self):
        records = self.records()
        i = self.held(records)
        records[i]["grants"][0][1] = "run"
        name = os.path.join(self.directory.name, "false")
        with open(name, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in records)
        self.assertIn(f"record {i + 1}: something else comes out", ctl("replay", "--check", name, status=1))
        with open(name, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in records[:i])
        self.assertIn(f"cut after record {i}", ctl("replay", "--check", name, status=1))

    def test_a_record_that_is_cut(self):
        """Wherever a recording is cut, what is whole in it is played."""
        records = self.records()
        whole = "".join(json.dumps(r) + "\n" for r in records[:3])
        name = os.path.join(self.directory.name, "cut")
        for n in range(1, len(whole), 7):
            with open(name, "w", encoding="utf-8") as f:
                f.write(whole[:n])
            k = whole[:n].count("\n") + (whole[n] == "\n")
            said = ctl("replay", "--check", name, status=1)
            self.assertIn(f"cut after record {k}" if k else "record 1: not a record", said, whole[:n])
        with open(self.file, encoding="utf-8") as f:
            tape = f.read()
        with open(name, "w", encoding="utf-8") as f:
            f.write(tape[: tape.rindex("\n", 0, len(tape) * 2 // 3) - 3])
        self.assertIn(self.groups[0], ctl("replay", name, "--policy=hpf"))
        with open(name, "w", encoding="utf-8") as f:
            f.write(tape + '{"is"')
        self.assertIn(f"record {len(records) + 1}: not a record", ctl("replay", "--check", name, status=1))

    def rows(self, *args):
        found = {r["group"]: r for r in ctl_json("replay", self.file, *args)}
        return [found[g] for g in self.groups]

    def test_table(self):
        ours, theirs = self.rows()
        self.assertGreater(ours["run_usec"], 0)
        self.assertGreater(theirs["wait_usec"], 0)
        self.assertAlmostEqual(ours["asked"], 0.75)
        lines = ctl("replay", self.file).splitlines()
        (line,) = (l for l in lines if self.groups[0] in l)
        self.assertEqual(line.split()[lines[0].split().index("ASKED")], "75.0%")

    def test_otherwise(self):
        """The group of the highest priority never waits, whichever it is."""
        for first, group in enumerate(self.groups):
            rows = self.rows("--policy=hpf", f"--set={group}:priority=200")
            self.assertGreater(rows[first]["share"], 0.9, rows)
        self.assertAlmostEqual(self.rows(f"--set={self.groups[0]}:weight=100")[0]["asked"], 0.5)

    def held(self, records):
        """The first decision by which one client waits while another runs."""
        return next(
            i for i, r in enumerate(records) if r["is"] == "dispatch" and r["grants"] and r["grants"][0][1] == "hold"
        )

    def test_an_end_that_never_comes(self):
        """Both want the device from then on, until the latest time that a recording may have."""
        records = self.records()
        name = os.path.join(self.directory.name, "endless")
        with open(name, "w", encoding="utf-8") as f:
            ends = {"is": "end", "at": (1 << 61) - 1}
            f.writelines(json.dumps(r) + "\n" for r in (*records[: self.held(records) + 1], ends))
        self.assertRegex(ctl("replay", name, "--policy=cfs", status=1), r"goes on for 230\d{7} s: too much")
        self.assertIn(self.groups[0], ctl("replay", name))

    def test_a_setting_that_changes_nothing(self):
        """A hint of a group that is not in the recording's tree."""
        name = os.path.join(self.directory.name, "flat")
        with open(name, "w", encoding="utf-8") as f:
            for r in self.records():
                if r["is"] in ("begin", "device", "policy", "entity", "end"):
                    f.write(json.dumps({**r, "node": 0} if "node" in r else r) + "\n")
        group = self.groups[0]
        ctl("replay", name, f"--set={group}:priority=5")
        self.assertIn("has this setting", ctl("replay", name, f"--set={group}:max=5%", status=1))
        ctl("replay", self.file, f"--set={group}:max=5%")

    def test_pictures(self):
        svg, trace = (os.path.join(self.directory.name, n) for n in ("x.svg", "x.json"))
        ctl("replay", self.file, f"--svg={svg}", f"--trace={trace}")
        root = ElementTree.parse(svg).getroot()
        self.assertTrue(any(self.groups[0] in (t.text or "") for t in root))
        self.assertGreater(len(list(root)), 20)
        with open(trace, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        self.assertEqual({e["name"] for e in events if e["ph"] == "X"}, {"run", "wait"})

    def test_refusals(self):
        endless = f"{self.directory.name}/endless"
        with open(self.file, encoding="utf-8") as tape, open(endless, "w", encoding="utf-8") as f:
            f.write(tape.readline())
            f.truncate(1 << 30)
        for args, said in (
            (("replay", self.file, "--policy=oak"), "oak"),
            (("replay", self.file, "slice=5"), "slice=5"),
            (("replay", self.file, "timeslice=soon"), "timeslice=soon"),
            (("replay", self.file, "--set=priority=3"), "GROUP:KEY=VALUE"),
            (("replay", self.file, "--set=/a:colour=3"), "colour"),
            (("replay", self.file, "--set=nosuchgroup:weight=5"), "nosuchgroup"),
            (("replay", self.file, f"--set={self.groups[0]}:weight=5", "--set=/nor/this:max=5%"), "/nor/this"),
            (("replay", self.file, "--check", "--policy=hpf"), "--check"),
            (("replay", "/nonexistent"), "/nonexistent"),
            (("replay", "/"), "/: cannot be read: Is a directory"),
            (("replay", self.file, f"--svg={self.file}"), "the recording itself"),
            (
                ("replay", self.file, f"--trace={self.directory.name}/../{os.path.basename(self.directory.name)}/tape"),
                "itself",
            ),
            (("replay", os.devnull), "empty"),
            (("replay", XSCHEDCTL), "record 1"),
            (("replay", "/dev/zero"), "record 1"),
            (("replay", endless), "record 2"),
            (("record",), "--output="),
            (("record", "-o", os.devnull, "nothing"), "nothing"),
            (("policy", "nothing", "hpf"), "nothing"),
            (("policy", DEVICE, "oak"), "oak"),
            (("policy", DEVICE, ""), "empty"),
            (("policy", DEVICE, "hpf", "colour=1"), "colour"),
            (("policy", DEVICE, "hpf", "policy=cfs"), "policy=cfs: the policy is hpf already"),
            (("policy", DEVICE, "hpf", "starve=1ms", "starverun=1s"), "StarveRunUSec must not be more than StarveUSec"),
            (("hint", "/system.slice", "weight=3"), "/system.slice"),
            (("hint", "queue:999999", "weight=3"), "999999"),
        ):
            with self.subTest(args):
                self.assertIn(said, ctl(*args, status=1))
        self.assertIn("the same", ctl("replay", "--check", self.file))

    def test_policy_and_hint(self):
        self.assertIn(DEVICE, ctl("policy"))
        self.assertIn("Policy=tree", ctl("policy", DEVICE))
        for name in ("HHPF", "tree"):
            ctl("policy", DEVICE, name)
            self.assertIn(f"Policy={name.lower()}", ctl("policy", DEVICE))
        self.assertEqual(ctl("replay", self.file, "--policy=CFS"), ctl("replay", self.file, "--policy=cfs"))
        ctl("hint", self.clients[0].pid, "weight=77")
        self.assertEqual(ctl_json("show", self.clients[0].pid)["Weight"], 77)
        queue = next(q["queue"] for q in ctl_json("list-queues") if q["client"] == self.clients[0].row()["client"])
        hints = {
            "priority=-3": ("Priority", -3),
            "weight=7": ("Weight", 7),
            "threshold=2": ("Threshold", 2),
            "deadline=5ms": ("Deadline", 5000),
            "laxity=2ms": ("Laxity", 2000),
            "critical=4": ("Critical", 4),
            "utilization=30%": ("Utilization", 30),
            "active=yes": ("Active", True),
        }
        ctl("hint", f"queue:{queue}", *hints)
        shown = ctl_json("show", f"queue:{queue}")
        self.assertEqual([(k, shown[k]) for k, _ in hints.values()], list(hints.values()))


if __name__ == "__main__":
    main(unittest)
