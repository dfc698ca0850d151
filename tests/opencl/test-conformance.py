#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The OpenCL layer changes nothing that a program can see, whatever the scheduler does meanwhile.

The same program runs natively and with the layer (as a layer of the loader, as a preload, and as both), and has to
print the same, byte for byte. The library's counters have to show that the layer was in effect.

test-conformance.py alone|hostile|neighbour|processes|sanitized

The environment has the paths: XSCHED_LAYER, XSCHED_FAKE_DIR (of the hostile libxsched), XSCHED_SESSION, XSCHEDCTL, and
the test programs: TEST_CONFORMANCE, TEST_NEIGHBOUR, TEST_LIFECYCLE, TEST_NO_QUEUE; for `sanitized` also TEST_SANITIZED
and XSCHED_KFD_LAYER."""

import atexit
import os
import subprocess
import sys
import tempfile
import time
import unittest

LAYER = os.environ["XSCHED_LAYER"]
CONFORMANCE = os.environ["TEST_CONFORMANCE"]
DEADLINE = 120

# Debian's Python, for Debian's pyopencl.
PYTHON = "/usr/bin/python3"
PYTHON_HAS_OPENCL = (
    subprocess.run([PYTHON, "-c", "import pyopencl"], stderr=subprocess.DEVNULL, check=False).returncode == 0
)

MODES = {
    "layer": {"OPENCL_LAYERS": LAYER},
    "preload": {"LD_PRELOAD": LAYER},
    "both": {"OPENCL_LAYERS": LAYER, "LD_PRELOAD": LAYER},
}

# An address without a service: programs must not find the host's.
NOWHERE = {"XSCHED_BUS_ADDRESS": "unix:path=/nonexistent/bus"}


def environment(**more):
    """Returns our environment without the variables that enable a layer, and without meson's LD_LIBRARY_PATH, which
    has the hostile library."""
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("XSCHED_") and k not in ("OPENCL_LAYERS", "LD_PRELOAD", "LD_LIBRARY_PATH")
    }
    return {**env, **more}


def read_numbers(path):
    """Reads a file of "name value" lines. Returns the numbers by name, and lists of the values that are no numbers."""
    numbers, lists = {}, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            name, value = line.rstrip("\n").split(" ", 1)
            if value.lstrip("-").isdigit():
                numbers[name] = int(value)
            else:
                lists.setdefault(name, []).append(value)
    return numbers, lists


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xsched-opencl-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_program(self, command, env):
        p = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
        )
        self.assertEqual(p.returncode, 0, f"{command}\n{p.stdout[-500:]}\n{p.stderr[-2000:]}")
        self.assertEqual(p.stderr, "", "the layer prints nothing")
        return p.stdout

    _native = None

    def native(self):
        if Case._native is None:
            Case._native = self.run_program([CONFORMANCE], environment())
        return Case._native

    def run_conformance(self, env, *cases):
        counters = self.path("counters")
        output = self.run_program([CONFORMANCE, *cases], {**env, "TEST_COUNTERS": counters})
        return output, read_numbers(counters)[0]


class Alone(Case):
    """Without a service every launch passes, and nothing else happens."""

    def test_same_output_and_the_same_count_in_every_mode(self):
        launches = set()
        for mode, variables in MODES.items():
            with self.subTest(mode):
                output, c = self.run_conformance(environment(**NOWHERE, **variables))
                self.assertEqual(output, self.native())
                self.assertGreater(c["launches"], 1000)
                self.assertEqual((c["tracked"], c["waited"]), (0, 0))
                launches.add(c["launches"])
        self.assertEqual(len(launches), 1, "layer and preload together count a launch once")

    def test_disabled(self):
        output, c = self.run_conformance(environment(XSCHED_DISABLE="1", **MODES["layer"]))
        self.assertEqual(output, self.native())
        self.assertEqual(c["launches"], 0)

    def test_without_the_library(self):
        output, c = self.run_conformance(environment())
        self.assertEqual(output, self.native(), "the program itself is deterministic")
        self.assertEqual(c["library"], 0)


class Hostile(Case):
    """With a library in place of libxsched that holds, releases, watches, drains and bounds at random."""

    def run_hostile(self, mode, words):
        report = self.path("report")
        env = environment(
            LD_LIBRARY_PATH=os.environ["XSCHED_FAKE_DIR"], XSCHED_FAKE=words, XSCHED_FAKE_REPORT=report, **MODES[mode]
        )
        output = self.run_program([CONFORMANCE], env)
        numbers, lists = read_numbers(report)
        self.assertEqual(output, self.native(), f"{mode}, {words}")
        self.assertGreater(numbers["launches"], 1000)
        self.assertEqual(numbers["excess"], 0, "no completion without a launch")
        self.assertEqual(numbers["outstanding"], 0, "every launch completes")
        self.assertEqual(numbers["completed"], numbers["tracked"])
        self.assertEqual(numbers["drained"], numbers["drains"])
        self.assertEqual(numbers["alive"], 0, "every queue is given back")
        return numbers, lists

    def test_watched(self):
        for mode in MODES:
            with self.subTest(mode):
                n, lists = self.run_hostile(mode, "track")
                self.assertEqual(n["tracked"], n["launches"])
                self.assertGreater(n["nowait"], 0, "launches from callbacks do not wait")
                self.assertGreater(n["device_ns"], 0)
                self.assertEqual(
                    len({q.rsplit(" ", 1)[0] for q in lists["queue"]}), 1, "sub-devices are called as their root device"
                )

    def test_bounded(self):
        for limit in (1, 2, 7):
            with self.subTest(limit=limit):
                self.run_hostile("layer", f"track,limit={limit}")

    def test_held_at_random(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                n, _ = self.run_hostile("layer", f"track,hold,limit=3,seed={seed}")
                self.assertGreater(n["waited"], 0)

    def test_watched_at_random(self):
        for mode in ("layer", "preload"):
            drains = 0
            for seed in range(6):
                with self.subTest(mode, seed=seed):
                    n, _ = self.run_hostile(mode, f"flip,hold,limit=2,seed={seed}")
                    drains += n["drains"]
            self.assertGreater(drains, 0)

    def test_bound_holds(self):
        report = self.path("report")
        env = environment(
            LD_LIBRARY_PATH=os.environ["XSCHED_FAKE_DIR"],
            XSCHED_FAKE="track,limit=4",
            XSCHED_FAKE_REPORT=report,
            **MODES["layer"],
        )
        self.run_program([CONFORMANCE, "in-order", "pipeline", "copies", "callbacks"], env)
        # Complete launches make room before they are reported, so up to twice the bound may be counted.
        self.assertLessEqual(read_numbers(report)[0]["most"], 8)


def own_entity(env, weight):
    """Gives a process a weight of its own, and so makes it an entity of its own, although all share a group here."""
    return {**env, "XSCHED_WEIGHT": str(weight)}


class Session(Case):
    """Tests that need a private bus with an xschedd: each runs a method of Inside in a new xsched-session, in a child
    of this interpreter."""

    def in_session(self, name, *args):
        p = subprocess.run(
            [os.environ["XSCHED_SESSION"], "--shim=none", "--", sys.executable, __file__, "inside", name, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * DEADLINE,
        )
        self.assertEqual(p.returncode, 0, p.stdout[-4000:])


class Inside:
    """The part of a test inside of its session. The programs that it starts end with it."""

    def __init__(self, mode):
        self.env = environment(XSCHED_BUS_ADDRESS=os.environ["XSCHED_BUS_ADDRESS"], **MODES[mode])
        self.folder = tempfile.TemporaryDirectory(prefix="xsched-opencl-")
        self.n = 0

    def start(self, command, weight):
        self.n += 1
        counters = os.path.join(self.folder.name, f"counters-{self.n}")
        p = subprocess.Popen(
            command,
            env=own_entity({**self.env, "TEST_COUNTERS": counters}, weight),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        p.counters = counters
        atexit.register(p.kill)
        return p

    @staticmethod
    def end(p, status=0):
        output = p.communicate(timeout=DEADLINE)[0]
        assert p.returncode == status, (p.args, p.returncode, output[-1000:])
        return output

    def neighbour(self):
        p = self.start([os.environ["TEST_NEIGHBOUR"]], 99)
        assert p.stdout.readline() == "ready\n"
        return p

    def contended(self, mode):
        """Runs the conformance program beside a neighbour: its output is the same, and launches were held."""
        expected = subprocess.run(
            [CONFORMANCE], env=environment(), stdout=subprocess.PIPE, text=True, timeout=DEADLINE, check=True
        ).stdout
        programs = [self.neighbour()]
        for i in range(3):
            programs.append(self.start([CONFORMANCE], 98 - i))
            assert self.end(programs[-1]) == expected
        self.end(programs[0])

        totals = {}
        for p in programs:
            numbers = read_numbers(p.counters)[0]
            assert numbers["launches"] > 0, p.args
            for key, value in numbers.items():
                totals[key] = totals.get(key, 0) + value
        assert totals["tracked"] > 0 and totals["waited"] > 0, totals

    def python(self, mode):
        program = [PYTHON, os.path.join(os.path.dirname(__file__), "opencl-python.py")]
        expected = subprocess.run(
            program, env=environment(), stdout=subprocess.PIPE, text=True, timeout=DEADLINE, check=True
        ).stdout
        neighbour = self.neighbour()
        p = self.start(program, 98)
        assert self.end(p) == expected
        self.end(neighbour)
        with open(p.counters, encoding="utf-8") as f:
            launches = [int(line) for line in f]
        assert len(launches) == 10 and min(launches) > 20, launches

    # --- a process that is held ---

    def control(self, *args):
        """Runs xschedctl until it succeeds: a process is registered in the background."""
        until = time.monotonic() + DEADLINE
        env = environment(XSCHED_BUS_ADDRESS=os.environ["XSCHED_BUS_ADDRESS"])
        while (
            subprocess.run(
                [os.environ["XSCHEDCTL"], *args],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=DEADLINE,
            ).returncode
            != 0
        ):
            assert time.monotonic() < until, args
            time.sleep(0.05)

    @staticmethod
    def ask(p, line):
        p.stdin.write(line + "\n")
        p.stdin.flush()
        return p.stdout.readline().strip()

    def held(self):
        """Starts a process, and waits until its worker waits at the gate. There is no event for that, so it counts as
        held after three looks without progress. Returns the process, and its count."""
        p = self.start([os.environ["TEST_LIFECYCLE"]], 90)
        assert p.stdout.readline() == "ready\n"
        self.control("suspend", str(p.pid))
        counts = [-1]
        until = time.monotonic() + DEADLINE
        while len(counts) < 4:
            assert time.monotonic() < until, "never held"
            time.sleep(0.05)
            n = int(self.ask(p, "count"))
            counts = [*counts, n] if n == counts[-1] else [n]
        return p, counts[-1]

    def forgetful(self, mode):
        """The environment at the program's start counts, also after the program has cleared it."""
        self.env["TEST_FORGET"] = "1"
        p, _ = self.held()
        with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
            assert "libxsched.so" in f.read()
        p.stdin.write("exit\n")
        self.end(p, 7)

    def lifecycle(self, mode):
        p, _ = self.held()
        p.stdin.write("exit\n")
        self.end(p, 7)

        p, _ = self.held()
        p.stdin.write("exec\n")
        self.end(p, 8)

        p, _ = self.held()
        assert self.ask(p, "cancel") == "cancelled"
        p.stdin.write("exit\n")
        self.end(p, 7)

        p, n = self.held()
        assert self.ask(p, "signal") == "handled"
        assert self.ask(p, "fork") == "child 9"
        assert int(self.ask(p, "count")) == n, "still held"
        self.control("resume", str(p.pid))
        until = time.monotonic() + DEADLINE
        while int(self.ask(p, "count")) <= n + 10:
            assert time.monotonic() < until, "never resumed"
        p.stdin.write("exit\n")
        self.end(p, 7)


