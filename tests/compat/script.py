# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs programs in Python that use the module xsched."""

import os
import subprocess
import sys
import textwrap

from harness import *

SOURCE = os.environ["SOURCE_DIR"]
CLIENT = "org.xsched.Scheduler.Client"

# The beginning of each tested program. Its function step() prints a line, and waits for the test.
HEAD = """
import os, sys
import xsched
def step(text="step"):
    print(text, flush=True)
    sys.stdin.readline()
"""


class Script:
    def __init__(self, case, text, *arguments, address=None, **env):
        env = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}/python",
            "LD_LIBRARY_PATH": os.environ["XSCHED_LIBRARIES"],
            "XSCHED_BUS_ADDRESS": address or case.bus.address,
            **env,
        }
        self.case = case
        argv = [sys.executable, *arguments] if text is None else [sys.executable, "-c", HEAD + textwrap.dedent(text)]
        self.p = subprocess.Popen(
            argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        case.addCleanup(self.p.stdout.close)
        case.addCleanup(self.p.kill)

    def at(self, text="step"):
        line = self.p.stdout.readline()
        self.case.assertEqual(line, text + "\n", "" if line else self.p.stderr.read())

    def go(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def end(self):
        out, err = self.p.communicate()
        self.case.assertEqual((self.p.returncode, err), (0, ""), err)
        return out


class Priorities:
    """For a Case: checks the priorities of the clients while a script runs."""

    def priorities(self):
        return [self.get("Priority", c[5], CLIENT) for c in self.call("ListClients")]

    def follow(self, script, *expected):
        for level in expected:
            script.at()
            until(lambda: self.priorities() == [level], f"the priority is {level}")
            script.go()
        script.end()
