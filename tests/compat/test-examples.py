#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that are written against XSched's interface compile with our headers, and work as described

RUNTIME is opencl (on PoCL), cuda (on the driver's stand-in) or hip (on the simulated GPU). The programs run with the
layer, with a service and without one, and check their own results.
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
NO_SERVICE = "unix:path=/nonexistent"
RUNTIME = os.environ["RUNTIME"]


def compiled(text, *arguments, cc="cc"):
    with tempfile.NamedTemporaryFile("w", suffix=".c" if cc == "cc" else ".cc") as f:
        f.write(text)
        f.flush()
        argv = [cc, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *arguments, f.name]
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


class Headers(unittest.TestCase):
    def test_compile(self):
        """Headers compile when included as in XSched's examples, and together with our own interface in one file."""
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
    """The examples of all runtimes."""

    def environment(self, layer, address, **env):
        env = {**os.environ, "XSCHED_BUS_ADDRESS": address or self.bus.address, **env}
        if layer and RUNTIME == "opencl":
            env["OPENCL_LAYERS"] = os.environ["XSCHED_LAYER"]
        elif layer and RUNTIME == "cuda":
            env["LD_PRELOAD"] = os.environ["XSCHED_LAYER"]
        elif layer:  # run-kfdsim preloads them before the simulator
            env["SHIM"] = os.environ["XSCHED_LAYER"]
        else:
            env.pop("SHIM", None)
        return env

    def example(self, *arguments, layer=True, address=None, **env):
        prefix = os.environ.get("TEST_PREFIX", "").split()
        p = subprocess.Popen(
            [*prefix, os.environ["TEST_EXAMPLES"], *arguments],
            env=self.environment(layer, address, **env),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        if p.stdout.readline() != "ready\n":
            self.fail(p.communicate()[1])
        return p

    def end(self, p, said=""):
        _, err = p.communicate(timeout=DEADLINE)
        self.assertEqual((p.returncode, err), (0, said))

    def run_examples(self, *arguments):
        """Runs examples with a service, and without one."""
        self.end(self.example(*arguments))
        self.end(self.example(*arguments, address=NO_SERVICE))

    def priorities(self):
        """Returns the priorities of the XQueues' queues. With HIP the process also has the hardware's queues."""
        queues = [q[4] for q in self.call("ListQueues")]
        if RUNTIME == "hip":
            queues = [q for q in queues if self.get("Label", q, QUEUE) == "xqueue"]
        return [self.get("Priority", q, QUEUE) for q in queues]

    def test_hints(self):
        """Hints reach the service. They can only lower the priority."""
        for hint, priority in ((-7, -7), (7, 0)):
            p = self.example("hints", str(hint), XSCHED_SCHEDULER="GLB")
            until(lambda: self.priorities() == [priority], f"the hint is {priority}")
            self.end(p)
            until(lambda: self.call("ListQueues") == [], "the queue is gone")
        p = self.example("hints", "-7")  # hints without a scheduler have no effect
        until(lambda: self.priorities() == [0], "there is no hint")
        self.end(p)

    def test_commands(self):
        """Commands work with the layer, which sees their launches, and without it."""
        for how in ("submit", "submit-locally"):
            self.run_examples(how)
            self.end(self.example(how, layer=False))
            self.end(self.example(how, layer=False, address=NO_SERVICE))


class Launches(Examples):
    """Launches by the runtime's own functions."""

    test_hints = test_commands = None

    def test_in_process(self):
        self.run_examples("local")
        self.end(self.example("local", "by-environment", XSCHED_POLICY="HPF"))

    def test_manual(self):
        self.run_examples("manual")


if __name__ == "__main__":
    main()
