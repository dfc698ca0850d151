# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared by the tests: builds and runs a program with the installed libxsched, and asks the service about it."""

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
    """Builds the program in the directory. Returns its path."""
    directory = directory or tempfile.mkdtemp()
    path = f"{directory}/tenant"
    flags = output("pkg-config", "--cflags", "--libs", "xsched").split()
    subprocess.run(["gcc", "-Wall", "-o", path, f"{HERE}/tenant.c", *flags], check=True)
    return path


def clients():
    """Returns [(command, priority, queues)]."""
    return [
        (c["command"], c["priority"], c["queues"])
        for c in json.loads(output("xschedctl", "--json=short", "list-clients"))
    ]


def equal(found, expected):
    if found != expected:
        sys.exit(f"{found!r} is not {expected!r}")


def become(function, expected):
    """Waits until the function returns what is expected: the service learns a unit's settings from systemd a moment
    after the client has registered."""
    end = time.monotonic() + 10
    while function() != expected and time.monotonic() < end:
        time.sleep(0.01)
    equal(function(), expected)


class Tenant:
    """The program, running and registered."""

    def __init__(self, *argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(self.process.stdout.readline(), "attached\n")

    def end(self):
        """Checks that the program launches, with or without the service."""
        out, _ = self.process.communicate()
        equal(self.process.returncode, 0)
        equal(int(out) > 0, True)
