#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xsched-demo as a whole, with real kernels: its output, what it refuses, and that its tenants end with it.

XSCHED_DEMO is the program, MAN_SOURCE its manual's source. No time is asserted, so that it passes on a busy machine.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import threading
import unittest
import xml.etree.ElementTree as ElementTree

DEMO = os.environ["XSCHED_DEMO"]
SHORT = ["--duration=1", "--low=2", "--period-ms=40", "--kernel-us=200", "--batch-kernels=20"]


def demo(*arguments, **environment):
    return subprocess.run(
        [DEMO, *arguments], capture_output=True, text=True, timeout=100, check=False, env={**os.environ, **environment}
    )


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, name) for name in ("result.json", "plot.svg")]
            cls.outcome = demo(*SHORT, f"--json={paths[0]}", f"--plot={paths[1]}")
            if cls.outcome.returncode:
                raise AssertionError(cls.outcome.stderr)
            with open(paths[0], encoding="utf-8") as f:
                cls.result = json.load(f)
            with open(paths[1], encoding="utf-8") as f:
                cls.plot = f.read()

    def phase(self, name):
        return next(p for p in self.result["phases"] if p["phase"] == name)

    def test_phases(self):
        self.assertEqual([p["phase"] for p in self.result["phases"]], ["alone", "shared", "xsched"])
        for p in self.result["phases"]:
            latency = p["latency"]
            self.assertEqual(len(latency["samples_us"]), latency["tasks"])
            self.assertGreater(latency["tasks"], 0)
            self.assertLessEqual(latency["p50_us"], latency["p99_us"])
            self.assertLessEqual(latency["p99_us"], latency["max_us"])
            self.assertAlmostEqual(max(latency["samples_us"]), latency["max_us"], delta=0.1)
            self.assertLessEqual(latency["missed"], latency["tasks"] + latency["skipped"])
            self.assertAlmostEqual(sum(p["batch"]["each"]), p["batch"]["tasks_per_s"], places=2)

    def test_everybody_worked(self):
        for name in ("shared", "xsched"):
            self.assertEqual(len(self.phase(name)["batch"]["each"]), 2)
            self.assertTrue(all(rate > 0 for rate in self.phase(name)["batch"]["each"]))
        self.assertEqual(self.phase("alone")["batch"]["each"], [])

    def test_interception(self):
        for name in ("alone", "shared"):
            for counters in self.phase(name)["interception"].values():
                self.assertEqual(counters["seen"], 0)
        for role, counters in self.phase("xsched")["interception"].items():
            # A task consists of its kernels, and a read of its results.
            self.assertGreaterEqual(counters["seen"], counters["launches"] + counters["tasks"], role)
            self.assertGreater(counters["tracked"], 0, role)
        self.assertGreater(self.phase("xsched")["interception"]["batch"]["waited"], 0)

    def test_plot(self):
        root = ElementTree.fromstring(self.plot)
        namespace = {"s": "http://www.w3.org/2000/svg"}
        texts = [e.text for e in root.iterfind(".//s:text", namespace)]
        for text in ("alone", "shared without xsched", "shared with xsched", "task latency, ms", "percentile of tasks"):
            self.assertIn(text, texts)
        dots = root.findall(".//s:path[@class='dots']", namespace)
        self.assertEqual([d.get("d").count("M") for d in dots], [p["latency"]["tasks"] for p in self.result["phases"]])
        self.assertIn("prefers-color-scheme:dark", self.plot)

    def test_table(self):
        for text in (
            "alone",
            "shared without xsched",
            "shared with xsched",
            "Intercepted",
            "Checked: the results of all",
        ):
            self.assertIn(text, self.outcome.stdout)
        self.assertIn("[3/3]", self.outcome.stderr)
        self.assertNotIn("\r", self.outcome.stderr)


