# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests have in common: a program that is built against the installed libxsched, and what the service says of
it."""

import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(directory=None):
    """The path of the program. It goes with the directory."""
    directory = directory or tempfile.mkdtemp()
    path = f"{directory}/tenant"
    flags = output("pkg-config", "--cflags", "--libs", "xsched").split()
    subprocess.run(["gcc", "-Wall", "-o", path, f"{HERE}/tenant.c", *flags], check=True)
    return path


def clients():
    """[(command, priority, queues)]"""
    return [
        (c["command"], c["priority"], c["queues"])
        for c in json.loads(output("xschedctl", "--json=short", "list-clients"))
    ]


def equal(found, expected):
    if found != expected:
        sys.exit(f"{found!r} is not {expected!r}")


def become(function, expected):
    """What systemd says of a unit, the service hears a moment after the client is there."""
    end = time.monotonic() + 10
    while function() != expected and time.monotonic() < end:
        time.sleep(0.01)
    equal(function(), expected)


class Tenant:
    """It runs, and is registered."""

    def __init__(self, *argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(self.process.stdout.readline(), "attached\n")

    def end(self):
        """It has launched something, whatever became of the service."""
        out, _ = self.process.communicate()
        equal(self.process.returncode, 0)
        equal(int(out) > 0, True)
