# SPDX-License-Identifier: LGPL-2.1-or-later
"""The base of tests that run inside a booted system: units, the journal, clients in their own units.

The build is mounted at /mnt/build, the source at /mnt/source, both read-only; the build is installed where a
distribution has it. Everything here ends with the system."""

import json
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, "/mnt/source/tests/lib")
import dbus  # noqa: E402  pylint: disable=wrong-import-position

TEST_CLIENT = "/mnt/build/tests/lib/test-client"
SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"
NAME, PATH = "org.xsched.Scheduler", "/org/xsched/Scheduler"
CLIENT, QUEUE, GROUP, DEVICE = (f"{NAME}.{i}" for i in ("Client", "Queue", "Group", "Device"))
DEVICE_ID = "pci:0000:01:00.0"
DEADLINE = 30.0

STARTED = "33b4dd7864324bfc9e88058a32467fe5"
ADOPTED = "43336a65f4744c2693241f64468d18a4"


def until(condition, what, deadline=DEADLINE):
    """Polls a condition without an event. Returns the condition's result."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"timed out: {what}\n{log_tail()}")
        time.sleep(0.01)


def run(*argv, status=0, **kwargs):
    """Runs a command, which must end with this status. Returns its standard output."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **kwargs)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}\n{log_tail()}")
    return done.stdout


def log_tail():
    return subprocess.run(
        ["journalctl", "--no-pager", "-n", "60", "-o", "short-monotonic"], capture_output=True, text=True, check=False
    ).stdout


def show(unit, prop):
    return run("systemctl", "show", "-P", prop, unit).strip()


def journal(*matches):
    run("journalctl", "--sync")
    return [json.loads(line) for line in run("journalctl", "-o", "json", "--no-pager", *matches).splitlines()]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def drop_in(unit, name, text, where="/run/systemd/system"):
    write(f"{where}/{unit}.d/{name}.conf", text)
    run("systemctl", "daemon-reload")


class Client:
    """test-client, or another program that prints "ready", in a unit that systemd-run makes with these options."""

    n_made = 0

    def __init__(self, *options, queues=1, unit=None, device=DEVICE_ID, command=(), program=()):
        Client.n_made += 1
        self.unit = unit or f"client-{Client.n_made}.service"
        argv = list(command) or [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            f"--unit={self.unit}",
            *options,
        ]
        self.process = subprocess.Popen(
            [*argv, "--", *(program or (TEST_CLIENT, device, str(queues)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        if self.line() != "ready":
            self.end()
            raise AssertionError(f"{self.unit}: not ready\n{log_tail()}")

    def line(self):
        return self.process.stdout.readline().strip()

    def tell(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, text):
        self.tell(text)
        return self.line()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(DEADLINE)
        self.process.stdout.close()
        return status


class Case(unittest.TestCase):
    """A test of the installed service, which starts and ends without clients."""

    def setUp(self):
        run("systemctl", "start", "xsched")
        self.clients = []
        self.bus = dbus.Connection(SYSTEM_BUS)
        self.addCleanup(self.bus.close)

    def tearDown(self):
        for c in self.clients:
            if not c.process.stdin.closed:
                c.end()
        run("systemctl", "start", "xsched")
        until(lambda: self.get("NClients") == 0, "clients to go")

    def client(self, *options, **kwargs):
        c = Client(*options, **kwargs)
        self.clients.append(c)
        return c

    def call(self, member, signature="", *args):
        return self.bus.call(NAME, PATH, NAME, member, signature, *args)

    def get(self, name, path=PATH, interface=NAME):
        return self.bus.get(NAME, path, interface, name)

    def client_of(self, client):
        """Returns the client's object, by the unit's main process."""
        return self.call("GetClientByPID", "u", int(show(client.unit, "MainPID")))[0]

    def explain(self, pid):
        return json.loads(run("xschedctl", "--json=short", "explain", str(pid)))


class SettingsCase(Case):
    """Checks the settings of groups, and their sources."""

    def group(self, unit):
        return next(g[-1] for g in self.call("ListGroups")[0] if g[0].endswith("/" + unit))

    def settings(self, client):
        group = self.group(client.unit)
        return tuple(self.get(p, group, GROUP) for p in ("Priority", "Class", "PolicySource"))

    def check(self, client, *expected):
        """Waits for the expected settings: the service gets systemd's answers a moment after the client registers."""
        until(lambda: self.settings(client) == expected, f"{expected}, not {self.settings(client)}")
        self.assertEqual(self.get("Priority", self.client_of(client), CLIENT), expected[0])

    def check_explained(self, client, *expected):
        """Checks and returns explain's chain for the priority, strongest first; `expected` leaves out the built-in
        default."""
        chain = [i for i in self.explain(int(show(client.unit, "MainPID"))) if i["detail"].startswith("Priority:")]
        self.assertEqual([(i["source"], i["value"]) for i in chain[: len(expected)]], list(expected), chain)
        return chain


def main():
    unittest.main(verbosity=2)
