#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Policies are switched at random while 200 clients want four devices, in real time: hints stay, nobody starves, and
every verdict that is written is another one. tests/unit/test-switch-load.c does it for a minute of a clock of its own.

SWITCHING_SECONDS is how long; a minute with -Dlong-tests=true."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

SEED = int(os.environ.get("SWITCHING_SEED", 0)) or int.from_bytes(os.urandom(4), "little")
SECONDS = float(os.environ.get("SWITCHING_SECONDS", 3))
N_CLIENTS, N_RAW = fewer(200), 20  # of which we see the words of the last ones
DEVICES = [f"pci:0000:0{n}:00.0" for n in range(1, 5)]
HINTS = {
    "Priority": ("i", lambda r: r.randrange(-3, 4)),
    "Weight": ("u", lambda r: r.randrange(50, 200)),
    "Deadline": ("t", lambda r: r.choice((0, r.randrange(1000, 20000)))),
    "Laxity": ("t", lambda r: r.choice((0, r.randrange(1000, 20000)))),
    "Critical": ("i", lambda r: r.randrange(-3, 10)),
    "Utilization": ("u", lambda r: r.randrange(1, 101)),
    "Active": ("b", lambda r: r.random() < 0.1),
}


class Seen:
    """A queue whose words we read: each verdict has the next number, so its number says how many were written."""

    def __init__(self, slot):
        self.slot, self.n_steps, self.began = slot, 0, False
        self.parity = self.look()

    def look(self):
        word = self.slot.verdict
        return (word >> 1 ^ word) & 1  # the same as long as each verdict is another one

    def step(self):
        """Launches, or completes what it has launched and was let run."""
        if not self.began:
            self.slot.edge(1)
            self.began = True
            if self.slot.held:
                self.slot.wait_at_gate(1)
        elif not self.slot.held:
            self.slot.wait_at_gate(0)
            self.slot.edge(0)
            self.began = False
            self.n_steps += 1


class Switching(Case):
    # A turn of the floor is longer than our looks at a gate are apart.
    config = "[Scheduler]\nStarveAfter=100ms\nStarveRun=20ms\nTimeSlice=2ms\n"

    def setUp(self):
        super().setUp()
        print(f"seed {SEED}", flush=True)
        self.random = random.Random(SEED)
        device = lambda n: DEVICES[n % len(DEVICES)]
        self.programs = []
        while len(self.programs) < N_CLIENTS - N_RAW:  # each looks often whether it is registered: not all at once
            some = [self.program(device(n), wait=False) for n in range(10)]
            for p in some:
                p.expect("ready")
            self.programs += some
        self.seen = [Seen(self.raw().queue(device(n))) for n in range(N_RAW)]
        until(lambda: self.get("NClients") == N_CLIENTS, "the clients")
        self.clients = [c[5] for c in self.call("ListClients")]
        self.queues = [q[4] for q in self.call("ListQueues")]
        self.said = {path: {} for path in self.clients + self.queues}
        for p in self.programs:
            self.assertEqual(p.ask("work 1"), "working")

    def say(self):
        """Gives a client or a queue some hints."""
        path = self.random.choice(self.clients + self.queues)
        interface = CLIENT if path in self.clients else QUEUE
        names = self.random.sample(list(HINTS), 3)
        hints = {k: (HINTS[k][0], HINTS[k][1](self.random)) for k in names}
        self.c.call(NAME, path, interface, "Set", "ta{sv}", 0, hints)
        self.said[path].update({k: v for k, (_, v) in hints.items()})

    def switch(self):
        device = self.random.choice(DEVICES)
        policy = self.random.choice([p for p, _ in self.call("ListPolicies")])
        self.call("SetPolicy", "ssta{sv}", device, policy, 0, {})

    def hints(self, path, interface):
        values = self.c.call(NAME, path, "org.freedesktop.DBus.Properties", "GetAll", "s", interface)[0]
        return {k: values[k] for k in HINTS}, values

    def check_hints(self):
        usual = {**dict.fromkeys(HINTS, 0), "Weight": 100, "Utilization": 100, "Active": False}
        expected = {path: {**usual, **self.said[path]} for path in self.clients}
        for path in self.clients:
            self.assertEqual(self.hints(path, CLIENT)[0], expected[path], path)
        for path in self.queues:
            found, values = self.hints(path, QUEUE)
            self.assertEqual(found, {**expected[values["Client"]], **self.said[path]}, path)

    def steps(self):
        return [int(p.ask("progress")) for p in self.programs] + [s.n_steps for s in self.seen]

    def load(self, n_switches):
        for _ in range(n_switches):
            self.switch()
            for _ in range(3):
                self.say()
            end = time.monotonic() + 0.02
            while time.monotonic() < end:
                for s in self.seen:
                    s.step()
                    self.assertEqual(s.look(), s.parity, "a verdict was written that had not changed")

    def test_switches_under_load(self):
        end, n_rounds = time.monotonic() + SECONDS, 0
        while time.monotonic() < end or n_rounds == 0:
            before, deadline = self.steps(), time.monotonic() + DEADLINE
            while True:
                self.load(5)
                starving = [n for n, (now, then) in enumerate(zip(self.steps(), before)) if now == then]
                if not starving:
                    break
                self.assertLess(time.monotonic(), deadline, f"clients {starving} starve")
            n_rounds += 1
            self.check_hints()
        print(f"{n_rounds} rounds, {sum(self.steps())} launches, of one at least {min(self.steps())}", flush=True)
        self.assertGreater(self.get("NVerdicts"), 10 * N_CLIENTS)
        for p in self.programs:
            p.tell("rest")
        for p in self.programs:  # each launch had its effect, once and in order
            n, result = map(int, p.line().split())
            self.assertEqual(result, self.expected_sum(n))

    @staticmethod
    def expected_sum(n):
        total = 0
        for i in range(1, n + 1):
            total = (total * 3 + i) & (1 << 64) - 1
        return total


if __name__ == "__main__":
    main()
