#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The OpenCL layer works with other loaders than the installed one, changes nothing, and `check` reports what it sees.

test-loaders.py new       the tests' own loader, which initialises layers as the Khronos loader since v2026.05.29 does
                          (loader.c)
test-loaders.py archive   the Khronos loader of Debian's archive
test-loaders.py trixie    ocl-icd, PoCL and libc of Debian 13, in a root of their own (opencl-root)
test-loaders.py sid       the same of Debian sid

The environment has the paths: BUILD, XSCHED_LAYER, XSCHED_FAKE_DIR (of the hostile libxsched), XSCHED_SESSION,
XSCHEDCTL, TEST_LOADER (a folder), and the programs: TEST_CONFORMANCE, TEST_NEIGHBOUR, TEST_NO_QUEUE, TEST_ENDING,
TEST_UNLOADING.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

LAYER, XSCHEDCTL = os.environ["XSCHED_LAYER"], os.environ["XSCHEDCTL"]
MODES = {
    "layer": {"OPENCL_LAYERS": LAYER},
    "both": {"OPENCL_LAYERS": LAYER, "LD_PRELOAD": LAYER},
    "twice": {"OPENCL_LAYERS": f"{LAYER}:{LAYER}"},
}
NOWHERE = {"XSCHED_BUS_ADDRESS": "unix:path=/nonexistent/bus"}
REFUSE = {"XSCHED_TEST_LOADER": "refuse"}
DEADLINE = 240
ENDINGS = 8


def archive(script, *args):
    """Returns the folder that the script makes. If the archive no longer serves it, this program ends as skipped."""
    command = [os.path.join(os.path.dirname(__file__), script), *args]
    p = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if p.returncode != 0:
        sys.exit(p.returncode)
    return p.stdout.strip()


def environment(*more):
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("XSCHED_", "OCL_ICD_")) and k not in ("OPENCL_LAYERS", "LD_PRELOAD", "LD_LIBRARY_PATH")
    }
    if Loaders.root:
        env.update(PATH="/usr/bin:/usr/sbin:/bin:/sbin", POCL_CACHE_DIR=Loaders.kernels)
    else:
        env["LD_LIBRARY_PATH"] = Loaders.loader
    for m in more:
        if "LD_LIBRARY_PATH" in m and Loaders.loader:
            m = {**m, "LD_LIBRARY_PATH": f"{m['LD_LIBRARY_PATH']}:{Loaders.loader}"}
        env.update(m)
    return env


def read_numbers(path):
    with open(path, encoding="utf-8") as f:
        return {k: int(v) for k, v in (line.split(" ", 1) for line in f) if v.strip().lstrip("-").isdigit()}


def command(program):
    """Returns the command that runs a program, in the root if there is one."""
    in_root = [os.path.join(os.path.dirname(__file__), "in-root"), Loaders.root, os.environ["BUILD"]]
    return [*(in_root if Loaders.root else []), os.environ[program]]