class Refusals(unittest.TestCase):
    def refused(self, text, *arguments, **environment):
        r = demo(*arguments, **environment)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(text, r.stderr)
        self.assertEqual(r.stdout, "")

    def test_no_platform(self):
        self.refused("OpenCL finds no platform", "--only=alone", OCL_ICD_VENDORS="/nonexistent")

    def test_no_device(self):
        self.refused("--list-devices", "--only=alone", "--device=no such device")
        self.refused("--list-devices", "--only=alone", "--device=1000")

    def test_no_bus(self):
        self.refused("cannot find dbus-daemon", PATH="/nonexistent")

    def test_arguments(self):
        self.refused("--low=0: expected a number", "--low=0")
        self.refused("'some' is not one of", "--only=some")

    def test_files_that_cannot_be_written(self):
        """The demo refuses to write to them before it runs anything."""
        for path, why in (
            ("/nonexistent/x", "No such file or directory"),
            ("/tmp", "Is a directory"),
            (f"{DEMO}/x", "Not a directory"),
        ):
            for option in ("plot", "json"):
                self.refused(f"cannot write {path}: {why}", f"--{option}={path}", "--device=no such device")
        self.refused("unexpected argument 'there'", "there")
        self.refused("expected NAME=VALUE", "--set=Threshold")

    def test_not_scheduled(self):
        """If the launcher loads no layer, the phase fails instead of measuring tenants that are not scheduled."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "xschedctl")
            with open(path, "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
            os.chmod(path, 0o755)
            self.refused("the OpenCL layer is not loaded", *SHORT, "--only=xsched", XSCHEDCTL=path)


def tenants():
    """Returns the tenants of this run. A variable in their environment distinguishes them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                ours = f"XSCHED_TEST_DEMO={os.getpid()}".encode() in f.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if ours and b"--tenant" in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def read_all(fd):
    """Reads until the last process has closed the terminal, so that none of them blocks when it writes there."""
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass


class Ends(unittest.TestCase):
    def start(self):
        """Starts the demo on a terminal, where it shows progress. When this counts tasks, the phase is running."""
        terminal, theirs = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen(
            [DEMO, "--only=shared", "--duration=100", "--low=2"],
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env={**os.environ, "XSCHED_TEST_DEMO": str(os.getpid()), "TERM": "xterm"},
        )
        os.close(theirs)
        said = b""
        while b" tasks, " not in said:
            said += os.read(terminal, 4096)
        reader = threading.Thread(target=read_all, args=(terminal,))
        reader.start()
        self.addCleanup(reader.join)
        return process

    def check(self, number):
        with self.start() as process:
            pids = tenants()
            self.assertEqual(len(pids), 3)
            fds = [os.pidfd_open(pid) for pid in pids]
            process.send_signal(number)
            process.wait()
            for fd in fds:
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                self.assertTrue(poll.poll(60000), "a tenant outlived the demo")
                os.close(fd)
        self.assertEqual(tenants(), [])

    def test_killed(self):
        self.check(signal.SIGKILL)

    def test_interrupted(self):
        self.check(signal.SIGINT)


class Recording(unittest.TestCase):
    """A replay of what was recorded during the demo comes to the service's decisions."""

    SCRIPT = """
export DBUS_SYSTEM_BUS_ADDRESS="${XSCHED_BUS_ADDRESS##*;}"
"$1" record --output="$3" & recorder=$!
"$2" --system --only=xsched --duration=2 --quiet --no-plot || exit
kill -INT $recorder && wait $recorder
"""

    def test_again(self):
        tools = os.path.join(os.path.dirname(DEMO), "..")
        session, ctl = os.path.join(tools, "xsched-session"), os.path.join(tools, "xschedctl")
        with tempfile.TemporaryDirectory() as directory:
            tape = os.path.join(directory, "tape")
            r = subprocess.run(
                [session, "--", "sh", "-c", self.SCRIPT, "sh", ctl, DEMO, tape],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            self.assertEqual(r.returncode, 0, r.stderr)
            with open(tape, encoding="utf-8") as f:
                records = [json.loads(line) for line in f]
            decided = {grant[1] for r in records if r["is"] == "dispatch" for grant in r["grants"]}
            self.assertLessEqual({"run", "hold"}, decided, records[:20])
            r = subprocess.run([ctl, "replay", "--check", tape], capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("the same", r.stdout)
            r = subprocess.run([ctl, "--json=short", "replay", tape], capture_output=True, text=True, check=True)
            batch = max(json.loads(r.stdout), key=lambda row: row["run_usec"])
            self.assertGreater(batch["preempted"], 0)


class Manual(unittest.TestCase):
    def test_options(self):
        """--help and the manual list the same options."""
        with open(os.environ["MAN_SOURCE"], encoding="utf-8") as f:
            manual = set(re.findall(r"^\*?(?:-\w\*, \*)?(--[a-z-]+)", f.read(), re.M))
        r = demo("--help")
        self.assertEqual(r.returncode, 0)
        helped = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", r.stdout, re.M))
        manual |= {"--low-priority"}  # is on the line of --high-priority
        self.assertEqual(helped, manual)


if __name__ == "__main__":
    unittest.main(verbosity=2)
