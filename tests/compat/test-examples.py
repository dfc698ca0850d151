#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that are written against XSched's interface, by its own headers: they compile, and do what they say

On PoCL, with the layer, beside a service and without. Real kernels, whose results the programs check.
"""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from harness import *

SOURCE = os.environ["SOURCE_DIR"]
QUEUE = "org.xsched.Scheduler.Queue"


def compiled(text, *arguments, cc="cc"):
    with tempfile.NamedTemporaryFile("w", suffix=".c" if cc == "cc" else ".cc") as f:
        f.write(text)
        f.flush()
        argv = [cc, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *arguments, f.name]
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


class Headers(unittest.TestCase):
    def test_compile(self):
        """As in XSched's examples; and with our own interface in one file, each by its own path."""
        compat = f"-I{SOURCE}/include/xsched-compat"
        text = '#include "xsched/xsched.h"\n'
        for platform in ("opencl", "cuda", "hip"):
            text += f'#include "xsched/{platform}/hal.h"\n'
        text += "int f(void);\nint f(void) { return XQueueSuspend(1, kQueueSuspendFlagNone) == kXSchedSuccess; }\n"
        both = "#include <include/xsched/xsched.h>\n#include <include/xsched/local.h>\n"
        for cc, *more in (("cc", "-std=c11"), ("c++", "-std=c++17")):
            self.assertEqual(compiled(text, compat, *more, cc=cc), "")
            self.assertEqual(compiled(both + text, compat, f"-I{SOURCE}", *more, cc=cc), "")


class Examples(Case):
    def example(self, *arguments, layer=True, address=None, **env):
        env = {**os.environ, "XSCHED_BUS_ADDRESS": address or self.bus.address, **env}
        if layer:
            env["OPENCL_LAYERS"] = os.environ["XSCHED_LAYER"]
        p = subprocess.Popen(
            [os.environ["TEST_EXAMPLES"], *arguments],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p

    def end(self, p, said=""):
        _, err = p.communicate()
        self.assertEqual((p.returncode, err), (0, said))

    def priorities(self):
        return [self.get("Priority", q[4], QUEUE) for q in self.call("ListQueues")]

    def test_hints(self):
        """The service knows of them. They only lower."""
        for hint, priority in ((-7, -7), (7, 0)):
            p = self.example("hints", str(hint), XSCHED_SCHEDULER="GLB")
            until(lambda: self.priorities() == [priority], f"the hint is {priority}")
            self.end(p)
            until(lambda: self.call("ListQueues") == [], "the queue is told")
        p = self.example("hints", "-7")  # which are nobody's without a scheduler
        until(lambda: self.priorities() == [0], "there is no hint")
        self.end(p)

    def test_in_process(self):
        self.end(self.example("local"))
        self.end(self.example("local", "by-environment", XSCHED_POLICY="HPF"))
        self.end(self.example("local", address="unix:path=/nonexistent"))

    def test_manual(self):
        self.end(self.example("manual"))
        self.end(self.example("manual", address="unix:path=/nonexistent"))

    def test_commands(self):
        """With the layer, which sees what they launch, and without."""
        self.end(self.example("submit"))
        self.end(self.example("submit", layer=False))
        self.end(self.example("submit", layer=False, address="unix:path=/nonexistent"))


if __name__ == "__main__":
    main()
