#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-queues and `xschedctl list-queues --kernel` list queues, on simulated GPUs, with a real service."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

TOOL = os.environ["XSCHED_QUEUES"]
XSCHEDCTL = os.environ["XSCHEDCTL"]
TENANT = os.environ["KFD_TENANT"]
LAYER = os.environ["LAYER"]
DEADLINE = 30
GPUS = ["gfx90a", "gfx1100"]


def run(*args, status=0, **changes):
    p = subprocess.run(
        list(map(str, args)),
        env={**os.environ, **changes},
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE,
    )
    if p.returncode != status:
        raise AssertionError(f"{args}: status {p.returncode}, not {status}\n{p.stdout}{p.stderr}")
    return p.stderr if status else p.stdout


def rows(*args, **changes):
    return json.loads(run(*args, "--json=short", **changes))


def until(condition, what):
    """Polls a condition: there is no event for a process that has made its queues."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.01)


class Tenant:
    """A process that keeps its queues busy until it is asked to end."""

    def __init__(self, queues, gpu=0, layer=True):
        env = dict(os.environ)
        if layer:
            # Preloaded before the simulator, and after a sanitizer's library.
            *first, simulator = env["LD_PRELOAD"].split()
            env["LD_PRELOAD"] = " ".join([*first, LAYER, simulator])
        self.process = subprocess.Popen(
            [TENANT, f"--queues={queues}", f"--gpu={gpu}", "--run-ms=600000", "--duration-us=2000"],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        try:
            until(lambda: self.listed() == queues, f"{queues} queues")
            if layer:
                until(lambda: len(self.registered()) == queues, f"{queues} registered queues")
        except BaseException:
            self.process.kill()
            self.process.communicate()
            raise

    def listed(self):
        p = subprocess.run([TOOL, "--json=short", str(self.pid)], text=True, capture_output=True)
        return len(json.loads(p.stdout)) if p.returncode == 0 else 0

    def registered(self):
        return [q for q in rows(XSCHEDCTL, "list-queues") if q["pid"] == self.pid]

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=DEADLINE)
        if not args[0]:
            assert self.process.returncode == 0, "its dispatches were not executed once and in order"


class Queues(unittest.TestCase):
    def test_with_the_layer(self):
        with Tenant(3) as t:
            found = rows(TOOL, t.pid)
            self.assertEqual([q["queue"] for q in found], [0, 1, 2])
            for q in found:
                self.assertEqual(
                    (q["pid"], q["command"], q["device"], q["gfx"], q["type"], q["ring_size"], q["kernel"]),
                    (t.pid, "kfd-tenant", "pci:0000:01:00.0", "gfx90a", "compute", 16384, os.uname().release),
                )
                self.assertIsNone(q["mapped"])
            self.assertEqual(len({q["doorbell"] for q in found} - {None}), 3)
            self.assertEqual(len({q["ring_address"] for q in found} - {None}), 3)
            of = {q["queue"]: q for q in t.registered()}
            self.assertEqual({q["xsched"] for q in found}, set(of))
            for q in found:
                self.assertEqual(of[q["xsched"]]["kfd_queue"], q["queue"])
                self.assertEqual(of[q["xsched"]]["kfd_gpu"], q["gpu_id"])
                self.assertIsInstance(q["backlog"], int)
            self.assertEqual({q["mapped"] for q in rows(TOOL, "--hardware", t.pid)}, {True})

    def test_without_the_layer(self):
        with Tenant(2, gpu=1, layer=False) as t:
            found = rows(TOOL, t.pid)
            self.assertEqual(
                [(q["gfx"], q["device"], q["xsched"], q["backlog"], q["state"]) for q in found],
                [("gfx1100", "pci:0000:02:00.0", None, None, None)] * 2,
            )

    def test_all_processes(self):
        with Tenant(1) as a, Tenant(2, layer=False) as b:
            found = rows(XSCHEDCTL, "list-queues", "--kernel")
            self.assertEqual(
                sorted((q["pid"], q["queue"]) for q in found), sorted([(a.pid, 0), (b.pid, 0), (b.pid, 1)])
            )
            both = rows(TOOL, b.pid, a.pid)
            self.assertEqual([(q["pid"], q["queue"]) for q in both], [(b.pid, 0), (b.pid, 1), (a.pid, 0)])
            self.assertEqual(len({q["doorbell"] for q in both}), 3)
            text = run(TOOL, b.pid, a.pid)
            self.assertRegex(text, r"^ *PID COMMAND")
            self.assertIn(f"3 queues listed, from sysfs and debugfs of Linux {os.uname().release}.", text)
            bare = run(TOOL, "--no-legend", a.pid)
            self.assertEqual(len(bare.splitlines()), 1)
            self.assertEqual(bare.split()[0], str(a.pid))

    def test_no_service(self):
        with Tenant(1) as t:
            found = rows(TOOL, f"--bus-address=unix:path=/nonexistent", t.pid)
            self.assertEqual([(q["queue"], q["xsched"]) for q in found], [(0, None)])

    def test_usage(self):
        with Tenant(1) as t:
            found = rows(TOOL, "--usage", t.pid)
            self.assertEqual(sorted(u["gfx"] for u in found), sorted(GPUS))
            self.assertEqual(
                {(u["pid"], u["vram_bytes"], u["evicted_usec"], u["cu_occupancy"]) for u in found}, {(t.pid, 0, 0, 0)}
            )

    def test_a_process_that_ends(self):
        with Tenant(1) as t:
            pass
        self.assertIn("no such process", run(TOOL, t.pid, status=1))
        self.assertEqual(rows(XSCHEDCTL, "list-queues", "--kernel"), [])

    def test_errors(self):
        for args, message in (
            ((os.getpid(),), "has not opened /dev/kfd"),
            (("x",), "not a process id"),
            ((0,), "not a process id"),
            ((), "which process"),
            (("--json=bogus", 1), "--json="),
            (("--hardware", "--usage", 1), "--usage"),
            (("--bogus", 1), "bogus"),
        ):
            with self.subTest(args):
                text = run(TOOL, *args, status=1)
                self.assertIn(message, text)
                self.assertTrue(text.startswith((f"{os.path.basename(TOOL)}: ", TOOL)))
        self.assertIn("list-queues", run(XSCHEDCTL, "status", "--kernel", status=1))


if __name__ == "__main__":
    if not os.environ.get("KFDSIM_DIR"):
        sys.exit("no simulated GPUs")
    unittest.main(verbosity=2)