def run(program, *more, stderr=True):
    p = subprocess.run(
        command(program),
        env=environment(*more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert p.returncode == 0, (program, more, p.returncode, p.stdout[-500:], p.stderr[-2000:])
    assert not stderr or p.stderr == "", p.stderr
    return p.stdout


class Loaders(unittest.TestCase):
    kind = loader = root = kernels = ""
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="xsched-loaders-")
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def counted(self, program, *more):
        path = self.path("counters")
        output = run(program, {"TEST_COUNTERS": path}, *more)
        return output, read_numbers(path)

    def hostile(self, program, words, *more):
        report = self.path("report")
        fake = {"LD_LIBRARY_PATH": os.environ["XSCHED_FAKE_DIR"], "XSCHED_FAKE": words, "XSCHED_FAKE_REPORT": report}
        output = run(program, fake, *more)
        return output, read_numbers(report)

    def test_same_output(self):
        """The output is the same, and the layer counts each launch once, in whichever ways it is named."""
        native, c = self.counted("TEST_CONFORMANCE")
        self.assertEqual(c["library"], 0)
        launches = set()
        for mode, variables in MODES.items():
            with self.subTest(mode):
                output, c = self.counted("TEST_CONFORMANCE", NOWHERE, variables)
                self.assertEqual(output, native)
                self.assertGreater(c["launches"], 1000)
                launches.add(c["launches"])
        self.assertEqual(len(launches), 1)

    def test_hostile_service(self):
        native = run("TEST_CONFORMANCE")
        for seed in range(1 if Loaders.root else 2):
            output, n = self.hostile("TEST_CONFORMANCE", f"flip,hold,limit=2,seed={seed}", MODES["layer"])
            self.assertEqual(output, native)
            self.assertGreater(n["launches"], 1000)
            self.assertEqual((n["excess"], n["outstanding"], n["alive"]), (0, 0, 0))

    def test_no_queue(self):
        """A program that opens and closes the loader three times is left with no thread and no file."""
        native = run("TEST_NO_QUEUE")
        for mode, variables in MODES.items():
            with self.subTest(mode):
                self.assertEqual(run("TEST_NO_QUEUE", NOWHERE, variables), native)

    def test_end_at_work(self):
        for i in range(ENDINGS // 2 if Loaders.root else ENDINGS):
            run("TEST_ENDING")
            words = f"{'flip' if i % 2 else 'track'},hold,limit=3,seed={i}"
            _, n = self.hostile("TEST_ENDING", words, MODES["both" if i % 3 == 0 else "layer"])
            self.assertGreater(n["launches"], 30)

    def test_unload(self):
        run("TEST_UNLOADING")
        drains = 0
        for i in range(2 if Loaders.root else 4):
            words = f"flip{',hold' if i % 2 else ''},seed={i}"  # held queues, too, are let go at the loader's end
            _, n = self.hostile("TEST_UNLOADING", words, MODES["layer"])
            self.assertGreaterEqual(n["launches"], 300)
            self.assertEqual((n["excess"], n["outstanding"]), (0, 0))
            drains += n["drains"]
        self.assertGreater(drains, 0, "nothing was drained, so there was no callback after the unload")

    # --- in a session ---

    def in_session(self, name):
        inside = [sys.executable, __file__, "inside", Loaders.loader, Loaders.root, Loaders.kernels, name]
        p = subprocess.run(
            [os.environ["XSCHED_SESSION"], "--shim=none", "--", *inside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        self.assertEqual(p.returncode, 0, p.stdout[-4000:])

    def test_scheduled(self):
        self.in_session("scheduled")

    def test_check(self):
        self.in_session("check")

    def test_check_refused(self):
        if Loaders.kind != "new":
            self.skipTest("this loader cannot be told to refuse")
        self.in_session("check_refused")


class Inside:
    """The part of a test inside of its session. The program that it starts checks its own results."""

    def __init__(self):
        self.bus = {"XSCHED_BUS_ADDRESS": os.environ["XSCHED_BUS_ADDRESS"]}

    def start(self, *more):
        p = subprocess.Popen(
            command("TEST_NEIGHBOUR"),
            env=environment(self.bus, *more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert p.stdout.readline() == "ready\n"
        return p

    @staticmethod
    def end(p):
        p.communicate(timeout=DEADLINE)
        assert p.returncode == 0, p.returncode

    def check(self, *args, **variables):
        """Runs `xschedctl check`. Returns the states by check, the exit status, and all details as one text."""
        p = subprocess.run(
            [XSCHEDCTL, "check", *args, "--json=short"],
            env=environment(self.bus, variables),
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        rows = json.loads(p.stdout)
        return {r["check"]: r["state"] for r in rows}, p.returncode, " ".join(r["detail"] for r in rows)

    def scheduled(self):
        """Runs two programs beside each other until a launch of each has waited. What the service counts as held does
        not tell of that: a queue is held with launches in flight, too, which may be from before it was watched."""
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, str(i)) for i in range(2)]
            both = [
                self.start(MODES["layer"], {"TEST_COUNTERS": name, "XSCHED_WEIGHT": str(90 + i)})
                for i, name in enumerate(names)
            ]
            for p in both:
                assert p.stdout.readline() == "waited\n"
            for p in both:
                self.end(p)
            counters = [read_numbers(name) for name in names]
            assert all(c["launches"] > 0 and c["tracked"] > 0 and c["waited"] > 0 for c in counters), counters

    def check_(self):
        if not Loaders.root:  # xschedctl itself runs with this machine's loader
            states, status, text = self.check(**MODES["layer"])
            assert (status, states["loader"]) == (0, "ok") and "has taken the layer" in text, (states, text)
        for mode in ("layer", "both"):
            p = self.start(MODES[mode])
            while True:
                states, status, text = self.check(str(p.pid))
                if states["registered"] == "ok":
                    break
            assert states["process"] == "ok" and "calls come by" in text, (mode, states, text)
            self.end(p)

    def check_refused(self):
        states, status, text = self.check(**MODES["layer"], **REFUSE)
        assert (status, states["loader"]) == (1, "failed") and "refused" in text, (states, text)
        p = self.start(MODES["layer"], REFUSE)
        states, status, text = self.check(str(p.pid))
        assert (status, states["process"], states["registered"]) == (1, "failed", "failed"), (states, text)
        assert "refused" in text, text
        self.end(p)
        # If the layer is preloaded as well, it works although the loader refuses it.
        p = self.start(MODES["both"], REFUSE)
        while True:
            states, status, text = self.check(str(p.pid))
            if states["registered"] == "ok":
                break
        assert states["process"] == "ok" and "calls come by" in text, (states, text)
        self.end(p)


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        Loaders.loader, Loaders.root, Loaders.kernels = sys.argv[2:5]
        inside = Inside()
        {"scheduled": inside.scheduled, "check": inside.check_, "check_refused": inside.check_refused}[sys.argv[5]]()
    else:
        Loaders.kind = sys.argv[1]
        if Loaders.kind == "archive":
            Loaders.loader = archive("khronos-loader")
        elif Loaders.kind == "new":
            Loaders.loader = os.environ["TEST_LOADER"]
        else:
            Loaders.root = archive("opencl-root", Loaders.kind)
        with tempfile.TemporaryDirectory(prefix="xsched-kernels-") as Loaders.kernels:
            suite = unittest.defaultTestLoader.loadTestsFromTestCase(Loaders)
            result = unittest.TextTestRunner(verbosity=2).run(suite)
        sys.exit(not result.wasSuccessful())
