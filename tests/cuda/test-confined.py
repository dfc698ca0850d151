#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that takes descriptors and system calls from itself, and so from the CUDA layer, runs as without it

As test-cuda.py. CONFINED is the path of confined.c, FAIL_ALLOCATIONS that of fail-allocations.c.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

FAKES, LAYER, LIBRARY = os.environ["FAKE_CUDA_DIR"], os.environ["XSCHED_LAYER"], os.environ["LIBXSCHED"]
SOME, MANY = 50, 300
TRIES = 5  # of what not every run comes to


class Confined(Case):
    def start(self, *preload, **more):
        ours = ("LD_PRELOAD", "LD_LIBRARY_PATH")
        env = {k: v for k, v in os.environ.items() if not k.startswith("XSCHED_") and k not in ours}
        env["LD_LIBRARY_PATH"] = f"{os.path.dirname(LIBRARY)}:{FAKES}"
        env["XSCHED_BUS_ADDRESS"] = self.bus.address
        # The first allocation of a thread makes glibc ask for the number of CPUs, and more.
        env["GLIBC_TUNABLES"] = "glibc.malloc.arena_max=1"
        if preload:
            env["LD_PRELOAD"] = ":".join(preload)
        env.update(more)
        p = subprocess.Popen(
            [os.environ["CONFINED"]],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(self.stop, p)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def stop(self, p):
        if p.poll() is None:
            self.assertEqual(p.communicate(timeout=DEADLINE), ("", ""))
            self.assertEqual(p.returncode, 0)
        for stream in p.stdin, p.stdout, p.stderr:
            stream.close()

    def ask(self, p, command):
        p.stdin.write(f"{command}\n")
        p.stdin.flush()
        return p.stdout.readline()

    def is_known(self, p):
        state = json.loads(self.call("Describe"))
        clients = [c["id"] for c in state["clients"] if c["pid"] == p.pid]
        return any(q["client"] in clients for q in state["queues"])

    def compete(self):
        """Launches are watched from now on."""
        other = self.start(LAYER)
        self.ask(other, f"work {SOME}")
        until(lambda: self.is_known(other), "the other one is registered")

    def test_few_descriptors(self):
        """No descriptor may be waited for: the program runs unscheduled, and is scheduled again when they may be."""
        self.compete()
        native, ours = self.start(), self.start(LAYER)

        def works(known):
            self.assertEqual(self.ask(ours, f"work {SOME}"), self.ask(native, f"work {SOME}"))
            return self.is_known(ours) == known

        until(lambda: works(True), "it is registered")
        for n in 1, 0:
            self.assertEqual(self.ask(ours, f"limit {n}"), "limited\n")
            until(lambda: works(False), "it is let go")
            self.assertEqual(self.ask(ours, "limit 1024"), "limited\n")
            until(lambda: works(True), "it is registered again")

    def filtered(self, late, *what):
        native, ours = self.start(), self.start(LAYER)
        expected = [self.ask(native, f"work {SOME}") if late else None, self.ask(native, f"work {MANY}")]
        if late:
            self.assertEqual(self.ask(ours, f"work {SOME}"), expected[0])
            until(lambda: self.is_known(ours), "it is registered")
        self.assertEqual(self.ask(ours, " ".join(("filter", *what))), "filtered\n")
        self.assertEqual(self.ask(ours, f"work {MANY}"), expected[1])
        # The connection ends, and is made again where that is allowed.
        self.service.kill()
        self.service.start()
        self.assertEqual(self.ask(ours, f"work {MANY}"), self.ask(native, f"work {MANY}"))
        # No thread asks all the time for what is denied.
        self.assertLess(int(self.ask(ours, "trapped")), 2 * MANY)
        self.stop(ours)
        self.stop(native)

    def test_filters_of_system_calls(self):
        self.compete()
        for what in itertools.product((False, True), ("few", "most"), ("errno", "trap"), ("all", "one")):
            with self.subTest(what):
                self.filtered(*what)

    def reason(self, p):
        """What `xschedctl check` says about its not being registered: "no", and why."""
        words = [os.environ["XSCHEDCTL"], f"--bus-address={self.bus.address}", "check", str(p.pid)]
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        lines = [line.split(None, 2) for line in said.splitlines()]
        return [line[2] for line in lines if line[:2] == ["registered", "failed"]]

    def refused(self, expected, which, n):
        """Returns whether something was refused."""
        with tempfile.TemporaryDirectory(prefix="xsched-cuda-") as folder:
            report = os.path.join(folder, "report")
            refuse = {"FAIL_REPORT": report, which: str(n)}
            p = self.start(os.environ["FAIL_ALLOCATIONS"], LAYER, **refuse)
            self.assertEqual(self.ask(p, f"work {SOME}"), expected[0])
            # The layer itself does not say what it lacks when it cannot have any memory.
            says = "no, " if which == "FAIL_AT" else "no"
            until(
                lambda: self.is_known(p) or any(line.startswith(says) for line in self.reason(p)),
                "it is scheduled, or check says that it is not",
            )
            self.assertEqual(self.ask(p, f"work {MANY}"), expected[1])
            self.stop(p)
            return os.path.exists(report)

    def test_refused_memory_and_threads(self):
        """Launches pass, whatever call for memory or a thread fails; and where that leaves the program unscheduled,
        it is said."""
        self.compete()
        native = self.start()
        expected = [self.ask(native, f"work {n}") for n in (SOME, MANY)]
        for n in range(1, 1000):
            with self.subTest(at=n):
                if not self.refused(expected, "FAIL_AT", n):
                    break
        self.assertGreater(n, 30)
        for k in range(1, n, n // 12):
            with self.subTest(since=k):
                # A run makes fewer calls where the service's messages come together.
                self.assertTrue(any(self.refused(expected, "FAIL_FROM", k) for _ in range(TRIES)))


if __name__ == "__main__":
    main()
