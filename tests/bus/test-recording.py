#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A recording of 1,000 clients of a real service: replay makes the recorded verdicts again.

tests/opencl/test-demo.py has the demo's recording, and tests/unit/test-taping.c one of the service's objects, where
clients also come, go and change settings.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

CLIENTS, EDGES = fewer(1000), 2000
DEVICES = ["pci:0000:01:00.0", "pci:0000:02:00.0"]
CTL = os.environ["XSCHEDCTL"]


class Recording(Case):
    config = "[Scheduler]\nTimeSlice=2ms\n[Limits]\nMaxClientsPerUser=5000\nMaxQueuesPerUser=5000\n"

    def setUp(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().setUp()
        self.tape = os.path.join(self.directory, "tape")
        self.random = random.Random(7)

    def ctl(self, *arguments):
        return subprocess.run([CTL, *arguments], env=self.environment(), capture_output=True, text=True, check=False)

    def environment(self):
        return {**os.environ, "XSCHED_BUS_ADDRESS": self.bus.address}

    def is_begun(self):
        return os.path.exists(self.tape) and os.path.getsize(self.tape) > 0

    def crowd(self):
        """Each client has its own settings, and so its own verdict on each device."""
        slots = []
        connections = [self.connect() for _ in range(20)]
        for i in range(CLIENTS):
            settings = {"Weight": ("u", 1 + i % 100), "Priority": ("i", -(i % 3))}
            c = self.raw(connections[i % len(connections)], **settings)
            slots.append(c.queue(DEVICES[i % len(DEVICES)]))
        return slots

    def work(self, slots):
        """Some clients become ready, some idle; a few at a time run, and the others wait for them."""
        ready = []
        for _ in range(EDGES // 4):
            if len(ready) < 20:
                ready.append(self.random.choice(slots))
                ready[-1].edge(1)
            else:
                ready.pop(self.random.randrange(len(ready))).edge(0)
            if self.random.random() < 0.02:
                time.sleep(0.002)  # a slice: events by time are recorded, too
        for slot in ready:
            slot.edge(0)

    def n_granted(self):
        """The number of the rarer verdict so far."""
        with open(self.tape, encoding="utf-8") as f:
            text = f.read()
        return min(text.count('"run"'), text.count('"hold"'))

    def work_until_decided(self, slots):
        """A late service finds many edges gone: then there is more work."""
        wanted = self.n_granted() + 30
        until(lambda: self.work(slots) or self.n_granted() > wanted, "enough decisions")

    def test_a_thousand_clients(self):
        slots = self.crowd()
        p = subprocess.Popen([CTL, "record", "-o", self.tape], env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.kill)
        until(self.is_begun, "it records")
        for policy in ("tree", "hpf", "cfs", "mlfq"):
            for device in DEVICES:
                self.call("SetPolicy", "ssta{sv}", device, policy, 0, {})
            self.work_until_decided(slots)
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=DEADLINE)[1]
        self.assertEqual(p.returncode, 0, said)

        with open(self.tape, encoding="utf-8") as f:
            records = [json.loads(line) for line in f]
        self.assertEqual((records[0]["is"], records[-1]["is"]), ("begin", "end"))
        self.assertNotIn("lost", {r["is"] for r in records})
        policies = {r["name"] for r in records if r["is"] == "policy"}
        self.assertLessEqual({"tree", "hpf", "cfs", "mlfq"}, policies)
        entities = sum(r["is"] == "entity" for r in records)
        self.assertGreaterEqual(entities, len({"hpf", "cfs", "mlfq"}) * CLIENTS)
        decided = [g[1] for r in records if r["is"] == "dispatch" for g in r["grants"]]
        self.assertGreater(min(decided.count("run"), decided.count("hold")), 100)

        again = self.ctl("replay", "--check", self.tape)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("the same", again.stdout)

        # A changed recording is reported as different.
        i = next(i for i, r in enumerate(records) if r["is"] == "dispatch" and r["grants"])
        records[i]["grants"] = records[i]["grants"][1:]
        with open(self.tape, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in records)
        again = self.ctl("replay", "--check", self.tape)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"record {i + 1}: something else comes out", again.stderr)


if __name__ == "__main__":
    main()
