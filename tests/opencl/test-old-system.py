#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The OpenCL layer, built on this machine, works in programs of Debian 11, which has glibc 2.31, PoCL 1.6, and ocl-icd
2.2.14, which does not support layers. With the layer preloaded, programs are scheduled; with the layer named in
OPENCL_LAYERS they are not, and `check` says so.

Runs inside of xsched-session. The environment has BUILD, TEST_OLDER_CPU, XSCHED_LAYER and XSCHEDCTL."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
LAYER, XSCHEDCTL = os.environ["XSCHED_LAYER"], os.environ["XSCHEDCTL"]
OLDER_CPU = os.environ["TEST_OLDER_CPU"]  # preloaded, to show LLVM 11 an older processor, which it knows
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LAUNCHES = 200
DEADLINE = 120

PROGRAM = f"""
import platform
import sys
import numpy
import pyopencl

device = pyopencl.get_platforms()[0].get_devices()
context = pyopencl.Context(device)
queue = pyopencl.CommandQueue(context)
values = numpy.arange(1000, dtype=numpy.int32)
expected = values.copy()
flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
memory = pyopencl.Buffer(context, flags, hostbuf=values)
source = "__kernel void next(__global int *a) {{ size_t i = get_global_id(0); a[i] = a[i] * 3 + 1; }}"
kernel = pyopencl.Program(context, source).build().next
for i in range({LAUNCHES}):
    kernel(queue, (1000,), None, memory)
    expected = (expected * 3 + 1).astype(numpy.int32)
pyopencl.enqueue_copy(queue, values, memory)
queue.finish()
assert (values == expected).all()
print("right", platform.libc_ver()[1], flush=True)
sys.stdin.read()
"""


class OldSystem(unittest.TestCase):
    root = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xsched-old-")
        self.addCleanup(self.folder.cleanup)

    def start(self, **variables):
        path = os.path.join(self.folder.name, "program.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        env = {
            "PATH": "/usr/bin:/usr/sbin:/bin:/sbin",
            "LD_LIBRARY_PATH": f"{LIBRARIES}/blas:{LIBRARIES}/lapack",  # no package is configured
            "POCL_CACHE_DIR": self.folder.name,
            "XSCHED_BUS_ADDRESS": os.environ["XSCHED_BUS_ADDRESS"],
        }
        # pylint: disable=consider-using-with
        p = subprocess.Popen(
            [os.path.join(HERE, "in-root"), self.root, os.environ["BUILD"], "/usr/bin/python3", path],
            env={**env, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(p.stdout.readline(), "right 2.31\n")
        return p

    def end(self, p):
        p.communicate(timeout=DEADLINE)
        self.assertEqual(p.returncode, 0)

    def check(self, p):
        """Runs `xschedctl check`. Returns the states and the details, by check."""
        command = [XSCHEDCTL, "check", str(p.pid), "--json=short"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=DEADLINE, check=False)
        rows = json.loads(done.stdout)
        return {r["check"]: r["state"] for r in rows}, {r["check"]: r["detail"] for r in rows}

    def test_scheduled(self):
        p = self.start(LD_PRELOAD=f"{LAYER} {OLDER_CPU}")
        launches = 0
        while launches < LAUNCHES:
            states, details = self.check(p)
            self.assertIsNone(p.poll(), details)
            m = re.search(r"(\d+) launches", details.get("queue", ""))
            launches = int(m[1]) if m else 0
        self.assertEqual((states["process"], states["registered"]), ("ok", "ok"), details)
        self.end(p)

    def test_no_layers(self):
        p = self.start(OPENCL_LAYERS=LAYER, LD_PRELOAD=OLDER_CPU)
        states, details = self.check(p)
        self.assertEqual((states["loader"], states["registered"]), ("failed", "failed"), details)
        self.assertIn("has no layers: use --shim=preload", details["loader"])
        self.end(p)


if __name__ == "__main__":
    made = subprocess.run(
        [os.path.join(HERE, "opencl-root"), "bullseye"], stdout=subprocess.PIPE, text=True, check=False
    )
    if made.returncode != 0:
        sys.exit(made.returncode)
    OldSystem.root = made.stdout.strip()
    unittest.main(verbosity=2)
