#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""xschedctl check: its findings about an environment, the bus and the service, and a process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import XSCHEDCTL, Client, EmptyBus, ctl, main, wait_until


class Check(unittest.TestCase):
    def states(self, *args, status, **changes):
        rows = json.loads(ctl("check", *args, "--json=short", status=status, **changes))
        return {r["check"]: r["state"] for r in rows}, " ".join(r["detail"] for r in rows)

    def setUp(self):
        if "OPENCL_LAYERS" not in os.environ:
            self.skipTest("built without OpenCL")

    def test_here(self):
        states, text = self.states(status=0)
        self.assertEqual((states["environment"], states["shim"], states["bus"], states["service"]), ("ok",) * 4)
        self.assertIn(os.environ["OPENCL_LAYERS"], text)

    def test_broken_environments(self):
        self.assertEqual(self.states(status=1, OPENCL_LAYERS=None)[0]["environment"], "failed")
        for value in ("1", "yes"):
            states, text = self.states(status=1, XSCHED_DISABLE=value)
            self.assertEqual(states["environment"], "failed")
            self.assertIn(f"XSCHED_DISABLE={value} turns the shim off", text)
        self.assertEqual(self.states(status=1, OPENCL_LAYERS="/nonexistent/libxsched-opencl.so")[0]["shim"], "failed")
        preload = {"OPENCL_LAYERS": None, "LD_PRELOAD": os.environ["OPENCL_LAYERS"]}
        if "asan" not in subprocess.check_output(["ldd", XSCHEDCTL], text=True):
            self.assertEqual(self.states(status=0, **preload)[0]["environment"], "ok")

    def test_no_service(self):
        self.assertEqual(self.states(status=1, XSCHED_BUS_ADDRESS="unix:path=/nonexistent")[0]["bus"], "failed")
        with EmptyBus() as address:
            states, _ = self.states(status=1, XSCHED_BUS_ADDRESS=address)
            self.assertEqual((states["bus"], states["service"]), ("ok", "failed"))

    def test_process(self):
        with Client() as c:
            c.do("run 5")
            states, text = self.states(str(c.pid), status=0)
            self.assertEqual((states["process"], states["registered"], states["queue"]), ("ok",) * 3)
            self.assertIn("5 launches", text)
            self.assertIn("libxsched.so", text)
        self.assertEqual(self.states(str(os.getpid()), status=1)[0]["registered"], "failed")

    def test_values_that_are_ignored(self):
        """Each is named, by the program and by check. The program is scheduled by the others of its variables."""
        number = "1" + "0" * 20
        name = "the name of a class, at most 63 letters, digits, '.', '_' and '-'"
        ignored = [
            ({"XSCHED_WEIGHT": "0"}, "0 is ignored: expected 1..10000"),
            ({"XSCHED_WEIGHT": "10001"}, "10001 is ignored: expected 1..10000"),
            ({"XSCHED_WEIGHT": number}, f"{number} is ignored: expected 1..10000"),
            ({"XSCHED_PRIORITY": "-256"}, "-256 is ignored: expected -255..255"),
            ({"XSCHED_PRIORITY": "low"}, "low is ignored: expected -255..255"),
            ({"XSCHED_CLASS": "a b"}, f"a b is ignored: expected {name}"),
            ({"XSCHED_CLASS": ".hidden"}, f".hidden is ignored: expected {name}"),
            ({"XSCHED_CLASS": "a" * 64}, f"{'a' * 64} is ignored: expected {name}"),
            ({"XSCHED_DISABLE": "2"}, "2 is ignored: expected 1 or 0"),
            ({"XSCHED_DEBUG": "a\nb"}, "a?b is ignored: expected 1 or 0"),
            ({"XSCHED_POLICY": "hpf"}, "hpf is ignored: expected HPF, "),
            ({"XSCHED_AUTO_XQUEUE_LEVEL": "0"}, "0 is ignored: expected 1..3"),
        ]
        for values, says in ignored:
            with self.subTest(values):
                ((variable, _),) = values.items()
                said, weight = self.values({"XSCHED_WEIGHT": "50", **values})
                self.assertEqual(len(said), 1, said)
                self.assertTrue(said[0].startswith(f"{variable}={says}"), said)
                self.assertEqual(weight, 100 if variable == "XSCHED_WEIGHT" else 50)
        said, _ = self.values({"XSCHED_WEIGHT": "many", "XSCHED_CLASS": "/", "XSCHED_PRIORITY": "1e3"})
        self.assertEqual(sorted(s.partition("=")[0][7:] for s in said), ["CLASS", "PRIORITY", "WEIGHT"])

    def test_values_that_count(self):
        for values in (
            {"XSCHED_WEIGHT": "1", "XSCHED_PRIORITY": "-255", "XSCHED_CLASS": "a" * 63, "XSCHED_DISABLE": "no"},
            {"XSCHED_WEIGHT": "10000", "XSCHED_PRIORITY": "255", "XSCHED_CLASS": "a-b_c.9", "XSCHED_DEBUG": "0"},
            {"XSCHED_WEIGHT": "", "XSCHED_PRIORITY": "", "XSCHED_CLASS": "", "XSCHED_DISABLE": ""},
        ):
            with self.subTest(values):
                said, weight = self.values(values)
                self.assertEqual((said, weight), ([], min(int(values["XSCHED_WEIGHT"] or 100), 100)))

    def test_hints_that_lower_nothing(self):
        """They are named until there is something to lower. What counts comes first in what explain says."""
        hints = {"PRIORITY": "200", "DEADLINE": "5000", "LAXITY": "100", "UTILIZATION": "40"}
        variables = {f"XSCHED_AUTO_XQUEUE_{k}": v for k, v in hints.items()}
        with Client(XSCHED_SCHEDULER="GLB", XSCHED_AUTO_XQUEUE="ON", **variables, XSCHED_WEIGHT="100") as c:

            def named():
                rows = [r for r in json.loads(ctl("check", str(c.pid), "--json=short")) if r["check"] == "hints"]
                self.assertEqual({r["state"] for r in rows} - {"warning"}, set())
                return [r["detail"].partition(":")[0] for r in rows]

            def counts(setting):
                chain = json.loads(ctl("explain", c.pid, "--json=short"))
                return next((link["value"], link["source"]) for link in chain if link["setting"] == setting)

            self.assertEqual(
                named(), ["Deadline=5000 lowers nothing", "Laxity=100 lowers nothing", "Critical=200 lowers nothing"]
            )
            self.assertEqual(
                [counts(s) for s in ("Deadline", "Utilization")], [(0, "default"), (40, "wish")], "what counts is first"
            )
            ctl("set", c.pid, "deadline=1ms", "laxity=200us", "critical=220")
            self.assertEqual(named(), ["Laxity=100 lowers nothing"])
            self.assertEqual(
                [counts(s) for s in ("Deadline", "Laxity", "Critical")],
                [(5000, "wish"), (200, "override"), (200, "wish")],
            )
            self.assertEqual(ctl("show", c.target, "-pDeadline"), "Deadline=5000\n")

    def test_hints_of_queues(self):
        """Of each queue those are named that make it differ from its process, and those that lower nothing."""
        if "san.so" in subprocess.check_output(["ldd", XSCHEDCTL], text=True):
            self.skipTest("Python does not load a library with a sanitizer")
        program = """if True:
            import os, xsched
            xsched.hint(weight=80)
            plain, other, low = (xsched.Queue("test:0", label=l) for l in ("plain", "other", "low"))
            other.hint(priority=-7, weight=80, threshold=3)
            low.hint(priority=5, weight=40)
            os.write(1, b"x")
            os.read(0, 1)
        """
        with subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as p:
            self.assertEqual(p.stdout.read(1), b"x")
            listed = lambda: json.loads(ctl("list-queues", "--json=short"))
            wait_until(lambda: len(listed()) == 3, "the queues")
            queues = {q["label"]: f"queue:{q['queue']}" for q in listed()}
            other, low = queues["other"], queues["low"]
            expected = [
                ("ok", f"{other} has the hint Priority=-7, the process has 0"),
                ("ok", f"{other} has the hint Threshold=3, the process has 0"),
                ("ok", f"{low} has the hint Weight=40, the process has 80"),
                ("warning", f"Priority=5 of {low} lowers nothing: the process was given 0, and hints only lower"),
            ]
            rows = lambda: json.loads(ctl("check", str(p.pid), "--json=short"))
            named = lambda: [(r["state"], r["detail"]) for r in rows() if r["check"] == "hints"]
            wait_until(lambda: sorted(named()) == sorted(expected), "the hints")
            chain = json.loads(ctl("explain", other, "--json=short"))
            first = next(link for link in chain if link["setting"] == "Priority")
            self.assertEqual((first["value"], first["source"]), (-7, "wish"))
            self.assertTrue(first["detail"].endswith(f"wished by the process for queue {other[6:]}"), first)
            p.communicate(b"x", timeout=60)

    def values(self, values):
        """What a program with these variables says, which is what check says of it; and its weight."""
        with tempfile.NamedTemporaryFile("r") as log:
            with Client(prefix=("sh", "-c", 'exec "$@" 2>"$0"', log.name), **values) as c:
                weight = c.row()["weight"]
                rows = json.loads(ctl("check", str(c.pid), "--json=short"))
            said = log.read().splitlines()
        checked = [r["detail"] for r in rows if r["check"] == "variables"]
        self.assertTrue(all(r["state"] == "warning" for r in rows if r["check"] == "variables"), rows)
        self.assertEqual([f"xsched: {s}" for s in checked], said)
        # A program that would be started with them here.
        rows = json.loads(ctl("check", "--json=short", **values))
        self.assertEqual([r["detail"] for r in rows if r["check"] == "variables"], checked)
        return checked, weight

    def test_registered_by_hand(self):
        """Of a client of `xschedctl register` no shim is missed, and what holds it is named."""
        with Client() as c:
            c.do("run 1")
            device = json.loads(ctl("list-devices", "--json=short"))[0]["device"]
            command = [XSCHEDCTL, "register", device, "--", "cat"]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
                p.stdin.write(b"begun")
                p.stdin.flush()
                self.assertEqual(p.stdout.read(5), b"begun")
                states, text = self.states(str(p.pid), status=1)
                p.communicate(timeout=60)
        self.assertEqual((states["process"], states["registered"], states["hooked"]), ("ok", "ok", "failed"), text)
        self.assertNotIn("environment", states)
        self.assertNotIn("OpenCL", text)
        self.assertIn("xschedctl register made it a client", text)
        self.assertIn("nothing holds it: see PrivilegedPreemption=", text)

    def test_no_descriptors(self):
        """A program without free descriptors: its library cannot tell why it is not registered, and check sees it."""
        if "san.so" in subprocess.check_output(["ldd", XSCHEDCTL], text=True):
            self.skipTest("Python does not load a library with a sanitizer")
        program = """if True:
            import ctypes, os, resource, sys
            from xsched._library import QueueInfo
            library, queue = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
            info = QueueInfo(ctypes.sizeof(QueueInfo), b"test:0", b"test", b"test", b"test", 0)
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            try:
                while True:
                    os.dup(0)
            except OSError:
                pass
            os.write(1, b"%d\\n" % library.xsched_queue_new(ctypes.byref(info), ctypes.byref(queue)))
            os.read(0, 1)
        """
        library = Path(XSCHEDCTL).parent.parent / "shim/libxsched.so.0"
        with subprocess.Popen(
            [sys.executable, "-c", program, library],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as p:
            self.assertEqual(p.stdout.readline(), "0\n")
            states, text = self.states(str(p.pid), status=1)
            p.communicate("\n", timeout=60)
        self.assertEqual(states["registered"], "failed")
        self.assertIn("no, 64 of its 64 descriptors are in use: it runs unscheduled", text)

    def test_setuid_program(self):
        """A setuid program, into which nothing is preloaded, whatever its environment says."""
        if os.geteuid() != 0:
            self.skipTest("only root makes a program that is another user's")
        with tempfile.TemporaryDirectory() as directory:
            if os.statvfs(directory).f_flag & os.ST_NOSUID:
                self.skipTest("temporary files cannot be setuid here")
            program = shutil.copy("/bin/cat", directory)
            os.chmod(directory, 0o755)
            os.chmod(program, 0o4755)
            with subprocess.Popen([program], user=65534, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
                p.stdin.write(b"begun")
                p.stdin.flush()
                self.assertEqual(p.stdout.read(5), b"begun")
                states, text = self.states(str(p.pid), status=1)
                p.communicate(timeout=60)
        self.assertEqual((states["process"], states["registered"]), ("warning", "failed"))
        self.assertIn("has more privileges than who started it", text)

    def test_static_program(self):
        """busybox-static: a static program, which preloads nothing."""
        with subprocess.Popen(["busybox", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            p.stdin.write(b"begun")
            p.stdin.flush()
            self.assertEqual(p.stdout.read(5), b"begun")
            states, text = self.states(str(p.pid), status=1)
            p.kill()
        self.assertEqual((states["process"], states["registered"]), ("warning", "failed"))
        self.assertIn("statically", text)


if __name__ == "__main__":
    main(unittest)