class Neighbour(Session):
    """With xschedd, and another process that keeps the device busy."""

    def test_conformance(self):
        for mode in ("layer", "preload"):
            with self.subTest(mode):
                self.in_session("contended", mode)


class Processes(Session):
    """Fork, exec, exit, signals."""

    def test_held_process(self):
        for mode in ("layer", "preload"):
            with self.subTest(mode):
                self.in_session("lifecycle", mode)

    def test_environment_is_forgotten(self):
        self.in_session("forgetful", "preload")

    @unittest.skipUnless(PYTHON_HAS_OPENCL or "CI" in os.environ, f"no pyopencl for {PYTHON}")
    def test_python(self):
        for mode in ("layer", "preload"):
            with self.subTest(mode):
                self.in_session("python", mode)

    def test_without_a_queue(self):
        program = [os.environ["TEST_NO_QUEUE"]]
        native = self.run_program(program, environment())
        self.assertIn("threads", native)
        for mode in MODES:
            with self.subTest(mode):
                self.assertEqual(self.run_program(program, environment(**NOWHERE, **MODES[mode])), native)


class Sanitized(Case):
    """An application under AddressSanitizer, which fails for each leak that it finds, its own or ours."""

    CASES = ("in-order", "pipeline", "copies", "callbacks")

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("cache"))
        # PoCL's compiler leaks, so this run compiles the kernels into the cache for the others.
        self.run_sanitized(ASAN_OPTIONS="detect_leaks=0")

    def run_sanitized(self, **variables):
        counters = self.path("counters")
        env = environment(
            **{"ASAN_OPTIONS": "detect_leaks=1", "POCL_CACHE_DIR": self.path("cache"), **variables},
            TEST_COUNTERS=counters,
        )
        output = self.run_program([os.environ["TEST_SANITIZED"], *self.CASES], env)
        return output, read_numbers(counters)[0]

    def test_no_leaks(self):
        native, c = self.run_sanitized()
        self.assertEqual(c["library"], 0)
        kfd = os.environ["XSCHED_KFD_LAYER"]  # empty: not built
        with_kfd = {"kfd": {"OPENCL_LAYERS": LAYER, "LD_PRELOAD": kfd}} if kfd else {}
        for mode, variables in {**MODES, **with_kfd}.items():
            with self.subTest(mode):
                output, c = self.run_sanitized(**NOWHERE, **variables)
                self.assertEqual(output, native)
                self.assertGreater(c["launches"], 100)

    def test_no_leaks_when_all_is_tracked(self):
        native, _ = self.run_sanitized()
        for mode, variables in MODES.items():
            with self.subTest(mode):
                report = self.path("report")
                output, _ = self.run_sanitized(
                    LD_LIBRARY_PATH=os.environ["XSCHED_FAKE_DIR"],
                    XSCHED_FAKE="track,limit=4",
                    XSCHED_FAKE_REPORT=report,
                    **variables,
                )
                self.assertEqual(output, native)
                self.assertGreater(read_numbers(report)[0]["tracked"], 100)


SUITES = {"alone": Alone, "hostile": Hostile, "neighbour": Neighbour, "processes": Processes, "sanitized": Sanitized}

if __name__ == "__main__":
    if sys.argv[1] == "inside":
        getattr(Inside(sys.argv[3]), sys.argv[2])(sys.argv[3])
    else:
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(SUITES[sys.argv[1]])
        sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
